from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.traces.job.training import training_findings
from faultline.analysis.vocabulary import Finding, JobIdentity
from tests.analysis.traces.written_traces import (
    case_of,
    document,
    empty_case,
    event,
    job,
    write_trace,
)

LATE = {(2, step): 6_000.0 for step in range(8)}
DEMO = Path(__file__).resolve().parents[4] / "demo" / "cases"


def kinds(findings: list[Finding]) -> list[str]:
    return [f.kind for f in findings]


def quoted_numbers_are_given(finding: Finding) -> bool:
    """Every number of the sentence, names of operations and files aside, is among the finding's
    numbers."""
    said = re.sub(r"`[^`]*`", "", finding.sentence)
    return all(
        float(n) in finding.numbers.values() for n in re.findall(r"(?<![\w.])\d+(?:\.\d+)?", said)
    )


def test_a_straggler_is_named_with_where_its_time_goes(tmp_path: Path) -> None:
    (finding,) = training_findings(case_of(tmp_path, job(late_us=LATE, late_in="aten::tanh")))
    assert (finding.id, finding.kind, finding.subject, finding.signal) == (
        "T1",
        "straggler",
        "rank 2",
        "wait at collectives",
    )
    assert finding.sentence == (
        "rank 2 delays 8 of 8 steps: the other ranks wait 6 ms of each 10 ms step for it; "
        "its forward pass takes 8 ms where the others take 2 ms (4x), 8 ms of it in `aten::tanh`"
    )
    assert quoted_numbers_are_given(finding)
    assert {
        k: finding.details.written()[k]
        for k in ("rank", "host", "job", "steps_blamed", "steps", "phase", "operation")
    } == {
        "rank": 2,
        "host": "node-a",
        "job": "job-1",
        "steps_blamed": 8,
        "steps": 8,
        "phase": "forward pass",
        "operation": "aten::tanh",
    }
    assert finding.details.written()["blame_share"] == pytest.approx(0.6, abs=0.01)
    assert finding.evidence == ("E1",)


def test_the_host_of_the_rank_is_told_where_the_settings_know_it(tmp_path: Path) -> None:
    case = case_of(tmp_path, job(late_us=LATE, late_in="aten::tanh"))
    training = JobIdentity(name="job-1", hosts=("gpu-7.example", "gpu-8.example"), ranks_per_host=2)
    (finding,) = training_findings(
        replace(case, scope=case.scope.model_copy(update={"training": training}))
    )
    assert finding.sentence.endswith("; it runs on host gpu-8.example")


def test_a_healthy_job_accuses_nobody(tmp_path: Path) -> None:
    (finding,) = training_findings(case_of(tmp_path, job()))
    assert finding.kind == "training_healthy"
    assert finding.subject == "job-1"
    assert finding.strength <= 0.1
    assert quoted_numbers_are_given(finding)


def test_data_loading_that_all_ranks_wait_for_is_no_straggler(tmp_path: Path) -> None:
    (finding,) = training_findings(case_of(tmp_path, job(data_us=6_000.0)))
    assert (finding.kind, finding.subject) == ("dataloader_stall", "job-1")
    assert "all 4 ranks spend 6 ms of each 10 ms step" in finding.sentence
    assert "in the training process itself" in finding.sentence
    assert quoted_numbers_are_given(finding)


def test_one_slow_step_is_told_as_one_slow_step(tmp_path: Path) -> None:
    traces = job(late_us={(1, 4): 90_000.0})
    pause = next(e for e in traces[1] if e["name"] == "aten::mm" and e["dur"] > 50_000)
    traces[1].append(event("torch.save", pause["ts"] + 10, 89_000.0))
    (finding,) = training_findings(case_of(tmp_path, traces))
    assert (finding.kind, finding.subject, finding.details.written()["step"]) == (
        "slow_step",
        "rank 1",
        4,
    )
    assert finding.details.written()["operation"] == "torch.save"
    assert quoted_numbers_are_given(finding)


def test_traces_of_too_few_steps_accuse_nobody_and_say_so(tmp_path: Path) -> None:
    (finding,) = training_findings(case_of(tmp_path, job(steps=2, late_us=LATE)))
    assert (finding.kind, finding.strength) == ("traces_inconclusive", 0.0)
    assert "2 steps in common" in finding.sentence
    assert quoted_numbers_are_given(finding)


def test_the_trace_of_one_rank_alone_accuses_nobody(tmp_path: Path) -> None:
    assert kinds(training_findings(case_of(tmp_path, job(late_us=LATE)[2:3]))) == [
        "traces_inconclusive"
    ]


