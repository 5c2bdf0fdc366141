"""Two runs compared: by hand, with HTA's own tables, and against false alarms on a real run."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.device import launched_by
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.comparison.trace_diff import (
    Change,
    Devices,
    Side,
    TraceDiff,
    compared,
    diff_rows,
    joined,
    short_name,
    side_of,
)
from faultline.analysis.traces.comparison.trace_regressions import (
    grown,
    measures,
    regression_rows,
    regressions,
)
from faultline.analysis.traces.reading.kineto import read_trace, read_traces
from tests.analysis.traces.goldens import golden, sets_with
from tests.analysis.traces.per_rank.stack_traces import Event, call, kernel, launch, step, trace_of
from tests.conftest import SHARED


def _run(
    folder: Path, gemms: list[float], *, name: str = "t.json", operator: str = "aten::mm"
) -> TraceColumns:
    """One step per length of the gemm, in us; each step lasts as long as its gemm and 20 us
    more."""
    events: list[Event] = []
    at = 0.0
    for number, length in enumerate(gemms):
        events += [
            step(number, at, length + 20),
            call(operator, at + 1, 8),
            launch(number + 1, at + 2),
            kernel("gemm<float>(int)", number + 1, at + 10, length),
        ]
        at += length + 20
    return trace_of(folder, events, name)


def by_change(diff: TraceDiff, devices: Devices = "all") -> dict[str, list[str]]:
    """HTA's `ops_diff`."""
    found: dict[str, list[str]] = {change: [] for change in get_args(Change)}
    for difference in diff.of(devices):
        found[difference.change].append(difference.name)
    return found


def test_counts_and_times_of_every_name(tmp_path: Path) -> None:
    control, test = (
        side_of(_run(tmp_path, [100, 100])),
        side_of(_run(tmp_path, [100, 140, 150], operator="aten::bmm")),
    )
    diff = compared(control, test)
    found = {d.name: d for d in diff.differences}
    gemm = found["gemm<float>(int)"]
    assert (gemm.control.count, gemm.test.count, gemm.change) == (2, 3, "unchanged")
    assert (gemm.control.total_ns, gemm.test.total_ns) == (200_000, 390_000)
    assert (gemm.control.self_ns_median, gemm.test.self_ns_median, gemm.growth_ns) == (
        100_000,
        140_000,
        40_000,
    )
    assert by_change(diff, "host") == {
        "added": ["aten::bmm"],
        "deleted": ["aten::mm"],
        "increased": [],
        "decreased": [],
        "unchanged": ["ProfilerStep", "cudaLaunchKernel"],
    }
    assert diff_rows(diff, "device")[0]["growth_ns"] == 40_000


def test_work_of_a_step_is_what_the_step_launched(tmp_path: Path) -> None:
    events = [
        step(1, 0, 10),
        call("aten::mm", 1, 5),
        launch(1, 2),
        step(2, 10, 10),
        kernel("late", 1, 12, 3),
    ]
    trace = trace_of(tmp_path, events)
    first, second = side_of(trace, [1]), side_of(trace, [2])
    assert "late" in first.names
    assert "late" not in second.names
    assert by_change(compared(first, second), "device")["deleted"] == ["late"]
    with pytest.raises(EvidenceError, match="has none of the steps 7"):
        side_of(trace, [7])


def test_a_trace_without_steps_is_one_sample(tmp_path: Path) -> None:
    side = side_of(trace_of(tmp_path, [call("aten::mm", 0, 5), call("aten::mm", 10, 5)]))
    assert side.samples == ((0, -1),)
    assert side.count.tolist() == [2]
    empty = side_of(trace_of(tmp_path, []))
    assert by_change(compared(empty, side))["added"] == ["aten::mm"]
    assert regressions(compared(empty, empty)) == []


def test_ranks_are_joined_and_a_missing_name_counts_as_no_time(tmp_path: Path) -> None:
    one, two = side_of(_run(tmp_path, [100, 200])), side_of(_run(tmp_path, [300], operator="other"))
    both = joined([one, two])
    assert len(both.samples) == 3
    found = {d.name: d.control for d in compared(both, one).differences}
    assert found["gemm<float>(int)"].self_ns_median == 200_000
    assert found["other"].self_ns_median == 0
    assert found["other"].count == 1


