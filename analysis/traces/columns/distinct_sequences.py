"""Which sequences of ids are the same, for many sequences at once."""

from __future__ import annotations

import numpy as np

from faultline.analysis.traces.columns.events import Int32, Int64

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