def test_files_that_cannot_be_read_are_reported_beside_the_findings(tmp_path: Path) -> None:
    case_of(tmp_path, job(late_us=LATE))
    write_trace(tmp_path / "traces" / "rank9.json", b"")
    write_trace(tmp_path / "traces" / "other.json", b"{}")
    (tmp_path / "traces" / "nccl_trace_rank_0").write_bytes(b"\x80\x04N.")
    found = training_findings(read_case(tmp_path))
    assert kinds(found) == ["straggler", "trace_unreadable", "trace_unreadable", "trace_unreadable"]
    assert {f.strength for f in found[1:]} == {0.0}
    assert [f.subject for f in found[1:]] == ["other.json", "rank9.json", "flight recorder"]
    assert [f.id for f in found] == ["T1", "T2", "T3", "T4"]


def test_what_a_trace_lost_is_told_in_the_details(tmp_path: Path) -> None:
    traces = job(late_us=LATE)
    traces[1].append({"ph": "X", "name": "broken", "ts": 5})
    (finding,) = training_findings(case_of(tmp_path, traces))
    assert finding.details.written()["dropped"] == {
        "rank1.pt.trace.json.gz": {"events with no duration": 1}
    }


def test_ranks_without_a_trace_are_told(tmp_path: Path) -> None:
    case_of(tmp_path, job(late_us=LATE))
    (tmp_path / "traces" / "rank3.pt.trace.json.gz").unlink()
    (finding,) = training_findings(read_case(tmp_path))
    assert finding.subject == "rank 2"
    assert finding.details.written()["ranks_without_trace"] == 1


def test_only_the_latest_trace_of_a_rank_is_compared(tmp_path: Path) -> None:
    case_of(tmp_path, job())
    later = [dict(e, ts=e["ts"] + 60e6) for e in job(late_us=LATE)[2]]
    for rank, events in enumerate(job(late_us=LATE)):
        later = [dict(e, ts=e["ts"] + 60e6) for e in events]
        write_trace(
            tmp_path / "traces" / "iteration_20" / f"rank{rank}.json", document(later, rank)
        )
    (finding,) = training_findings(read_case(tmp_path))
    assert finding.subject == "rank 2"
    assert finding.details.written()["older_traces_left_out"] == 4


def test_hostile_names_of_operations_stay_one_short_line(tmp_path: Path) -> None:
    name = "evil\n<!channel> `rm -rf` " + "x" * 5_000
    (finding,) = training_findings(case_of(tmp_path, job(late_us=LATE, late_in=name)))
    assert "\n" not in finding.sentence
    assert "<" not in finding.sentence
    assert len(finding.sentence) < 400


def test_a_case_without_traces_has_no_training_findings(tmp_path: Path) -> None:
    assert training_findings(empty_case(tmp_path)) == []


@pytest.mark.parametrize(
    ("scenario", "expected"),
    [
        ("straggler_compute", ("straggler", "rank 2", "forward pass", "aten::mm")),
        ("healthy", ("training_healthy", "job-1", None, None)),
        ("dataloader_fixed", ("training_healthy", "job-1", None, None)),
        ("fsdp_healthy", ("training_healthy", "job-1", None, None)),
        ("dataloader_stall", ("dataloader_stall", "job-1", None, None)),
        ("checkpoint_stall", ("slow_step", "rank 0", None, "## save_checkpoint ##")),
        ("no_overlap", ("no_overlap", "job-1", None, None)),
        ("tiny_ops", ("tiny_kernels", "job-1", None, None)),
        ("nan_loss", ("training_healthy", "job-1", None, None)),
    ],
)
def test_recorded_jobs_are_told_apart(
    shared: Path, tmp_path: Path, scenario: str, expected: tuple[str, str, str | None, str | None]
) -> None:
    (tmp_path / "traces").mkdir()
    for file in (shared / "traces" / "generated" / scenario).glob("*.pt.trace.json.gz"):
        shutil.copy(file, tmp_path / "traces")
    (finding,) = training_findings(empty_case(tmp_path))
    details = finding.details.written()
    assert (
        finding.kind,
        finding.subject,
        details.get("phase"),
        details.get("operation"),
    ) == expected
    assert quoted_numbers_are_given(finding)


def test_the_recorded_demo_names_the_rank_and_its_slow_reads() -> None:
    (finding,) = training_findings(read_case(DEMO / "slow-rank"))
    assert (finding.kind, finding.subject) == ("straggler", "rank 2")
    assert finding.details.written()["phase"] == "data loading"
    assert finding.details.written()["operation"] == "shard.read_object_store"


def test_the_healthy_recording_accuses_nobody() -> None:
    assert kinds(training_findings(read_case(DEMO / "healthy-training"))) == ["training_healthy"]
