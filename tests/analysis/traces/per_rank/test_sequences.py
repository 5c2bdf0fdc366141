"""Frequent sequences of kernels: by hand, and those that HTA finds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from faultline.analysis.traces.per_rank.call_stacks import call_stacks
from faultline.analysis.traces.per_rank.sequences import kernel_sequences, rows
from tests.analysis.traces.goldens import golden, sets_with, views_of
from tests.analysis.traces.per_rank.stack_traces import (
    Event,
    call,
    hta_rows,
    kernel,
    launch,
    trace_of,
)


def _conv(at: float, first: int, names: tuple[str, ...] = ("pad", "gemm", "bias")) -> list[Event]:
    events = [call("aten::conv2d", at, 50), call("aten::_conv2d", at + 2, 45)]
    for i, name in enumerate(names):
        events += [launch(first + i, at + 5 + 5 * i), kernel(name, first + i, at + 100 + 10 * i, 8)]
    return events


def test_the_same_kernels_in_the_same_order_are_one_sequence(tmp_path: Path) -> None:
    trace = trace_of(
        tmp_path, [*_conv(0, 1), *_conv(1000, 11), *_conv(2000, 21, ("gemm", "pad", "bias"))]
    )
    stacks = call_stacks(trace)
    often, once = kernel_sequences(trace, "conv2d", stacks=stacks)
    assert (often.name, often.calls, once.calls) == ("aten::conv2d|pad|gemm|bias", 2, 1)
    assert (often.kernel_ns, often.host_ns) == (48_000, 100_000)
    assert often.roots.tolist() == [0, 8]


def test_an_operator_inside_one_of_its_name_is_no_call_of_its_own(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, _conv(0, 1))
    assert [s.operator for s in kernel_sequences(trace, "conv2d")] == ["aten::conv2d"]
    assert [s.operator for s in kernel_sequences(trace, "_conv2d")] == ["aten::_conv2d"]
    assert [s.operator for s in kernel_sequences(trace)] == ["aten::conv2d"]


def test_short_sequences_are_left_out(tmp_path: Path) -> None:
    trace = trace_of(tmp_path, _conv(0, 1, ("pad", "gemm")))
    assert kernel_sequences(trace, "conv2d") == []
    assert len(kernel_sequences(trace, "conv2d", min_kernels=2)) == 1
    assert rows(trace) == []
    assert rows(trace_of(tmp_path, [])) == []


@pytest.mark.parametrize("set_name", sets_with("frequent_cuda_kernel_sequences"))
def test_sequences_are_those_of_hta(set_name: str) -> None:
    """HTA looks only at calls as far out as the outermost call of that name anywhere; we at the
    outermost call of every stack. Synchronizations are kernels for it. On its calls and rows
    patterns, counts and times are the same.
    """
    operator = golden(set_name, "pick_operator")
    view = hta_rows(views_of(set_name)[min(views_of(set_name))])
    stacks = call_stacks(view)
    named = np.asarray([operator in name for name in view.names], dtype=np.bool_)
    depths = stacks.depth[named[view.name] & stacks.inside & ~view.on_device]
    theirs = {
        r["pattern"]: (
            r["count"],
            r["GPU kernel duration (us)"] * 1000,
            r["CPU op duration (us)"] * 1000,
        )
        for r in golden(set_name, "frequent_cuda_kernel_sequences")
    }
    ours = {}
    for sequence in kernel_sequences(view, operator, stacks=stacks):
        calls = sequence.roots[stacks.depth[sequence.roots] == depths.min()]
        if len(calls):
            times = int(stacks.kernel_sum_ns[calls].sum()), int(view.dur[calls].sum())
            ours[sequence.name] = (len(calls), *times)
    assert ours == theirs
