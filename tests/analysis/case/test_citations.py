"""A finding cites the items that its own rows came with."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.case.citations import citing_own_rows
from analysis.vocabulary import Evidence, Finding

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


def cited(series: Mapping[str, str], *evidence: str) -> tuple[str, ...]:
    finding = Finding(
        id="F1",
        kind="metric_shift",
        subject="checkout",
        sentence="latency rose",
        strength=0.9,
        evidence=evidence,
        series=series,
    )
    return citing_own_rows([finding], ITEMS)[0].evidence


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
