"""Texts of the settings with places for the service and the window that are asked about."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC
from typing import Annotated, Any

from pydantic import AfterValidator

from faultline.analysis.vocabulary import Window

TIMES = tuple(f"{end}{unit}" for end in ("start", "end") for unit in ("", "_s", "_ms", "_ns"))
PLACEHOLDERS = ("service", *TIMES)
_FILLED = re.compile(r"\{([^{}]*)\}")


def _checked(value: Any) -> Any:
    for text in texts_in(value):
        for name in _FILLED.findall(text):
            if name not in PLACEHOLDERS:
                choices = ", ".join(f"{{{placeholder}}}" for placeholder in PLACEHOLDERS)
                raise ValueError(f"{{{name}}} is no placeholder; there are {choices}")
    return value


Texts = Annotated[Mapping[str, str], AfterValidator(_checked)]
"""Texts by name, which may hold placeholders."""
Template = Annotated[Mapping[str, Any], AfterValidator(_checked)]
"""A JSON object whose texts may hold placeholders."""
FilledText = Annotated[str, AfterValidator(_checked)]
"""One such text."""


def texts_in(value: Any) -> Iterator[str]:
    """Every text in a JSON value, keys left out."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from texts_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from texts_in(part)


def names_in(*values: Any) -> set[str]:
    """The placeholders that are used."""
    matches: set[str] = set()
    for value in values:
        for text in texts_in(value):
            matches.update(_FILLED.findall(text))
    return matches


def values_of(service: str | None, window: Window) -> dict[str, str]:
    """What the placeholders stand for."""
    values = {"service": service or ""}
    for name, at in (("start", window.start), ("end", window.end)):
        # Whole seconds, because a float does not hold ns.
        seconds = int(at.timestamp())
        values[name] = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
        for unit, zeros in (("_s", ""), ("_ms", "000"), ("_ns", "0" * 9)):
            values[f"{name}{unit}"] = f"{seconds}{zeros}"
    return values


def filled(text: str, values: Mapping[str, str]) -> str:
    """The text with its placeholders filled, in one pass: a value is not looked at again."""
    # In one pass, so that a service called `{start}` is not filled again.
    return _FILLED.sub(lambda match: values[match[1]], text)


def filled_in(value: Any, values: Mapping[str, str]) -> Any:
    """A JSON value with the placeholders in its texts filled."""
    if isinstance(value, str):
        return filled(value, values)
    if isinstance(value, Mapping):
        return {name: filled_in(part, values) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [filled_in(part, values) for part in value]
    return value
