"""Events to columns in Python: slower than the compiled scanner (native/), with the same result to
the last bit.

It is the reference that the scanner is tested against, and the way to read where the scanner could
not be built.
"""

from __future__ import annotations

import json
import re
from array import array
from collections import Counter
from collections.abc import Iterator

import msgspec
import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import COUNTER_CATEGORY
from faultline.analysis.traces.reading.event_scanner import (
    LINKS,
    MEMORY_KEYS,
    MEMORY_UNKNOWN,
    Outcome,
    ScanLimits,
    Scanned,
    lost_reasons,
    spellings,
    split_label,
    split_pair,
)
from faultline.analysis.traces.reading.json_tokens import (
    HANDLES,
    MAX_DEPTH,
    STRICT,
    STRING,
    depth,
    is_text,
    looks_cut,
    nanoseconds,
    real_number,
    stream_number,
    whole_number,
)

_SEPARATORS = re.compile(r"[ \t\r\n,]*")
_SPACE = re.compile(r"[ \t\r\n]*")


class _Event(msgspec.Struct):
    ph: msgspec.Raw = msgspec.Raw()
    cat: msgspec.Raw = msgspec.Raw()
    name: msgspec.Raw = msgspec.Raw()
    pid: msgspec.Raw = msgspec.Raw()
    tid: msgspec.Raw = msgspec.Raw()
    ts: msgspec.Raw = msgspec.Raw()
    dur: msgspec.Raw = msgspec.Raw()
    args: msgspec.Raw = msgspec.Raw()


_EVENT = msgspec.json.Decoder(_Event)
_ARGUMENTS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LABELS = {b'"thread_name"': b"t", b'"process_labels"': b"p", b'"process_name"': b"n"}
_MEMBERS = tuple(_Event.__struct_fields__)
_COUNTER = b'"%s"' % COUNTER_CATEGORY.encode()
(
    _NO_TIME,
    _NO_DURATION,
    _NEGATIVE_DURATION,
    _TOO_MANY_NAMES,
    _TOO_MANY_ARGUMENTS,
    _TOO_MANY_LABELS,
) = lost_reasons()


