"""Whatever the bytes are, nothing crashes and the compiled scanner and the Python lane give the
same."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.native.lane import library
from faultline.analysis.traces.reading.event_scanner import ScanLimits
from tests.analysis.traces.both_lanes import read_both
from tests.analysis.traces.trace_texts import BYTES, DAMAGE, LISTS, PRETTY, SEED, damaged

pytestmark = pytest.mark.skipif(library() is None, reason="the compiled library was not built")
fuzzed = settings(deadline=None, max_examples=60, suppress_health_check=list(HealthCheck))


def sound(trace: TraceColumns | str) -> None:
    if isinstance(trace, TraceColumns):
        assert (trace.dur >= 0).all()
        assert (np.diff(trace.event) > 0).all()
        assert (np.diff(trace.offset) > 0).all()


@given(LISTS, st.integers(1, 300))
@fuzzed
def test_any_members_with_any_values(content: bytes, block: int) -> None:
    sound(read_both(content, block=block))


@given(BYTES, st.integers(1, 50))
@fuzzed
def test_bytes_that_look_like_json(rest: bytes, block: int) -> None:
    sound(read_both(b'{"traceEvents": [{"ph": "X", "ts": 1, "dur": 1}, ' + rest, block=block))


@given(st.binary(max_size=300), st.booleans())
@fuzzed
def test_any_bytes(content: bytes, bare: bool) -> None:
    sound(read_both((b"[" if bare else b"") + content, block=7))


@given(st.sampled_from([SEED, PRETTY]), DAMAGE, st.integers(0, len(PRETTY)), st.integers(1, 4096))
@fuzzed
def test_damaged_traces(
    content: bytes, damage: list[tuple[int, int, bytes]], cut: int, block: int
) -> None:
    sound(read_both(damaged(content, damage)[: cut or None], block=block))


@given(DAMAGE, st.integers(0, len(SEED)))
@fuzzed
def test_damaged_gzip(damage: list[tuple[int, int, bytes]], cut: int) -> None:
    sound(read_both(damaged(gzip.compress(SEED), damage)[: cut or None], block=100, packed=True))


def test_a_trace_cut_at_any_byte_gives_what_comes_before() -> None:
    before = 0
    for cut in range(SEED.index(b"traceEvents") + 20, len(SEED), 19):
        trace = read_both(SEED[:cut], block=333)
        assert isinstance(trace, TraceColumns)
        assert len(trace) >= before
        before = len(trace)


def test_a_trace_split_at_any_byte_is_one_trace() -> None:
    whole = read_both(PRETTY)
    assert isinstance(whole, TraceColumns)
    for size in range(1, len(PRETTY), 97):
        trace = read_both(PRETTY, block=size)
        assert isinstance(trace, TraceColumns)
        assert (trace.ts.tolist(), trace.offset.tolist()) == (
            whole.ts.tolist(),
            whole.offset.tolist(),
        )


@given(st.integers(0, 6), st.integers(0, 400), st.integers(0, 12))
@fuzzed
def test_limits_bind_both_lanes_alike(few: int, text_bytes: int, arguments: int) -> None:
    limits = ScanLimits(
        events=few * 3,
        arguments=arguments,
        text_bytes=text_bytes,
        names=few,
        categories=few,
        lanes=few,
        handles=few,
        counters=few,
        texts=few,
        labels=few,
        label_bytes=text_bytes // 4,
    )
    sound(read_both(PRETTY, limits=limits))


@given(DAMAGE, st.integers(1, 60_000), st.integers(0, 1 << 20))
@settings(deadline=None, max_examples=15, suppress_health_check=list(HealthCheck))
def test_damaged_real_traces(
    shared: Path, damage: list[tuple[int, int, bytes]], block: int, at: int
) -> None:
    for file in (
        "amd_trace/mi250_minitoy_train_ROCm6_2_kineto",
        "critical_path/cuda_event_sync/event_sync_trace",
    ):
        content = gzip.decompress((shared / "traces" / "hta" / f"{file}.json.gz").read_bytes())
        damage = [(at + place % 1000, length, new) for place, length, new in damage]
        sound(read_both(damaged(content, damage), block=block))
