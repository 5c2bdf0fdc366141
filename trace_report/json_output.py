"""The answer of `--json` and the rows of `--jsonl`: strict JSON (no NaN, no lone surrogates), the
same bytes for the same input."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from faultline.analysis.traces.columns.row_table import Rows


def write_json(answer: Any) -> None:
    """Print it, indented, on standard output."""
    sys.stdout.buffer.write(as_bytes(answer) + b"\n")
    sys.stdout.flush()


def as_bytes(answer: Any) -> bytes:
    """UTF-8; what is no finite number is null."""
    return bytes(msgspec.json.format(_packed(answer), indent=2))


def json_line(value: Any) -> bytes:
    """The same on one line, with its end."""
    return _packed(value) + b"\n"


def row_lines(rows: Mapping[str, Rows], file: str, rank: int | None) -> bytes:
    """All rows of one rank, as lines."""
    lines = []
    for name, row in rows.items():
        head = {"record": "row", "analysis": name, "file": file, "rank": rank}
        lines += [json_line(head | row) for row in row]
    return b"".join(lines)


def _packed(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value, enc_hook=_plain)
    except UnicodeEncodeError:
        # A lone surrogate in a name is no UTF-8.
        return msgspec.json.encode(_without_surrogates(value), enc_hook=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {
            _without_surrogates(str(key)): _without_surrogates(entry)
            for key, entry in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(entry) for entry in value]
    return value