class _Table(dict[bytes, int]):
    """Distinct byte strings, numbered as they come."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit


class PythonLane:
    """Collects rows; see analysis/traces/reading/event_scanner.py."""

    def __init__(self, limits: ScanLimits) -> None:
        self._limits = limits
        self._text_left = limits.text_bytes
        self._wide = {name: array("q") for name in ("ts", "dur", "event", "offset")}
        self._small = {name: array("i") for name in ("name", "category", "lane")}
        self._links = {name: array("q") for name in LINKS}
        self._names = _Table(limits.names)
        self._categories = _Table(limits.categories)
        self._lanes = _Table(limits.lanes)
        self._handles = _Table(limits.handles)
        self._counter_names = _Table(limits.counters)
        self._counters = (array("i"), array("i"), array("d"))
        self._numbers: dict[str, tuple[array[int], array[float]]] = {}
        self._texts: dict[str, tuple[array[int], array[int], _Table]] = {}
        self._argument_count = 0
        self._memory: array[int] = array("q")
        self._labels = _Table(limits.labels)
        self._labels_left = limits.label_bytes
        self._skipped: Counter[str] = Counter()
        self._dropped: Counter[str] = Counter()
        self._position = 0
        self._spelling_by_key = {spelling.key.encode(): spelling for spelling in spellings()}

    def feed(self, buffer: bytearray, start: int, end: int, offset: int) -> tuple[Outcome, int]:
        """Read as many whole events as there are."""
        # One byte is one character here, so that positions in the text are those of the buffer.
        text = buffer[start:end].decode("latin-1")
        at = 0
        while True:
            at = _behind(_SEPARATORS, text, at)
            if at == len(text):
                return "more", at
            if text[at] == "]":
                return "end", at + 1
            if self._is_full():
                return "full", at
            try:
                value, stop = STRICT.raw_decode(text, at)
            except json.JSONDecodeError as error:
                return ("more" if looks_cut(error, len(text)) else "odd"), at
            except (ValueError, RecursionError):
                return "odd", at
            # A number or a word that ends with the text may continue in the next block.
            if stop == len(text) and isinstance(value, str) and text[at] != '"':
                return "more", at
            if depth(text[at:stop]) > MAX_DEPTH:
                return "odd", at
            self._add(text[at:stop], offset + at, is_object=isinstance(value, dict))
            self._position += 1
            at = stop

    def _is_full(self) -> bool:
        intervals = len(self._wide["ts"])
        allocations = len(self._memory) // (1 + len(MEMORY_KEYS))
        return intervals + allocations >= self._limits.events

    def _add(self, text: str, offset: int, *, is_object: bool) -> None:
        event = _members(text) if is_object else {}
        phase = event.get("ph", b"")
        if phase == b'"X"':
            self._add_interval(event, offset)
            return
        self._skipped[_letter(phase)] += 1
        if phase == b'"i"' and event.get("name") == b'"[memory]"':
            self._add_memory(event)
        elif phase == b'"M"' and event.get("name") in _LABELS:
            self._add_label(event, _LABELS[event["name"]])

    def _add_interval(self, event: dict[str, bytes], offset: int) -> None:
        ts = nanoseconds(event.get("ts", b""))
        if ts is None:
            self._dropped[_NO_TIME] += 1
            return
        dur = nanoseconds(event.get("dur", b""))
        if dur is None:
            self._dropped[_NO_DURATION] += 1
            return
        if dur < 0:
            self._dropped[_NEGATIVE_DURATION] += 1
            return
        ids = self._ids(event)
        if ids is None:
            self._dropped[_TOO_MANY_NAMES] += 1
            return
        self._add_arguments(event)
        wide, small = self._wide, self._small
        wide["ts"].append(ts)
        wide["dur"].append(dur)
        wide["event"].append(self._position)
        wide["offset"].append(offset)
        for column, number in zip(small.values(), ids, strict=True):
            column.append(number)

    def _ids(self, event: dict[str, bytes]) -> tuple[int, int, int] | None:
        """Numbers of its name, category and lane; None where one is new after too many."""
        name = self._intern(self._names, event.get("name", b""))
        if name is None:
            return None
        category = self._intern(self._categories, event.get("cat", b""))
        if category is None:
            return None
        pid, tid = event.get("pid", b""), event.get("tid", b"")
        # The length keeps them apart: pid 1 with tid 23 is not pid 12 with tid 3.
        lane = self._intern(self._lanes, len(pid).to_bytes(4, "little") + pid + tid)
        if lane is None:
            return None
        return name, category, lane

    def _intern(self, table: _Table, text: bytes) -> int | None:
        number = table.get(text)
        # Bound both the number and the bytes of texts: a file may make up names without end.
        if number is None and len(table) < table.limit and len(text) <= self._text_left:
            self._text_left -= len(text)
            number = table[text] = len(table)
        return number

    def _add_arguments(self, event: dict[str, bytes]) -> None:
        row = len(self._wide["ts"])
        pairs = _arguments(event.get("args", b""))
        links = dict.fromkeys(LINKS, -1)
        for (kind, argument), token in self._argument_values(pairs).items():
            if argument == "stream":
                links[argument] = self._stream(token)
            elif kind == "link":
                number = whole_number(token)
                links[argument] = -1 if number is None else number
            elif kind == "number":
                self._add_number(argument, row, token)
            elif kind == "text" and is_text(token):
                self._add_text(argument, row, token)
        for name, column in self._links.items():
            column.append(links[name])
        if event.get("cat") == _COUNTER:
            self._add_counters(row, pairs)

    def _argument_values(self, pairs: list[tuple[bytes, bytes]]) -> dict[tuple[str, str], bytes]:
        """The values of the arguments that are known, by (kind, argument); the last one counts."""
        tokens: dict[tuple[str, str], bytes] = {}
        for key, token in pairs:
            spelling = self._spelling_by_key.get(key)
            if spelling is not None:
                tokens[spelling.kind, spelling.argument] = token
        return tokens

    def _room_for_argument(self) -> bool:
        if self._argument_count >= self._limits.arguments:
            self._dropped[_TOO_MANY_ARGUMENTS] += 1
            return False
        self._argument_count += 1
        return True

    def _add_number(self, argument: str, row: int, token: bytes) -> None:
        number = real_number(token)
        if number is not None and self._room_for_argument():
            rows, values = self._numbers.setdefault(argument, (array("i"), array("d")))
            rows.append(row)
            values.append(number)

    def _add_text(self, argument: str, row: int, token: bytes) -> None:
        if argument not in self._texts:
            self._texts[argument] = (array("i"), array("i"), _Table(self._limits.texts))
        rows, ids, table = self._texts[argument]
        number = self._intern(table, token)
        if number is None:
            self._dropped[_TOO_MANY_ARGUMENTS] += 1
        elif self._room_for_argument():
            rows.append(row)
            ids.append(number)

    def _add_counters(self, row: int, pairs: list[tuple[bytes, bytes]]) -> None:
        rows, names, values = self._counters
        for key, token in pairs:
            value = real_number(token)
            # Names of counters are kept as JSON text, as all names are.
            name = self._intern(self._counter_names, b'"%s"' % key)
            if name is None:
                self._dropped[_TOO_MANY_ARGUMENTS] += 1
            elif self._room_for_argument():
                rows.append(row)
                names.append(name)
                values.append(np.nan if value is None else value)

    def _stream(self, token: bytes) -> int:
        number = stream_number(token)
        if number is not None:
            return number
        handle = self._intern(self._handles, token)
        if handle is None:
            self._dropped[_TOO_MANY_ARGUMENTS] += 1
            return -1
        return HANDLES + handle

    def _add_memory(self, event: dict[str, bytes]) -> None:
        ts = nanoseconds(event.get("ts", b""))
        if ts is None:
            self._dropped[_NO_TIME] += 1
            return
        self._memory.append(ts)
        tokens = self._argument_values(_arguments(event.get("args", b"")))
        for key, unknown in zip(MEMORY_KEYS, MEMORY_UNKNOWN, strict=True):
            number = whole_number(tokens.get(("memory", key), b""))
            self._memory.append(unknown if number is None else number)

    def _add_label(self, event: dict[str, bytes], kind: bytes) -> None:
        label = kind
        for name in ("pid", "tid", "args"):
            part = event.get(name, b"")
            label += len(part).to_bytes(4, "little") + part
        if label in self._labels:
            return
        if len(self._labels) >= self._labels.limit or len(label) > self._labels_left:
            self._dropped[_TOO_MANY_LABELS] += 1
            return
        self._labels_left -= len(label)
        self._labels[label] = len(self._labels)

    def finish(self) -> Scanned:
        """All rows as numpy columns."""
        wide = {name: _int64(column) for name, column in self._wide.items()}
        small = {name: _int32(column) for name, column in self._small.items()}
        links = {}
        for name, values in self._links.items():
            column = _int64(values)
            if (column != -1).any():
                links[name] = column
        numbers = {}
        for name, (rows, reals) in self._numbers.items():
            numbers[name] = (_int32(rows), np.asarray(reals, dtype=np.float64))
        texts = {}
        for name, (rows, ids, table) in self._texts.items():
            if len(rows):
                texts[name] = (_int32(rows), _int32(ids), list(table))
        counter_rows, counter_ids, counter_values = self._counters
        return Scanned(
            ts=wide["ts"],
            dur=wide["dur"],
            event=wide["event"],
            offset=wide["offset"],
            name=small["name"],
            category=small["category"],
            lane=small["lane"],
            links=links,
            names=list(self._names),
            categories=list(self._categories),
            lanes=[split_pair(lane) for lane in self._lanes],
            handles=list(self._handles),
            numbers=numbers,
            texts=texts,
            counters=(
                _int32(counter_rows),
                _int32(counter_ids),
                np.asarray(counter_values, dtype=np.float64),
                list(self._counter_names),
            ),
            memory=_int64(self._memory).reshape(-1, 1 + len(MEMORY_KEYS)),
            labels=[split_label(label) for label in self._labels],
            skipped=dict(self._skipped),
            dropped=dict(self._dropped),
        )


def _int64(values: array[int]) -> NDArray[np.int64]:
    return np.asarray(values, dtype=np.int64)


def _int32(values: array[int]) -> NDArray[np.int32]:
    return np.asarray(values, dtype=np.int32)


def _letter(phase: bytes) -> str:
    """The letter of a phase other than "X", as the skipped events are counted by it."""
    if len(phase) > 2 and phase[:1] == b'"':
        letter = phase[1:2].decode("latin-1")
        # Only printable ASCII, as the compiled scanner counts phases.
        if "!" <= letter <= "~" and letter != "\\":
            return letter
    return "no phase"


def _members(text: str) -> dict[str, bytes]:
    """The members that matter of an event; of one written twice the last."""
    # msgspec is fast and gives the same, save for keys that are written with escapes.
    if "\\" not in text:
        try:
            event = _EVENT.decode(text.encode("latin-1"))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            members = {}
            for name in _MEMBERS:
                value = bytes(getattr(event, name))
                if value:
                    members[name] = value
            return members
    values = {key.decode("latin-1"): value for key, value in _pairs(text)}
    return {name: values[name] for name in _MEMBERS if name in values}


def _arguments(token: bytes) -> list[tuple[bytes, bytes]]:
    if not token.startswith(b"{"):
        return []
    # Where an argument has two spellings the last in the file counts: only `_pairs` keeps order.
    if b"\\" not in token and not (b'"Input dims"' in token or b'"external id"' in token):
        try:
            arguments = _ARGUMENTS.decode(token)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            return [(key.encode(), bytes(value)) for key, value in arguments.items()]
    return list(_pairs(token.decode("latin-1")))


def _pairs(text: str) -> Iterator[tuple[bytes, bytes]]:
    """The members of a valid object as they stand."""
    at = _behind(_SPACE, text, 1)
    while text[at] != "}":
        key = STRING.match(text, at)
        if key is None:
            return
        at = _behind(_SPACE, text, _behind(_SPACE, text, key.end()) + 1)
        stop = STRICT.raw_decode(text, at)[1]
        yield key[1].encode("latin-1"), text[at:stop].encode("latin-1")
        at = _behind(_SPACE, text, stop)
        if text[at] == ",":
            at = _behind(_SPACE, text, at + 1)


def _behind(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at
