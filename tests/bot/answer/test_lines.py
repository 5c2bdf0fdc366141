"""An answer in short lines: what stands in each, where it links to, and what is cut."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from faultline.analysis.case.earlier import KIND as EARLIER
from faultline.analysis.kinds.finding_details import EarlierDetails
from faultline.analysis.vocabulary import Claim, Evidence, Finding, Guidance, Section, Verdict
from faultline.bot.answer.lines import GAPS, LINE, STEPS, AnswerLines, answer_lines, at, span_of
from faultline.bot.answer.view import answer_view
from tests.bot.answer.targets.answers import (
    GRAPH,
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    some_evidence,
)

ABOUT_F1 = Claim(text="It rose.", findings=("F1",))


def lines_of(
    verdict: Verdict = Verdict.CAUSE_FOUND,
    *,
    confidence: float = 0.95,
    evidence: tuple[Evidence, ...] = (),
    reasons: tuple[str, ...] = (),
    missing: tuple[str, ...] = (),
    **report: object,
) -> AnswerLines:
    gaps = [a_gap(id=f"G{number}", reason=reason) for number, reason in enumerate(reasons)]
    diagnosis = a_diagnosis(verdict, confidence=confidence, missing=missing)
    view = answer_view(an_alert(), diagnosis, a_report(**report), gaps=gaps, evidence=evidence)
    return answer_lines(view, page_url=PAGE)


def in_section(section: Section, count: int) -> tuple[Claim, ...]:
    return tuple(Claim(text=f"{n}.", findings=("F1",), section=section) for n in range(count))


@pytest.mark.parametrize(
    ("verdict", "confidence", "headline", "expected"),
    [
        (Verdict.RECOVERED, 0.9, "Over: it was slow", ("Over", "it was slow")),
        (
            Verdict.NO_ACTIVE_INCIDENT,
            0.9,
            "No active incident: all is calm",
            ("No active incident", "all is calm"),
        ),
        (Verdict.CAUSE_FOUND, 0.95, "Over", ("Cause found", "Over")),
        (Verdict.CAUSE_FOUND, 0.95, "web: it is slow", ("Cause found", "web: it is slow")),
        (
            Verdict.CAUSE_FOUND,
            0.7,
            "v2 probably made web slow",
            ("Likely cause", "v2 made web slow"),
        ),
        (
            Verdict.CAUSE_FOUND,
            0.3,
            "web is slow, possibly because db is",
            ("Possible cause", "web is slow because db is"),
        ),
        (
            Verdict.CAUSE_FOUND,
            0.95,
            "v2 probably made web slow",
            ("Cause found", "v2 probably made web slow"),
        ),
    ],
)
def test_the_state_is_said_once(
    verdict: Verdict, confidence: float, headline: str, expected: tuple[str, str]
) -> None:
    lines = lines_of(verdict, confidence=confidence, headline=headline)
    assert (lines.state, lines.headline) == expected


@pytest.mark.parametrize(("count", "left_out"), [(0, 0), (GAPS, 0), (GAPS + 2, 2)])
def test_gaps_beyond_a_few_are_counted(count: int, left_out: int) -> None:
    reasons = tuple(f"{chr(97 + number)} failed" for number in range(count))
    lines = lines_of(reasons=reasons)
    assert (len(lines.gaps), lines.gaps_left_out) == (min(count, GAPS), left_out)


def test_gaps_of_one_reason_are_one_line() -> None:
    (gap,) = lines_of(reasons=("limit, wait 3 s", "limit, wait 9 s")).gaps
    assert (gap.label, gap.text) == ("datadog spans", "limit, wait 3 s")


def test_each_section_has_its_lines_and_its_limit() -> None:
    claims = (
        *in_section(Section.HAPPENING, 2),
        *in_section(Section.WHY, 5),
        *in_section(Section.UNSURE, 6),
        *in_section(Section.INFERRED, 6),
    )
    steps = tuple(Claim(text=f"Step {n}.", findings=()) for n in range(STEPS + 1))
    lines = lines_of(claims=claims, next_steps=steps)
    assert lines.happening == "0. 1."
    assert [line.text for line in lines.why] == ["0", "1", "2", "3"]
    assert [line.text for line in lines.unsure] == ["0", "1", "2", "3"]
    assert [line.text for line in lines.inferred] == ["0", "1", "2", "3"]
    assert lines.steps == ("Step 0", "Step 1", "Step 2")
    assert lines_of(missing=tuple("abcdef")).missing == tuple("abcde")


@pytest.mark.parametrize(
    ("verdict", "label"),
    [
        (Verdict.CAUSE_FOUND, "Why"),
        (Verdict.RECOVERED, "Why"),
        (Verdict.INSUFFICIENT_EVIDENCE, "What I see"),
    ],
)
def test_only_an_established_cause_has_a_why(verdict: Verdict, label: str) -> None:
    assert lines_of(verdict).why_label == label


@pytest.mark.parametrize(
    ("verdict", "missing", "step"),
    [
        (Verdict.NO_ACTIVE_INCIDENT, (), "Nothing now; check the alert's threshold"),
        (Verdict.INSUFFICIENT_EVIDENCE, ("traces",), "Connect what is missing"),
        (Verdict.INSUFFICIENT_EVIDENCE, (), "Ask again in a few minutes"),
    ],
)
def test_there_is_always_a_step(verdict: Verdict, missing: tuple[str, ...], step: str) -> None:
    (line,) = lines_of(verdict, missing=missing, next_steps=()).steps
    assert line.startswith(step)


def test_how_sure_it_is_and_what_was_checked_are_one_line() -> None:
    checked = Claim(text="db is calm.", findings=("F3",), section=Section.CHECKED)
    lines = lines_of(claims=(ABOUT_F1, checked))
    assert lines.confidence == "Very likely (95 %). db is calm"
    assert lines_of(Verdict.NO_ACTIVE_INCIDENT, claims=(checked,)).confidence == ""


def test_evidence_links_to_its_vendor_and_a_finding_to_our_page() -> None:
    claims = (ABOUT_F1, Claim(text="A deploy.", findings=("F2", "F9")))
    at_vendor, ours = lines_of(claims=claims, evidence=some_evidence()).why
    assert [(link.title, link.url) for link in at_vendor.links] == [("graph", GRAPH)]
    assert [(link.title, link.url) for link in ours.links] == [("finding", f"{PAGE}#F2")]
    unlinked = (some_evidence()[0].model_copy(update={"link": "javascript:x", "kind": "logs"}),)
    (line,) = lines_of(claims=(ABOUT_F1,), evidence=unlinked).why
    assert [(link.title, link.url) for link in line.links] == [("logs", f"{PAGE}#F1")]


def test_a_line_has_at_most_two_links_each_once() -> None:
    claim = Claim(text="Both.", findings=("F1", "F1", "F2", "F3"))
    (line,) = lines_of(claims=(claim,)).why
    assert [link.url for link in line.links] == [f"{PAGE}#F1", f"{PAGE}#F2"]


def test_an_earlier_investigation_is_linked_beside_this_one() -> None:
    earlier = Finding(
        id="F4",
        kind=EARLIER,
        subject="payments",
        strength=0.5,
        sentence="Same as before.",
        details=EarlierDetails(investigation="20260901 a/b"),
    )
    diagnosis = a_diagnosis()
    diagnosis = diagnosis.model_copy(update={"findings": (*diagnosis.findings, earlier)})
    claims = (ABOUT_F1, Claim(text="Same as before.", findings=("F4",), section=Section.EARLIER))
    lines = answer_lines(answer_view(an_alert(), diagnosis, a_report(claims=claims)), page_url=PAGE)
    (line,) = lines.earlier
    assert [link.title for link in line.links] == ["finding", "earlier investigation"]
    assert line.links[1].url == f"{PAGE.rpartition('/')[0]}/20260901%20a%2Fb"


def test_a_runbook_s_links_are_plain_and_few() -> None:
    urls = ("https://wiki/1", "javascript:x", "https://wiki/2", "https://wiki/3")
    guidance = tuple(
        Guidance(runbook="Deploys", kind="link", text=f"page {url[-1]}", url=url) for url in urls
    )
    (line,) = lines_of(guidance=guidance).runbooks
    assert line.text == "Runbook Deploys:"
    assert [link.url for link in line.links] == ["https://wiki/1", "https://wiki/2"]


def test_long_lines_are_cut() -> None:
    assert len(lines_of(headline="word " * 100).headline) <= LINE


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (119.4, "119 s"),
        (-60, "60 s"),
        (120, "2 min"),
        (7_169, "119 min"),
        (7_200, "2 h 0 min"),
        (12_000, "3 h 20 min"),
    ],
)
def test_a_length_of_time_in_words(seconds: float, words: str) -> None:
    assert span_of(timedelta(seconds=seconds)) == words


def test_a_time_has_its_day() -> None:
    assert at(datetime(2026, 11, 3, 4, 2, 10, tzinfo=UTC)) == "04:02:10 UTC, 3 Nov 2026"
