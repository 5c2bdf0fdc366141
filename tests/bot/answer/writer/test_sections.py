from __future__ import annotations

import pytest

from faultline.analysis.vocabulary import Claim
from faultline.bot.answer.writer.evidence import without_repeats
from faultline.bot.answer.writer.happening import happening
from faultline.bot.answer.writer.headline import continued
from faultline.bot.answer.writer.story import story_of
from tests.bot.answer.writer.diagnoses import ALERT, DIAGNOSIS, finding


def left(text: str, headline: str) -> list[str]:
    return [claim.text for claim in without_repeats([Claim(text=text, findings=())], headline)]


def test_what_the_headline_says_is_left_out_and_the_rest_stays() -> None:
    headline = "web is slow because payments keeps restarting."
    assert left("payments keeps restarting.", headline) == []
    assert left("payments keeps restarting; it ran out of memory.", headline) == [
        "It ran out of memory."
    ]


def test_another_service_with_the_same_trouble_stays() -> None:
    headline = "web is slow because payments keeps restarting."
    assert left("ledger keeps restarting.", headline) == ["ledger keeps restarting."]


def test_a_quoted_line_is_never_cut_at_its_own_semicolon() -> None:
    text = "web logs “lost; retry” (20 lines, none before)."
    assert left(text, "web fails; db logs “gone”.") == [text]


def test_a_line_that_the_headline_quotes_is_not_quoted_again() -> None:
    text = "web logs “lost; retry” (20 lines, none before)."
    left_over = left(text, "web fails; web logs “lost; retry”.")
    assert left_over == ["web logs such lines (20 lines, none before)."]


@pytest.mark.parametrize(
    ("step", "inside"),
    [
        ("Read its log.", "read its log."),
        ("NCCL_DEBUG=INFO tells more.", "NCCL_DEBUG=INFO tells more."),
    ],
)
def test_a_step_goes_on_in_small_letters_unless_a_name_begins_it(step: str, inside: str) -> None:
    assert continued(step) == inside


def test_what_a_training_job_loses_cites_what_the_impact_rests_on() -> None:
    impact = DIAGNOSIS.impact.model_copy(
        update={
            "sentence": "llm is slow: 26 of 64 GPU-hours every hour",
            "numbers": {"lost_percent": 40.0, "lost_rate": 26.0, "ranks": 64.0},
        }
    )
    lost = DIAGNOSIS.model_copy(update={"impact": impact})
    claims = happening(story_of(lost, ALERT), lost, ALERT)
    (claim,) = [claim for claim in claims if "speed is lost" in claim.text]
    assert claim.text == "40 % of the job's speed is lost: 26 of 64 GPU-hours every hour."
    assert claim.findings == impact.findings[:1] != ()


def test_a_service_without_figures_is_affected_by_the_leading_finding_of_the_impact() -> None:
    leading, later = (
        finding(
            id,
            "cartservice",
            f"cartservice {signal} rose from 10 to 10.5 (1.05x).",
            signal=signal,
            numbers={"baseline": 10.0, "incident": 10.5, "ratio": 1.05},
            details={"class": "errors", "direction": "up", "bad": True},
        )
        for id, signal in (("F7", "errors_total"), ("F8", "failures_total"))
    )
    impact = DIAGNOSIS.impact.model_copy(update={"findings": ("F1", leading.id, later.id)})
    findings = (*DIAGNOSIS.findings, leading, later)
    diagnosis = DIAGNOSIS.model_copy(update={"impact": impact, "findings": findings})
    claims = happening(story_of(diagnosis, ALERT), diagnosis, ALERT)
    (claim,) = [claim for claim in claims if "cartservice" in claim.text]
    assert claim.findings == ("F7",)
