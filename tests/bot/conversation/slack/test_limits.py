"""Whatever texts there are, and however many: Slack takes every message, modal and Home tab."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from faultline.analysis.case.earlier import RecordLevel
from faultline.analysis.vocabulary import Cause, Claim, Evidence, Finding, Impact, Verdict
from faultline.bot.answer.targets.slack.buttons import AnswerStatus
from faultline.bot.answer.targets.slack.message import (
    MAX_TEXT,
    final_message,
    first_message,
    slack_alert_failed_message,
)
from faultline.bot.answer.targets.tickets.target import TicketOffer
from faultline.bot.answer.view import answer_view
from faultline.bot.conversation.slack.evidence_modal import (
    EvidenceShown,
    evidence_modal,
    no_evidence_modal,
    read_page,
    reading_modal,
)
from faultline.bot.conversation.slack.forms import FormFor, mute_modal, suspects_of, wrong_modal
from faultline.bot.conversation.slack.home import Home, home_view
from faultline.bot.conversation.slack.listeners import MAX_PROMPTS, prompts
from faultline.bot.store.listing import AnswerLabel
from faultline.bot.store.store import GroupedAlert, StoredInvestigation
from faultline.bot.store.suppressed_alerts import Mute
from faultline.connectors.shared.contract.base import Check
from faultline.loopback.block_kit_rules import broken_rules, broken_view, too_long, view_too_large
from tests.bot.answer.targets.answers import (
    ALERT_AT,
    PAGE,
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    an_investigation,
)

TEXTS = st.one_of(
    st.text(max_size=60),
    st.sampled_from(
        [
            "",
            " ",
            "\x00",
            "\ud800",
            "<!channel> <@U1> <http://evil.example|x>",
            "&" * 4_000,
            "wide 漢字 " * 900,
        ]
    ),
    st.text(alphabet="a&<>\n\u202e", min_size=2_000, max_size=5_000),
)
FEW = settings(max_examples=40)


def stormy(text: str, count: int, **more: Any) -> StoredInvestigation:
    """An investigation of which everything is as long as `text`, and that `count` alerts joined."""
    alert = an_alert().model_copy(
        update={"title": text, "service": text, "severity": text, "source": text}
    )
    related = tuple(
        GroupedAlert(alert, f"{n:016x}", ALERT_AT, text, repeats=n) for n in range(count)
    )
    return replace(
        an_investigation(
            alert, question=text, headline=text, related=related, repeats=count, rate_limited=count
        ),
        **more,
    )


def status(text: str) -> AnswerStatus:
    """All of it at once."""
    mute = Mute("f" * 16, text, ALERT_AT, ALERT_AT + timedelta(hours=8), text, text, 9, ALERT_AT)
    label, url = "Update the PagerDuty note", "https://acme.pagerduty.com/incidents/P1"
    note = TicketOffer("pagerduty", "PagerDuty note", label, "P1", text, url)
    return AnswerStatus(AnswerLabel("i", False, text, text, ALERT_AT), mute, True, text, (note,))


def big_diagnosis(text: str, count: int, verdict: Verdict) -> Any:
    """`count` findings and causes, all of them saying `text`."""
    details = {"template": text, "example": text, "stack": text, "change": text}
    findings = tuple(
        Finding(
            id=f"F{n}",
            kind="log_new",
            subject=text,
            strength=0.5,
            sentence=text,
            evidence=("E1",),
            details=details,
        )
        for n in range(count)
    )
    ids = tuple(f.id for f in findings)
    half = count // 2
    causes = tuple(
        Cause(
            rank=n + 1,
            subject=text,
            kind=text,
            change=text,
            confidence=0.5,
            summary=text,
            findings=ids[:half],
            contradicting=ids[half:],
        )
        for n in range(min(count, 6))
    )
    impact = Impact(sentence=text, findings=ids)
    return a_diagnosis(
        verdict, findings=findings, causes=causes, impact=impact, missing=(text,) * min(count, 9)
    )


def long_evidence(text: str) -> tuple[Evidence, ...]:
    link = "https://vendor.example/" + "q" * 570
    return (Evidence(id="E1", kind="logs", source=text, query=text, link=link),)


@FEW
@given(TEXTS, st.integers(0, 30), st.sampled_from(list(Verdict)))
def test_messages(text: str, count: int, verdict: Verdict) -> None:
    diagnosis = big_diagnosis(text, count, verdict)
    claims = tuple(
        Claim(text=text, findings=tuple(f.id for f in diagnosis.findings)) for _ in range(count)
    )
    report = a_report(headline=text, claims=claims, next_steps=claims, written_by=text)
    about, gaps = stormy(text, count), [a_gap(reason=text, source=text)] * count
    messages = [
        final_message(
            about,
            answer_view(about.alert, diagnosis, report, gaps=gaps, evidence=long_evidence(text)),
            PAGE,
            "F000000001",
            status=status(text),
        ),
        first_message(about, PAGE),
        slack_alert_failed_message(about, text, PAGE, status=status(text)),
    ]
    for message in messages:
        assert broken_rules(message.blocks, lambda _: True) == []
        assert not too_long(message.blocks)
        assert len(message.text) <= MAX_TEXT
        json.dumps(message.blocks, ensure_ascii=False).encode()


@FEW
@given(TEXTS, st.integers(0, 80), st.integers(-1, 99))
def test_every_page_of_the_evidence(text: str, count: int, page: int) -> None:
    diagnosis = big_diagnosis(text, count, Verdict.CAUSE_FOUND)
    gaps = [a_gap(reason=text, source=text)] * (count // 2)
    about = stormy(text, 3)
    for view in (
        evidence_modal(about, EvidenceShown(diagnosis, long_evidence(text), gaps), PAGE, page),
        reading_modal(about, PAGE),
        no_evidence_modal(about, text, PAGE),
    ):
        taken(view)


@FEW
@given(TEXTS, st.integers(0, 80), TEXTS)
def test_forms(text: str, count: int, held: str) -> None:
    about, diagnosis = stormy(text, count), big_diagnosis(text, count, Verdict.CAUSE_FOUND)
    form = FormFor(about.id, "C0INCIDENTS", "1763690000.000100")
    taken(
        wrong_modal(form, about, suspects_of(diagnosis), held.encode("utf-8", "replace").decode())
    )
    taken(mute_modal(form, about))
    assert FormFor.read(form.metadata()) == form


@FEW
@given(TEXTS, st.integers(0, 60))
def test_home(text: str, count: int) -> None:
    label = AnswerLabel("i", False, text, text, ALERT_AT)
    mute = Mute(text[:200], text, ALERT_AT, ALERT_AT, text, text, count, None)
    statuses = ("accepted", "running", "done", "failed")
    latest = [
        stormy(text, 2, id=f"{n}-{text[:50]}", status=statuses[n % 4], verdict="recovered")
        for n in range(count)
    ]
    home = Home(
        now=ALERT_AT,
        latest=latest,
        labels={one.id: label for one in latest},
        waiting=count,
        running=count,
        checks=[Check(text, n % 2 == 0, text) for n in range(count)] if count else None,
        record=[RecordLevel(level=n, right=count, of=count) for n in range(min(count, 10))],
        mutes=[mute] * count,
        public_url="https://faultline.example.com",
    )
    taken(home_view(home))


@given(TEXTS)
def test_prompts(text: str) -> None:
    offered = prompts([stormy(text, 0)])
    assert 1 <= len(offered) <= MAX_PROMPTS
    assert all(one["title"] and one["message"] and len(one["message"]) < 200 for one in offered)


@given(st.text(max_size=30))
def test_a_page_number_is_a_number_or_nothing(value: str) -> None:
    read = read_page(value)
    assert read is None or 0 <= read[0] <= 9_999


def taken(view: Any) -> None:
    """Slack takes it."""
    assert broken_view(view, lambda _: True) == []
    assert not view_too_large(view)
    json.dumps(view, ensure_ascii=False).encode()
