from __future__ import annotations

from pathlib import Path

from faultline.analysis.traces.per_rank.recompiles import recompiles, rows
from tests.analysis.traces.device_traces import trace_of
from tests.analysis.traces.written_traces import event

STEPS = [event(f"ProfilerStep#{n}", 1_000 * n, 1_000, cat="user_annotation") for n in (1, 2, 3)]


def test_versions_of_a_frame_are_counted_with_the_step_of_each(tmp_path: Path) -> None:
    regions = [
        event("Torch-Compiled Region: 2/0", 1_100, 10),
        event("Torch-Compiled Region: 2/0", 2_100, 10),
        event("Torch-Compiled Region: 2/4", 3_100, 10),
        event("Torch-Compiled Region: 5/0", 3_200, 10),
    ]
    trace = trace_of(tmp_path, *STEPS, *regions)
    first = recompiles(trace).frames[0]
    assert (first.frame, first.versions, first.highest, first.first_seen) == (2, 2, 4, (1, 3))
    assert [r["frame"] for r in rows(trace)] == [2, 5]


def test_compilations_in_steps_are_counted_once_however_deep(tmp_path: Path) -> None:
    compiling = [
        event(name, 1_000 * step + at, dur)
        for step in (2, 3)
        for name, at, dur in (
            ("entire_frame_compile", 90, 510),
            ("_compile.compile_inner (dynamo_timed)", 100, 500),
            ("OutputGraph.call_user_compiler (dynamo_timed)", 200, 300),
        )
    ]
    found = recompiles(trace_of(tmp_path, *STEPS, *compiling))
    assert (found.compilations, found.steps_compiling, found.compiling_ns) == (2, 2, 1_020_000)


def test_steps_that_look_code_up_and_run_without_it_are_counted(tmp_path: Path) -> None:
    lookups = [event("TorchDynamo Cache Lookup", 1_000 * n + 50, 10) for n in (1, 2, 3)]
    given_up = event("dynamo_data: compile_id=0/8", 1_100, 10, cat="user_annotation")
    region = event("Torch-Compiled Region: 0/7", 1_200, 10)
    found = recompiles(trace_of(tmp_path, *STEPS, *lookups, given_up, region))
    assert (found.uncompiled_steps, found.frames[0].highest, found.frames[0].versions) == (2, 8, 2)
