"""Answers by hand, for the pictures: payments made checkout slow, and web with it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from analysis.case.calls import KnownCall
from analysis.vocabulary import Alert, Cause, Diagnosis, Evidence, Finding, Impact, Verdict
from bot.answer.view import AnswerView, answer_view
from tests.bot.answer.targets.answers import ALERT_AT, ONSET, an_alert

CHANGED_AT = ONSET - timedelta(seconds=40)


def calls(*pairs: tuple[str, str]) -> list[KnownCall]:
    """Calls that spans tell of."""
    return [KnownCall(caller=caller, callee=callee, sources=("spans",)) for caller, callee in pairs]


SHOP = calls(
    ("web", "checkout"),
    ("web", "catalog"),
    ("checkout", "payments"),
    ("checkout", "cart"),
    ("payments", "bank"),
)


def slower(id_: str, service: str, before: float = 100.0, after: float = 300.0) -> Finding:
    """Its p99 latency rose."""
    signal = "latency_p99_ms"
    return Finding(
        id=id_,
        kind="metric_shift",
        subject=service,
        signal=signal,
        onset=ONSET,
        effect=after / before if before else None,
        effect_unit="x",
        strength=0.9,
        sentence=f"p99 latency of {service} rose from {before} ms to {after} ms.",
        numbers={"baseline": before, "incident": after},
        series={"table": "metrics", "service": service, "signal": signal},
        details={"class": "latency", "direction": "up", "bad": True, "unit": "ms"},
    )


def deployed(id_: str, service: str, change: str = "v2.3.1") -> Finding:
    """A deploy of it, shortly before."""
    return Finding(
        id=id_,
        kind="change_near",
        subject=service,
        signal="deploy",
        onset=CHANGED_AT,
        strength=0.8,
        sentence=f"Deploy {change} of {service} came 40 s before the onset.",
        series={"table": "changes", "id": change},
        details={"change": change, "change_kind": "deploy"},
    )


def cause(rank: int, subject: str, *findings: str, **more: Any) -> Cause:
    """Suspected of being slow."""
    usual = {
        "signal": "latency_p99_ms",
        "kind": "slow_code",
        "confidence": 0.8 / rank,
        "onset": ONSET,
        "summary": f"{subject} became slow",
    }
    return Cause(rank=rank, subject=subject, findings=findings, **usual | more)


FINDINGS = (
    slower("F1", "checkout"),
    slower("F2", "payments", 75.0, 2300.0),
    deployed("F3", "payments"),
    slower("F4", "web", 200.0, 280.0),
)
BY_PAYMENTS = cause(1, "payments", "F2", "F3", change="v2.3.1")


def diagnosis(**more: Any) -> Diagnosis:
    """That payments began it."""
    usual: dict[str, Any] = {
        "verdict": Verdict.CAUSE_FOUND,
        "confidence": 0.9,
        "causes": (BY_PAYMENTS,),
        "findings": FINDINGS,
        "impact": Impact(
            sentence="checkout is slow.",
            services=("checkout", "web"),
            findings=("F1",),
            since=ONSET,
        ),
    }
    return Diagnosis(**usual | more)


def view_of(
    made: Diagnosis | None = None, alert: Alert | None = None, evidence: Iterable[Evidence] = ()
) -> AnswerView:
    """What is said of it."""
    made = made or diagnosis()
    return answer_view(alert or an_alert(), made, None, evidence=tuple(evidence))


__all__ = ["ALERT_AT", "ONSET"]
