"""`faultline digest`, run as a person runs it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import update
from sqlalchemy.orm import Session
from typer.testing import CliRunner

from faultline.analysis.training.fleet_parts import BlamedPart
from faultline.analysis.vocabulary import Alert
from faultline.bot.cli.main import app
from faultline.bot.settings import load_settings
from faultline.bot.store.databases import open_store
from faultline.bot.store.fleet import FleetMemory
from faultline.bot.store.tables import InvestigationRow
from tests.bot.cli.test_fleet_command import config

__all__ = ["config"]

NOW = datetime.now(UTC)
HOSTS = tuple(f"gpu-{n:02d}" for n in range(1, 17))


def printed(config: Path, *options: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["digest", "--config", str(config), *options])
    assert result.exit_code == code, result.output
    return result.stdout


def fired(config: Path, title: str, hours_ago: float, *, team: str, minutes: float | None) -> str:
    """An alert with nothing wrong, resolved after some minutes unless it is open."""
    store, at = open_store(load_settings(config)), NOW - timedelta(hours=hours_ago)
    labels = {"fingerprint": f"{title} {hours_ago}"}
    alert = Alert(source="test", title=title, started_at=at, service="db", labels=labels)
    id_ = store.accept(alert, now=at).investigation_id or ""
    verdict, headline = "no_active_incident", "No active incident: all is as usual"
    store.finish(id_, "done", verdict=verdict, confidence=0.9, headline=headline)
    if minutes is not None:
        over = alert.model_copy(update={"status": "resolved"})
        store.accept(over, now=at + timedelta(minutes=minutes))
    row = InvestigationRow
    with Session(store.engine) as session, session.begin():
        session.execute(update(row).values(team=team).where(row.id == id_))
    blamed = [BlamedPart(host="gpu-07", part="gpu3", fault="gpu_xid")]
    fleet = FleetMemory(store.engine)
    fleet.remember(id_, at=at, job=title, hosts=HOSTS, blamed=blamed)
    store.engine.dispose()
    return id_


def test_the_next_shift_gets_one_part_for_each_team(config: Path) -> None:
    noise = [fired(config, "Disk", hours, team="storage", minutes=4) for hours in (30, 60)]
    waiting = fired(config, "Latency\x1b[31m", 3, team="", minutes=None)
    pages = "http://127.0.0.1:8080/investigations"
    assert printed(config).splitlines() == [
        "storage: 2 alerts in the last 7 days: 2 with nothing wrong or over by themselves. "
        "None are open.",
        "",
        "Noise",
        "  Disk (db): fired 2 times, 2 with nothing wrong, median length 4 min",
        f"    {pages}/{noise[0]}",
        "",
        "no team: 1 alert in the last 7 days: 1 with nothing wrong or over by themselves. "
        "1 is open.",
        "",
        "Open",
        "  Latency [31m (db), for 3 hours: No active incident: all is as usual",
        f"    {pages}/{waiting}",
        "",
        "Machines",
        "  gpu-07 (3 of 3 incidents) was to blame more often than by chance, in 90 days",
        f"    {pages}/{waiting}",
    ]


def test_one_team_since_a_time_as_json(config: Path) -> None:
    ids = [fired(config, "Disk", hours, team="storage", minutes=4) for hours in (3, 9, 60)]
    fired(config, "Latency", 3, team="", minutes=None)
    document = json.loads(printed(config, "--since", "24h", "--team", "Storage", "--json"))
    (team,) = document["teams"]
    assert (team["team"], team["alerts"]) == ("storage", 2)
    assert team["by_verdict"] == {"no_active_incident": 2}
    (noise,) = team["noise"]
    assert (noise["fired"], noise["nothing_wrong"], noise["median_length_s"]) == (2, 2, 240)
    assert [one["id"] for one in noise["incidents"]] == ids[:2]
    assert noise["incidents"][0]["page"].endswith(f"/investigations/{ids[0]}")


def test_nothing_to_hand_over_and_a_team_that_nobody_knows(config: Path) -> None:
    assert printed(config) == "No alert was investigated in that time, and none is open.\n"
    printed(config, "--team", "nobody", code=1)
    printed(config, "--since", "soon", code=1)
