"""The parts of an answer's page: its state, its steps, its links, its evidence in groups, and the
line of each folded section."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultline.analysis.vocabulary import Claim, Diagnosis, Finding, Gap, Verdict
from faultline.bot.answer.view import AnswerView, answer_view
from faultline.bot.store.store import Progress, StoredInvestigation
from faultline.bot.web.answer_state import list_text, state_view, stored_state
from faultline.bot.web.evidence_groups import (
    FULL,
    cited_claims,
    evidence_groups,
    next_steps,
    summary_of,
)
from faultline.bot.web.investigation_view import LONGEST, decided_line, gaps_line
from faultline.bot.web.progress_steps import progress_steps
from faultline.bot.web.text import age, join_units
from tests.bot.web.sample_case import ALERT, DIAGNOSIS, EVIDENCE, FINDINGS, REPORT
from tests.bot.web.serving import Site

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def said(diagnosis: Diagnosis = DIAGNOSIS, **changed: object) -> AnswerView:
    return answer_view(
        ALERT, diagnosis.model_copy(update=changed), REPORT, gaps=(), evidence=EVIDENCE
    )


@pytest.mark.parametrize(
    ("status", "verdict", "confidence", "label", "look", "sure"),
    [
        ("accepted", None, None, "Queued", "busy", ""),
        ("running", None, None, "Investigating", "busy", ""),
        ("failed", None, None, "Failed", "failed", ""),
        ("failed", "cause_found", 0.9, "Failed", "failed", ""),
        ("done", "cause_found", 0.95, "Cause found", "on", "Very likely"),
        ("done", "cause_found", 0.6, "Likely cause", "on", ""),
        ("done", "cause_found", 0.2, "Possible cause", "on", ""),
        ("done", "recovered", 0.8, "Recovered", "off", "Likely"),
        ("done", "no_active_incident", 0.8, "No active incident", "off", ""),
        ("done", "insufficient_evidence", 0.1, "Not enough evidence", "open", ""),
        ("done", "cause_found", None, "Cause found", "on", ""),
        ("done", "of_a_later_version", 0.5, "of a later version", "open", ""),
    ],
)
def test_a_state_in_words(
    status: str, verdict: str | None, confidence: float | None, label: str, look: str, sure: str
) -> None:
    state = state_view(status, verdict, confidence)
    assert (state.label, state.look, state.sure) == (label, look, sure)


def a_stored(site: Site, **answer: Any) -> StoredInvestigation:
    one = site.investigate(ALERT)
    site.store.finish(one, "done", **answer)
    found = site.store.get(one)
    assert found is not None
    return found


def test_a_list_says_first_what_is_to_blame(site: Site) -> None:
    victim = "checkout is 3x slower (p95 0.084 s to 0.25 s), and its callers wait, because x"
    given = {"verdict": "cause_found", "confidence": 0.95, "culprit": "payment"}
    assert list_text(a_stored(site, headline=victim, **given)) == f"payment: {victim}"
    for headline in ("payment v412 slowed checkout", "Deploy v412 of payment slowed checkout"):
        assert list_text(a_stored(site, headline=headline, **given)) == headline
    nobody = {"verdict": "no_active_incident", "confidence": 0.9, "culprit": None}
    assert list_text(a_stored(site, headline=victim, **nobody)) == victim


def test_a_place_without_a_reason_is_located_in_the_list_as_well(site: Site) -> None:
    given = {"verdict": "cause_found", "confidence": 0.95, "headline": "x", "culprit": "payment"}
    state = stored_state(a_stored(site, explained=False, **given))
    assert (state.label, state.look) == ("Located", "open")
    assert state.sure == "95 % sure that it is payment"
    assert stored_state(a_stored(site, explained=None, **given)).label == "Cause found"
    given |= {"verdict": "recovered"}
    over = stored_state(a_stored(site, explained=False, **given))
    assert (over.label, over.look) == ("Recovered", "off")
    assert over.sure == "95 % sure that it is payment"


@pytest.mark.parametrize(
    ("stages", "states"),
    [
        ([], "n----"),
        (["scope"], "xn---"),
        (["scope", "collect loki", "people"], "xn---"),
        (["scope", "collect loki", "memory"], "xxn--"),
        (["scope", "memory", "analyze"], "xxxn-"),
        (["scope", "memory", "analyze", "write", "reply slack"], "xxxxn"),
        (["taken up", ""], "n----"),
    ],
)
def test_progress_as_steps(stages: list[str], states: str) -> None:
    lines = [Progress(n, NOW, stage, f"line {n}") for n, stage in enumerate(stages)]
    letters = {"done": "x", "now": "n", "to do": "-"}
    steps = progress_steps(lines, started=True)
    assert "".join(letters[step.state] for step in steps) == states
    waiting = progress_steps(lines, started=False)
    assert {step.state for step in waiting} == {"to do"}


def test_a_sentence_links_to_the_source_or_else_to_the_finding() -> None:
    claims = [Claim(text="a", findings=("F1", "F4", "F99")), Claim(text="b", findings=())]
    first, second = cited_claims(claims, said(), "/investigations/i")
    assert [(link.label, link.outside) for link in first.links] == [
        ("graph", True),
        ("change", False),
    ]
    assert first.links[0].href == EVIDENCE[0].link
    assert first.links[1].href == "/investigations/i/findings/F4"
    assert second.links == ()


def test_a_link_that_is_no_web_address_is_none() -> None:
    hostile = EVIDENCE[0].model_copy(update={"link": "javascript:alert(1)"})
    view = answer_view(ALERT, DIAGNOSIS, REPORT, gaps=(), evidence=(hostile,))
    (claim,) = cited_claims([Claim(text="a", findings=("F1",))], view, "/investigations/i")
    assert claim.links[0].href == "/investigations/i/findings/F1"


def test_a_step_says_apart_how_to_see_that_it_worked() -> None:
    report = REPORT.model_copy(
        update={
            "next_steps": (Claim(text="Roll back v2. It worked if p99 is 75 ms.", findings=()),)
        }
    )
    view = answer_view(ALERT, DIAGNOSIS, report, gaps=(), evidence=())
    (step,) = next_steps(view, "/investigations/i")
    assert (step.action, step.check) == ("Roll back v2.", "It worked if p99 is 75 ms.")


def test_each_finding_stands_in_the_first_group_that_it_belongs_to() -> None:
    groups = evidence_groups(said())
    found = {group.title: [shown.finding.id for shown in group.findings] for group in groups}
    assert found == {
        "For payment": ["F1", "F3", "F4"],
        "Against it": ["F5"],
        "Affected by it": ["F2"],
        "For other candidates": ["F6"],
        "Also seen; the answer does not rest on it": ["F7"],
    }
    assert summary_of(groups) == (
        "3 for the cause, 1 against it, 1 on what is affected, 1 for other candidates, 1 more"
    )


def test_where_nothing_is_wrong_nothing_is_for_a_cause() -> None:
    groups = evidence_groups(said(verdict=Verdict.NO_ACTIVE_INCIDENT))
    assert [group.title for group in groups] == [
        "What moved",
        "Also seen; the answer does not rest on it",
    ]


def test_of_very_many_findings_most_are_a_line() -> None:
    many = [
        Finding(id=f"X{n}", kind="metric_shift", subject="s", strength=0.1, sentence="s")
        for n in range(500)
    ]
    groups = evidence_groups(said(findings=(*FINDINGS, *many)))
    assert (len(groups[-1].findings), groups[-1].count) == (FULL, 501)


def test_folded_sections_say_what_they_hold() -> None:
    gap = Gap(id="G1", kind="logs", source="loki", query="q", reason="HTTP 403 " + 500 * "x")
    assert gaps_line([gap, gap]).startswith("Logs from loki: HTTP 403")
    assert gaps_line([gap, gap]).endswith("(and 1 more)")
    assert len(gaps_line([gap])) <= LONGEST
    assert decided_line(said()) == "Likely (86 %); 1 other candidate weighed"
    unsure = said(verdict=Verdict.INSUFFICIENT_EVIDENCE)
    assert decided_line(unsure) == "2 candidates, none of them established"
    assert decided_line(said(causes=())) == "No candidate was found"


def test_numbers_keep_their_units_on_the_line() -> None:
    assert join_units("8.7 % of 75 ms, 3 services") == "8.7\u00a0% of 75\u00a0ms, 3 services"


def test_ages_are_short() -> None:
    lengths = (5, 540, 3 * 3600, 50 * 3600, -9)
    ages = [age(NOW - timedelta(seconds=length), NOW) for length in lengths]
    assert ages == ["under 1 min", "9 min", "3 h", "2 d", "under 1 min"]
