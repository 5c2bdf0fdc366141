"""Everything that is stored has a bound, is shown, and gives its room back."""

from __future__ import annotations

import sqlite3
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest
from dbos._schemas.system_database import SystemSchema
from sqlalchemy import func, insert, select
from sqlalchemy.orm import Session

from faultline.bot.intake import spool
from faultline.bot.operating.inspection import inspected
from faultline.bot.operating.retention import BY_NATURE, FOLLOW, SWEPT, give_back
from faultline.bot.operating.size_checks import size_checks
from faultline.bot.operating.sweep import Sweep
from faultline.bot.queue.engine_database import migrate_engine, system_engine
from faultline.bot.store.case_store import CaseSizes, CaseStore
from faultline.bot.store.connections import connect, database_bytes, table_sizes
from faultline.bot.store.databases import migrate
from faultline.bot.store.people_tables import PersonActRow, RequestKeyRow, SlackChannelRow
from faultline.bot.store.quotas import make_token, tokens
from faultline.bot.store.tables import (
    Base,
    DeployCheckRow,
    ExecutorRow,
    LastTimeRow,
    ModelSpendingRow,
)
from tests.bot.operating.installation import NOW, Installation, make_case

OLD = NOW - timedelta(days=800)


def test_every_table_has_a_bound() -> None:
    store, engine = Base.metadata.tables, SystemSchema.metadata_obj.tables
    written = {table.name for table in (*store.values(), *engine.values())}
    assert written == {*SWEPT, *FOLLOW, *BY_NATURE}, (
        "bot/operating/retention.py says what bounds each"
    )
    assert set(FOLLOW.values()) <= written


def test_rows_that_follow_are_deleted_by_the_database() -> None:
    for table in Base.metadata.tables.values():
        if table.name in FOLLOW:
            cascades = {k.column.table.name for k in table.foreign_keys if k.ondelete == "CASCADE"}
            assert FOLLOW[table.name] in cascades, table.name


def test_what_nobody_writes_any_more_goes(installation: Installation) -> None:
    name = installation.alert()
    installation.change(name, slack_channel="T1/CUSED")
    rows = (
        ExecutorRow(id="w1", epoch=1, host="gone", role="worker", beat_at=OLD),
        LastTimeRow(name="writes gone", at=OLD),
        PersonActRow(key="k", who="U1", act="ask", at=OLD),
        ModelSpendingRow(day=f"{OLD:%Y-%m-%d}", channel="C1", tokens=1, cost_usd=0.0),
        RequestKeyRow(key="k", digest="d", at=OLD),
        DeployCheckRow(
            id="c", asked={}, team="", asked_by="ann", asked_at=OLD, looks_done=0, verdict=None
        ),
        SlackChannelRow(channel="T1/CGONE", members=["U1"], at=OLD),
        SlackChannelRow(channel="T1/CUSED", members=["U1"], at=OLD),
    )
    with Session(installation.store.engine) as session, session.begin():
        session.add_all(rows)
    for name, made_at in (("over", OLD), ("holds", NOW)):
        make_token(installation.store, name, "viewer", days=30, made_by="ann", now=made_at)
    cases, engine = installation.cases, installation.rows
    Sweep(installation.settings, installation.store, cases, engine, NOW).run()
    with Session(installation.store.engine) as session:
        kinds = (
            ExecutorRow,
            LastTimeRow,
            PersonActRow,
            ModelSpendingRow,
            RequestKeyRow,
            DeployCheckRow,
        )
        left = [session.scalar(select(func.count()).select_from(kind)) for kind in kinds]
        channels = session.scalars(select(SlackChannelRow.channel)).all()
    assert left == [0] * len(kinds)
    assert [one.caller.name for one in tokens(installation.store)] == ["holds"]
    assert channels == ["T1/CUSED"], "who reads it guards what is kept of it"


@pytest.mark.parametrize("of_engine", [False, True], ids=["store", "engine"])
def test_a_new_file_gives_freed_pages_back(tmp_path: Path, of_engine: bool) -> None:
    file = tmp_path / "one.sqlite"
    url = f"sqlite:///{file}"
    if of_engine:
        migrate_engine(url)
    else:
        migrate(connect(url))
    fill_and_empty(file)
    before = file.stat().st_size
    engine = system_engine(url) if of_engine else connect(url)
    given = give_back(engine)
    engine.dispose()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    assert given > 5_000_000
    assert file.stat().st_size < before - 5_000_000


