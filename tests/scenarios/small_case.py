"""A case small enough to be investigated in a fraction of a second, with one clear cause."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from faultline.analysis.case.folder import write_json
from faultline.analysis.vocabulary import Alert, Scope, Window

STARTED = datetime(2026, 11, 20, 3, 0, tzinfo=UTC)
ALERT = Alert(
    source="pagerduty",
    title="checkout p99 latency above 800 ms",
    started_at=STARTED,
    service="checkout",
    signal="p99_latency_ms",
    severity="critical",
)


def write_small_case(folder: Path) -> Path:
    """An hour of baseline, ten minutes of tripled latency, a deploy two minutes before it."""
    folder.mkdir(parents=True)
    onset = STARTED - timedelta(minutes=4)
    write_json(folder / "alert.json", ALERT)
    scope = Scope(
        incident=Window(start=STARTED - timedelta(minutes=5), end=STARTED + timedelta(minutes=6)),
        baseline=(Window(start=STARTED - timedelta(hours=1), end=STARTED - timedelta(minutes=5)),),
    )
    write_json(folder / "scope.json", scope)
    rows = ["time,service,signal,value"]
    for minute in range(-60, 6):
        at = STARTED + timedelta(minutes=minute)
        slow = at >= onset
        for service, usual in (("checkout", 210.0), ("cart", 45.0)):
            value = usual + 7 * (minute % 5) + (520 if slow and service == "checkout" else 0)
            rows.append(f"{at.isoformat()},{service},p99_latency_ms,{value}")
    (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
    deploy = (onset - timedelta(minutes=2)).isoformat()
    (folder / "changes.csv").write_text(
        f"time,service,kind,id,title\n{deploy},checkout,deploy,4f2a9c1,checkout v2026.11.20-1\n"
    )
    return folder
