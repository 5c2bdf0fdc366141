"""What an unknown setting was probably meant to be."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel

CUTOFF = 0.7
"""Share of letters in common (difflib's ratio). With difflib's default of .6, `tokn` would also
suggest `token_file` where there is no `token`."""
FEW = 3
"""A key that more sections have than this says little about where it belongs."""


def suggestion(word: str, names: Iterable[str]) -> str:
    """` Did you mean ...?`, or nothing where no known word is close."""
    close = get_close_matches(word.casefold(), list(names), n=1, cutoff=CUTOFF)
    return f". Did you mean {close[0]}?" if close else ""


def for_key(model: type[BaseModel], place: Sequence[str | int]) -> str:
    """The suggestion for the last part of a place in the settings, below `model`."""
    *above, last = place
    owner = model
    for part in above:
        owner = _below(owner, part)
    return suggestion(str(last), owner.model_fields)


def for_section(
    word: str, tables: Mapping[str, type[BaseModel]], names: Iterable[str], value: object
) -> str:
    """The suggestion for an unknown section, or for a key that stands outside of its section."""
    near = suggestion(word, names)
    # Only a plain value can be a key outside of its section.
    if near or isinstance(value, dict | list):
        return near
    homes = [name for name, table in tables.items() if word in table.model_fields]
    if not 0 < len(homes) <= FEW:
        return ""
    return f". Did you mean {' or '.join(f'{name}.{word}' for name in homes)}?"


def _below(owner: type[BaseModel], part: str | int) -> type[BaseModel]:
    """The model that holds what lies below a key of `owner`: itself for the name of a table or the
    number of an item."""
    field = owner.model_fields.get(str(part))
    if field is None:
        return owner
    return next(_models_in(field.annotation), owner)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models_in(inner)
