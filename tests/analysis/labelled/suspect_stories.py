"""Stories about what sends nothing itself: a provider, a cache behind others, a node."""

from __future__ import annotations

import json
from pathlib import Path

from faultline.analysis.case.folder import Case
from tests.analysis.cases import logs, write_case
from tests.analysis.labelled.story_rows import Rows, edges, joined, metric, story

FAILS = {"service": "web", "signal": "error_ratio", "title": "web fails"}
SLOW = {"service": "web", "signal": "latency_ms", "title": "web is slow"}


def labelled(rows: Rows, **labels: str) -> Rows:
    return [{**row, "labels": json.dumps(labels)} for row in rows]


@story
def a_provider_that_failing_lines_name(folder: Path) -> Case:
    """Half of checkout's new failing lines name the provider, half name nobody."""
    named = logs(
        "checkout", "call to card-provider failed", [m / 2 for m in range(50)], level="error"
    )
    own = logs("checkout", "order was not saved", [m / 2 for m in range(50)], level="error")
    return write_case(
        folder,
        alert=FAILS,
        metrics=joined(
            metric("web", "error_ratio", 0.01, 0.06),
            metric("checkout", "error_ratio", 0.01, 0.05),
            metric("search", "error_ratio", 0.01, 0.03),
        ),
        logs=[*named, *own],
        topology=edges(("web", "checkout"), ("web", "search"), ("checkout", "card-provider")),
    )


@story
def a_provider_whose_calls_take_longer(folder: Path) -> Case:
    """Checkout measures its calls; the provider has hardly noticed anything itself."""
    calls = metric("checkout", "call_duration_ms", 40, 90)
    return write_case(
        folder,
        alert=SLOW,
        metrics=joined(
            metric("web", "latency_ms", 90, 190),
            metric("checkout", "latency_ms", 70, 160),
            metric("search", "latency_ms", 30, 60),
            metric("rates", "latency_ms", 30, 33),
            labelled(calls, peer="rates"),
        ),
        topology=edges(("web", "checkout"), ("web", "search"), ("checkout", "rates")),
    )


@story
def a_cache_that_lost_some_of_its_entries(folder: Path) -> Case:
    return write_case(
        folder,
        alert=SLOW,
        metrics=joined(
            metric("web", "latency_ms", 90, 190),
            metric("checkout", "latency_ms", 70, 160),
            metric("redis", "hit_ratio", 0.9, 0.7),
            metric("db", "latency_ms", 5, 40),
            metric("db", "cpu_percent", 30, 70),
        ),
        topology=edges(("web", "checkout"), ("checkout", "redis"), ("checkout", "db")),
    )


@story
def a_node_on_which_two_services_are_slow(folder: Path) -> Case:
    """A third service there is well, and the database has a separate fault."""
    rows = metric("web", "latency_ms", 90, 190) + metric("db", "latency_ms", 5, 25)
    slow = {("checkout", "node-1"): 160, ("search", "node-1"): 110}
    for service in ("checkout", "search", "cart"):
        for node in ("node-1", "node-2", "node-3"):
            own = metric(service, "latency_ms", 60, slow.get((service, node), 60))
            rows += labelled(own, pod=f"{service}-{node}", node=node)
    called = [("web", "checkout"), ("web", "search"), ("web", "cart"), ("checkout", "db")]
    return write_case(folder, alert=SLOW, metrics=rows, topology=edges(*called))
