"""The events of a Chrome JSON trace as the bytes they are, block by block: to copy a trace, or a
part of it.

Events keep their order and, but for what stands between them, their bytes. Control characters
inside strings become spaces and unquoted N/A becomes text, so that a copy is valid JSON; what
cannot be read even so is left out and counted. Numbers of events are the reader's: positions among
the events that can be read.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import msgspec

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.reading.trace_bytes import MAX_TRACE_BYTES, unpacked_blocks

MAX_HEADER_BYTES = 16 << 20
MAX_EVENT_BYTES = 16 << 20
MAX_WASTED_CHARACTERS, FAILURE_CHARACTERS = 192 << 20, 128
"""How much text may be decoded without an event before a file is abandoned, a failure counting
as so much more: some 10 s."""
TAIL_BYTES, OVERLAP_BYTES = 64 << 10, 256
MAX_PIECES = 8
"""How many boundaries within one event are looked over."""
_KEYS = "ph|name|cat|args|pid|tid|ts|dur|id|bp|s"
_BOUNDARY = re.compile(rb"\}\s*,\s*(?=\{\s*\"(?:" + _KEYS.encode() + rb")\"\s*:)")
_TEXT_BOUNDARY = re.compile(r"\}\s*,\s*(?=\{\s*\"(?:" + _KEYS + r")\"\s*:)")
_LIST_OPENS = re.compile(rb'"traceEvents"\s*:\s*\[')
_BARE_LIST = re.compile(rb"(?:\xef\xbb\xbf)?\s*\[")
_UNQUOTED = re.compile(r"(?<=[:,\[])(\s*)(N/A|nan|inf|-inf)(?=\s*[,}\]])")
_CONTROL = re.compile(r"[\x00-\x1f]")
_SPACE = b" \t\r\n,"
_RAW_EVENTS = msgspec.json.Decoder(list[msgspec.Raw])
_VALID = msgspec.json.Decoder(msgspec.Raw)
_STEPWISE = json.JSONDecoder(strict=False)


@dataclass(frozen=True)
class EventBlock:
    """Consecutive events."""

    first: int
    """Number of the first event."""
    events: Sequence[bytes | msgspec.Raw]
    text: bytes
    """All of them with the commas between, from the first "{" to the last "}"."""

    def __len__(self) -> int:
        return len(self.events)


@dataclass
class RawEvents:
    """One trace file: first `blocks()`, once and to its end, then `trailer()`."""

    path: Path
    max_bytes: int = MAX_TRACE_BYTES
    dropped: Counter[str] = field(default_factory=Counter)
    header: bytes = b""
    """Everything up to and with the list's opening bracket."""
    closed: bool = False
    """Whether the list's end was found; it is not in a file that ends early."""

    def __post_init__(self) -> None:
        self._source = unpacked_blocks(self.path, self.dropped, self.max_bytes)
        self._buffer = b""
        self._count = 0
        self._wasted = 0

    def blocks(self) -> Iterator[EventBlock]:
        """The events. Raises EvidenceError where the file holds no list of events, or too much that
        is no JSON."""
        if not self._open_list():
            raise EvidenceError(self.path.name, "is not a profiler trace (no list of trace events)")
        new_from, ended = 0, False
        while not self.closed:
            boundary = None if ended else _last_boundary(self._buffer, new_from)
            if boundary is not None or ended or len(self._buffer) > MAX_EVENT_BYTES:
                block = self._take(boundary or (len(self._buffer), len(self._buffer)), ended)
                if len(block):
                    yield block
                if ended:
                    return
            more = b"" if self.closed else next(self._source, b"")
            # A boundary may begin in the text that was searched before.
            new_from = max(0, len(self._buffer) - OVERLAP_BYTES)
            ended = not len(more)
            self._buffer += more

    def trailer(self) -> Iterator[bytes]:
        """What follows the list, from its closing bracket on; nothing where the list is not
        closed."""
        if self.closed:
            yield self._buffer
            for block in self._source:
                yield bytes(block)

    def _open_list(self) -> bool:
        for block in self._source:
            self._buffer += block
            opened = _LIST_OPENS.search(self._buffer) or _BARE_LIST.match(self._buffer)
            if opened is not None:
                self.header, self._buffer = (
                    self._buffer[: opened.end()],
                    self._buffer[opened.end() :],
                )
                return True
            if len(self._buffer) > MAX_HEADER_BYTES:
                return False
        return False

    def _take(self, boundary: tuple[int, int], ended: bool) -> EventBlock:
        end, following = boundary
        text = self._buffer[:end].strip(_SPACE)
        try:
            # In brackets the events are one list, decoded without looking into them.
            events = _RAW_EVENTS.decode(b"[" + text + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pieces = self._stepwise(text, end, following, ended)
            return self._block(pieces, b",\n  ".join(pieces))
        self._buffer = self._buffer[following:]
        return self._block(events, text)

    def _block(self, events: Sequence[bytes | msgspec.Raw], text: bytes) -> EventBlock:
        block = EventBlock(self._count, events, text)
        self._count += len(events)
        return block

    def _stepwise(self, raw: bytes, end: int, following: int, ended: bool) -> list[bytes]:
        """Event by event, where the text holds the list's end or something that is no JSON. What is
        left of an event that the text's end went through goes back to the buffer."""
        text, at = raw.decode("utf-8", "replace"), 0
        events: list[bytes] = []
        rest = self._buffer[following:]
        while True:
            while at < len(text) and text[at] in " \t\r\n,":
                at += 1
            if at == len(text):
                break
            # The list ends here: what follows is the trailer.
            if text[at] == "]":
                self.closed, rest = True, text[at:].encode() + self._buffer[end:]
                break
            piece, stop, cut = self._decode(text, at)
            if piece is not None:
                events.append(piece)
            elif (
                cut
                and not (ended and following == len(self._buffer))
                and len(text) - at < MAX_EVENT_BYTES
            ):
                rest = text[at:].encode() + self._buffer[end:]
                break
            else:
                self.dropped["events that are not valid JSON"] += 1
            at = stop
        self._buffer = rest
        return events

    def _decode(self, text: str, at: int) -> tuple[bytes | None, int, bool]:
        """(the event's bytes or None, where to continue, whether it may only be cut off)."""
        try:
            stop = _STEPWISE.raw_decode(text, at)[1]
            return _sound(text[at:stop]), stop, False
        except (ValueError, RecursionError) as error:
            if not isinstance(error, json.JSONDecodeError):
                cut = False
            else:
                cut = error.pos >= len(text) - 1 or error.msg.startswith("Unterminated string")
            failed = error.pos if isinstance(error, json.JSONDecodeError) else len(text)
        self._wasted += max(failed - at, 0) + FAILURE_CHARACTERS
        if self._wasted > MAX_WASTED_CHARACTERS:
            raise EvidenceError(
                self.path.name, "holds too many events that are not valid JSON to be copied"
            )
        go_on = len(text)
        for number, boundary in enumerate(islice(_TEXT_BOUNDARY.finditer(text, at), MAX_PIECES)):
            go_on = go_on if number else boundary.end()
            repair = _repaired(text, at, boundary.start() + 1)
            if repair is not None:
                return *repair, False
        repair = _repaired(text, at, len(text)) if go_on == len(text) else None
        return (*repair, False) if repair is not None else (None, go_on, cut)


def _repaired(text: str, at: int, end: int) -> tuple[bytes, int] | None:
    """The event in this part of the text with N/A put in quotes, and where it ends; None where that
    does not help."""
    repaired = _UNQUOTED.sub(r'\1"\2"', text[at:end])
    # Nothing was replaced, so the fault is another one.
    if len(repaired) == end - at:
        return None
    try:
        length = _STEPWISE.raw_decode(repaired)[1]
    except (ValueError, RecursionError):
        return None
    return _sound(repaired[:length]), end - (len(repaired) - length)


def _sound(piece: str) -> bytes:
    """The piece as JSON that any reader takes: characters that strings may not hold become
    spaces."""
    encoded = piece.encode("utf-8", "replace")
    try:
        _VALID.decode(encoded)
    except (msgspec.DecodeError, RecursionError):
        return _CONTROL.sub(" ", piece).encode("utf-8", "replace")
    return encoded


def _last_boundary(buffer: bytes, new_from: int) -> tuple[int, int] | None:
    """Where the last event but one ends, and where the last begins."""
    # Search the tail first: the last boundary is mostly there.
    for start in (max(new_from, len(buffer) - TAIL_BYTES), new_from):
        last = None
        for last in _BOUNDARY.finditer(buffer, start):  # noqa: B007  the last one is wanted
            pass
        if last is not None:
            return last.start() + 1, last.end()
    return None
