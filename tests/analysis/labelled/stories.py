"""Small incidents with known causes, written by hand, that hold every weight and threshold.

Each function fills one case folder. What the answer must be is in `labels.json`: the verdict, the
causes and the strength of what was found. `benchmarks/held_weights.py` halves one constant after
the other and names those that change none of these answers.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from analysis.case.folder import Case, read_case
from tests.analysis.cases import at, logs, write_case

Rows = list[dict[str, Any]]
Story = Callable[[Path], Case]

STORIES: dict[str, Story] = {}
CALLS = [("web", "checkout"), ("checkout", "payments"), ("payments", "db"), ("web", "search")]


def story(function: Story) -> Story:
    """Add the function to the stories, by its name."""
    STORIES[function.__name__] = function
    return function


def edges(*pairs: tuple[str, str]) -> Rows:
    return [{"caller": caller, "callee": callee} for caller, callee in pairs or CALLS]


def metric(
    service: str,
    signal: str,
    before: float,
    after: float,
    *,
    onset: float = 0,
    until: float = 30,
    noise: float = 0.03,
    step: float = 1,
    start: float = -60,
) -> Rows:
    """A metric with Gaussian noise that is the same in every run; at `after` from `onset` on."""
    dice = random.Random(f"{service} {signal}")
    rows = []
    minute = start
    while minute < 30:
        level = after if onset <= minute < until else before
        value = max(0.0, level + noise * level * dice.gauss(0, 1))
        rows.append({"time": at(minute), "service": service, "signal": signal, "value": value})
        minute += step
    return rows


def change(minute: float, service: str, name: str, **columns: Any) -> dict[str, Any]:
    return {
        "time": at(minute),
        "service": service,
        "kind": "deploy",
        "id": name,
        "title": name,
        **columns,
    }


def joined(*parts: Iterable[dict[str, Any]]) -> Rows:
    return [row for part in parts for row in part]


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
def a_surge_of_traffic(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "checkout", "signal": "latency_p99_ms", "title": "checkout is slow"},
        metrics=joined(
            metric("web", "requests_per_second", 100, 320),
            metric("checkout", "requests_per_second", 60, 190),
            metric("payments", "requests_per_second", 60, 180),
            metric("checkout", "cpu_percent", 35, 96),
            metric("checkout", "latency_p99_ms", 90, 480),
            metric("web", "latency_p99_ms", 120, 500),
            metric("payments", "cpu_percent", 30, 64),
        ),
        topology=edges(),
        changes=[change(-25, "checkout", "v7", title="checkout v7")],
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
def a_calm_signal(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 121),
            metric("checkout", "latency_p99_ms", 90, 90),
            metric("payments", "cpu_percent", 40, 44),
        ),
        topology=edges(),
    )


@story
def a_signal_that_came_back(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 800, until=12),
            metric("checkout", "latency_p99_ms", 90, 760, until=12),
            metric("checkout", "cpu_percent", 30, 95, until=12),
            metric("search", "latency_p99_ms", 50, 53),
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


def alarms(monitor: str, service: str, times: Iterable[tuple[float, float]]) -> Rows:
    """State changes of a monitor that fired from the first minute to the second of each pair."""
    rows = []
    for began, ended in times:
        for minute, state in ((began, "Alert"), (ended, "OK")):
            row = {"monitor": monitor, "service": service, "state": state, "since": at(minute)}
            rows.append(row)
    return rows


@story
def a_monitor_that_flaps(folder: Path) -> Case:
    return write_case(
        folder,
        alert={
            "service": "web",
            "signal": "latency_p99_ms",
            "title": "web is slow",
            "labels": {"monitor_name": "web is slow"},
        },
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 122),
            metric("checkout", "latency_p99_ms", 90, 91),
        ),
        monitors=alarms("web is slow", "web", [(-300, -291), (-200, -188), (-90, -80), (0, 6)]),
        topology=edges(),
    )


@story
def a_threshold_in_the_normal_range(folder: Path) -> Case:
    humps = [
        metric("web", "latency_p99_ms", 300, 430, onset=m, until=m + 4, start=m, noise=0.01)[:4]
        for m in (-50, -30, 3)
    ]
    level = metric("web", "latency_p99_ms", 300, 300, noise=0.01)
    taken = {row["time"] for hump in humps for row in hump}
    return write_case(
        folder,
        alert={
            "service": "web",
            "signal": "latency_p99_ms",
            "title": "web is slow",
            "threshold": 400.0,
            "observed": 425.0,
        },
        metrics=joined(*humps, (row for row in level if row["time"] not in taken)),
        topology=edges(),
    )


@story
def a_signal_that_stopped(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "payments", "signal": "error_ratio", "title": "payments: no data"},
        metrics=joined(
            (r for r in metric("payments", "error_ratio", 0.01, 0.01) if r["time"] < at(20)),
            metric("payments", "cpu_percent", 40, 40),
            metric("web", "latency_p99_ms", 120, 120),
        ),
        topology=edges(),
    )


@story
def the_same_at_this_hour_of_every_day(folder: Path) -> Case:
    days: Rows = []
    for day in (1, 2, 3, 4):
        shift = -1440 * day
        night = metric("web", "latency_p99_ms", 120, 330, onset=shift, until=shift + 30, step=5)
        days += [row for row in night if row["time"] < at(shift + 60)]
        early = metric(
            "web", "latency_p99_ms", 120, 330, onset=shift, until=shift + 30, step=5,
            start=shift - 120,
        )  # fmt: skip
        days += [row for row in early if row["time"] < at(shift + 60)]
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        scope={"baseline": [[at(-1440 * 4 - 120), at(0)]]},
        metrics=joined(days, metric("web", "latency_p99_ms", 120, 340, start=-120)),
        topology=edges(),
    )


def requests(
    first: float,
    count: int,
    tag: str,
    *,
    own_ms: dict[str, float],
    skip: str = "",
    calls: int = 1,
    failed: Iterable[str] = (),
    failing: int = 0,
    repeats: int = 0,
) -> Rows:
    """`count` requests web -> checkout -> payments -> db, one every ten seconds.

    Without the service `skip`; `calls` from payments to the database; `failed` are marked in the
    first `failing` requests; the first `repeats` call payments three times.
    """
    rows: Rows = []
    dice = random.Random(tag)
    chain = [name for name in ("web", "checkout", "payments", "db") if name != skip]
    for i in range(count):
        spread = 1 + 0.05 * dice.gauss(0, 1)
        times = {"db": calls, "payments": 3 if i < repeats else 1}
        # From the last service up: what each takes itself, and its waits for the next one.
        total: dict[str, float] = {}
        wait = 0.0
        for name in reversed(chain):
            total[name] = own_ms[name] * spread + wait
            wait = (total[name] + NETWORK_MS) * times.get(name, 1)
        start, parent = 60_000 * (first + i / 6), ""
        for name in chain:
            status = "Error" if name in failed and i < failing else None
            shared = {"trace_id": f"{tag}{i}", "status": status}
            for n in range(times.get(name, 1)):
                begin = start + n * (total[name] + NETWORK_MS)
                server = f"{name} {n}"
                if parent:
                    called_by = {"service": chain[chain.index(name) - 1], "parent_id": parent}
                    took = total[name] + NETWORK_MS
                    rows.append(
                        {**shared, **called_by, **timed(f"to {server}", begin, took)}
                        | {"operation": f"call {name}"}
                    )
                rows.append(
                    {**shared, **timed(server, begin + NETWORK_MS / 2, total[name])}
                    | {"service": name, "operation": f"{name} request"}
                    | {"parent_id": f"to {server}" if parent else None}
                )
            start, parent = start + 1.0, f"{name} 0"
    return rows


NETWORK_MS = 1.0


def timed(name: str, start_ms: float, took_ms: float) -> dict[str, Any]:
    return {"span_id": name, "start": at(start_ms / 60_000), "duration_us": took_ms * 1000}


OWN = {"web": 12.0, "checkout": 18.0, "payments": 20.0, "db": 4.0}


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
def a_leak_that_climbs_from_a_deploy_on(folder: Path) -> Case:
    climb = [
        {"time": at(m), "service": "cart", "signal": "memory_percent",
         "value": 40 + max(0, m + 50) * 0.7 + 0.4 * ((m * 7) % 5 - 2)}
        for m in range(-60, 30)
    ]  # fmt: skip
    return write_case(
        folder,
        alert={"service": "cart", "signal": "latency_p99_ms", "title": "cart is slow"},
        metrics=joined(climb, metric("cart", "latency_p99_ms", 60, 240)),
        changes=[
            change(-51, "cart", "v12", title="cart v12: keep sessions in memory"),
            change(-4, "cart", "flag-banner", kind="flag", title="new banner"),
        ],
        topology=edges(("web", "cart"), ("cart", "redis")),
    )


def collected(*items: tuple[str, str]) -> Rows:
    """Evidence of these kinds, by what was asked of whom."""
    return [
        {"id": f"E{n}", "kind": kind, "source": source, "query": f"{kind} of the services"}
        for n, (kind, source) in enumerate(items, start=1)
    ]


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
def a_small_move_above_a_clear_one(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 125),
            metric("search", "latency_p99_ms", 50, 62),
        ),
        topology=edges(),
    )


@story
def a_calm_signal_beside_something_clear(folder: Path) -> Case:
    return write_case(
        folder,
        alert={"service": "web", "signal": "latency_p99_ms", "title": "web is slow"},
        metrics=joined(
            metric("web", "latency_p99_ms", 120, 120),
            metric("checkout", "error_ratio", 0.02, 0.035),
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
