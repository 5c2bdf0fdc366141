"""The sentence for a job that nobody is accused of: it never says "nothing wrong" beside what may
be a trouble."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import job_of
from faultline.analysis.traces.doctor.nothing_wrong import NO_DOUBT, doubts, health, nothing_wrong
from faultline.analysis.traces.doctor.rules import diagnose
from faultline.analysis.traces.job.training import training_findings
from tests.analysis.traces.doctor.written_ranks import job_from
from tests.analysis.traces.flight_recorder.written_dumps import world, write_json
from tests.analysis.traces.written_traces import case_of, job
from tests.trace_report.command import trace, write_job

HANG = JobDiagnosis(
    "flight_recorder_missing_rank", "info", "rank 2 <!channel>", "rank 2 has not joined", "", ""
)


def write_one_answer(folder: Path) -> None:
    """One answer of the debug server in which rank 2 has not joined what the others have."""
    ranks = world(4)
    for rank in ranks:
        rank.calls("0", 5)
        if rank.rank != 2:
            rank.call("0", pending=True)
    write_json(folder, ranks)


def test_beside_a_doubt_nothing_is_said_to_be_right(tmp_path: Path) -> None:
    base = job_from(tmp_path, job())
    said = diagnose(job_of(base.summaries, [HANG]))
    sentence, numbers = health(base, said)
    assert sentence.startswith(
        "nothing certain, but 1 thing to look at (rank 2 ‹!channel›): 8 steps of 10 ms on 4 ranks"
    )
    assert numbers["to_look_at"] == 1
    assert "nothing wrong" not in sentence


@pytest.mark.parametrize("rule", sorted(NO_DOUBT))
def test_what_speaks_of_the_recording_or_of_better_ways_is_no_doubt(
    rule: str, tmp_path: Path
) -> None:
    base = job_from(tmp_path, job())
    told = JobDiagnosis(rule, "info", "capture", "something", "", "")
    assert doubts(diagnose(job_of(base.summaries, [told]))) == []
    assert nothing_wrong(base, [told]).startswith("nothing wrong: ")


def test_many_doubts_are_counted_and_the_first_named() -> None:
    several = [JobDiagnosis("stack_outlier", "info", f"rank {n}", "", "", "") for n in range(5)]
    assert nothing_wrong(job_of([]), several) == (
        "nothing certain, but 5 things to look at (rank 0, rank 1, rank 2, ...)"
    )


def test_a_hang_in_one_answer_of_the_debug_server_is_not_nothing_wrong_on_the_screen(
    tmp_path: Path,
) -> None:
    write_job(tmp_path)
    write_one_answer(tmp_path / "answers")
    done = trace(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "info     rank 2" in done.stdout
    assert "Nothing certain, but 1 thing to look at (rank 2)" in done.stdout
    assert "othing wrong" not in done.stdout
    page = tmp_path / "page.html"
    assert '"verdict": "nothing_certain"' in trace(tmp_path, "--json", "--html", page).stdout
    assert "othing wrong" not in page.read_text()


def test_an_investigation_calls_such_a_job_undecided_and_not_healthy(tmp_path: Path) -> None:
    case = case_of(tmp_path, job())
    (healthy,) = training_findings(case)
    assert healthy.kind == "training_healthy"
    write_one_answer(tmp_path / "traces")
    (unsure,) = training_findings(case)
    assert (unsure.kind, unsure.strength) == ("traces_inconclusive", 0.0)
    assert unsure.sentence.startswith("not certain: rank 2 has not joined")
