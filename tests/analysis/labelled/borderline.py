"""Cases near every threshold: moves, counts and shares drawn at random, the same in every run.

Nobody says what is right here: a labelled case far from a threshold does not notice when that
threshold moves, and these do. `labels.json` holds what the analysis makes of them.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import Case
from tests.analysis.cases import at, logs, write_case
from tests.analysis.labelled.story_rows import (
    Rows,
    alarms,
    change,
    edges,
    joined,
    metric,
    requests,
)

SEEDS = range(36)
SIGNALS = (
    ("latency_p99_ms", 100.0),
    ("error_ratio", 0.01),
    ("cpu_percent", 45.0),
    ("memory_percent", 60.0),
    ("queue_depth", 40.0),
    ("requests_per_second", 80.0),
    ("availability", 99.5),
    ("errors_total", 3.0),
)
LINES = (
    ("connection to upstream was refused", "ERROR"),
    ("could not acquire a connection from the pool in 250 ms", "ERROR"),
    ("slow query of orders", "WARN"),
    ("request handled", "INFO"),
    ("java.lang.OutOfMemoryError: Java heap space", "ERROR"),
    ("cache refreshed", "INFO"),
)
DIFFS = (
    "-  timeout_ms: 3000\n+  timeout_ms: 900",
    "-  pool_size = 40\n+  pool_size = 10",
    "-    rows = fetch(limit)\n+    rows = fetch_all()\n+    rows.sort()",
    "-def handled(request):\n+def handled(request, retries=3):\n     return refused(request)",
    '-log.info("request handled")\n+log.info("request was handled")',
    "-  replicas: 6\n+  replicas: 5",
)
SERVICES = ("web", "checkout", "payments", "db", "search")


def borderline(seed: int, folder: Path) -> Case:
    """One case: about a third of what is drawn stands out clearly, a third hardly, the rest not."""
    dice = random.Random(seed)
    signal, level = dice.choice(SIGNALS[:4])
    alert: dict[str, Any] = {"service": "web", "signal": signal, "title": f"web {signal} too high"}
    if dice.random() < 0.5:
        alert |= {"threshold": level * dice.uniform(0.9, 1.5)}
        alert |= {"observed": level * dice.uniform(0.9, 2.5)}
    baseline = dice.choice((60, 60, 240))
    return write_case(
        folder,
        alert=alert,
        scope={"baseline": [[at(-baseline), at(0)]]},
        metrics=_metrics(dice, signal, level, baseline),
        logs=_logs(dice),
        spans=_spans(dice),
        changes=_changes(dice),
        monitors=_monitors(dice),
        topology=edges() if dice.random() < 0.8 else [],
    )


def _metrics(dice: random.Random, signal: str, level: float, baseline: float) -> Rows:
    chosen = [("web", signal, level)]
    for _ in range(7):
        name, usual = dice.choice(SIGNALS)
        chosen.append((dice.choice(SERVICES), name, usual))
    rows: Rows = []
    for service, name, usual in dict.fromkeys(chosen):
        times = dice.choice((1.0, 1.02, 1.06, 1.15, 1.4, 2.0, 4.0))
        onset = dice.choice((-4, 0, 0, 1, 3, 9, 24, 27))
        until = dice.choice((30, 30, 30, onset + 2, onset + 6, 20, 26))
        own = metric(
            service,
            name,
            usual,
            usual / times if name == "availability" else usual * times,
            onset=onset,
            until=until,
            noise=dice.choice((0.0, 0.005, 0.03, 0.1, 0.3)),
            step=dice.choice((1, 1, 1, 5)),
            start=-baseline,
        )
        if dice.random() < 0.3:
            own = _with_humps(dice, own, usual * times)
        if dice.random() < 0.2:
            own = own[: -dice.choice((3, 5, 12))]
        if dice.random() < 0.15:
            own = own[-dice.choice((28, 32, 36)) :]
        rows += own
    return rows


def _with_humps(dice: random.Random, rows: Rows, height: float) -> Rows:
    """The series with the same move a few times before."""
    for _ in range(dice.choice((1, 2, 3, 5))):
        first = dice.randrange(len(rows) // 2)
        for row in rows[first : first + dice.choice((1, 3, 8))]:
            row["value"] = height
    return rows


def _logs(dice: random.Random) -> Rows:
    rows: Rows = []
    for service in dice.sample(SERVICES, 2):
        for line, level in dice.sample(LINES, 3):
            before = dice.choice((0, 0, 2, 4, 6, 12, 60))
            after = dice.choice((0, 1, 2, 3, 5, 9, 20, 60))
            when = [dice.uniform(-60, 0) for _ in range(before)]
            when += [dice.uniform(0, 30) for _ in range(after)]
            rows += logs(service, line, sorted(when), level=level)
    return rows


def _spans(dice: random.Random) -> Rows:
    if dice.random() < 0.4:
        return []
    own = {"web": 10.0, "checkout": 12.0, "payments": 15.0, "db": 4.0}
    slow = dice.choice(tuple(own))
    times = dice.choice((1.0, 1.2, 1.35, 1.6, 3.0))
    count = dice.choice((3, 5, 8, 20, 60))
    worse = {
        "own_ms": own | {slow: own[slow] * times},
        "calls": dice.choice((1, 1, 2, 3, 5, 9)),
        "failed": dice.sample(tuple(own), 2),
        "failing": dice.choice((0, 0, 1, 2, 4, count // 2)),
        "repeats": dice.choice((0, 0, 2, count // 3, count)),
    }
    cut = dice.choice((0, 0, count // 5, count // 2))
    return joined(
        requests(-40, dice.choice((4, 10, 60)), "b", own_ms=own, calls=dice.choice((1, 2))),
        requests(1, count, "i", **worse),  # type: ignore[arg-type]
        requests(2, cut, "c", own_ms=own, skip=dice.choice(("db", "payments"))),
    )


def _changes(dice: random.Random) -> Rows:
    rows = []
    for number in range(dice.choice((0, 1, 2, 4))):
        diff = dice.choice(DIFFS)
        service = dice.choice((*SERVICES, "", "shared-lib"))
        rows.append(
            change(
                dice.choice((-55, -30, -12, -5, -1, 2, 8)),
                service,
                f"c{number}",
                kind=dice.choice(("deploy", "config", "flag", "migration", "scale", "merge")),
                title=dice.choice(("tune timeouts of payments", "bump client", "new handler")),
                files=f"{service or 'lib'}/settings.yaml",
                diff=diff if dice.random() < 0.7 else None,
            )
        )
    return rows


def _monitors(dice: random.Random) -> Rows:
    if dice.random() < 0.6:
        return []
    count = dice.choice((2, 3, 4))
    length = dice.choice((3, 8, 14, 17))
    times = [(-300 + 60 * n, -300 + 60 * n + length) for n in range(count)]
    return alarms("web latency_p99_ms too high", "web", [*times, (0, dice.choice((5, 20, 29)))])
