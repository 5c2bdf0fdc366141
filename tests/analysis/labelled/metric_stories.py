"""Stories that metrics and monitors tell: signals that moved, came back, flapped or stopped."""

from __future__ import annotations

from pathlib import Path

from faultline.analysis.case.folder import Case
from tests.analysis.cases import at, write_case
from tests.analysis.labelled.story_rows import (
    Rows,
    alarms,
    change,
    edges,
    joined,
    metric,
    story,
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
