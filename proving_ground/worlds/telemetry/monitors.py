"""The alert as a monitoring system sends it, and the states of monitors around it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np
import polars as pl

from proving_ground.worlds.alerts import CPU, DEPTH, ERRORS, LATENCY, RATE
from proving_ground.worlds.telemetry.conditions import Conditions
from proving_ground.worlds.telemetry.conventions import CONVENTIONS
from proving_ground.worlds.telemetry.metrics import ALERTED, BILLION
from proving_ground.worlds.world import World

TITLES = {
    ERRORS: ("{unit}: error rate above {limit}", "High failure rate on {unit}", "{unit} 5xx rate"),
    LATENCY: ("{unit}: latency above {limit}", "{unit} is slow", "High p95 latency on {unit}"),
    DEPTH: ("{unit}: backlog above {limit}", "Messages pile up in {unit}"),
    RATE: ("{unit}: request rate above {limit}", "Unusual traffic on {unit}"),
    CPU: ("{unit}: CPU above {limit}", "High CPU on {unit}"),
}
SOURCES = ("prometheus", "datadog", "cloudwatch", "grafana", "pagerduty")


def iso_time(seconds: float) -> str:
    """ISO 8601 in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def alert_document(world: World, conditions: Conditions) -> dict[str, Any]:
    """alert.json. Half of the alerts name their signal and say how far it is out."""
    rng = world.seed.generator("alert")
    rule = world.rule
    unit = world.graph.units[rule.unit].name
    title = str(rng.choice(TITLES[rule.signal]))
    document: dict[str, Any] = {
        "source": str(rng.choice(SOURCES)),
        "title": title.format(unit=unit, limit=_limit(rule.signal, rule.threshold)),
        "started_at": iso_time(world.clock.at(world.alert_step)),
        "system": world.graph.system,
        "severity": str(rng.choice(("critical", "warning"))),
    }
    if rng.random() < 0.85:
        document["service"] = unit
    signal, scale = _recorded_signal(world, conditions)
    if rng.random() < 0.6 and signal is not None:
        document["signal"] = signal
        if rng.random() < 0.5 and scale is not None:
            document["threshold"] = float(f"{rule.threshold * scale:.4g}")
    return document


def monitors_table(world: World) -> pl.DataFrame:
    """monitor, service, state, since: the alert's own monitor, and some others that are fine."""
    rng = world.seed.generator("monitors")
    if rng.random() < 0.5:
        return pl.DataFrame()
    graph, clock = world.graph, world.clock
    unit = graph.units[world.rule.unit].name
    rows = [(f"{unit} {world.rule.signal}", unit, "firing", clock.at(world.alert_step))]
    if world.story == "noise":
        # What flaps now has flapped before.
        for step in np.sort(rng.uniform(0, world.alert_step, int(rng.integers(0, 6)))):
            rows.append((rows[0][0], unit, "firing", clock.at(float(step))))
            rows.append((rows[0][0], unit, "ok", clock.at(min(float(step) + 12, world.alert_step))))
    for bystander in world.bystanders:
        state = "firing" if bystander.ends is None else "ok"
        turned = bystander.begins + 20 if bystander.ends is None else bystander.ends + 20
        if rng.random() < 0.5 and turned < world.window[1]:
            rows.append((f"{bystander.subject} health", bystander.subject, state, clock.at(turned)))
    for number in rng.choice(len(graph.units), size=min(3, len(graph.units)), replace=False):
        name = graph.units[int(number)].name
        if name != unit:
            rows.append((f"{name} saturation", name, "ok", clock.at(0)))
    times = pl.Series("since", [int(row[3] * 1000) * (BILLION // 1000) for row in rows])
    table = pl.DataFrame(
        {
            "monitor": [row[0] for row in rows],
            "service": [row[1] for row in rows],
            "state": [row[2] for row in rows],
            "since": times,
        }
    )
    return table.with_columns(pl.col("since").cast(pl.Datetime("ns")).dt.replace_time_zone("UTC"))


def _recorded_signal(world: World, conditions: Conditions) -> tuple[str | None, float | None]:
    """(the metric the rule's signal is recorded as, its scale where they are the same quantity)."""
    names = CONVENTIONS[conditions.conventions[world.rule.unit]]
    same = {ERRORS: "error_ratio", LATENCY: "latency_p95", DEPTH: "queue_depth", CPU: "cpu"}
    for quantity in sorted(
        ALERTED[world.rule.signal], key=lambda q: q != same.get(world.rule.signal)
    ):
        # Traffic stands for failures in no monitor.
        if quantity == "requests" and world.rule.signal != RATE:
            continue
        name = names.get(quantity)
        if name is not None and name.form != "lacking":
            exact = quantity == same.get(world.rule.signal)
            return name.signal, name.scale if exact else None
    return None, None


def _limit(signal: str, threshold: float) -> str:
    if signal in (ERRORS, CPU):
        return f"{threshold * 100:.3g} %"
    if signal == LATENCY:
        milliseconds = threshold * 1000
        return f"{milliseconds:.0f} ms" if milliseconds >= 100 else f"{milliseconds:.3g} ms"
    return f"{threshold:.0f}" + ("/s" if signal == RATE else "")
