"""A longer trace from a real one: its events repeated one window later, with steps, launches and
their own ids."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

_FIELD = re.compile(
    rb'("ts":\s*|"correlation":\s*|"[Ee]xternal id":\s*|"Ev Idx":\s*|ProfilerStep#)"?(-?\d+)(\.\d+)?|"dur":\s*(\d+)'  # noqa: E501
)
_LIST_OPENS = re.compile(rb'"traceEvents"\s*:\s*\[')
_RANK = re.compile(rb'("distributedInfo":\s*\{[^{}]*?"rank":\s*)\d+')


def replicate(source: Path, target: Path, megabytes: int, rank: int | None = None) -> Path:
    """Write `target` (plain JSON) with as many whole copies of the events of `source` as make up
    `megabytes`."""
    raw = gzip.decompress(source.read_bytes()) if source.suffix == ".gz" else source.read_bytes()
    opened = _LIST_OPENS.search(raw)
    if opened is None:
        raise SystemExit(f"{source.name}: no list of trace events")
    head, events, tail = raw[: opened.end()], *_events(raw[opened.end() :])
    if rank is not None:
        head = _RANK.sub(rb"\g<1>%d" % rank, head)
    shifts = _shifts(events)
    copies = max(1, round(megabytes * 1e6 / len(events)))
    with target.open("wb") as out:
        out.write(head)
        for copy in range(copies):
            out.write(b"," if copy else b"")
            out.write(
                _FIELD.sub(lambda match, k=copy: _moved(match, k, shifts), events)
                if copy
                else events
            )
        out.write(tail)
    return target


def _events(rest: bytes) -> tuple[bytes, bytes]:
    """The list's text without the closing bracket, and what follows. The list is the last one of
    the document."""
    close = rest.rindex(b"]")
    return rest[:close].rstrip(), rest[close:]


def _shifts(events: bytes) -> dict[bytes, int]:
    """By how much each kind of number grows from one copy to the next; `ts` by the length of the
    window in us."""
    lows: dict[bytes, int] = {}
    highs: dict[bytes, int] = {}
    last_ts = 0
    for match in _FIELD.finditer(events):
        if match[1] is None:
            highs[b'"ts'] = max(highs.get(b'"ts', 0), last_ts + int(match[4]))
            continue
        key, value = match[1].split(b'":')[0], int(match[2])
        if key == b'"ts':
            last_ts = value
            if value <= 0:
                continue
        lows[key] = min(lows.get(key, value), value)
        highs[key] = max(highs.get(key, value), value)
    return {key: highs[key] - low + 1 for key, low in lows.items()}


def _moved(match: re.Match[bytes], copy: int, shifts: dict[bytes, int]) -> bytes:
    if match[1] is None:
        return match[0]
    key = match[1].split(b'":')[0]
    value = int(match[2]) + copy * shifts[key] if int(match[2]) > 0 else int(match[2])
    return match[0][: match.start(2) - match.start()] + b"%d" % value + (match[3] or b"")
