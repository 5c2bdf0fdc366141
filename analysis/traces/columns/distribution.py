"""How numbers are spread, for many groups at once: count, total, mean, deviation, quantiles.

Quantiles are interpolated between neighbours and the deviation is a sample's, as in pandas'
`describe`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from faultline.analysis.traces.columns.events import Int32, Int64

Float64 = NDArray[np.float64]
QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.99)
KEY_SPACE = 1 << 62


@dataclass(frozen=True)
class Distribution:
    """One group's numbers; in the unit of the numbers."""

    count: int
    total: float
    mean: float
    std: float
    """0 for one number."""
    min: float
    p25: float
    p50: float
    p75: float
    p90: float
    p99: float
    max: float


@dataclass(frozen=True)
class Distributions:
    """The same of several groups: one entry per group; all 0 for a group without numbers."""

    count: Int64
    total: NDArray[np.generic]
    """int64 of whole numbers, float64 of others; so are `min` and `max`."""
    mean: Float64
    std: Float64
    min: NDArray[np.generic]
    max: NDArray[np.generic]
    quantiles: Float64
    """One row per entry of `QUANTILES`."""

    def __len__(self) -> int:
        return len(self.count)

    def at(self, group: int) -> Distribution:
        """One group's."""
        p25, p50, p75, p90, p99 = self.quantiles[:, group].tolist()
        total, low, high = (column[group].item() for column in (self.total, self.min, self.max))
        mean, std = float(self.mean[group]), float(self.std[group])
        return Distribution(
            int(self.count[group]), total, mean, std, low, p25, p50, p75, p90, p99, high
        )


def distribution(values: Int64 | Float64) -> Distribution:
    """Of one group. O(n log n)."""
    return distributions(values, np.zeros(len(values), dtype=np.int64), 1).at(0)


def distributions(
    values: Int64 | Float64, group: NDArray[np.integer], groups: int
) -> Distributions:
    """Of each group 0 .. groups - 1; `group` names the group of each value. O(n log n)."""
    count = np.bincount(group, minlength=groups).astype(np.int64)
    ordered = _sorted_in_groups(values, group, count)
    first = np.cumsum(count) - count
    some = np.flatnonzero(count)
    low, high, total = (np.zeros(groups, dtype=ordered.dtype) for _ in range(3))
    mean, std, quantiles = np.zeros(groups), np.zeros(groups), np.zeros((len(QUANTILES), groups))
    if len(some):
        begin, number = first[some], count[some]
        low[some], high[some] = ordered[begin], ordered[begin + number - 1]
        total[some] = np.add.reduceat(ordered, begin)
        mean[some] = total[some] / number
        apart = ordered - np.repeat(mean[some], number)
        # Divide by n - 1, a sample's deviation, but never by 0.
        std[some] = np.sqrt(np.add.reduceat(apart * apart, begin) / np.maximum(number - 1, 1))
        for row, quantile in enumerate(QUANTILES):
            place = quantile * (number - 1)
            lower = place.astype(np.int64)
            upper = np.minimum(lower + 1, number - 1)
            a, b = ordered[begin + lower], ordered[begin + upper]
            quantiles[row, some] = a + (b - a) * (place - lower)
    return Distributions(count, total, mean, std, low, high, quantiles)


def _sorted_in_groups(
    values: Int64 | Float64, group: NDArray[np.integer], count: Int64
) -> Int64 | Float64:
    if len(values) and values.dtype.kind == "i":
        low = int(values.min())
        span = int(values.max()) - low + 1
        # One sort of combined keys is faster than a lexsort, as long as they fit in 64 bits.
        if span * len(count) < KEY_SPACE:
            keys = np.sort(group * np.int64(span) + (values.astype(np.int64, copy=False) - low))
            return keys - np.repeat(np.arange(len(count), dtype=np.int64) * span, count) + low
    return values[np.lexsort((values, group))]


# Which sequences of ids are the same, for many sequences at once.

_FACTOR = np.uint64(0x9E3779B97F4A7C15)
"""Odd, with well mixed bits: 2**64 over the golden ratio (Knuth, multiplicative hashing)."""
_SHIFT = np.uint64(29)


def distinct_sequences(
    items: Int32, begin: Int64, end: Int64, key: Int64 | Int32
) -> tuple[Int64, Int64]:
    """(The first sequence of each kind, the kind of each sequence). A sequence is not empty, and is
    `items[begin:end]`; two are of one kind where their keys and all their items are the same.

    Sequences are compared by a hash, and then each with the first of its kind. O(n log n) in
    sequences, O(n) in items.
    """
    length = end - begin
    if not len(length):
        return length, length
    offset = np.cumsum(length) - length
    place = np.arange(int(length.sum()), dtype=np.int64) - np.repeat(offset, length)
    item = items[place + np.repeat(begin, length)]
    # Weigh each item by its place, so that the same ids in another order hash differently.
    powers = np.cumprod(np.full(int(length.max()), _FACTOR))
    sums = np.add.reduceat(_mixed(item) * powers[place], offset)
    _, first, kind = np.unique(sums + _mixed(_mixed(key)), return_index=True, return_inverse=True)
    like = first[kind]
    same = (key[like] == key) & (length[like] == length)
    # Equal hashes prove nothing: compare the items before trusting the kinds.
    if same.all() and np.array_equal(item, item[np.repeat(offset[like], length) + place]):
        return first, kind
    return _compared_in_full(item, offset, length, key)


def _mixed(
    ids: Int64 | Int32 | np.ndarray[tuple[int], np.dtype[np.uint64]],
) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    spread = (ids.astype(np.uint64) + np.uint64(1)) * _FACTOR
    return np.asarray((spread ^ (spread >> _SHIFT)) * _FACTOR)


def _compared_in_full(
    item: Int32, offset: Int64, length: Int64, key: Int64 | Int32
) -> tuple[Int64, Int64]:
    """Where two different sequences have one hash."""
    kind_by_content: dict[tuple[int, bytes], int] = {}
    first: list[int] = []
    kind = np.empty(len(offset), dtype=np.int64)
    spans = zip(key.tolist(), offset.tolist(), (offset + length).tolist(), strict=True)
    for number, (hash_key, begin, end) in enumerate(spans):
        kind[number] = kind_by_content.setdefault(
            (hash_key, item[begin:end].tobytes()), len(kind_by_content)
        )
        if kind[number] == len(first):
            first.append(number)
    return np.asarray(first, dtype=np.int64), kind
