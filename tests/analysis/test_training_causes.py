"""What a training job left beside its metrics becomes a cause: traces, dumps, logs, metrics of each rank."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from analysis.case_folder import Case, read_case
from analysis.diagnosis import diagnose
from analysis.explanations import HOLDS_UP, TRAINING
from analysis.traces.training import training_findings
from analysis.vocabulary import Verdict
from tests.analysis.cases import at, series, write_case
from tests.analysis.traces.doctor.written_ranks import quoted_numbers_are_given


def case_of(folder: Path, recorded: Path) -> Case:
    write_case(
        folder,
        alert={"service": "pretrain", "signal": "step_time_seconds", "labels": {"job_name": "pretrain"}},
        metrics=series("pretrain", "step_time_seconds", 0.4, 0.8, onset=3),
        changes=[{"time": at(1), "service": "pretrain", "kind": "config", "id": "cfg-9", "title": "new node pool"}],
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
    (finding,) = [f for f in training_findings(case) if f.kind in TRAINING]
    assert (finding.kind, finding.subject) == (kind, subject)
    assert finding.details["fix"]
    assert quoted_numbers_are_given(finding.sentence, dict(finding.numbers))
    found = diagnose(case)
    assert found.verdict is Verdict.CAUSE_FOUND
    assert any(c.subject == subject for c in found.causes)
    if kind in HOLDS_UP:
        assert (found.causes[0].subject, found.causes[0].kind) == (subject, kind)


@pytest.mark.parametrize("scenario", ["healthy", "dataloader_fixed", "fsdp_healthy"])
def test_a_healthy_recorded_job_is_no_cause(shared: Path, tmp_path: Path, scenario: str) -> None:
    case = case_of(tmp_path, shared / "traces" / "generated" / scenario)
    assert [f.kind for f in training_findings(case)] == ["training_healthy"]
