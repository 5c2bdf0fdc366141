"""`faultline investigate`: a valid answer on any case folder, one clear line on bad input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from faultline.analysis.vocabulary import Verdict
from faultline.bot.answer.replay import as_json, replay
from faultline.bot.cli.main import main
from faultline.demo.run import CASE, recorded_cases
from tests.scenarios.small_case import write_small_case


def investigate_here(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: str
) -> tuple[object, str, str]:
    """The same entry point without a separate process: its exit status and what it wrote."""
    monkeypatch.setattr(sys, "argv", ["faultline", "investigate", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return ended.value.code, *capsys.readouterr()


def check_answer(answer: dict[str, object]) -> None:
    assert answer["verdict"] in set(Verdict)
    assert isinstance(answer["confidence"], float)
    findings = {finding["id"] for finding in answer["findings"]}  # type: ignore[attr-defined]
    causes: list[dict[str, object]] = answer["causes"]  # type: ignore[assignment]
    assert [cause["rank"] for cause in causes] == list(range(1, len(causes) + 1))
    for cause in causes:
        assert set(cause["findings"]) <= findings  # type: ignore[call-overload]
        assert {"subject", "signal", "kind", "change", "confidence", "onset", "summary"} <= set(
            cause
        )
    assert {"impact", "gaps", "timings"} <= set(answer)


def test_the_recorded_training_job_is_explained(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = investigate_here(monkeypatch, capsys, str(recorded_cases() / CASE), "--json")
    assert code == 0, err
    answer = json.loads(out)
    check_answer(answer)
    first = answer["causes"][0]
    assert (answer["verdict"], first["subject"], first["kind"]) == (
        "cause_found",
        "rank 2",
        "straggler",
    )
    assert first["change"] == "cfg-4127"
    assert "data loading" in first["summary"]


def test_the_healthy_recording_is_no_incident() -> None:
    answer = as_json(replay(recorded_cases() / "healthy-training"))
    check_answer(answer)
    assert answer["verdict"] == "no_active_incident"


def test_the_report_for_a_person_names_verdict_and_cause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, _ = investigate_here(monkeypatch, capsys, str(write_small_case(tmp_path / "case")))
    assert code == 0
    assert "cause found" in out
    assert "checkout" in out


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("alert.json", "{", "alert.json"),
        ("alert.json", '{"source": "x", "title": "t", "started_at": "soon"}', "started_at"),
        (
            "scope.json",
            '{"incident": ["2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"]}',
            "must not end before",
        ),
        ("evidence.json", '[{"id": "E1"}]', "entry 1"),
    ],
)
def test_bad_metadata_is_one_line_that_names_file_and_place(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    said: str,
) -> None:
    folder = write_small_case(tmp_path / "case")
    (folder / file).write_text(text)
    code, out, err = investigate_here(monkeypatch, capsys, str(folder), "--json")
    assert (code, out) == (2, "")
    (line,) = err.splitlines()
    assert file in line
    assert said in line


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        (
            "metrics.csv",
            "time,service,signal,value\n2026-11-20T03:00:00Z,a,b,1\nyesterday,a,b,1\n",
            "1 of 2 points could not be read: time 'yesterday' is not a time (row 2)",
        ),
        ("metrics.csv", "time,service,value\n", "metrics.csv: column 'signal' is missing"),
        (
            "logs.jsonl",
            '{"time": "2026-11-20T03:00:00Z", "service": "a", "message": "x"}\n[]\n',
            "1 of 2 log lines could not be read: is not a JSON object",
        ),
    ],
)
def test_rows_that_cannot_be_read_are_gaps_of_the_answer(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    text: str,
    said: str,
) -> None:
    folder = write_small_case(tmp_path / "case")
    (folder / file).write_text(text)
    code, out, err = investigate_here(monkeypatch, capsys, str(folder), "--json")
    assert (code, err) == (0, "")
    assert said in [gap["reason"][: len(said)] for gap in json.loads(out)["gaps"]]


def test_a_folder_that_is_no_case_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = investigate_here(monkeypatch, capsys, str(tmp_path / "absent"))
    assert code == 2
    assert "no such directory" in err
    assert len(err.splitlines()) == 1
