"""Flight recorder dumps from files: pickles of versions 2.0 to 2.10, JSON, and the debug server's
pages.

A dump that is empty, cut off or hostile is reported with its reason and stops nothing else.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.flight_recorder.collective import Dump, RecordedGroup, UnreadDump
from faultline.analysis.traces.flight_recorder.entries import dump_of
from faultline.analysis.traces.reading.file_kinds import rank_in_name
from faultline.analysis.traces.reading.plain_pickle import CutOff, NotPlainData, load_plain_pickle
from faultline.analysis.traces.reading.trace_bytes import unpacked_blocks

MAX_PICKLE_BYTES = 64 << 20
"""A ring of 20,000 collectives with stacks (TorchTitan's size) is about 5 MB."""
MAX_JSON_BYTES = 32 << 20
"""JSON becomes at most about 20 times its size in memory."""
MAX_DUMPS = 20_000

_PAGE_PART = re.compile(r"<h2>Rank (\d{1,6}):[^<]{0,500}</h2>\s{0,200}<pre>")


def read_dumps(paths: Iterable[Path]) -> tuple[list[Dump], list[UnreadDump]]:
    """Every dump that can be read, and why the others cannot. A page holds the dumps of several
    ranks.

    The rank comes from the file's name or the page's heading; else from the order of the names.
    """
    dumps: list[Dump] = []
    unread: list[UnreadDump] = []
    unnamed = 0
    shared: dict[RecordedGroup, RecordedGroup] = {}
    for path in paths:
        rank, source = rank_in_name(path), "file name"
        if rank is None:
            rank, source = unnamed, "order"
        if len(dumps) >= MAX_DUMPS:
            unread.append(UnreadDump(str(path), None, f"more than {MAX_DUMPS} dumps"))
            break
        took_rank = False
        for dump in _read(path, rank, source, shared):
            if isinstance(dump, UnreadDump):
                unread.append(dump)
                continue
            dumps.append(dump)
            # A page names its ranks itself.
            if source == "order" and dump.form != "page":
                took_rank = True
        if took_rank:
            unnamed += 1
    return dumps, unread


def _read(
    path: Path, rank: int, source: str, shared: dict[RecordedGroup, RecordedGroup]
) -> list[Dump | UnreadDump]:
    named = rank if source == "file name" else None
    try:
        # The unpacked bytes, or why not.
        data: bytes | str
        parts: list[bytes] = []
        size = 0
        # Read one byte too many, to notice a file that is too large.
        for block in unpacked_blocks(path, Counter(), MAX_PICKLE_BYTES + 1):
            parts.append(block)
            size += len(block)
        if size > MAX_PICKLE_BYTES:
            data = f"larger than {MAX_PICKLE_BYTES >> 20} MiB"
        else:
            data = b"".join(parts)
    except EvidenceError as error:
        return [UnreadDump(str(path), named, error.problem.removeprefix("is "))]
    if isinstance(data, str):
        return [UnreadDump(str(path), named, data)]
    if not data.strip():
        return [UnreadDump(str(path), named, "empty")]
    # A pickle begins with neither "<" nor "{".
    start = data.lstrip()[:1]
    if start == b"<":
        return _page(path, data, shared)
    if start == b"{":
        form = "json"
        value, problem, cut = _json(data)
    else:
        form = "pickle"
        value, problem, cut = _pickle(data)
    if problem:
        return [UnreadDump(str(path), named, problem)]
    dump = dump_of(value, rank, source, str(path), form, cut, shared)
    if dump is None:
        return [UnreadDump(str(path), named, "holds no flight recorder")]
    return [dump]


def _pickle(data: bytes) -> tuple[Any, str, bool]:
    """(value, problem, cut off)."""
    try:
        return load_plain_pickle(data), "", False
    except NotPlainData as problem:
        return None, f"refused: {problem}", False
    except CutOff as cut:
        value = _pieces(cut.pieces)
        return value, "" if value else "cut off before its first entry", True


def _pieces(stack: list[Any]) -> dict[str, Any]:
    """What a cut-off dump's machine held: key, value, key, value, ..., "entries", a list, and
    entries beside it."""
    top: dict[str, Any] = {}
    entries: list[Any] = []
    before = None
    for value in stack:
        if isinstance(value, dict) and "collective_seq_id" in value:
            entries.append(value)
        elif before == "entries" and isinstance(value, list):
            entries += value
        elif isinstance(before, str) and isinstance(value, dict | str) and before not in top:
            top[before] = value
        before = value
    pieces = {key: top[key] for key in top if key in ("version", "pg_config", "pg_status")}
    if not entries and "pg_status" not in pieces:
        return {}
    pieces["entries"] = entries
    return pieces


def _json(data: bytes) -> tuple[Any, str, bool]:
    if len(data) > MAX_JSON_BYTES:
        return None, f"larger than {MAX_JSON_BYTES >> 20} MiB of JSON", False
    try:
        return msgspec.json.decode(data.decode("utf-8", "replace")), "", False
    except RecursionError:
        return None, "nested too deep", False
    except msgspec.DecodeError:
        # The JSON of a dump ends with a brace; without it the file was cut off.
        cut = not data.rstrip().endswith(b"}")
        return None, "cut off" if cut else "no JSON", False


def _page(
    path: Path, data: bytes, shared: dict[RecordedGroup, RecordedGroup]
) -> list[Dump | UnreadDump]:
    """The debug server's page: per rank a heading and the JSON in <pre>."""
    if len(data) > MAX_JSON_BYTES:
        return [UnreadDump(str(path), None, f"larger than {MAX_JSON_BYTES >> 20} MiB")]
    page = data.decode("utf-8", "replace")
    dumps: list[Dump | UnreadDump] = []
    for heading in _PAGE_PART.finditer(page):
        rank = int(heading[1])
        end = page.find("</pre>", heading.end())
        # The last dump of a cut-off page has no end.
        if end < 0:
            end = len(page)
        text = html.unescape(page[heading.end() : end])
        value, problem, _ = _json(text.encode())
        dump: Dump | UnreadDump | None = None
        if not problem:
            dump = dump_of(value, rank, "page", str(path), "page", False, shared)
        if dump is None:
            dump = UnreadDump(str(path), rank, problem or "holds no flight recorder")
        dumps.append(dump)
    return dumps or [UnreadDump(str(path), None, "a page without dumps")]
