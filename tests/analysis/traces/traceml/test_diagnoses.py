"""TraceML's recordings, judged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.job.telemetry import telemetry_diagnoses
from faultline.analysis.traces.reading.job_files import sort_job_files
from tests.analysis.traces.traceml.databases import usual, write_telemetry


def told(folder: Path) -> list[JobDiagnosis]:
    return telemetry_diagnoses(sort_job_files([folder]))


def accused(folder: Path) -> list[tuple[str, str, tuple[int, ...]]]:
    return [(d.rule, d.severity, d.ranks) for d in told(folder) if d.severity != "info"]


@pytest.mark.parametrize("only", ["", "final_summary.json", "aggregator"])
@pytest.mark.parametrize(
    ("case", "culprit", "cause"),
    [("healthy", None, ""), ("input_straggler", 1, "input"), ("compute_straggler", 2, "residual")],
)
def test_recorded_jobs_get_their_culprit(
    shared: Path, case: str, culprit: int | None, cause: str, only: str
) -> None:
    folder = shared / "traces" / "traceml" / "logs" / case / only
    assert accused(folder) == (
        [("straggler", "critical", (culprit,))] if culprit is not None else []
    )
    assert [d.details["cause"] for d in told(folder) if d.rule == "straggler"] == (
        [cause] if cause else []
    )


def test_our_score_is_tracemls(shared: Path) -> None:
    path = shared / "traces" / "traceml" / "logs" / "input_straggler" / "final_summary.json"
    (found,) = (d for d in told(path) if d.rule == "straggler")
    assert found.details["blame_share"] == round(
        json.loads(path.read_text())["primary_diagnosis"]["evidence"]["score"], 4
    )


def test_tracemls_own_verdict_is_information(shared: Path) -> None:
    folder = shared / "traces" / "traceml" / "logs" / "compute_straggler"
    (verdict,) = (d for d in told(folder) if d.rule == "traceml_verdict")
    assert verdict.severity == "info"
    assert "cause not measured" in verdict.details["summary"]


def test_a_single_pause_makes_no_straggler(tmp_path: Path) -> None:
    write_telemetry(
        tmp_path / "telemetry",
        lambda rank, step: (
            usual(90, dataloader_next=5000)
            if (rank, step) == (2, 30)
            else usual(5090 if step == 30 else 90)
        ),
    )
    assert accused(tmp_path) == []


@pytest.mark.parametrize(("steps", "rules"), [(1, []), (2, ["straggler", "dataloader_stall"])])
def test_one_step_is_too_few(tmp_path: Path, steps: int, rules: list[str]) -> None:
    slow, waiting = tmp_path / "slow", tmp_path / "waiting"
    write_telemetry(
        slow / "telemetry", lambda rank, step: usual(10 if rank == 1 else 90), steps=steps
    )
    write_telemetry(
        waiting / "telemetry", lambda rank, step: usual(dataloader_next=60.0), steps=steps
    )
    assert [rule for folder in (slow, waiting) for rule, _, _ in accused(folder)] == rules


def test_few_steps_and_sharded_models_only_warn(tmp_path: Path) -> None:
    for name, steps, strategy in (("few", 10, "ddp"), ("sharded", 60, "fsdp")):
        path = tmp_path / name / "telemetry"
        write_telemetry(
            path, lambda rank, step: usual(50 if rank == 3 else 90), steps=steps, strategy=strategy
        )
        assert accused(path.parent) == [("straggler", "warning", (3,))]


def test_input_that_keeps_all_ranks_waiting(tmp_path: Path) -> None:
    write_telemetry(tmp_path / "telemetry", lambda rank, step: usual(dataloader_next=60.0))
    (found,) = told(tmp_path)
    assert (found.rule, found.severity) == ("dataloader_stall", "critical")
    assert found.numbers["percent"] == 38


def test_copies_count_on_the_accelerators_clock_only(tmp_path: Path) -> None:
    for gpu in (True, False):
        path = tmp_path / str(gpu) / "telemetry"
        write_telemetry(path, lambda rank, step: usual(60, h2d_time=30.0), gpu=gpu)
        assert [d.rule for d in told(path.parent)] == (["long_copies"] if gpu else [])


def test_time_outside_of_all_phases(tmp_path: Path) -> None:
    write_telemetry(tmp_path / "telemetry", lambda rank, step: usual(30))
    assert accused(tmp_path) == [("time_outside_phases", "warning", ())]


def test_memory_that_grows_and_memory_that_is_full(tmp_path: Path) -> None:
    grows = tmp_path / "grows" / "telemetry"
    write_telemetry(
        grows, lambda *_: usual(), peak=lambda rank, step: 20e9 + (step * 1e8 if rank == 1 else 0)
    )
    assert accused(grows.parent) == [("memory_growth", "warning", (1,))]
    full = tmp_path / "full" / "telemetry"
    write_telemetry(full, lambda *_: usual(), peak=lambda rank, step: 78e9)
    assert accused(full.parent) == [("memory_pressure", "critical", ())]


def test_a_summary_without_ranks_gives_its_own_verdict(tmp_path: Path) -> None:
    primary = {
        "kind": "INPUT_STRAGGLER",
        "severity": "crit",
        "summary": "<!channel> r1",
        "action": "Look `there`.",
    }
    section = {"issues": [{"kind": "INPUT_STRAGGLER", "ranks": [1, "x", -4]}]}
    text = json.dumps({"schema_version": 1.7, "primary_diagnosis": primary, "step_time": section})
    (tmp_path / "final_summary.json").write_text(text)
    assert accused(tmp_path) == [("straggler", "critical", (1,))]
    assert not any(mark in repr(told(tmp_path)) for mark in ("<!channel>", "`"))


def test_hostile_summaries_are_named_or_passed_over(tmp_path: Path) -> None:
    head = '{"schema_version": 1.9, "primary_diagnosis": '
    bad = {
        "a": head + "[" * 100_000,
        "b": head + '{"kind": 4}, "step_time": {"groups": {"rows": [1]}, "issues": {}}}',
        "c": head + '{"kind": "X"}, "step_time": {"groups": {"rows": {"0": {"metrics": '
        '{"traced_step_time_ms": 1e999}}}}}}',
        "d": head + '{"kind": "Y"}, "step_time": {"global": {"window": {"steps_analyzed": NaN}}}}',
    }
    for name, text in bad.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "final_summary.json").write_text(text)
    assert accused(tmp_path) == []
    (unread,) = (d for d in told(tmp_path) if d.rule == "telemetry_unread")
    assert len(unread.details["unread"]) == 1


def test_hostile_databases_are_named_or_passed_over(tmp_path: Path) -> None:
    path = write_telemetry(tmp_path / "a" / "telemetry", lambda *_: usual())
    whole = path.read_bytes()
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "telemetry").write_bytes(whole[: len(whole) // 2])
    path = write_telemetry(tmp_path / "c" / "telemetry", lambda *_: usual(), steps=2)
    with sqlite3.connect(path) as db:
        rows = [
            ("x", "[" * 4000),
            (-1, "{}"),
            (2**62, "null"),
            (0, '{"a:step_time": {"cpu": {"cpu_ms": NaN}}}'),
        ]
        rows += [
            (1, '{"a:step_time": 5}'),
            (1, '{"a:step_time": {"cpu": {"cpu_ms": 1e400, "is_gpu": 1}}}'),
        ]
        db.executemany(
            "INSERT INTO step_time_samples (global_rank, step, events_json) VALUES (?, 1, ?)", rows
        )
    path = tmp_path / "d" / "telemetry"
    path.parent.mkdir()
    with sqlite3.connect(path) as db:
        endless = (
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i AS "
            "step FROM n"
        )
        db.execute(f"CREATE VIEW step_time_samples AS {endless}")
    assert accused(tmp_path) == []
    (unread,) = (d for d in told(tmp_path) if d.rule == "telemetry_unread")
    assert len(unread.details["unread"]) == 2
