"""Stories that the spans of requests tell: where they waited, failed or no longer went."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.case.folder import Case
from tests.analysis.cases import write_case
from tests.analysis.labelled.story_rows import (
    OWN,
    edges,
    joined,
    metric,
    requests,
    story,
)


@story
def requests_that_wait_for_one_service(folder: Path) -> Case:
    slow = {**OWN, "payments": 160.0, "checkout": 26.0}
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=metric("web", "latency_p99_ms", 60, 210),
        spans=joined(requests(-40, 120, "b", own_ms=OWN), requests(1, 90, "i", own_ms=slow)),
        topology=edges(),
    )


@story
def many_more_queries_per_request(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=metric("web", "latency_p99_ms", 60, 130),
        spans=joined(
            requests(-40, 120, "b", own_ms=OWN, calls=2),
            requests(1, 90, "i", own_ms=OWN, calls=12),
        ),
        topology=edges(),
    )


@story
def requests_that_no_longer_reach_the_database(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "error_ratio", "title": "web fails"},
        metrics=metric("web", "error_ratio", 0.01, 0.3),
        spans=joined(
            requests(-40, 120, "b", own_ms=OWN),
            requests(1, 40, "n", own_ms=OWN, skip="db", failed=("web",), failing=24),
            requests(9, 60, "i", own_ms=OWN),
        ),
        topology=edges(),
    )


@story
def calls_that_are_repeated_and_fail(folder: Path) -> Case:
    up = ("payments", "checkout", "web")
    return write_case(
        folder,
        alert={"service": "web", "signal": "error_ratio", "title": "web fails"},
        metrics=joined(
            metric("web", "error_ratio", 0.01, 0.25), metric("payments", "error_ratio", 0.01, 0.3)
        ),
        spans=joined(
            requests(-40, 120, "b", own_ms=OWN),
            requests(1, 90, "i", own_ms=OWN, failed=up, failing=40, repeats=45),
        ),
        topology=edges(),
    )


@story
def time_lost_between_two_services(folder: Path) -> Case:
    spans = joined(requests(-40, 120, "b", own_ms=OWN), requests(1, 90, "i", own_ms=OWN))
    for span in spans:
        above = span["span_id"] in ("web 0", "to checkout 0", "checkout 0", "to payments 0")
        if span["trace_id"].startswith("i") and above:
            span["duration_us"] += 90_000
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=metric("web", "latency_p99_ms", 60, 150),
        spans=spans,
        topology=edges(),
    )
