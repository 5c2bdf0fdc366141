"""A case as it would be without some of its tables: a folder of links, so that nothing is
copied."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from faultline.analysis.case.files import MAX_JSON_BYTES, check_regular, place_copy
from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.errors import SettingsError

CAN_BE_HIDDEN = (*SCHEMAS, "traces")


def parse_hidden(text: str) -> tuple[str, ...]:
    """ "logs, spans" as names of tables. Raises SettingsError for one that no case has."""
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    for name in names:
        if name not in CAN_BE_HIDDEN:
            raise SettingsError("--without", f"{name!r} is none of {', '.join(CAN_BE_HIDDEN)}")
    return names


def has_tables(folder: Path, names: Collection[str]) -> bool:
    """Whether the case has any of them."""
    return any(_is_table(entry, names) for entry in folder.iterdir())


@contextmanager
def without_tables(folder: Path, hidden: Collection[str]) -> Iterator[Path]:
    """The case folder without those tables and without what its evidence.json says of them."""
    if not hidden or not folder.is_dir():
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="faultline-eval-") as room:
        view = Path(room) / folder.name
        view.mkdir()
        for entry in folder.iterdir():
            # What answers the case must not see its label.
            if _is_table(entry, hidden) or entry.name == "label.json":
                continue
            if entry.name == "evidence.json":
                check_regular(entry, MAX_JSON_BYTES)
                (view / entry.name).write_bytes(_visible_evidence(entry.read_bytes(), hidden))
            else:
                place_copy(entry, view / entry.name)
        yield view


def _is_table(entry: Path, names: Collection[str]) -> bool:
    return entry.name.partition(".")[0] in names


def _visible_evidence(text: bytes, hidden: Collection[str]) -> bytes:
    """What cannot be read stays as it is, for the analysis to say so."""
    try:
        entries = json.loads(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(entries, list):
        return text
    return json.dumps(
        [e for e in entries if not (isinstance(e, dict) and e.get("kind") in hidden)]
    ).encode()
