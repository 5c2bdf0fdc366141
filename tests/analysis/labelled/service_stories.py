"""Stories of services and jobs, which evidence of several kinds tells."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from faultline.analysis.case.folder import Case, read_case
from tests.analysis.cases import at, logs, write_case
from tests.analysis.labelled.story_rows import (
    OWN,
    change,
    collected,
    edges,
    joined,
    metric,
    requests,
    story,
)


@story
def a_slow_callee_after_its_own_deploy(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 700, onset=1),
            metric("checkout", "latency_p99_ms", 90, 660),
            metric("payments", "latency_p99_ms", 40, 600),
            metric("payments", "cpu_percent", 40, 92),
            metric("search", "latency_p99_ms", 50, 62, onset=9),
            metric("db", "latency_p99_ms", 5, 5.6, onset=12),
        ),
        topology=edges(),
        changes=[
            change(-12, "payments", "v2.3.1", title="payments v2.3.1"),
            change(-50, "search", "v9", title="search v9"),
        ],
    )


@story
def a_database_out_of_connections(folder: Path) -> Case:
    lines = [m / 4 for m in range(80)]
    return write_case(
        folder,
        alert={"service": "checkout", "signal": "error_ratio", "title": "checkout fails"},
        metrics=joined(
            metric("checkout", "error_ratio", 0.004, 0.21, onset=1),
            metric("web", "error_ratio", 0.003, 0.07, onset=1),
            metric("payments", "error_ratio", 0.002, 0.28),
            metric("payments", "latency_p99_ms", 40, 400),
            metric("db", "connections_used_ratio", 0.4, 0.99, onset=-1),
            metric("db", "latency_p99_ms", 5, 90),
        ),
        logs=joined(
            logs(
                "payments", "timed out waiting for a connection from the pool", lines, level="ERROR"
            ),
            logs("payments", "payment accepted", [m / 2 for m in range(-120, 60)], level="INFO"),
        ),
        topology=edges(),
    )


@story
def trouble_that_began_later_elsewhere(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "checkout", "signal": "latency_p99_ms", "title": "checkout is slow"},
        metrics=joined(
            metric("checkout", "latency_p99_ms", 90, 420),
            metric("checkout", "memory_percent", 40, 88, onset=-2),
            metric("batch", "cpu_percent", 30, 97, onset=8),
            metric("search", "cpu_percent", 30, 90, onset=8),
            metric("search", "latency_p99_ms", 50, 300, onset=8),
            metric("payments", "cpu_percent", 30, 85, onset=10),
        ),
        topology=edges(),
    )


@story
def a_callee_that_times_out(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "error_ratio", "title": "web fails"},
        metrics=joined(
            metric("web", "error_ratio", 0.002, 0.12, onset=1),
            metric("checkout", "error_ratio", 0.002, 0.18),
            metric("checkout", "latency_p99_ms", 90, 1400),
            metric("payments", "latency_p99_ms", 40, 1300),
            metric("payments", "error_ratio", 0.001, 0.001),
            metric("db", "latency_p99_ms", 5, 22),
            metric("db", "error_ratio", 0.001, 0.001),
        ),
        topology=edges(),
    )


@story
def a_slow_callee_that_nobody_feels(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "error_ratio", "title": "web fails"},
        metrics=joined(
            metric("web", "error_ratio", 0.002, 0.1),
            metric("web", "latency_p99_ms", 120, 121),
            metric("search", "latency_p99_ms", 40, 900),
            metric("checkout", "error_ratio", 0.001, 0.16, onset=-1),
            metric("checkout", "latency_p99_ms", 90, 91),
        ),
        topology=edges(),
    )


@story
def metrics_that_could_not_be_collected(folder: Path) -> Case:
    lines = [m / 6 for m in range(120)]
    return write_case(
        folder,
        alert={"service": "checkout", "title": "checkout fails"},
        scope={"services": ["checkout"]},
        logs=joined(
            logs("checkout", "order placed", [m / 2 for m in range(-120, 60)], level="INFO"),
            logs("checkout", "cache miss for key", [m / 3 for m in range(-180, 0)], level="INFO"),
            logs(
                "checkout",
                "x509: certificate has expired or is not yet valid",
                lines,
                level="ERROR",
            ),
            logs(
                "payments",
                "retry of call to bank",
                [-9, -5, 1, 2, 3, 4, 5, 6, 7, 9, 11],
                level="WARN",
            ),
        ),
        evidence=[
            {"id": "E1", "kind": "logs", "source": "loki", "query": "{app=checkout}"},
            {
                "id": "E2",
                "kind": "metrics",
                "source": "prometheus",
                "query": "up",
                "reason": "no answer within 20 s",
            },
        ],
        changes=[change(-8, "checkout", "cfg-1", kind="config", title="turn on mTLS")],
    )


@story
def a_service_that_logs_less_and_something_new(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "orders", "signal": "queue_depth", "title": "orders queue grows"},
        metrics=joined(
            metric("orders", "queue_depth", 30, 900, onset=2),
            metric("orders", "cpu_percent", 50, 9, onset=2),
        ),
        logs=joined(
            logs("orders", "consumed message", [m / 4 for m in range(-240, 8)], level="INFO"),
            logs("orders", "consumed message", [m * 2 for m in range(1, 15)], level="INFO"),
            logs("orders", "heartbeat of consumer", range(-60, 30), level="INFO"),
            logs(
                "orders",
                "KafkaConsumer: offset commit failed, group is rebalancing",
                [2 + m / 5 for m in range(70)],
                level="ERROR",
            ),
            logs("orders", "slow poll", [-50, -41, -30, -22, -13, -4], level="WARN"),
            logs("orders", "slow poll", [3 + m / 2 for m in range(30)], level="WARN"),
        ),
        changes=[
            change(
                -6,
                "orders",
                "cfg-7",
                kind="config",
                title="lower session timeout of the consumer",
                files="orders/consumer.yaml",
                diff="-  session.timeout.ms: 45000\n+  session.timeout.ms: 300",
            ),
            change(-45, "orders", "v3", title="orders v3", files="orders/view.py"),
            change(-10, "web", "v8", title="web v8", files="web/banner.py"),
        ],
        topology=edges(("web", "orders"), ("orders", "stock")),
    )


@story
def two_services_equally_bad(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 400),
            metric("search", "cpu_percent", 40, 86),
            metric("checkout", "cpu_percent", 40, 85),
            metric("payments", "cpu_percent", 40, 84),
        ),
        spans=requests(-40, 60, "b", own_ms=OWN),
        evidence=collected(("metrics", "prometheus"), ("spans", "tempo"), ("logs", "loki")),
        topology=edges(),
    )


@story
def two_services_of_which_one_recovered(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "error_ratio", "title": "web fails"},
        metrics=joined(
            metric("web", "error_ratio", 0.01, 0.12),
            metric("search", "error_ratio", 0.01, 0.2, until=20),
            metric("checkout", "latency_p99_ms", 80, 170),
            metric("checkout", "availability", 99.9, 97, noise=0.0005),
        ),
        topology=edges(),
        changes=[change(-3, "checkout", "v31", title="checkout v31: new price table")],
    )


@story
def a_pod_that_restarts(folder: Path) -> Case:
    restarts = [
        {"time": at(m), "service": "cart", "signal": "pod_restarts", "value": float(max(0, m) // 4)}
        for m in range(-60, 30)
    ]
    return write_case(
        folder,
        alert={"service": "web", "signal": "availability", "title": "web availability is low"},
        metrics=joined(
            restarts,
            metric("cart", "availability", 99.9, 82, noise=0.0005),
            metric("web", "availability", 99.9, 96, noise=0.0005),
        ),
        topology=edges(("web", "cart"), ("cart", "redis")),
    )


@story
def a_fault_seen_last_week(folder: Path) -> Case:
    folder.mkdir()
    week_ago = {
        "id": "20260222-1",
        "at": at(-7 * 1440),
        "verdict": "cause_found",
        "title": "web is slow",
        "fingerprint": "f",
        "causes": [{"subject": "search", "kind": "resource_saturation", "troubles": ["resource"]}],
    }
    recalled = [{"why": "same_alert", "investigation": week_ago}]
    (folder / "earlier.json").write_text(
        json.dumps({"recalled": recalled, "seen": [{"days": 30, "times": 1}]})
    )
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 500), metric("search", "cpu_percent", 40, 97)
        ),
        topology=edges(),
    )


@story
def little_was_collected(folder: Path) -> Case:
    refused = {"kind": "spans", "source": "tempo", "query": "q", "reason": "403 forbidden"}
    silent = {"kind": "topology", "source": "tempo", "query": "q", "reason": "no answer in 20 s"}
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        logs=logs("checkout", "GET / 200", range(-60, 30), level="INFO"),
        evidence=[
            *collected(("logs", "loki")),
            {"id": "E7", **refused},
            {"id": "E8", **silent},
            {"id": "E9", "kind": "logs", "source": "datadog", "query": "q", "reason": "over limit"},
        ],
    )


@story
def a_rank_that_holds_up_a_training_job(folder: Path) -> Case:
    shutil.copytree(Path(__file__).parents[3] / "demo" / "cases" / "slow-rank", folder)
    return read_case(folder)
