"""Rows of metrics, changes, calls, requests and alarms, from which stories are written."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import Case
from tests.analysis.cases import at

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


def alarms(monitor: str, service: str, times: Iterable[tuple[float, float]]) -> Rows:
    """State changes of a monitor that fired from the first minute to the second of each pair."""
    rows = []
    for began, ended in times:
        for minute, state in ((began, "Alert"), (ended, "OK")):
            row = {"monitor": monitor, "service": service, "state": state, "since": at(minute)}
            rows.append(row)
    return rows


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


def collected(*items: tuple[str, str]) -> Rows:
    """Evidence of these kinds, by what was asked of whom."""
    return [
        {"id": f"E{n}", "kind": kind, "source": source, "query": f"{kind} of the services"}
        for n, (kind, source) in enumerate(items, start=1)
    ]
