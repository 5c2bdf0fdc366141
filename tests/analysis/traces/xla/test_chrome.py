"""The Chrome JSON that JAX writes beside the XPlane file, where it is all there is."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

from faultline.analysis.traces.columns.device import Kind, device_work
from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.columns.steps import steps_of
from faultline.analysis.traces.job.trace_readers import traces_in
from faultline.analysis.traces.xla.xplane import read_xplane

RECORDED = Path(__file__).parent / "recorded" / "training"


def counted(trace: TraceColumns) -> Counter[tuple[str, str]]:
    names = (trace.name_of(i) for i in range(len(trace)))
    kinds = (trace.category_of(i) for i in range(len(trace)))
    return Counter(zip(kinds, names, strict=True))


def test_it_gives_the_steps_and_events_of_the_xplane_file(tmp_path: Path) -> None:
    shutil.copy(RECORDED / "host.trace.json.gz", tmp_path)
    trace = traces_in(tmp_path / "host.trace.json.gz")[0]
    profile = read_xplane(RECORDED / "host.xplane.pb")[0]
    assert trace.format == "Chrome JSON of JAX (XLA)"
    assert steps_of(trace).number.tolist() == steps_of(profile).number.tolist() == [0, 1, 2]
    difference = counted(profile)
    difference.subtract(counted(trace))
    # JAX puts other names on few events of its JSON ("Wait: pending_threads=1/2").
    assert sum(abs(count) for count in difference.values()) < 0.01 * len(profile)


def event(pid: int, tid: int, name: str, ts: float, dur: float, **args: Any) -> dict[str, Any]:
    return {"ph": "X", "pid": pid, "tid": tid, "name": name, "ts": ts, "dur": dur, "args": args}


def named(what: str, pid: int, name: str, tid: int = 0) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": f"{what}_name", "args": {"name": name}}


def test_chips_are_ranks_and_loops_are_no_work(tmp_path: Path) -> None:
    events = [named("process", 701, "/host:CPU"), named("thread", 701, "python", 1)]
    for chip in (0, 1):
        events += [
            named("process", 3 + chip, f"/device:TPU:{chip}"),
            named("thread", 3 + chip, "XLA Ops", 2),
            named("thread", 3 + chip, "XLA Modules", 3),
            event(3 + chip, 3, "jit_step", 0, 50),
            event(3 + chip, 2, "while.1", 0, 30),
            event(3 + chip, 2, "fusion.2", 0, 30, hlo_category="loop fusion"),
            event(3 + chip, 2, "fusion.4", 30, 10 + chip, hlo_category="all-reduce fusion"),
        ]
    events.append(event(701, 1, "train", 0, 45, step_num="7"))
    path = tmp_path / "host.trace.json"
    path.write_text(json.dumps({"displayTimeUnit": "ns", "traceEvents": events}))
    first, second = traces_in(path)
    assert (first.rank, second.rank) == (0, 1)
    work = device_work(second)
    assert [second.name_of(row) for row in work.row.tolist()] == [
        "fusion.2",
        "all-reduce fusion (fusion.4)",
    ]
    assert work.kind.tolist() == [Kind.COMPUTATION, Kind.COMMUNICATION]
    assert (work.end - work.start).tolist() == [30_000, 11_000]
    assert steps_of(first).number.tolist() == [7]
