"""What a training job left beside its metrics becomes a cause: traces, dumps, logs, metrics of each
rank."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.kinds.training_causes import TRAINING_CAUSES
from faultline.analysis.logs.signature_findings import without_what_ranks_tell
from faultline.analysis.ranking.ranking import rank_causes
from faultline.analysis.requests.topology import topology_of
from faultline.analysis.suspects.explanations import weigh_suspects
from faultline.analysis.traces.job.training import training_findings
from faultline.analysis.vocabulary import Alert, Finding, Verdict
from tests.analysis.cases import at, series, write_case
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given


def case_of(folder: Path, recorded: Path) -> Case:
    write_case(
        folder,
        alert={
            "service": "pretrain",
            "signal": "step_time_seconds",
            "labels": {"job_name": "pretrain"},
        },
        metrics=series("pretrain", "step_time_seconds", 0.4, 0.8, onset=3),
        changes=[
            {
                "time": at(1),
                "service": "pretrain",
                "kind": "config",
                "id": "cfg-9",
                "title": "new node pool",
            }
        ],
    )
    shutil.copytree(recorded, folder / "traces", ignore=shutil.ignore_patterns("label.json"))
    return read_case(folder)


@pytest.mark.parametrize(
    ("scenario", "kind", "subject"),
    [
        ("straggler_compute", "straggler", "rank 2"),
        ("checkpoint_stall", "slow_step", "rank 0"),
        ("nan_loss", "nan_loss", "rank 1"),
        ("hang_skip", "flight_recorder_missing_rank", "rank 2"),
        ("hang_type", "flight_recorder_mismatch", "rank 3"),
        ("hang_type_truncated", "flight_recorder_mismatch", "rank 3"),
        ("dataloader_stall", "dataloader_stall", "pretrain"),
        ("tiny_ops", "tiny_kernels", "pretrain"),
        ("no_overlap", "no_overlap", "pretrain"),
    ],
)
def test_what_was_done_to_a_recorded_job_is_a_finding_and_leads_its_causes(
    shared: Path, tmp_path: Path, scenario: str, kind: str, subject: str
) -> None:
    case = case_of(tmp_path, shared / "traces" / "generated" / scenario)
    found = diagnose(case)
    (finding,) = [f for f in found.findings if f.kind in TRAINING_CAUSES]
    assert (finding.kind, finding.subject) == (kind, subject)
    assert finding.details.fix
    assert quoted_numbers_are_given(finding.sentence, dict(finding.numbers))
    assert found.verdict is Verdict.CAUSE_FOUND
    assert any(c.subject == subject for c in found.causes)
    if TRAINING_CAUSES[kind].delays_peers:
        assert (found.causes[0].subject, found.causes[0].kind) == (subject, kind)


@pytest.mark.parametrize("scenario", ["healthy", "dataloader_fixed", "fsdp_healthy"])
def test_a_healthy_recorded_job_is_no_cause(shared: Path, tmp_path: Path, scenario: str) -> None:
    case = case_of(tmp_path, shared / "traces" / "generated" / scenario)
    assert [f.kind for f in training_findings(case)] == ["training_healthy"]


def test_each_fault_of_training_is_the_jobs_own() -> None:
    assert {(fault.inherent, fault.training) for fault in TRAINING_CAUSES.values()} == {
        (True, True)
    }


def test_several_ranks_are_accused_by_number_and_not_their_job() -> None:
    said = (
        "ranks 9 and 14 have not joined collectives that 14 ranks wait in: rank 9 is missing "
        "in all_to_all 7"
    )
    finding = Finding(
        id="F1",
        kind="flight_recorder_missing_rank",
        subject="pretrain",
        strength=0.7,
        sentence=said,
        numbers={},
        details={"job": "pretrain", "fix": "Take a stack there."},
    )
    alert = Alert(source="me", title="NCCL timeout", started_at=at(0))
    topology = topology_of([])
    (cause,) = rank_causes(weigh_suspects([finding], topology, alert), [finding], topology, ())
    assert cause.summary == f"{said}."


def test_a_straggler_s_next_step_is_the_one_that_its_finding_gives() -> None:
    finding = Finding(
        id="F1",
        kind="straggler",
        subject="rank 2",
        strength=0.9,
        sentence="rank 2 delays 8 of 8 steps",
        numbers={},
        details={
            "job": "pretrain",
            "phase": "forward pass",
            "fix": "See what `augment` does on that rank.",
        },
    )
    alert = Alert(source="me", title="slow", started_at=at(0))
    topology = topology_of([])
    (cause,) = rank_causes(weigh_suspects([finding], topology, alert), [finding], topology, ())
    assert cause.next_step == "See what `augment` does on that rank."


def test_what_the_alert_only_names_is_not_told_beside_the_rank_that_shows_it() -> None:
    alone = Finding(
        id="",
        kind="failure_signature",
        subject="trainer",
        signal="alert",
        strength=0.4,
        sentence="trainer's alert says that the loss is NaN.",
        details={"signature": "not_a_number"},
    )
    seen = Finding(
        id="", kind="nan_loss", subject="rank 1", strength=0.7, sentence="the loss of rank 1 is NaN"
    )
    assert without_what_ranks_tell([alone, seen]) == [seen]
    assert without_what_ranks_tell([alone]) == [alone]
