"""What to do next, with what else is found of the subject."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from faultline.analysis.phrasing.steps import step_about
from faultline.analysis.vocabulary import Finding
from tests.analysis.phrasing.test_steps import POD, of_kind, state

LATENCY_UP = {"class": "latency", "direction": "up", "bad": True}


def path(operation: str) -> Finding:
    series = {"service": "front", "operation": operation}
    details = {"class": "latency", "direction": "up", "bad": True, "how": "own"}
    return of_kind("critical_path", series=series, numbers={"slower_ms": 870.0},
                   details=details)  # fmt: skip


def surge(ratio: float, direction: str = "up", subject: str = "web") -> Finding:
    details = {"class": "traffic", "direction": direction, "bad": True}
    return of_kind("metric_shift", subject, signal="requests_per_sec", numbers={"ratio": ratio},
                   details=details)  # fmt: skip


def full(subject: str, signal: str, signal_class: str) -> Finding:
    details = {"class": signal_class, "direction": "up", "bad": True}
    return of_kind("metric_shift", subject, signal=signal, details=details)


def restarts(onset: datetime | None) -> Finding:
    details = {"class": "restarts", "direction": "up", "bad": True}
    return of_kind("metric_shift", signal="restarts", details=details, onset=onset)


def line_of(example: str, subject: str = "web", **details: Any) -> Finding:
    given = {"example": example, "is_error": True, "lines": 4, **details}
    return of_kind("log_surge", subject, details=given)


SLOW = of_kind("metric_shift", signal="latency_p99", details=LATENCY_UP)
ONSET = datetime(2026, 3, 2, 11, 50, tzinfo=UTC)


@pytest.mark.parametrize(
    ("found", "about", "step"),
    [
        (
            path("POST /pay"),
            (),
            "Open slow front POST /pay traces: where in web do the extra 870 ms go?",
        ),
        (path("front"), (), "Open slow front traces: where in web do the extra 870 ms go?"),
        (
            full("web", "cpu_percent", "cpu"),
            (),
            "Take a CPU profile of web, compare its last rollouts, and add capacity meanwhile.",
        ),
        (
            full("orders-db", "cpu_percent", "cpu"),
            (),
            "List the statements that run on orders-db now, and see which of them is new or "
            "costly.",
        ),
        (
            full("dbjob", "cpu_percent", "cpu"),
            (),
            "Take a CPU profile of dbjob, compare its last rollouts, and add capacity meanwhile.",
        ),
        (
            full("web", "cpu_percent", "cpu"),
            (surge(3.1),),
            "Find out who sends web 3.1x its usual requests, then scale it or shed them.",
        ),
        (
            full("web", "cpu_percent", "cpu"),
            (surge(1.49), surge(9, "down"), surge(9, subject="cart")),
            "Take a CPU profile of web, compare its last rollouts, and add capacity meanwhile.",
        ),
        (
            full("web", "disk_used_percent", "disk"),
            (surge(3.1),),
            "Find out what fills the disk of web, free some of it, or add more.",
        ),
        (
            surge(3.1),
            (),
            "Find out where the extra requests to web come from, then scale it or shed them.",
        ),
        (surge(3.1, "down"), (), None),
        (restarts(None), (), None),
        (
            restarts(ONSET),
            (),
            "Read with what exit code the instances of web ended since 11:50 UTC (137 is out of "
            "memory or a failed probe), and their last log lines.",
        ),
        (
            restarts(ONSET),
            (state("crashed", "start_state", POD, "?"),),
            "Read its last lines before the crash: kubectl logs --previous -n shop web-7d9c.",
        ),
        (
            of_kind("fan_out", series={"service": "stock"}),
            (),
            "Look in one trace of web at which calls to stock repeat, and fetch them in one.",
        ),
        (of_kind("fan_out"), (), None),
        (
            line_of("Slow query: SELECT 1"),
            (),
            "Find the statement behind “Slow query: SELECT 1” in the slow query log of web, and "
            "its plan.",
        ),
        (SLOW, (surge(1.5),), "Find out who sends web 1.5x its usual requests, then scale it or "
         "shed them."),
        (SLOW, (line_of("boom"),), "Look up where web logs “boom”, and what the code does there."),
        (SLOW, (line_of("a", names="bank"), line_of("a", code="503"), line_of("a", "x")), None),
        (
            SLOW,
            (of_kind("error_origin", series={"operation": "POST /pay"}),),
            "Open failing POST /pay requests of web in the traces: with what do they end, and "
            "where?",
        ),
        (
            SLOW,
            (of_kind("span_own_time", series={"operation": "web"}),),
            "Open slow requests of web in the traces, or profile it: the time is its own.",
        ),
        (
            of_kind("calls_into", "bank", details={"callers": ["pay"], "bad": True}),
            (line_of("call of bank timed out", "pay"),),
            "Call bank from a host of pay and time it: its callers get no answer in time. Is it "
            "up, is it overloaded, does a firewall drop the packets?",
        ),
        (
            of_kind("calls_into", "bank", details={"callers": ["pay"], "bad": True}),
            (line_of("call of bank refused", "pay"), line_of("bank timed out", "web"),
             line_of("call of stock timed out", "pay")),
            "Call bank from a host of pay: does its name resolve, does it accept connections?",
        ),
        (of_kind("calls_into", "bank", details={"callers": []}), (), None),
        (of_kind("call_gap", "db", details={"callee": "db", "bad": True}), (), None),
    ],
)  # fmt: skip
def test_a_step_takes_in_what_else_is_found_of_its_subject(
    found: Finding, about: tuple[Finding, ...], step: str | None
) -> None:
    assert step_about(found, about) == step


POOL = "Find out what holds the connections or threads."


@pytest.mark.parametrize(
    ("example", "about", "step"),
    [
        (
            "no connection free",
            (),
            "Find out what holds pay's connections: slow calls, leaks, a pool that is too small.",
        ),
        (
            "no thread free",
            (),
            "Find out what holds pay's threads: slow calls, leaks, a pool that is too small.",
        ),
        (
            "no thread and no connection free",
            (),
            "Find out what holds pay's connections or threads: slow calls, leaks, a pool that is "
            "too small.",
        ),
        (
            "no connection free",
            (of_kind("calls_into", "bank", details={"callers": ["pay"]}),),
            "See what bank is busy with (running statements, locks, slow calls): pay's connections "
            "are held by its calls to bank, or the pool is too small.",
        ),
        (
            "no connection free",
            (of_kind("calls_into", "bank", details={"callers": ["web"]}),),
            "Find out what holds pay's connections: slow calls, leaks, a pool that is too small.",
        ),
    ],
)
def test_a_pool_that_is_used_up_is_traced_to_the_calls_that_hold_it(
    example: str, about: tuple[Finding, ...], step: str
) -> None:
    details = {"signature": "pool_exhausted", "meaning": "its pool is used up", "lines": 7,
               "fix": POOL, "example": example}  # fmt: skip
    found = of_kind("failure_signature", "pay", details=details, numbers={"lines": 7.0})
    assert step_about(found, about) == step