def test_a_slower_kernel_fails_the_run_and_is_named(tmp_path: Path) -> None:
    control = side_of(_run(tmp_path, [100, 101, 99, 100, 500]))
    slower = compared(control, side_of(_run(tmp_path, [120, 121, 119, 120, 120])))
    found = regressions(slower)
    assert [(r.kind, r.measure.name) for r in found] == [
        ("measure", "step time"),
        ("measure", "computation"),
        ("kernel", "gemm<float>(int)"),
    ]
    assert found[0].statement == "step time grew by 16.7 % per step: 0.120 ms to 0.140 ms"
    assert regressions(slower, 30) == []
    assert regressions(compared(control, control)) == []
    assert [row["fails"] for row in regression_rows(slower)][:2] == [True, True]
    assert [d.name for d in grown(slower, on_device=True)] == ["gemm<float>(int)"]


def test_a_growth_within_the_noise_or_the_share_of_a_step_is_none(tmp_path: Path) -> None:
    noisy = side_of(_run(tmp_path, [100, 140, 80, 120, 90]))
    assert regressions(compared(noisy, side_of(_run(tmp_path, [110, 150, 85, 130, 95])))) == []
    few = regressions(compared(side_of(_run(tmp_path, [100])), side_of(_run(tmp_path, [150]))))
    assert few[0].measure.noise_unknown
    assert few[0].statement.endswith("(one sample each: the noise is unknown)")
    two = compared(side_of(_run(tmp_path, [100, 110])), side_of(_run(tmp_path, [130, 140])))
    assert regressions(two) == []


def test_operators_explain_a_slower_step_and_communication_counts_where_it_is_exposed(
    tmp_path: Path,
) -> None:
    def run(host: float, reduce: float) -> Side:
        events: list[Event] = []
        for number in range(5):
            at = number * 1000 * (2 if host > 500 else 1)
            events += [
                step(number, at, 1000 if host < 500 else 2000),
                call("aten::mm", at + 1, host),
                kernel("gemm", 2 * number + 1, at + 10, 800),
                kernel("ncclDevKernel_AllReduce", 2 * number + 2, at + 10, reduce, stream=9),
            ]
        return side_of(trace_of(tmp_path, events))

    assert regressions(compared(run(100, 100), run(400, 700))) == []
    exposed = regressions(compared(run(100, 100), run(100, 950)))
    assert [r.measure.name for r in exposed] == ["exposed communication"]
    slower = regressions(compared(run(100, 100), run(1500, 100)))
    assert [(r.kind, r.measure.name) for r in slower] == [
        ("measure", "step time"),
        ("operator", "aten::mm"),
    ]


def test_a_name_that_is_new_fails_nothing_by_itself(tmp_path: Path) -> None:
    control = side_of(_run(tmp_path, [100] * 4))
    renamed = side_of(_run(tmp_path, [100] * 4, operator="aten::renamed"))
    assert regressions(compared(control, renamed)) == []


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("aten::mm", "aten::mm"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD (Device -> Device)"),
        ("void at::native::fill<4, Functor<int> >(int, char*)", "at::native::fill"),
        ("void at::native::(anonymous namespace)::pool<float>(int)", "at::native::pool"),
        ("a>b", "a>b"),
        ("f(a<b)", "f"),
        ("(all)", "(all)"),
        ("<" * 10_000 + ")" * 10_000, "<" * 10_000 + ")" * 10_000),
    ],
)
def test_short_names(name: str, short: str) -> None:
    assert short_name(name) == short


PAIRS = {
    "diff_compare_base_test": (
        "trace_compare/base/base.json.gz",
        "trace_compare/test/test.json.gz",
    ),
    "diff_control_test": ("trace_diff/control/control.json.gz", "trace_diff/test/test.json.gz"),
}
DEVICES: dict[str, Devices] = {"ALL": "all", "CPU": "host", "GPU": "device"}


@cache
def _pair(set_name: str) -> tuple[TraceColumns, TraceColumns]:
    """Without work whose launch was not recorded: HTA counts it for no step, we for the one it
    starts in."""
    traces = [read_trace(SHARED / "data/traces/hta" / file) for file in PAIRS[set_name]]
    control, test = (t.select(~t.on_device | (launched_by(t) >= 0)) for t in traces)
    return control, test


