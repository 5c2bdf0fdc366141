"""What memory knows is in the report, whoever writes it, and passes the guard."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.case.earlier import KIND, RECORD
from faultline.analysis.vocabulary import (
    Assertion,
    Claim,
    Diagnosis,
    Finding,
    Report,
    Section,
    Verdict,
)
from faultline.bot.answer.writer.built_in import MOST_REMEMBERED, word
from faultline.bot.answer.writer.guard import keep_supported
from faultline.bot.answer.writer.payload import Redactor, payload
from tests.bot.answer.writer.diagnoses import ALERT, DIAGNOSIS

SAID = (
    "Third time in 30 days, last on 3 Nov: payments-db runs out of a resource, near a deploy; "
    "it shows again now."
)
HOSTILE = (
    'Seen after another alert on 3 Nov, "<!channel> https://evil.example '
    'AKIAABCDEFGHIJKLMNOP 99 %": x fails.'
)


def memory(number: int, sentence: str = SAID, kind: str = KIND, **details: Any) -> Finding:
    return Finding(
        id=f"F{number}",
        kind=kind,
        subject="payments-db",
        strength=0.1,
        sentence=sentence,
        numbers={"count": 3, "days": 30, "day": 3},
        details={"investigation": "20261103-010203-abcdef", "shows_in": ["F2", "F999"], **details},
    )


def with_memory(*findings: Finding, **more: Any) -> Diagnosis:
    return DIAGNOSIS.model_copy(update={"findings": (*DIAGNOSIS.findings, *findings), **more})


def by_a_model(diagnosis: Diagnosis, *ids: str) -> Report:
    """The guarded report of a model that tells these findings."""
    claims = tuple(
        Claim(text="", findings=(), asserted=(Assertion(relation="shows", findings=(one,)),))
        for one in ids
    )
    return keep_supported(
        Report(headline="?", claims=claims, written_by="a model"), diagnosis, ALERT
    )


RECORDED = memory(
    91, "Of 9 answers at this confidence that people judged, 7 were right.", RECORD, shows_in=[]
)


def test_it_is_told_last_with_the_findings_that_show_it_again() -> None:
    diagnosis = with_memory(memory(90), RECORDED)
    report = keep_supported(word(diagnosis, ALERT, ()), diagnosis, ALERT)
    assert report.dropped == ()
    assert report.claims[-2:] == (
        Claim(text=SAID, findings=("F90", "F2"), section=Section.EARLIER),
        Claim(text=RECORDED.sentence, findings=("F91",), section=Section.EARLIER),
    )
    assert report.claims[:-2] == word(DIAGNOSIS, ALERT, ()).claims


@pytest.mark.parametrize("verdict", list(Verdict))
def test_it_is_told_once_at_any_verdict_and_changes_no_other_line(verdict: Verdict) -> None:
    bare = DIAGNOSIS.model_copy(update={"verdict": verdict})
    diagnosis = with_memory(memory(90), verdict=verdict)
    report = word(diagnosis, ALERT, ())
    assert report.headline == word(bare, ALERT, ()).headline
    assert report.claims[:-1] == word(bare, ALERT, ()).claims
    assert [c.text for c in report.claims].count(SAID) == 1


def test_it_stays_out_of_what_was_seen_where_nothing_was_felt() -> None:
    diagnosis = Diagnosis(
        verdict=Verdict.NO_ACTIVE_INCIDENT,
        confidence=0.7,
        causes=(),
        findings=(memory(1, shows_in=[]),),
        impact=DIAGNOSIS.impact.model_copy(update={"findings": ()}),
    )
    assert [c.text for c in word(diagnosis, ALERT, ()).claims] == [SAID]


def test_a_model_that_leaves_it_out_does_not_hide_it() -> None:
    diagnosis = with_memory(memory(90), RECORDED)
    report = by_a_model(diagnosis, "F1")
    assert report.written_by == "a model"
    assert [c.findings[0] for c in report.claims[-2:]] == ["F90", "F91"]


def test_a_model_is_not_shown_it_so_that_it_takes_it_for_no_evidence() -> None:
    assert SAID not in payload(with_memory(memory(90), RECORDED), ALERT, (), Redactor())


def test_a_model_that_takes_it_for_evidence_is_refused_and_code_tells_it_once() -> None:
    report = by_a_model(with_memory(memory(90)), "F1", "F90")
    assert "there is no finding F90" in report.dropped[0]
    assert [c.section for c in report.claims if "F90" in c.findings] == [Section.EARLIER]


def test_hostile_titles_of_earlier_alerts_are_shown_harmless_and_pass() -> None:
    diagnosis = with_memory(memory(90, HOSTILE))
    report = keep_supported(word(diagnosis, ALERT, ()), diagnosis, ALERT)
    assert report.dropped == ()
    said = report.claims[-1].text
    assert said.startswith("Seen after another alert")
    assert "<!channel>" not in said
    assert "AKIAABCDEFGHIJKLMNOP" not in said


def test_no_report_grows_too_long_for_it() -> None:
    diagnosis = with_memory(*[memory(90 + n) for n in range(20)])
    report = keep_supported(word(diagnosis, ALERT, ()), diagnosis, ALERT)
    assert [c.section for c in report.claims].count(Section.EARLIER) == MOST_REMEMBERED
    assert report.dropped == ()
    by_model = by_a_model(diagnosis, "F1")
    assert [c.section for c in by_model.claims].count(Section.EARLIER) == MOST_REMEMBERED
