from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.traces.per_rank.pauses import pause_kind, pauses, rows
from tests.analysis.traces.device_traces import trace_of
from tests.analysis.traces.written_traces import event

STEP = event("ProfilerStep#1", 0, 100_000, cat="user_annotation")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("torch.save", "checkpoint save"),
        ("## save_checkpoint ##", "checkpoint save"),
        ("torch/serialization.py(964): save", "checkpoint save"),
        ("torch/distributed/checkpoint/state_dict_saver.py(120): save", "checkpoint save"),
        ("gc.collect", "garbage collection"),
        ("<built-in function collect>", "garbage collection"),
        ("## gc ##", "garbage collection"),
        ("evaluate", "evaluation"),
        ("gc (dynamo_timed)", None),
        ("aten::mm", None),
        ("autograd::engine::evaluate_function: MulBackward0", None),
        ("torch/utils/checkpoint.py(343): checkpoint", None),
        ("nn.Module: GCN_0", None),
        ("SavedTensorHooks", None),
    ],
)
def test_pauses_are_known_by_name(name: str, kind: str | None) -> None:
    assert pause_kind(name) == kind


def test_the_longest_pauses_come_first_and_short_ones_are_left_out(tmp_path: Path) -> None:
    calls = [
        event("gc.collect", 100, 5_000),
        event("torch.save", 10_000, 50_000),
        event("torch.save", 70_000, 10),
    ]
    trace = trace_of(tmp_path, STEP, *calls)
    assert [(p.kind, p.event.step) for p in pauses(trace)] == [
        ("checkpoint save", 1),
        ("garbage collection", 1),
    ]
    assert [r["duration_ns"] for r in rows(trace)] == [50_000_000, 5_000_000]
