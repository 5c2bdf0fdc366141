"""The fleet's memory on both databases: how often a machine was to blame, beside chance."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from faultline.analysis.training.fleet_parts import BlamedPart, by_chance
from faultline.analysis.vocabulary import Alert
from faultline.bot.operating.deleting import delete_rows
from faultline.bot.store.fleet import FleetMemory
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow
from faultline.bot.store.visibility import visible_to_teams

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
SINCE = NOW - timedelta(days=90)
HOSTS = tuple(f"gpu-{n:02d}" for n in range(1, 17))


def investigated(
    store: Store,
    days_ago: float,
    blamed: str = "",
    *,
    job: str = "llm",
    hosts: tuple[str, ...] = HOSTS,
    part: str = "gpu3",
    team: str = "",
) -> str:
    """An investigation of a job on these machines, kept in the fleet's memory."""
    at = NOW - timedelta(days=days_ago)
    alert = Alert(source="test", title=f"{job} is slow ({days_ago})", started_at=at, service=job)
    id_ = store.accept(alert, now=at).investigation_id
    assert id_ is not None
    with Session(store.engine) as session, session.begin():
        session.execute(
            update(InvestigationRow).values(team=team).where(InvestigationRow.id == id_)
        )
    parts = [BlamedPart(host=blamed, part=part, fault="straggler")] if blamed else []
    FleetMemory(store.engine).remember(id_, at=at, job=job, hosts=hosts, blamed=parts)
    return id_


def test_the_slow_machine_of_four_in_six_incidents_is_found(store: Store) -> None:
    ids = [investigated(store, day, "gpu-07") for day in (1, 3, 5, 7)]
    investigated(store, 2, "gpu-02")
    investigated(store, 4)
    others = tuple(host for host in HOSTS if host != "gpu-07")
    investigated(store, 6, "gpu-03", hosts=others)
    (record,) = FleetMemory(store.engine).records(since=SINCE, before=NOW)
    assert (record.host, record.blamed, record.took_part) == ("gpu-07", 4, 6)
    assert record.part == "gpu3"
    assert [one.id for one in record.incidents] == ids
    assert record.by_chance == pytest.approx(by_chance(4, [1 / 16] * 5))
    assert FleetMemory(store.engine).suspicious(since=SINCE, before=NOW) == (record,)


def test_a_machine_of_a_job_with_few_machines_may_be_there_by_chance(store: Store) -> None:
    pair = ("gpu-01", "gpu-02")
    for day in (1, 3):
        investigated(store, day, "gpu-01", hosts=pair)
    fleet = FleetMemory(store.engine)
    (record,) = fleet.records(since=SINCE, before=NOW)
    assert record.by_chance == pytest.approx(0.25)
    assert fleet.suspicious(since=SINCE, before=NOW) == ()


def test_alerts_about_one_job_on_one_day_are_one_incident(store: Store) -> None:
    for hours in (0.0, 0.02, 0.04):
        investigated(store, 1 + hours, "gpu-07")
    assert FleetMemory(store.engine).records(since=SINCE, before=NOW) == ()


def test_an_answer_that_people_called_wrong_blames_nobody(store: Store) -> None:
    first = investigated(store, 1, "gpu-07")
    investigated(store, 3, "gpu-07")
    Labels(store.engine).write(first, right=False)
    assert FleetMemory(store.engine).records(since=SINCE, before=NOW) == ()


def test_what_is_kept_twice_counts_once_and_goes_with_its_investigation(store: Store) -> None:
    first = investigated(store, 1, "gpu-07")
    investigated(store, 3, "gpu-07")
    fleet = FleetMemory(store.engine)
    again = [BlamedPart(host="gpu-07", fault="gpu_xid")]
    at = NOW - timedelta(days=1)
    fleet.remember(first, at=at, job="llm", hosts=HOSTS, blamed=again)
    (record,) = fleet.records(since=SINCE, before=NOW)
    assert (record.blamed, record.took_part) == (2, 2)
    assert [one.fault for one in record.incidents] == ["gpu_xid", "straggler"]
    with Session(store.engine) as session, session.begin():
        delete_rows(session, [first])
    assert fleet.records(since=SINCE, before=NOW) == ()


def test_workers_keep_theirs_at_once(store: Store) -> None:
    def keep(day: int) -> str:
        return investigated(store, day, "gpu-07")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(keep, range(1, 9)))
    (record,) = FleetMemory(store.engine).records(since=SINCE, before=NOW)
    assert (record.blamed, record.took_part) == (8, 8)


def test_only_the_time_and_the_teams_that_were_asked_for_count(store: Store) -> None:
    own = [investigated(store, day, "gpu-07", team="ml") for day in (1, 3)]
    investigated(store, 5, "gpu-07", team="vision")
    investigated(store, 200, "gpu-07", team="ml")
    seen = FleetMemory(store.engine, visible_to_teams(["ml"]))
    (record,) = seen.records(since=SINCE, before=NOW)
    assert [one.id for one in record.incidents] == own
    assert record.took_part == 2
    assert FleetMemory(store.engine).records(since=SINCE, before=NOW, without=own) == ()
