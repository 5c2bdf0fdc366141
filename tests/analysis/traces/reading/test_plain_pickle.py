"""The reader of data pickles: reads data, refuses everything else, and does not grow."""

from __future__ import annotations

import contextlib
import os
import pickle
import struct
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.traces.reading.plain_pickle import CutOff, NotPlainData, load_plain_pickle

keys = st.text(max_size=8) | st.integers(-(2**40), 2**40)
plain = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(keys, inner, max_size=4)
        | st.tuples(inner, inner)
    ),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(plain, st.integers(2, 5))
def test_reads_what_python_reads(value: Any, protocol: int) -> None:
    assert load_plain_pickle(pickle.dumps(value, protocol=protocol)) == value


def test_reads_every_real_dump_as_python_does(shared: Path) -> None:
    paths = [
        *shared.glob("traces/nvrx_flight_recorder/*/_dump_*"),
        *shared.glob("traces/generated/hang_*/fr*/rank_*"),
    ]
    full = [p for p in paths if p.stat().st_size]
    assert len(full) > 40
    for path in full:
        assert load_plain_pickle(path.read_bytes()) == pickle.loads(path.read_bytes())


class _Attack:
    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self.command,)


@pytest.mark.parametrize("protocol", [1, 2, 3, 4, 5])
def test_a_pickle_that_calls_a_function_is_refused_and_nothing_is_called(
    tmp_path: Path, protocol: int
) -> None:
    data = pickle.dumps({"entries": [_Attack(f"touch {tmp_path}/called")]}, protocol=protocol)
    with pytest.raises(NotPlainData, match="names a global"):
        load_plain_pickle(data)
    assert not (tmp_path / "called").exists()


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02cos\nsystem\n.",
        b"\x80\x02(S'ls'\nios\nsystem\n.",
        b"\x80\x02Ppersistent\n.",
        b"\x80\x02N\x82\x01.",
        b"\x80\x02]]b.",
        b"\x80\x04\x8c\x02os\x8c\x06system\x93.",
        b"\x80\x05\x97.",
    ],
)
def test_opcodes_that_are_more_than_data_are_refused(data: bytes) -> None:
    with pytest.raises(NotPlainData):
        load_plain_pickle(data)


def _peak(data: bytes) -> int:
    tracemalloc.start()
    with contextlib.suppress(NotPlainData, CutOff):
        load_plain_pickle(data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


@pytest.mark.parametrize(
    "data",
    [
        b"\x80\x02Nr" + struct.pack("<I", 2**32 - 1) + b".",
        b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",
        b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
        b"\x80\x02X" + struct.pack("<I", 2**32 - 1) + b"x.",
        b"\x80\x02\x8b" + struct.pack("<i", 2**31 - 1) + b"x.",
        b"\x80\x02\x8b" + struct.pack("<i", -1) + b"x.",
        b"\x80\x04\x95" + struct.pack("<Q", 2**63) + b"N.",
    ],
)
def test_a_few_bytes_cannot_ask_for_gigabytes(data: bytes) -> None:
    assert _peak(data) < 1 << 20


def test_too_many_lists_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("faultline.analysis.traces.reading.plain_pickle.MAX_CONTAINERS", 1000)
    with pytest.raises(NotPlainData, match="more than 1000"):
        load_plain_pickle(b"\x80\x02" + b"]" * 2000 + b".")


def test_keys_that_would_be_hashed_for_ever_are_refused() -> None:
    key: Any = ()
    for _ in range(60):
        key = (key, key)
    data = pickle.dumps(key, protocol=2)[:-1]
    with pytest.raises(NotPlainData, match="key"):
        load_plain_pickle(b"\x80\x02}" + data[2:] + b"Ns.")


def test_a_file_cut_off_anywhere_says_so_and_gives_its_beginning() -> None:
    whole = pickle.dumps(
        {"version": "2.9", "entries": [{"collective_seq_id": i} for i in range(3)]}, protocol=2
    )
    for length in range(len(whole)):
        with pytest.raises(CutOff) as cut:
            load_plain_pickle(whole[:length])
        assert isinstance(cut.value.pieces, list)


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200))
def test_noise_is_refused_in_one_way_or_read(noise: bytes) -> None:
    with contextlib.suppress(NotPlainData, CutOff):
        load_plain_pickle(b"\x80\x02" + noise)


def _number_keys(keys: list[int]) -> bytes:
    """A dict of these keys, each written once."""
    written = b"".join(b"\x8a" + bytes([10]) + key.to_bytes(10, "little") + b"N" for key in keys)
    return b"\x80\x02}(" + written + b"u."


def test_number_keys_that_collide_are_refused_before_they_take_seconds() -> None:
    # Python's hash of an integer is its remainder by 2**61 - 1: all of these have the same.
    modulus = 2**61 - 1
    colliding = [modulus * n for n in range(1, 220_000)]
    with pytest.raises(NotPlainData, match="numbers as keys"):
        load_plain_pickle(_number_keys(colliding))
    assert len(load_plain_pickle(_number_keys(colliding[:1_000]))) == 1_000


def test_the_work_of_number_keys_is_counted_over_all_dicts_of_a_file() -> None:
    modulus = 2**61 - 1
    one = _number_keys([modulus * n for n in range(1, 1_001)])[2:-1]
    with pytest.raises(NotPlainData, match="numbers as keys"):
        load_plain_pickle(b"\x80\x02](" + one * 40 + b"e.")


def test_a_memo_index_that_no_writer_has_reached_is_refused() -> None:
    with pytest.raises(NotPlainData, match="memo"):
        load_plain_pickle(b"\x80\x02Nr" + struct.pack("<I", 2**31) + b".")
