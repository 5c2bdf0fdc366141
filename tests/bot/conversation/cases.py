"""Cases that questions are asked of: one with spans, logs, changes and two suspects, and the
recorded demo."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from faultline.analysis.case.folder import read_case, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Evidence, Gap, Scope, Window
from faultline.bot.answer.writer.built_in import word
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.store.store import ReplyTo, StoredInvestigation
from faultline.demo.run import recorded_cases

STARTED = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
CHANNEL, THREAD = "C0INCIDENTS", "1763600000.000100"
PAGE = "https://faultline.example/investigations/20261120-030001-abc123"


def write_shop(folder: Path) -> Path:
    """checkout calls orders-db and cart; orders-db runs out of CPU; a deploy of checkout long
    before; cart is calm."""
    folder.mkdir(parents=True)
    onset = STARTED - timedelta(minutes=4)
    write_json(
        folder / "alert.json",
        Alert(
            source="pagerduty",
            title="checkout p99 latency above 800 ms",
            started_at=STARTED,
            service="checkout",
            signal="p99_latency_ms",
        ),
    )
    window = Window(start=STARTED - timedelta(minutes=5), end=STARTED + timedelta(minutes=6))
    baseline = Window(start=STARTED - timedelta(hours=1), end=window.start)
    write_json(
        folder / "scope.json", Scope(incident=window, baseline=(baseline,), services=("checkout",))
    )
    rows = ["time,service,signal,value"]
    logs = ["time,service,message,level"]
    for minute in range(-60, 6):
        at = STARTED + timedelta(minutes=minute)
        bad = at >= onset
        series = {
            ("checkout", "p99_latency_ms"): 210.0 + (560 if bad else 0),
            ("orders-db", "cpu_percent"): 22.0 + (70 if bad else 0),
            ("orders-db", "p99_latency_ms"): 12.0 + (540 if bad else 0),
            ("cart", "p99_latency_ms"): 45.0,
        }
        rows += [
            f"{at.isoformat()},{s},{n},{v + (minute % 5) * v / 50}" for (s, n), v in series.items()
        ]
        logs.append(f"{at.isoformat()},checkout,order placed,info")
        if bad:
            logs += [
                f"{(at + timedelta(seconds=s)).isoformat()},checkout,query to orders-db timed out "
                f"after 5000 ms,error"
                for s in range(20)
            ]
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    (folder / "logs.csv").write_text("\n".join(logs) + "\n")
    (folder / "topology.csv").write_text("caller,callee\ncheckout,orders-db\ncheckout,cart\n")
    changed = (STARTED - timedelta(minutes=50)).isoformat()
    (folder / "changes.csv").write_text(
        f"time,service,kind,id,title,author\n{changed},cart,deploy,77aa01c,cart 2026.11.20,ada\n"
    )
    items = [
        Evidence(
            id=f"E{n}",
            kind=kind,
            source=source,
            query=query,
            window=window,
            rows=100 * n,
            file=file,
            link="https://grafana.example/explore?left=1",
        )
        for n, (kind, source, query, file) in enumerate(
            (
                (
                    "metrics",
                    "prometheus",
                    "latency and CPU of checkout, orders-db, cart",
                    "metrics.csv",
                ),
                ("logs", "loki", '{service="checkout"}', "logs.csv"),
                ("changes", "github", "deploys", "changes.csv"),
                ("topology", "prometheus", "calls", "topology.csv"),
            ),
            start=1,
        )
    ]
    gap = Gap(
        id="G1", kind="spans", source="tempo", query="checkout", reason="no answer within 20 s"
    )
    entries = [json.loads(one.model_dump_json(exclude_none=True)) for one in (*items, gap)]
    (folder / "evidence.json").write_text(json.dumps(entries))
    return folder


DEPLOYED = datetime(2026, 11, 20, 14, 19, 10, tzinfo=UTC)
PAYMENTS_ALERT = datetime(2026, 11, 20, 14, 25, tzinfo=UTC)
PAYMENTS_SERIES = {
    ("payments", "p99_latency_ms"): (75.0, 2300.0),
    ("payments", "requests_per_sec"): (120.0, 118.0),
    ("payments", "cpu_percent"): (30.0, 31.0),
    ("checkout", "p99_latency_ms"): (210.0, 2600.0),
    ("checkout", "error_ratio"): (0.002, 0.087),
    ("cart", "p99_latency_ms"): (45.0, 45.0),
    ("orders-db", "cpu_percent"): (22.0, 22.0),
}
"""Service and signal to its level before the deploy of payments and after it."""
PAYMENTS_CHANGES = (
    (DEPLOYED, "payments", "deploy", "v2.3.1", "Retry declined cards three times", "ada"),
    (DEPLOYED - timedelta(minutes=44), "cart", "deploy", "c4r7001", "cart 2026.11.20", "bo"),
    (DEPLOYED - timedelta(minutes=14), "search", "flag", "new-ranker", "Rank with clicks", "cy"),
)


def payments_rows(
    first: datetime, last: datetime, *, bad_from: datetime
) -> list[dict[str, object]]:
    """A point a minute of every series of the payments case."""
    rows: list[dict[str, object]] = []
    at = first
    while at < last:
        for (service, signal), (before, after) in PAYMENTS_SERIES.items():
            level = after if at >= bad_from else before
            value = level * (1 + (at.minute % 5) / 50)
            rows.append({"time": at, "service": service, "signal": signal, "value": value})
        at += timedelta(minutes=1)
    return rows


def write_payments(folder: Path) -> Path:
    """A deploy of payments makes checkout time out; cart, search and orders-db are calm."""
    folder.mkdir(parents=True)
    onset = PAYMENTS_ALERT - timedelta(minutes=5)
    alert = Alert(
        source="pagerduty",
        title="checkout p99 latency above 800 ms",
        started_at=PAYMENTS_ALERT,
        service="checkout",
        signal="p99_latency_ms",
    )
    write_json(folder / "alert.json", alert)
    window = Window(start=onset - timedelta(minutes=3), end=PAYMENTS_ALERT + timedelta(minutes=6))
    baseline = Window(start=window.start - timedelta(hours=1), end=window.start)
    scope = Scope(incident=window, baseline=(baseline,), services=("checkout", "payments"))
    write_json(folder / "scope.json", scope)
    metrics = ["time,service,signal,value"]
    for row in payments_rows(baseline.start, window.end, bad_from=onset):
        metrics.append(f"{row['time']},{row['service']},{row['signal']},{row['value']}")
    logs = ["time,service,message,level"]
    at = baseline.start
    while at < window.end:
        logs.append(f"{at},checkout,order placed,info")
        logs.append(f"{at},payments,card charged,info")
        if at >= onset:
            for second in range(0, 60, 3):
                then = at + timedelta(seconds=second)
                logs.append(f"{then},checkout,call of payments timed out after 2000 ms,error")
                logs.append(f"{then},payments,card declined: retry 3 of 3,warning")
        at += timedelta(minutes=1)
    changes = ["time,service,kind,id,title,author"]
    changes += [",".join(str(cell) for cell in row) for row in PAYMENTS_CHANGES]
    calls = "caller,callee\ncheckout,payments\ncheckout,cart\ncheckout,orders-db\n"
    (folder / "metrics.csv").write_text("\n".join(metrics) + "\n")
    (folder / "logs.csv").write_text("\n".join(logs) + "\n")
    (folder / "changes.csv").write_text("\n".join(changes) + "\n")
    (folder / "topology.csv").write_text(calls)
    (folder / "evidence.json").write_text(json.dumps(_payments_evidence(window)))
    return folder


def _payments_evidence(window: Window) -> list[object]:
    link = "https://grafana.example/explore?left=2"
    told = (
        ("metrics", "prometheus", "latency, errors, CPU", "metrics.csv"),
        ("logs", "loki", '{service=~"checkout|payments"}', "logs.csv"),
        ("changes", "github", "deploys", "changes.csv"),
        ("topology", "prometheus", "calls", "topology.csv"),
    )
    items = [
        Evidence(
            id=f"E{n}", kind=kind, source=source, query=query, window=window, file=file, link=link
        )
        for n, (kind, source, query, file) in enumerate(told, start=1)
    ]
    query = "GET /oncalls?escalation_policy_ids[]=PMONEY1&earliest=true"
    on_call = {"on call, level 1": "Grace Hopper (Money)", "on call, level 2": "Alan Kay (Money)"}
    items.append(Evidence(id="E9", kind="alert", source="pagerduty", query=query, details=on_call))
    return [json.loads(item.model_dump_json(exclude_none=True)) for item in items]


def write_answered(folder: Path) -> Path:
    """The case with its findings and report, as an investigation leaves it."""
    case = read_case(folder)
    diagnosis = diagnose(case)
    write_json(folder / "findings.json", diagnosis)
    write_json(folder / "report.json", word(diagnosis, case.alert, case.gaps))
    return folder


def answered(folder: Path, *, now: datetime = STARTED + timedelta(minutes=8)) -> AnsweredCase:
    """What the bot holds of it."""
    case = read_case(folder)
    diagnosis = diagnose(case)
    return AnsweredCase(
        an_investigation(case.alert),
        case,
        diagnosis,
        word(diagnosis, case.alert, case.gaps),
        PAGE,
        now,
    )


def demo() -> AnsweredCase:
    """The recorded training job with a slow rank."""
    return answered(recorded_cases() / "slow-rank")


def healthy() -> AnsweredCase:
    """The recorded training job with which nothing is wrong."""
    return answered(recorded_cases() / "healthy-training")


def an_investigation(alert: Alert) -> StoredInvestigation:
    """As the store gives it."""
    return StoredInvestigation(
        id="20261120-030001-abc123",
        alert=alert,
        question=None,
        status="done",
        repeats=0,
        reply_to=ReplyTo(CHANNEL, THREAD),
        accepted_at=alert.started_at,
        started_at=None,
        finished_at=None,
        resolved_at=None,
        verdict="cause_found",
        confidence=0.9,
        headline="",
    )
