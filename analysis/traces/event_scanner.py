"""Events of a Chrome JSON trace, one by one, from blocks of bytes.

A block is cut at the last place where one event ends and another begins and is decoded whole (msgspec). Where that
fails the block is walked event by event, with the repairs that real traces need: control characters in strings,
unquoted N/A, NaN. An event that still cannot be read is dropped and counted; reading goes on at the next.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

MAX_HEADER_BYTES = 16 << 20
"""How far to look for the list of events."""
MAX_EVENT_BYTES = 64 << 20
MAX_WASTED_CHARACTERS, FAILURE_CHARACTERS = 192 << 20, 128
"""How much text may be decoded in vain before a file is given up, a failure counting as so much more: bounds the time
a hostile file takes to some 10 s, and lets 300,000 damaged events pass."""
MAX_PIECES = 8
"""How many boundaries within one event are looked over."""

EVENT_KEYS = "ph|name|cat|args|pid|tid|ts|dur|id|bp|s"
_BOUNDARY = re.compile(rb'\}\s*,\s*(?=\{\s*"(?:' + EVENT_KEYS.encode() + rb')"\s*:)')
_TEXT_BOUNDARY = re.compile(r'\}\s*,\s*(?=\{\s*"(?:' + EVENT_KEYS + r')"\s*:)')
_LIST_OPENS = re.compile(rb'"traceEvents"\s*:\s*\[')
_UNQUOTED = re.compile(r"(?<=[:,\[])(\s*)(N/A|nan|inf|-inf)(?=\s*[,}\]])")
_SPACE = " \t\r\n"
_TAIL_WINDOW = 64 << 10
_OVERLAP = 256


class Event(msgspec.Struct):
    """The members of an event that the columns need; numbers stay text until they are parsed without loss."""

    ph: str = ""
    cat: str = ""
    name: str = ""
    pid: int | str = ""
    tid: int | str = ""
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: msgspec.Raw = msgspec.Raw()


_FAST = msgspec.json.Decoder(list[Event])
_SLOW = json.JSONDecoder(strict=False, parse_float=str)


class EventScanner:
    """Feed it blocks, take events; `header` and `trailer` hold what surrounds the list of events."""

    def __init__(self, dropped: Counter[str]) -> None:
        self.header = b""
        self.trailer = ""
        self.found = False
        self._dropped = dropped
        self._buffer = b""
        self._ended = False
        self._wasted = 0

    def events(self, blocks: Iterable[bytes]) -> Iterator[Event]:
        """All events that can be read. `found` tells afterwards whether there was a list of events."""
        for block in blocks:
            before = len(self._buffer)
            self._buffer += block
            if not self.found and not self._open_list():
                if len(self._buffer) > MAX_HEADER_BYTES:
                    return
                continue
            if self._ended:
                self._keep_trailer()
                continue
            yield from self._take(max(0, before - _OVERLAP))
        if self.found and not self._ended:
            yield from self._walk(self._buffer, final=True)

    def _open_list(self) -> bool:
        text = self._buffer.lstrip(b"\xef\xbb\xbf \t\r\n")
        if text.startswith(b"["):
            self._buffer, self.found = text[1:], True
            return True
        opened = _LIST_OPENS.search(self._buffer)
        if opened:
            self.header, self._buffer = self._buffer[: opened.start()], self._buffer[opened.end() :]
            self.found = True
        return self.found

    def _take(self, new_from: int) -> Iterator[Event]:
        cut = _last_boundary(self._buffer, new_from)
        if cut is None:
            if len(self._buffer) > MAX_EVENT_BYTES:
                self._dropped[f"text of more than {MAX_EVENT_BYTES} bytes without an event"] += 1
                self._buffer = b""
            return
        whole, self._buffer = self._buffer[: cut[0]], self._buffer[cut[1] :]
        try:
            events = _FAST.decode(b"[" + whole + b"]")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            yield from self._walk(whole, final=False)
            return
        yield from events

    def _walk(self, data: bytes, *, final: bool) -> Iterator[Event]:
        """Event by event; what is left of an event that the cut went through goes back to the buffer."""
        text, at = data.decode("utf-8", "replace"), 0
        boundaries = [(m.start() + 1, m.end()) for m in _TEXT_BOUNDARY.finditer(text)] + [(len(text), None)]
        ahead = 0
        while True:
            while at < len(text) and text[at] in _SPACE + ",":
                at += 1
            if at == len(text):
                if final:
                    self._dropped["end of the file: the list of events is not closed"] += 1
                return
            if text[at] == "]":
                self._ended, self.trailer = True, text[at + 1 :]
                self._keep_trailer()
                return
            if self._wasted > MAX_WASTED_CHARACTERS:
                self._dropped["rest of the file: too many unreadable events"] += 1
                self._ended = True
                return
            while boundaries[ahead][0] <= at:
                ahead += 1
            event, go_on = self._decode(text, at, boundaries[ahead : ahead + MAX_PIECES])
            if event is not None:
                yield event
            elif go_on is None and not final:
                self._buffer = text[at:].encode() + b"," + self._buffer
                return
            else:
                self._dropped["events that are not valid JSON"] += 1
            if go_on is None:
                return
            at = go_on

    def _decode(
        self, text: str, at: int, boundaries: Sequence[tuple[int, int | None]]
    ) -> tuple[Event | None, int | None]:
        """The event at `at`, or None, and where to go on (None: nowhere in this text).

        A boundary may lie within the event, in a string or a nested list, so an event that looks cut is tried again
        up to a later one.
        """
        for end, _ in boundaries:
            piece = text[at:end]
            for attempt in (piece, _UNQUOTED.sub(r'\1"\2"', piece)):
                try:
                    value, length = _SLOW.raw_decode(attempt)
                except (ValueError, RecursionError) as error:
                    self._wasted += len(attempt) + FAILURE_CHARACTERS
                    cut = _looks_cut(error, attempt)
                    continue
                return _event(value), at + len(piece) - (len(attempt) - length)
            if not cut:
                break
        return None, boundaries[0][1]

    def _keep_trailer(self) -> None:
        """The text after the list may hold the metadata; keep its beginning only."""
        room = MAX_HEADER_BYTES - len(self.trailer)
        self.trailer += self._buffer[: max(0, room)].decode("utf-8", "replace")
        self._buffer = b""


def _last_boundary(buffer: bytes, new_from: int) -> tuple[int, int] | None:
    """Where the last complete event ends and the next begins."""
    for start in (max(new_from, len(buffer) - _TAIL_WINDOW), new_from):
        last = None
        for last in _BOUNDARY.finditer(buffer, start):  # noqa: B007  the last one is wanted
            pass
        if last is not None:
            return last.start() + 1, last.end()
    return None


def _looks_cut(error: Exception, text: str) -> bool:
    """Whether decoding failed at the end of the text, or in a string that does not end."""
    if not isinstance(error, json.JSONDecodeError):
        return False
    return error.pos >= len(text) - 1 or error.msg.startswith("Unterminated string")


def _event(value: Any) -> Event:
    """A walked event in the same form as a decoded one. What is no object becomes an event without a phase."""
    if not isinstance(value, dict):
        return Event()
    return Event(
        ph=_text(value.get("ph")),
        cat=_text(value.get("cat")),
        name=_text(value.get("name")),
        pid=_text(value.get("pid")),
        tid=_text(value.get("tid")),
        ts=_raw(value.get("ts")),
        dur=_raw(value.get("dur")),
        args=_raw(value.get("args")),
    )


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _raw(value: Any) -> msgspec.Raw:
    """JSON text of a value; numbers with decimals are text already and keep their digits."""
    if value is None:
        return msgspec.Raw()
    try:
        return msgspec.Raw(value.encode("utf-8", "replace") if isinstance(value, str) else json.dumps(value).encode())
    except (ValueError, RecursionError):
        return msgspec.Raw()
