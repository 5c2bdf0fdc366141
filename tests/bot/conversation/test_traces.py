"""Nobody makes us read other places; what may be read is analysed in a separate process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from faultline.analysis.errors import BudgetExceeded, EvidenceError
from faultline.bot.conversation import trace_request
from faultline.bot.conversation.trace_request import allowed_place, refusal, run_trace_doctor
from faultline.connectors.vendors.traces import TracesSettings
from faultline.demo.run import recorded_cases

LOCATIONS = ("s3://runs/traces/{job}", "s3://open")


@pytest.mark.parametrize(
    "asked", ["s3://runs/traces/j1", "s3://runs/traces/j1/step-4/", "s3://open", "s3://open/a b/c"]
)
def test_places_below_a_location_may_be_read(asked: str) -> None:
    assert allowed_place(asked, LOCATIONS) == asked.rstrip("/")


@pytest.mark.parametrize(
    "asked",
    [
        "s3://runs/traces",
        "s3://runs/traces-private/j1",
        "s3://runs/traces/../secrets/j1",
        "s3://runs//traces/j1",
        "s3://runs/traces/j1/*",
        "s3://opened/j1",
        "s3://",
        "",
        "s3://runs/traces/j\x00",
        "/etc/passwd",
        "file:///etc/passwd",
        "https://runs/traces/j1",
        "s3://open/" + "x" * 2_000,
    ],
)
def test_other_places_may_not(asked: str) -> None:
    assert allowed_place(asked, LOCATIONS) is None
    assert refusal(asked, TracesSettings(locations=LOCATIONS)) is not None


def test_a_folder_is_compared_after_its_links_were_followed(tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    (jobs / "a" / "out").mkdir(parents=True)
    (jobs / "escape").symlink_to(tmp_path)
    location = (f"{jobs}/{{job}}",)
    assert allowed_place(f"{jobs}/a", location) == str(jobs / "a")
    assert allowed_place(f"{jobs}/a/out", location) == str(jobs / "a/out")
    assert allowed_place(f"{jobs}/a/../../other", location) is None
    assert allowed_place(f"{jobs}/escape/elsewhere", location) is None
    assert allowed_place(str(jobs), location) is None


def test_without_locations_nothing_is_read() -> None:
    said = refusal("s3://any/where", TracesSettings())
    assert said is not None
    assert "traces.locations" in said.lead


def test_the_doctor_names_the_slow_rank_and_leaves_a_page(tmp_path: Path) -> None:
    cases = recorded_cases()
    settings = TracesSettings(locations=(f"{cases}/{{job}}/traces",))
    answer = asyncio.run(run_trace_doctor(f"{cases}/slow-rank/traces", settings, tmp_path))
    text = "\n".join(line.text for line in answer.lines)
    assert "rank 2" in text
    assert any(line.bold == "Do" for line in answer.lines)
    assert (tmp_path / "report.html").read_bytes().startswith(b"<!doctype html>")


def test_what_holds_no_trace_is_explained_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "readme.txt").write_text("hello")
    with pytest.raises(EvidenceError):
        asyncio.run(
            run_trace_doctor(f"{tmp_path}/in", TracesSettings(locations=(str(tmp_path),)), tmp_path)
        )


def test_a_trace_that_takes_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trace_request, "TRACE_WITHIN_S", 0.01)
    place = recorded_cases() / "slow-rank" / "traces"
    with pytest.raises(BudgetExceeded):
        asyncio.run(run_trace_doctor(str(place), TracesSettings(locations=(str(place),)), tmp_path))
