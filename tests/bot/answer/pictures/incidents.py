"""Answers by hand, for the pictures: payments made checkout slow, and web with it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case, read_case, write_json
from faultline.analysis.case.tables import write_table
from faultline.analysis.vocabulary import (
    Alert,
    Cause,
    Diagnosis,
    Evidence,
    Finding,
    Impact,
    Scope,
    Verdict,
    Window,
)
from faultline.bot.answer.view import AnswerView, answer_view
from tests.bot.answer.targets.answers import ALERT_AT, ONSET, an_alert

CHANGED_AT = ONSET - timedelta(seconds=40)
BASELINE = Window(start=ALERT_AT - timedelta(hours=2), end=ONSET - timedelta(minutes=3))
INCIDENT = Window(start=ONSET - timedelta(minutes=3), end=ALERT_AT + timedelta(minutes=5))
SIGNAL = "latency_p99_ms"

Course = Callable[[datetime], float | None]


def calls(*pairs: tuple[str, str]) -> list[ServiceCall]:
    """Calls that spans tell of."""
    return [
        ServiceCall(caller=caller, callee=callee, sources=("spans",)) for caller, callee in pairs
    ]


SHOP = calls(
    ("web", "checkout"),
    ("web", "catalog"),
    ("checkout", "payments"),
    ("checkout", "cart"),
    ("payments", "bank"),
)


MEASURED = Evidence(
    id="E1",
    kind="metrics",
    source="prometheus",
    query="latency_p99_ms",
    services=("web", "catalog", "checkout", "cart", "payments"),
    rows=500,
)
"""All but the bank send metrics."""


def slower(id_: str, service: str, before: float = 100.0, after: float = 300.0) -> Finding:
    """Its p99 latency rose."""
    return Finding(
        id=id_,
        kind="metric_shift",
        subject=service,
        signal=SIGNAL,
        onset=ONSET,
        effect=after / before if before else None,
        effect_unit="x",
        strength=0.9,
        sentence=f"p99 latency of {service} rose from {before} ms to {after} ms.",
        numbers={"baseline": before, "incident": after},
        series={"table": "metrics", "service": service, "signal": SIGNAL},
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
        "signal": SIGNAL,
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


def step(before: float, after: float) -> Course:
    """One level until the onset, another after it."""
    return lambda at: before + at.minute % 3 if at < ONSET else after


USUAL = {"payments": step(75, 2300), "checkout": step(100, 300)}


def a_case(folder: Path, series: Mapping[str, Course] = USUAL) -> Case:
    """A case with a point a minute; None of a course is no row."""
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / "alert.json", an_alert())
    write_json(folder / "scope.json", Scope(incident=INCIDENT, baseline=(BASELINE,)))
    rows = []
    for service, course in series.items():
        for minute in range(125):
            at = BASELINE.start + timedelta(minutes=minute)
            value = course(at)
            if value is not None:
                rows.append((at, service, SIGNAL, value, "ms"))
    names = ("time", "service", "signal", "value", "unit")
    write_table(folder, "metrics", pl.DataFrame(rows, schema=names, orient="row"))
    change = {
        "time": [CHANGED_AT],
        "service": ["payments"],
        "kind": ["deploy"],
        "id": ["v2.3.1"],
        "title": ["x"],
    }
    write_table(folder, "changes", pl.DataFrame(change))
    return read_case(folder)
