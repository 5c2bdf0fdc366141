"""Investigations report what memory snapshots, TraceML and wandb tell."""

from __future__ import annotations

import re
from pathlib import Path

from faultline.analysis.traces.job.training import training_findings
from faultline.analysis.vocabulary import Finding
from tests.analysis.traces.memory_snapshot.allocator import GB, MB, Allocator, stack, train
from tests.analysis.traces.traceml.databases import usual, write_telemetry
from tests.analysis.traces.wandb_files import history, wandb_file
from tests.analysis.traces.written_traces import empty_case


def found(folder: Path) -> list[Finding]:
    return training_findings(empty_case(folder))


def numbers_are_given(finding: Finding) -> bool:
    said = re.findall(r"(?<![\w.])\d+(?:\.\d+)?", finding.sentence)
    return bool(said) and all(float(n) in finding.numbers.values() for n in said)


def test_why_memory_ran_out(tmp_path: Path) -> None:
    allocator = Allocator(reserved=78 * GB)
    train(allocator, 3)
    allocator.alloc(70 * GB, stack(5))
    allocator.oom(2 * GB, 1 * GB, stack(88))
    allocator.write(tmp_path / "traces" / "step_000000000003_exit" / "000003_step_3.pickle")
    (finding,) = found(tmp_path)
    assert (finding.kind, finding.subject) == ("out_of_memory", "rank 3")
    assert numbers_are_given(finding)


def test_what_makes_memory_grow(tmp_path: Path) -> None:
    allocator = Allocator(reserved=12 * GB)
    train(allocator, 12, leak=MB)
    allocator.write(tmp_path / "traces" / "rank_1.pickle")
    (finding,) = found(tmp_path)
    assert (finding.kind, finding.details.written()["line"]) == (
        "memory_growth",
        "job/metrics.py:42 (log_loss)",
    )
    assert numbers_are_given(finding)


def test_who_traceml_saw_late(tmp_path: Path) -> None:
    write_telemetry(
        tmp_path / "traces" / "aggregator" / "telemetry",
        lambda rank, step: usual(30, dataloader_next=61, step_time=39) if rank == 2 else usual(90),
    )
    (finding,) = found(tmp_path)
    assert (finding.kind, finding.subject, finding.details.written()["cause"]) == (
        "straggler",
        "rank 2",
        "input",
    )
    assert numbers_are_given(finding)


def test_when_wandb_logged_no_number(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    rows = [history(s, {"train/loss": "NaN" if s >= 20 else "1.5"}) for s in range(40)]
    (tmp_path / "traces" / "run-x.wandb").write_bytes(wandb_file(rows))
    (finding,) = found(tmp_path)
    assert (finding.kind, finding.numbers) == ("nan_loss", {"step": 20.0})


def test_a_file_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    (tmp_path / "traces" / "a.pickle").write_bytes(b"\x80\x04csegments\nx\n.")
    (finding,) = found(tmp_path)
    assert finding.kind == "trace_unreadable"
    assert "a.pickle is refused" in finding.sentence
