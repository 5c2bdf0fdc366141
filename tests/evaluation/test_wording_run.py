"""The words of a model on labelled cases, over HTTP with a scripted server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from analysis.errors import SettingsError
from analysis.requests.topology import topology_of
from analysis.vocabulary import Claim, Report, Verdict
from bot.settings.model import ModelSettings
from evaluation.labels import CaseLabel
from evaluation.wording_grades import points
from evaluation.wording_run import run_wording
from tests.bot.answer.writer.openai_server import fails, says, serving
from tests.evaluation.test_running import labelled_case

CALLS = topology_of([("web", "cart"), ("cart", "db"), ("web", "ads")])
CULPRIT = CaseLabel(subject="cart", change="4f2a9c17d0")


def graded(
    headline: str, label: CaseLabel, *claims: str, verdict: Verdict = Verdict.CAUSE_FOUND
) -> int | None:
    report = Report(
        headline=headline, claims=tuple(Claim(text=c, findings=("F1",)) for c in claims)
    )
    return points(report, label, verdict, CALLS)


@pytest.mark.parametrize(
    ("headline", "label", "expected"),
    [
        ("web is slow because of cart", CaseLabel(subject="cart"), 100),
        ("web fails after deploy 4f2a9c1 of cart", CULPRIT, 100),
        ("web fails because of cart", CULPRIT, 65),
        ("web fails because of db", CaseLabel(subject="cart"), 65),
        ("web fails because of db", CULPRIT, 35),
        ("ads is slow", CaseLabel(subject="cart"), 0),
        ("web is slow", CaseLabel(subject="db"), 35),
        ("mail is slow", CaseLabel(subject="cart"), 0),
        ("carts are slow", CaseLabel(subject="cart", change="none"), 0),
        ("anything", CaseLabel(), None),
    ],
)
def test_points_say_how_far_the_headline_leads(
    headline: str, label: CaseLabel, expected: int | None
) -> None:
    assert graded(headline, label) == expected


def test_the_truth_in_a_sentence_is_the_right_area() -> None:
    assert graded("mail is slow", CaseLabel(subject="cart"), "Less likely: cart is slow.") == 35


def test_no_incident_is_an_answer() -> None:
    quiet = CaseLabel(verdict=Verdict.NO_ACTIVE_INCIDENT)
    assert graded("No active incident was found", quiet, verdict=Verdict.NO_ACTIVE_INCIDENT) == 100
    assert graded("web is slow because of cart", quiet) == 0


@pytest.fixture
def cases(tmp_path: Path) -> Path:
    labelled_case(tmp_path / "shop-1", subject="checkout")
    labelled_case(tmp_path / "shop-2", subject="nowhere")
    labelled_case(tmp_path / "shop-3")
    (tmp_path / "shop-4").mkdir()
    return tmp_path


def test_cost_seconds_points_and_sentences_are_told(
    cases: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = {
        "headline": "",
        "claims": [{"text": "checkout is certainly slow.", "findings": ["F1"]}],
        "next_steps": [],
    }
    with serving(says(answer)) as server:
        model = ModelSettings(
            name="local-model",
            base_url=server.url,
            price_per_million_input=2.0,
            price_per_million_output=8.0,
        )
        run_wording(cases, model, json_=True)
        printed = json.loads(capsys.readouterr().out)
        run_wording(cases, model, json_=False)
    assert len(server.requests) == 6
    assert printed["model"] == "local-model"
    assert printed["graded"] == 2
    assert (printed["points"], printed["points_built_in"]) == (50.0, 50.0)
    assert printed["by_points"] == {"100": 1, "65": 0, "35": 0, "0": 1}
    assert printed["sentences_kept"] == 0
    assert printed["sentences_dropped"] >= 3
    assert printed["cost_usd"] > 0
    assert 0 < printed["p50_s"] <= printed["p95_s"]
    assert printed["cases"][3]["problem"]
    out = capsys.readouterr().out
    assert "50.0 points of 100 on 2 cases" in out
    assert "how sure it is, code decides" in out


def test_a_server_that_fails_leaves_the_built_in_words(
    cases: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(fails(400)) as server:
        run_wording(
            cases / "shop-1", ModelSettings(name="local-model", base_url=server.url), json_=True
        )
    printed = json.loads(capsys.readouterr().out)
    assert (printed["by_model"], printed["points"]) == (0, 100.0)


def test_without_a_model_it_is_one_line(cases: Path) -> None:
    with pytest.raises(SettingsError, match=r"model\.name"):
        run_wording(cases, ModelSettings(), json_=False)
