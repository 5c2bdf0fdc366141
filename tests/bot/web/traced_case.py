"""The sample case with requests recorded as spans, and a finding about them."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path

import polars as pl

from faultline.analysis.case.folder import write_json
from faultline.analysis.case.tables import write_table
from faultline.analysis.vocabulary import Diagnosis, Finding
from tests.bot.web.sample_case import ALERT_AT, DIAGNOSIS, write_sample_case

ABOUT_SPANS = Finding(
    id="F8",
    kind="span_own_time",
    subject="payment",
    signal="latency",
    effect=40.0,
    effect_unit="x",
    strength=0.9,
    sentence="payment itself spends 80 ms in charge, 40 times the baseline's 2 ms.",
    numbers={"own_ms": 80, "times": 40, "baseline_ms": 2},
    evidence=("E1",),
    series={"table": "spans", "service": "payment", "operation": "charge"},
)
DIAGNOSIS_WITH_SPANS: Diagnosis = DIAGNOSIS.model_copy(
    update={"findings": (*DIAGNOSIS.findings, ABOUT_SPANS)}
)

Span = tuple[str, str, str | None, str, str, datetime, float, str | None]


def request(trace: str, at: datetime, *, slow: bool, failed: bool = False) -> list[Span]:
    """checkout calls cart, then payment, which asks the bank; payment's own time is what
    differs."""
    own = 80_000.0 if slow else 2_000.0
    ms = timedelta(milliseconds=1)
    pay = 5_000 + own
    return [
        (trace, f"{trace}a", None, "checkout", "POST /buy", at, 12_000 + pay, None),
        (trace, f"{trace}b", f"{trace}a", "cart", "get", at + ms, 4_000, None),
        (
            trace,
            f"{trace}c",
            f"{trace}a",
            "payment",
            "charge",
            at + 6 * ms,
            pay,
            "error" if failed else None,
        ),
        (trace, f"{trace}d", f"{trace}c", "bank", "authorise", at + 7 * ms, 3_000, None),
    ]


def spans(rows: list[Span]) -> pl.DataFrame:
    """The table of spans."""
    names = [
        "trace_id",
        "span_id",
        "parent_id",
        "service",
        "operation",
        "start",
        "duration_us",
        "status",
    ]
    return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)


def write_traced_case(folder: Path) -> Path:
    """Ten requests before, ten slow ones and a failed one during the incident."""
    write_sample_case(folder, diagnosis=DIAGNOSIS_WITH_SPANS)
    rows: list[Span] = []
    for n in range(10):
        rows += request(f"old{n}", ALERT_AT - timedelta(minutes=60 + n), slow=False)
        rows += request(f"new{n}", ALERT_AT - timedelta(minutes=n / 2), slow=True)
    rows += request("bad", ALERT_AT - timedelta(seconds=30), slow=True, failed=True)
    write_table(folder, "spans", spans(rows))
    write_json(folder / "findings.json", DIAGNOSIS_WITH_SPANS)
    return folder
