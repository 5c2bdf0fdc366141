"""A hand-made investigation of a bad deploy, and the same with every text as long or as hostile as
a test wants."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import update

from faultline.analysis.vocabulary import (
    Alert,
    Cause,
    Claim,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Impact,
    Report,
    Verdict,
)
from faultline.bot.settings import Settings
from faultline.bot.store.store import ReplyTo, Store, StoredInvestigation
from faultline.bot.store.tables import PostRow
from tests.databases import store_engine

ALERT_AT = datetime(2026, 9, 14, 10, 21, tzinfo=UTC)
ONSET = ALERT_AT - timedelta(minutes=7)
PAGE = "https://faultline.example.com/investigations/20260914-102100-ab12cd"
GRAPH = "https://app.datadoghq.com/metric/explorer?from=1&to=2"


def an_hour_later(store: Store) -> None:
    """As if every attempt to post had been made an hour ago, so that nobody can be behind it. A
    short lease would run out under a worker that a busy machine delays."""
    with store.engine.begin() as connection:
        hour_ago = datetime.now(UTC) - timedelta(hours=1)
        connection.execute(update(PostRow).values(attempted_at=hour_ago))


def an_alert(**more: Any) -> Alert:
    usual = {
        "source": "pagerduty",
        "title": "checkout error ratio above 5 %",
        "started_at": ALERT_AT,
        "service": "checkout",
        "severity": "critical",
    }
    return Alert(**usual | more)


def an_investigation(alert: Alert | None = None, **more: Any) -> StoredInvestigation:
    made = StoredInvestigation(
        id="20260914-102100-ab12cd",
        alert=alert or an_alert(),
        question=None,
        status="done",
        repeats=0,
        reply_to=ReplyTo(),
        accepted_at=ALERT_AT,
        started_at=ALERT_AT,
        finished_at=ALERT_AT + timedelta(seconds=41),
        resolved_at=None,
        verdict=None,
        confidence=None,
        headline=None,
    )
    return replace(made, **more)


def a_diagnosis(verdict: Verdict = Verdict.CAUSE_FOUND, **more: Any) -> Diagnosis:
    findings = (
        Finding(
            id="F1",
            kind="metric_shift",
            subject="payments",
            signal="error_ratio",
            onset=ONSET,
            strength=0.9,
            sentence="payments error_ratio rose from 0.01 to 0.31 (31x).",
            numbers={"baseline": 0.01, "incident": 0.31},
            evidence=("E1",),
            series={"table": "metrics", "service": "payments", "signal": "error_ratio"},
        ),
        Finding(
            id="F2",
            kind="change_near",
            subject="payments",
            strength=0.8,
            sentence="Deploy v2 of payments came 1 min before the onset.",
        ),
        Finding(
            id="F3",
            kind="metric_shift",
            subject="db",
            strength=0.3,
            sentence="db latency did not move.",
        ),
    )
    cause = Cause(
        rank=1,
        subject="payments",
        signal="error_ratio",
        kind="deploy",
        change="v2",
        confidence=0.86,
        onset=ONSET,
        summary="Deploy v2 of payments breaks charging.",
        next_step="Roll back v2 of payments.",
        findings=("F1", "F2"),
        contradicting=("F3",),
    )
    impact = Impact(sentence="31 % of checkouts fail.", since=ONSET, findings=("F1",))
    given = {
        "causes": (cause,),
        "confidence": 0.86,
        "findings": findings,
        "impact": impact,
        "missing": (),
        **more,
    }
    return Diagnosis(verdict=verdict, **given)


def a_report(**more: Any) -> Report:
    given = {
        "headline": "payments v2 breaks checkout",
        "claims": (
            Claim(
                text="The error ratio of payments rose 31x right after v2.", findings=("F1", "F2")
            ),
        ),
        "next_steps": (Claim(text="Roll back v2 of payments.", findings=("F2",)),),
        **more,
    }
    return Report(**given)


def some_evidence() -> tuple[Evidence, ...]:
    return (
        Evidence(id="E1", kind="metrics", source="datadog", query="avg:error_ratio", link=GRAPH),
    )


def a_gap(**more: Any) -> Gap:
    given = {
        "id": "G1",
        "kind": "spans",
        "source": "datadog",
        "query": "spans",
        "reason": "rate limit reached",
        **more,
    }
    return Gap(**given)


def a_store(tmp_path: Path) -> Store:
    engine = store_engine(f"sqlite:///{tmp_path / 'store.db'}")
    return Store(engine)


def accepted(store: Store, reply_to: ReplyTo) -> StoredInvestigation:
    """An investigation that the store knows, so that posts can be claimed for it."""
    outcome = store.accept(an_alert(), reply_to=reply_to)
    found = store.get(outcome.investigation_id or "")
    assert found is not None
    return found


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(
        {"server": {"public_url": "https://faultline.example.com"}, **sections}
    )
