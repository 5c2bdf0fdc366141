"""A finding cites the items that its own rows came with."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.tables import SPANS, write_table
from faultline.analysis.case.windows import citing_matching_rows
from faultline.analysis.vocabulary import Alert, Evidence, Finding, Scope, Window

ALERT_AT = datetime(2026, 11, 3, 14, 0, tzinfo=UTC)
INCIDENT = Window(start=ALERT_AT, end=ALERT_AT + timedelta(minutes=30))
BASELINE = Window(start=ALERT_AT - timedelta(hours=1), end=ALERT_AT)
ALERT = Alert(source="x", title="slow", started_at=ALERT_AT)
SCOPE = Scope(incident=INCIDENT, baseline=(BASELINE,))
ITEMS = (
    Evidence(
        id="E1",
        kind="metrics",
        source="prometheus",
        query="latency of all",
        services=("cart", "checkout"),
        signals=("latency_p99",),
    ),
    Evidence(
        id="E2",
        kind="metrics",
        source="prometheus",
        query="errors of all",
        services=("cart",),
        signals=("error_ratio",),
    ),
    Evidence(id="E3", kind="logs", source="loki", query="{app=~'.+'}"),
    Evidence(id="E4", kind="metrics", source="recorded", query="metrics.parquet"),
    Evidence(id="E5", kind="changes", source="github", query="shop/cart", changes=("a1", "b2")),
    Evidence(id="E6", kind="changes", source="github", query="shop/checkout", changes=("c3",)),
    Evidence(id="E7", kind="changes", source="recorded", query="changes.parquet"),
)
CASE = Case(Path("nowhere"), ALERT, SCOPE, ITEMS)


def cited(series: Mapping[str, str], *evidence: str, case: Case = CASE) -> tuple[str, ...]:
    finding = Finding(
        id="F1",
        kind="metric_shift",
        subject="checkout",
        sentence="latency rose",
        strength=0.9,
        evidence=evidence,
        series=series,
    )
    return citing_matching_rows([finding], case)[0].evidence


LATENCY = {"table": "metrics", "service": "checkout", "signal": "latency_p99"}


def test_only_what_may_hold_the_series_is_cited() -> None:
    assert cited(LATENCY, "E1", "E2", "E3") == ("E1", "E3")


def test_a_change_is_cited_by_what_brought_it() -> None:
    assert cited({"table": "changes", "id": "c3"}, "E5", "E6", "E7") == ("E6", "E7")


def test_an_item_that_does_not_say_what_it_holds_may_hold_it() -> None:
    assert cited(LATENCY, "E1", "E2", "E4") == ("E1", "E4")


def test_where_no_item_is_known_to_hold_it_all_are_cited() -> None:
    assert cited(LATENCY | {"service": "web"}, "E1", "E2", "E3") == ("E1", "E2", "E3")


def test_a_finding_without_a_series_cites_what_it_cited() -> None:
    assert cited({}, "E1", "E2") == ("E1", "E2")


def test_what_reaches_into_the_incident_is_cited_first() -> None:
    items = []
    for number, window in enumerate((BASELINE, INCIDENT), start=1):
        name = f"E{number}"
        items.append(Evidence(id=name, kind="logs", source="loki", query="{}", window=window))
    case = Case(Path("nowhere"), ALERT, SCOPE, tuple(items))
    assert cited({"table": "logs", "service": "cart"}, "E1", "E2", case=case) == ("E2", "E1")


def spans_of(folder: Path, *rows: tuple[str, str, str | None]) -> None:
    """Spans of (service, operation, item)."""
    whole = []
    for number, (service, operation, item) in enumerate(rows):
        span = {"trace_id": "t", "span_id": str(number), "service": service}
        span |= {"operation": operation, "duration_us": 1.0, "evidence": item}
        whole.append(dict.fromkeys(SPANS.stored) | span | {"start": ALERT_AT})
    write_table(folder, "spans", pl.DataFrame(whole, schema=SPANS.stored))


def test_spans_are_cited_by_the_query_that_brought_those_of_the_operation(tmp_path: Path) -> None:
    both = ("cart", "checkout")
    items = [
        Evidence(id="E1", kind="spans", source="tempo", query="failed", services=both),
        Evidence(id="E2", kind="spans", source="tempo", query="slow", services=both),
        Evidence(id="E3", kind="spans", source="recorded", query="spans"),
        Evidence(id="E4", kind="logs", source="loki", query="{}"),
    ]
    spans_of(
        tmp_path, ("cart", "GET /", "E1"), ("cart", "PUT /", "E2"), ("checkout", "GET /", "E2")
    )
    case = Case(tmp_path, ALERT, SCOPE, tuple(items))
    every = ("E1", "E2", "E3", "E4")
    cart = {"table": "spans", "service": "cart"}
    assert cited(cart | {"operation": "GET /"}, *every, case=case) == ("E1", "E4")
    assert cited(cart, *every, case=case) == ("E1", "E2", "E4")
    # What the third item holds is not known, and of one span not where it is from.
    rows = (("cart", "GET /", "E1"), ("cart", "GET /", None), ("cart", "PUT /", "E2"))
    spans_of(tmp_path, *rows)
    case = Case(tmp_path, ALERT, SCOPE, tuple(items))
    assert cited(cart | {"operation": "GET /"}, *every, case=case) == ("E1", "E3", "E4")
    assert cited(cart | {"operation": "PUT /"}, *every, case=case) == ("E2", "E4")
