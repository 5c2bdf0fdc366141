"""A case with one of everything a page can show, diagnosed by hand, so that each test knows what
must appear."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from faultline.analysis.case.calls import CALLS_FILE, CallList, ServiceCall
from faultline.analysis.case.folder import write_evidence, write_json
from faultline.analysis.case.tables import write_table
from faultline.analysis.vocabulary import (
    Alert,
    Cause,
    Claim,
    Diagnosis,
    Evidence,
    Finding,
    Gap,
    Impact,
    Link,
    Report,
    Scope,
    Verdict,
    Window,
)

ALERT_AT = datetime(2026, 11, 20, 3, 12, tzinfo=UTC)
ONSET = ALERT_AT - timedelta(minutes=4, seconds=30)
DEPLOY_AT = ONSET - timedelta(minutes=3)

ALERT = Alert(
    source="pagerduty",
    title="checkout p99 latency above 800 ms",
    started_at=ALERT_AT,
    service="checkout",
    signal="p99_latency_ms",
    severity="critical",
    threshold=800,
    links=(Link(title="PagerDuty incident", url="https://example.pagerduty.com/incidents/Q1"),),
)
SCOPE = Scope(
    incident=Window(start=ALERT_AT - timedelta(minutes=30), end=ALERT_AT + timedelta(minutes=6)),
    baseline=(
        Window(start=ALERT_AT - timedelta(minutes=150), end=ALERT_AT - timedelta(minutes=30)),
    ),
    services=("checkout", "payment", "cart"),
)
EVIDENCE = (
    Evidence(
        id="E1",
        kind="metrics",
        source="datadog",
        query="avg:trace.http.request.duration.p99{service:checkout}",
        window=SCOPE.incident,
        link="https://app.datadoghq.com/metric/explorer?from=1",
        file="metrics.parquet",
        rows=1248,
        bytes=40_100,
    ),
    Evidence(
        id="E2",
        kind="logs",
        source="datadog",
        query="service:payment status:error",
        rows=412,
        cut="first 400",
    ),
    Evidence(id="E3", kind="changes", source="github", query="deployments of shop/payment", rows=2),
    Evidence(id="E4", kind="traces", source="traces", query="s3://traces/llm-7b/*.json.gz", rows=8),
)
GAPS = (
    Gap(
        id="G1",
        kind="spans",
        source="datadog",
        query="spans of payment",
        reason="HTTP 403: the key lacks the scope apm_read",
    ),
)
EARLIER_ID = "20261115-031200-abcdef"
CALLS = (
    ServiceCall(
        caller="checkout",
        callee="payment",
        sources=("catalogue", "spans"),
        last_seen=ALERT_AT,
    ),
    ServiceCall(caller="checkout", callee="cart", sources=("mesh",), last_seen=ALERT_AT),
    ServiceCall(
        caller="web-storefront-frontend",
        callee="checkout",
        sources=("ingress",),
        last_seen=ALERT_AT - timedelta(days=5),
        learned_in=EARLIER_ID,
    ),
    ServiceCall(caller="payment", callee="payment-db", sources=("client_spans",)),
    ServiceCall(caller="elsewhere", callee="another", sources=("mesh",)),
)
FINDINGS = (
    Finding(
        id="F1",
        kind="metric_shift",
        subject="payment",
        signal="db_pool_wait_ms",
        onset=ONSET,
        onset_uncertainty_s=60,
        effect=38.2,
        effect_unit="x",
        strength=0.97,
        sentence="payment db_pool_wait_ms rose from 4.1 to 156.6 ms (38.2x).",
        numbers={"baseline": 4.1, "incident": 156.6, "ratio": 38.2},
        evidence=("E1",),
        series={"table": "metrics", "service": "payment", "signal": "db_pool_wait_ms"},
        details={"class": "latency", "direction": "up", "bad": True},
    ),
    Finding(
        id="F2",
        kind="metric_shift",
        subject="checkout",
        signal="p99_latency_ms",
        onset=ONSET + timedelta(seconds=45),
        onset_uncertainty_s=60,
        effect=4.3,
        effect_unit="x",
        strength=0.91,
        sentence="checkout p99_latency_ms rose from 214 to 921 ms (4.3x).",
        numbers={"baseline": 214, "incident": 921, "ratio": 4.3},
        evidence=("E1",),
        series={"table": "metrics", "service": "checkout", "signal": "p99_latency_ms"},
    ),
    Finding(
        id="F3",
        kind="log_new",
        subject="payment",
        signal="logs",
        onset=ONSET + timedelta(seconds=12),
        effect=412,
        effect_unit="lines",
        strength=0.88,
        sentence="412 new error lines in payment: “connection pool exhausted”.",
        numbers={"lines": 412},
        evidence=("E2",),
        series={"table": "logs", "service": "payment"},
        details={
            "template": "connection pool exhausted after <*> ms",
            "example": "ERROR pool.acquire: connection pool exhausted after 5000 ms (size=5, "
            "in_use=5, waiting=211)",
        },
    ),
    Finding(
        id="F4",
        kind="change_near",
        subject="payment",
        signal="deploy",
        onset=DEPLOY_AT,
        effect=3,
        effect_unit="min before onset",
        strength=0.84,
        sentence="deploy of payment v412 finished 3 minutes before the onset; its diff sets "
        "pool_size from 50 to 5.",
        numbers={"minutes": 3, "before": 50, "after": 5},
        evidence=("E3",),
        series={"table": "changes", "id": "v412"},
        details={"change": "v412"},
    ),
    Finding(
        id="F5",
        kind="metric_shift",
        subject="cart",
        signal="cpu_percent",
        onset=ONSET + timedelta(minutes=2),
        effect=1.3,
        effect_unit="x",
        strength=0.31,
        sentence="cart cpu_percent rose from 31 to 40 (1.3x).",
        numbers={"baseline": 31, "incident": 40, "ratio": 1.3},
        evidence=("E1",),
    ),
    Finding(
        id="F6",
        kind="straggler",
        subject="rank 5",
        effect=38,
        effect_unit="% of step",
        strength=0.79,
        sentence="Rank 5 makes the other ranks wait 38 % of each step.",
        numbers={"percent": 38},
        evidence=("E4",),
        details={
            "per_rank": [
                {
                    "rank": r,
                    "step_ms": 412.0,
                    "wait_ms": 3.1 if r == 5 else 156.0 - r,
                    "host": f"gpu-{r // 4}",
                }
                for r in range(8)
            ]
        },
    ),
    Finding(
        id="F7",
        kind="metric_shift",
        subject="ads",
        signal="requests_per_s",
        strength=0.12,
        sentence="ads requests_per_s fell from 12 to 11.",
        numbers={"baseline": 12, "incident": 11},
        evidence=("E9",),
    ),
)
DIAGNOSIS = Diagnosis(
    verdict=Verdict.CAUSE_FOUND,
    confidence=0.86,
    causes=(
        Cause(
            rank=1,
            subject="payment",
            signal="db_pool_wait_ms",
            kind="bad_deploy",
            change="v412",
            confidence=0.86,
            onset=ONSET,
            summary="The deploy of payment v412 cut its database pool from 50 to 5 connections; "
            "requests wait for one.",
            next_step="Roll payment back to v411.",
            findings=("F1", "F3", "F4"),
            contradicting=("F5",),
        ),
        Cause(
            rank=2,
            subject="rank 5",
            kind="straggler",
            confidence=0.22,
            summary="Rank 5 of the training job is slow.",
            next_step="Look at the host of rank 5.",
            findings=("F6",),
        ),
    ),
    findings=FINDINGS,
    impact=Impact(
        sentence="Checkout answers 4.3 times slower at the 99th percentile.",
        since=ONSET + timedelta(seconds=45),
        services=("checkout", "payment"),
        numbers={"ratio": 4.3},
        findings=("F2",),
    ),
)
REPORT = Report(
    headline="payment v412 shrank its database pool to 5 connections; checkout waits on it",
    claims=(
        Claim(
            text="Requests in payment wait 38.2 times longer for a database connection.",
            findings=("F1",),
        ),
        Claim(
            text="Its deploy three minutes earlier set pool_size from 50 to 5.",
            findings=("F4", "F99"),
        ),
        Claim(
            text="Checkout calls payment and slowed 45 seconds later, to 4.3 times its baseline.",
            findings=("F2",),
        ),
    ),
    next_steps=(
        Claim(text="Roll payment back to v411.", findings=("F4",)),
        Claim(
            text="Restore pool_size: 50 in payment's configuration before the next deploy.",
            findings=("F3", "F4"),
        ),
    ),
    written_by="built-in",
    dropped=("The database itself is healthy. (cites no finding)",),
)


def write_sample_case(
    folder: Path, *, diagnosis: Diagnosis = DIAGNOSIS, report: Report = REPORT
) -> Path:
    """The case with its tables, findings.json and report.json."""
    folder.mkdir(parents=True)
    write_json(folder / "alert.json", ALERT)
    write_json(folder / "scope.json", SCOPE)
    write_evidence(folder, EVIDENCE, GAPS)
    write_table(folder, "metrics", _metrics())
    write_table(folder, "logs", _logs())
    write_table(folder, "changes", _changes())
    write_json(folder / CALLS_FILE, CallList(calls=CALLS))
    write_json(folder / "findings.json", diagnosis)
    write_json(folder / "report.json", report)
    (folder / "label.json").write_text('{"cause": "the truth"}')
    return folder


def _metrics() -> pl.DataFrame:
    rows = []
    start = SCOPE.baseline[0].start
    for second in range(0, int((SCOPE.incident.end - start).total_seconds()), 10):
        at = start + timedelta(seconds=second)
        wave = math.sin(second / 97) + math.sin(second / 13) / 2
        late = at >= ONSET
        rows.append(
            (at, "payment", "db_pool_wait_ms", 156 + 9 * wave if late else 4 + 0.4 * wave, "ms")
        )
        slow = at >= ONSET + timedelta(seconds=45)
        rows.append(
            (at, "checkout", "p99_latency_ms", 921 + 40 * wave if slow else 214 + 11 * wave, "ms")
        )
    return pl.DataFrame(rows, schema=["time", "service", "signal", "value", "unit"], orient="row")


def _logs() -> pl.DataFrame:
    start = SCOPE.baseline[0].start
    info = [
        (start + timedelta(seconds=20 * n), "payment", f"INFO charge {n} accepted", "INFO")
        for n in range(460)
    ]
    errors = [
        (
            ONSET + timedelta(seconds=12 + 1.4 * n),
            "payment",
            f"ERROR pool.acquire: connection pool exhausted after {5000 + n} ms",
            "ERROR",
        )
        for n in range(412)
    ]
    return pl.DataFrame(
        [*info, *errors], schema=["time", "service", "message", "level"], orient="row"
    )


def _changes() -> pl.DataFrame:
    rows = [
        (
            DEPLOY_AT,
            "payment",
            "deploy",
            "v412",
            "payment v412: tidy pool settings",
            "https://git.example/shop/412",
        ),
        (ALERT_AT - timedelta(hours=9), "cart", "flag", "new-cart", "new cart for 5 %", None),
    ]
    return pl.DataFrame(
        rows, schema=["time", "service", "kind", "id", "title", "link"], orient="row"
    )