def _sides(set_name: str, steps: list[int] | None, short: bool = False) -> tuple[Side, Side]:
    control, test = _pair(set_name)
    return side_of(control, steps, short_names=short), side_of(test, steps, short_names=short)


@pytest.mark.parametrize("set_name", sets_with("compare_ALL"))
@pytest.mark.parametrize("analysis", ["ALL", "CPU", "GPU", "ALL_short", "ALL_all_iterations"])
def test_the_table_is_that_of_hta(set_name: str, analysis: str) -> None:
    """HTA's times are those of both devices together; it numbers steps and writes "::::" in short
    names."""
    args = golden(set_name, "args")
    steps = args["control_iterations"] if analysis.endswith("iterations") else [args["used"][0]]
    short = analysis.endswith("short")
    diff = compared(*_sides(set_name, steps, short))
    ours: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for d in diff.of(DEVICES[analysis.split("_")[0]]):
        values = (d.control.count, d.control.total_ns, d.test.count, d.test.total_ns)
        ours[d.name] = [a + b for a, b in zip(ours[d.name], values, strict=True)]
    theirs: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0, 0])
    for row in golden(set_name, f"compare_{analysis}"):
        name = _as_ours(row["short_name" if short else "name"])
        for place, column in enumerate(
            ("control_counts", "control_total_duration", "test_counts", "test_total_duration")
        ):
            theirs[name][place] += int(row[column]) * (1 if place % 2 == 0 else 1000)
    assert dict(ours) == dict(theirs)


@pytest.mark.parametrize("set_name", sets_with("compare_ALL"))
@pytest.mark.parametrize("device", list(DEVICES))
def test_changes_are_those_of_hta(set_name: str, device: str) -> None:
    used = [golden(set_name, "args")["used"][0]]
    found = by_change(compared(*_sides(set_name, used)), DEVICES[device])
    said: dict[str, list[str]] = golden(set_name, f"ops_diff_{device}")
    assert {change: sorted(names) for change, names in found.items()} == {
        change: sorted(map(_as_ours, names)) for change, names in said.items()
    }


def test_a_real_run_against_itself_raises_no_alarm(shared: Path) -> None:
    trace = read_trace(shared / "traces/hta/df_index_resolver/df_index_resolver.json.gz")
    side = side_of(trace)
    assert len(side.samples) >= 4
    odd, even = (side_of(trace, [n for _, n in side.samples if n % 2 == rest]) for rest in (1, 0))
    assert regressions(compared(odd, even)) == regressions(compared(even, odd)) == []
    by_name = {m.name: m for m in measures(compared(odd, even))}
    assert {
        "step time",
        "computation",
        "communication",
        "exposed communication",
        "peak memory",
    } <= set(by_name)


def test_a_real_run_with_slower_kernels_fails(shared: Path) -> None:
    trace = read_trace(shared / "traces/hta/df_index_resolver/df_index_resolver.json.gz")
    control = side_of(trace)
    slow = np.where(
        np.asarray(["sgemm" in name for name in control.names])[control.name],
        control.self_ns * 2,
        control.self_ns,
    )
    test: Any = type(control)(**{**vars(control), "self_ns": slow})
    found = regressions(compared(control, test))
    assert found
    assert all(r.kind == "kernel" and "sgemm" in r.measure.name for r in found)


def _generated(shared: Path, scenario: str) -> Side:
    traces, _ = read_traces(sorted((shared / "traces/generated" / scenario).glob("*.json.gz")))
    return joined([side_of(trace) for trace in traces])


def test_a_real_job_whose_data_loader_got_slow_fails_and_the_loader_is_named(shared: Path) -> None:
    fixed, slow = _generated(shared, "dataloader_fixed"), _generated(shared, "dataloader_stall")
    found = regressions(compared(fixed, slow))
    assert [r.kind for r in found] == ["measure", "operator"]
    assert found[0].measure.name == "step time"
    assert found[1].measure.name.startswith("enumerate(DataLoader)")
    assert "from nothing" in found[1].statement
    assert regressions(compared(slow, fixed)) == []
    assert regressions(compared(_generated(shared, "healthy"), fixed)) == []


def _as_ours(name: str) -> str:
    return "ProfilerStep" if name.startswith("ProfilerStep#") else name.replace("::::", "::")