def test_a_file_of_an_older_release_keeps_its_pages(tmp_path: Path) -> None:
    file = tmp_path / "old.sqlite"
    fill_and_empty(file)
    assert give_back(connect(f"sqlite:///{file}")) == 0


def fill_and_empty(file: Path) -> None:
    """8 MB that were written and deleted."""
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE filled (x BLOB)")
        connection.executemany("INSERT INTO filled VALUES (?)", [(b"x" * 8_000,)] * 1_000)
        connection.commit()
        connection.execute("DELETE FROM filled")
    connection.close()


def test_sizes_and_growth_are_shown(installation: Installation) -> None:
    for days in range(10):
        name = installation.alert(f"alert {days}", ago=timedelta(days=days, minutes=1))
        make_case(installation, name)
    with inspected(installation.settings, NOW) as inspection:
        said = {one.about: one.what for one in size_checks(inspection)}
    assert "10 investigations, oldest investigation" in said["database size"]
    assert "a day. Largest: " in said["database size"]
    assert "a day came in the last week" in said["case store size"]
    assert "retention stops the growth after 400 days" in said["disk"]


def test_the_size_of_cases_in_a_bucket_is_shown_with_its_growth(
    installation: Installation, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = CaseStore(tmp_path / "bucket")
    for days in (1, 2, 20):
        bucket.put(
            f"{NOW - timedelta(days=days):%Y%m%d-%H%M%S}-abcdef", "alert.json", b"x" * 700_000
        )
    monkeypatch.setattr("faultline.bot.operating.size_checks.open_cases", lambda _settings: bucket)
    stored = installation.settings.store.model_copy(update={"cases": "s3://bucket/faultline"})
    settings = installation.settings.model_copy(update={"store": stored})
    with inspected(settings, NOW) as inspection:
        said = {one.about: one.what for one in size_checks(inspection)}["case store size"]
        assert said.startswith("2.1 MB, oldest "), said
        assert said.endswith("; 0.2 MB a day came in the last week"), said
        monkeypatch.setattr(
            "faultline.bot.operating.size_checks.open_cases", lambda _settings: Cut()
        )
        said = {one.about: one.what for one in size_checks(inspection)}["case store size"]
        assert said.startswith("more than 5.0 MB (only 200,000 files were listed)"), said


class Cut(CaseStore):
    """One with more files than are listed."""

    def __init__(self) -> None:
        pass

    def sizes(self, *, after: str = "", most: int = 0) -> CaseSizes:
        """As of a bucket that holds more."""
        return CaseSizes({f"{NOW:%Y%m%d-%H%M%S}-abcdef": 5_000_000}, cut=not after)


def test_a_disk_that_is_full_soon_is_wrong(
    installation: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_case(installation, installation.alert())
    monkeypatch.setattr("shutil.disk_usage", lambda _place: SimpleNamespace(free=10))
    with inspected(installation.settings, NOW) as inspection:
        disk = [one for one in size_checks(inspection) if one.about == "disk"]
    assert [one.state for one in disk] == ["wrong"]


def test_an_empty_installation_has_sizes(installation: Installation) -> None:
    with inspected(installation.settings, NOW) as inspection:
        assert {one.state for one in size_checks(inspection)} == {"ok"}
    assert database_bytes(installation.store.engine) > 0


def test_tables_are_counted(installation: Installation) -> None:
    values = [{"name": f"n{n}", "at": NOW} for n in range(300)]
    with installation.store.engine.begin() as connection:
        connection.execute(insert(LastTimeRow), values)
    if installation.store.engine.dialect.name == "postgresql":
        with installation.store.engine.begin() as connection:
            connection.exec_driver_sql("ANALYZE last_times")
    rows = {one.name: one.rows for one in table_sizes(installation.store.engine)}
    assert rows["last_times"] == 300
    assert not any(name.startswith("remembered_search") for name in rows)


def test_refused_alerts_have_a_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool, "REFUSED_BYTES", 10)
    (tmp_path / spool.REFUSED).write_bytes(b"x" * 10)
    assert spool.make_room_for_refused(tmp_path / spool.REFUSED)
    assert not spool.make_room_for_refused(tmp_path / spool.REFUSED)
    assert [one.name for one in tmp_path.iterdir()] == ["refused.older"]
