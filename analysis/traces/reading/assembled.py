"""Events of formats other than Kineto's JSON, put together as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import (
    ArgumentColumns,
    Int32,
    Int64,
    SparseNumbers,
    SparseTexts,
    TraceColumns,
    nothing,
)

Float64 = NDArray[np.float64]
Words = tuple[Int32, tuple[str, ...]]
"""A text per event: its index among the words, -1 for none."""
NO_NAME = "(unnamed)"
MAX_NAME = 4096
"""Characters kept of a name."""
LATEST = 1 << 62


class Names:
    """Texts by number."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a name."""
        return self.texts.setdefault(text[:MAX_NAME] or NO_NAME, len(self.texts))

    def numbers(self, texts: Sequence[str]) -> Int32:
        """The same of many."""
        return np.asarray([self.number(text) for text in texts], dtype=np.int32)


@dataclass(frozen=True)
class EventPart:
    """Events of one lane and of one category; all columns have one entry per event."""

    category: str
    lane: tuple[str, str]
    """(process or device, thread or stream)."""
    start: Int64
    """ns."""
    end: Int64
    name: Int32
    """By `Names`."""
    stream: int = -1
    correlation: Int64 | None = None
    numbers: Mapping[str, Float64] = field(default_factory=dict)
    """Arguments by name; NaN where an event has none."""
    texts: Mapping[str, Words] = field(default_factory=dict)

    def where(self, keep: NDArray[Any], category: str) -> EventPart:
        """The events of a mask, as another category."""
        rows = np.flatnonzero(keep)
        return replace(
            self,
            category=category,
            start=self.start[rows],
            end=self.end[rows],
            name=self.name[rows],
            correlation=None if self.correlation is None else self.correlation[rows],
            numbers={key: values[rows] for key, values in self.numbers.items()},
            texts={key: (ids[rows], words) for key, (ids, words) in self.texts.items()},
        )


def words_of(texts: Sequence[str]) -> Words:
    """Texts as ids and words; "" is none."""
    id_by_text: dict[str, int] = {}
    ids = [id_by_text.setdefault(text, len(id_by_text)) if text else -1 for text in texts]
    return np.asarray(ids, dtype=np.int32), tuple(id_by_text)


def renamed(words: Words, change: Callable[[str], str]) -> Words:
    """Every word changed; those that become "" are none."""
    ids, texts = words
    new = [change(word) for word in texts]
    # The last place answers -1, no word.
    keep = np.asarray([bool(word) for word in new] + [False], dtype=np.bool_)
    return np.where(keep[ids], ids, -1).astype(np.int32), tuple(new)


def assembled(
    parts: Sequence[EventPart],
    names: Names,
    *,
    file: str,
    rank: int,
    base: int,
    header: Mapping[str, Any],
    dropped: Mapping[str, int],
    **extra_fields: Any,
) -> TraceColumns:
    """The columns of a rank. `base` is the ns since 1970 at which the events' time 0 lies;
    `extra_fields` are further fields of TraceColumns. Events that end before they begin, or whose
    time is outside 64 bits, are dropped."""
    lanes: dict[tuple[str, str], int] = {}
    categories: dict[str, int] = {}
    counts = [len(part.start) for part in parts]
    lane = [lanes.setdefault(part.lane, len(lanes)) for part in parts]
    category = [categories.setdefault(part.category, len(categories)) for part in parts]
    start = _joined([part.start for part in parts])
    end = _joined([part.end for part in parts])
    # Bound the times, so that no sum with `base` overflows an int64.
    sane = (end >= start) & (start >= 0) & (end < LATEST - base)
    trace = TraceColumns(
        file=file,
        rank=rank,
        rank_source="order",
        ts=start + base,
        dur=end - start,
        name=np.concatenate([part.name for part in parts]) if parts else np.empty(0, np.int32),
        category=np.repeat(np.asarray(category, dtype=np.int32), counts),
        lane=np.repeat(np.asarray(lane, dtype=np.int32), counts),
        names=tuple(names.texts),
        categories=tuple(categories),
        lanes=tuple(lanes),
        event=np.arange(len(start), dtype=np.int64),
        offset=nothing(len(start)),
        stream=np.repeat(np.asarray([part.stream for part in parts], dtype=np.int64), counts),
        correlation=_correlations(parts),
        external_id=nothing(len(start)),
        python_id=nothing(len(start)),
        python_parent_id=nothing(len(start)),
        arguments=_arguments(parts),
        header=header,
        dropped={reason: count for reason, count in dropped.items() if count},
        **{"world_size": None, "host": None, **extra_fields},
    )
    if sane.all():
        return trace
    lost = {"events with a time outside the trace": int((~sane).sum())}
    return replace(trace.select(sane), dropped={**trace.dropped, **lost})


def _joined(columns: Sequence[Int64]) -> Int64:
    return np.concatenate(columns) if columns else np.empty(0, dtype=np.int64)


def _correlations(parts: Sequence[EventPart]) -> Int64:
    return _joined(
        [
            nothing(len(part.start)) if part.correlation is None else part.correlation
            for part in parts
        ]
    )


def _arguments(parts: Sequence[EventPart]) -> ArgumentColumns:
    number_rows: dict[str, list[Int64]] = {}
    number_values: dict[str, list[Float64]] = {}
    text_rows: dict[str, list[Int64]] = {}
    text_ids: dict[str, list[Int32]] = {}
    words: dict[str, dict[str, int]] = {}
    first = 0
    for part in parts:
        for key, values in part.numbers.items():
            # NaN stands for no value.
            indexes = np.flatnonzero(~np.isnan(values))
            number_rows.setdefault(key, []).append(indexes + first)
            number_values.setdefault(key, []).append(values[indexes])
        for key, (ids, part_words) in part.texts.items():
            text_places = np.flatnonzero(ids >= 0)
            if len(text_places):
                id_by_word = words.setdefault(key, {})
                table = np.asarray(
                    [id_by_word.setdefault(word, len(id_by_word)) for word in part_words],
                    dtype=np.int32,
                )
                text_rows.setdefault(key, []).append(text_places + first)
                text_ids.setdefault(key, []).append(table[ids[text_places]])
        first += len(part.start)
    numbers = {
        key: SparseNumbers(
            np.concatenate(rows).astype(np.int32), np.concatenate(number_values[key])
        )
        for key, rows in number_rows.items()
    }
    sparse_texts = {
        key: SparseTexts(
            np.concatenate(rows).astype(np.int32),
            np.concatenate(text_ids[key]),
            tuple(words[key]),
        )
        for key, rows in text_rows.items()
    }
    return ArgumentColumns(numbers, sparse_texts)
