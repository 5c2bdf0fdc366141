"""Backup and restore of the embedded databases: whole while others write, checked, and only into an
empty place."""

from __future__ import annotations

import io
import sqlite3
import tarfile
import threading
from datetime import timedelta
from pathlib import Path

import pytest
from sqlalchemy.orm import Session

from faultline.analysis.errors import EvidenceError, FaultlineError, SettingsError
from faultline.bot.operating.backup import back_up, restore
from faultline.bot.operating.inspection import inspected
from faultline.bot.operating.requeue import requeue_by_name
from faultline.bot.settings import Settings
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store, forgotten_key
from faultline.bot.store.tables import InvestigationRow, PostRow
from tests.bot.operating.installation import DEAD, LIVING, NOW, Installation, make_case

HOUR = timedelta(hours=1)


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """Embedded alone: PostgreSQL has its own backups."""
    return f"sqlite:///{tmp_path}/faultline.sqlite"


@pytest.fixture
def elsewhere(tmp_path: Path) -> Settings:
    """The settings of an empty place, where answers go to Slack."""
    return Settings.model_validate(
        {
            "store": {"directory": tmp_path / "elsewhere"},
            "slack": {"bot_token": "xoxb-1", "channel": "C1"},
        }
    )


def test_everything_is_there_again_and_what_had_not_ended_begins_anew(
    installation: Installation, elsewhere: Settings, tmp_path: Path
) -> None:
    done, running = installation.alert("done"), installation.alert("running")
    make_case(installation, done)
    installation.store.add_progress(done, "analyze", "7 findings", key="analyze")
    installation.ended(done, ago=HOUR)
    installation.store.claim_post(f"{done}:slack", done, owner="w", lease=HOUR)
    installation.store.record_post(f"{done}:slack", "C1/1.5")
    installation.change(running, status="running", dispatched_at=NOW, started_at=NOW)
    installation.workflow(running)
    installation.workflow(f"{done}:slack", "SUCCESS")
    assert "1 case files" in back_up(installation.settings, tmp_path)
    said = restore(elsewhere, next(tmp_path.glob("faultline-*.tar.gz")))
    assert "1 investigation to begin again, 0 answers to post" in said
    store = Store(connect(f"sqlite:///{tmp_path}/elsewhere/faultline.sqlite"))
    assert [p.text for p in store.progress(done)] == ["7 findings"]
    assert store.posts(done) == {f"{done}:slack": "C1/1.5"}
    assert store.undispatched() == [running]
    assert (tmp_path / "elsewhere" / "cases" / done / "alert.json").read_bytes() == b"{}"
    with inspected(elsewhere) as inspection:
        assert inspection.rows is not None
        assert inspection.rows.of(running) == []
        assert [w.id for w in inspection.rows.of(done)] == [f"{done}:slack"]
    claim = store.claim_post(f"{running}:slack", running, owner="w", lease=HOUR)
    assert claim.mine
    assert claim.attempted_before is not None, (
        "so that it is looked for in Slack before it is posted"
    )
    store.engine.dispose()


def test_an_answer_that_was_not_told_at_the_backup_is_told(
    installation: Installation, elsewhere: Settings, tmp_path: Path
) -> None:
    name, old = installation.alert("untold"), installation.alert("long ago", ago=50 * HOUR)
    installation.ended(name, ago=HOUR)
    installation.ended(old, ago=50 * HOUR)
    back_up(installation.settings, tmp_path / "b.tar.gz")
    assert "1 answer to post" in restore(elsewhere, tmp_path / "b.tar.gz")
    engine = connect(f"sqlite:///{tmp_path}/elsewhere/faultline.sqlite")
    with Session(engine) as session:
        rows = {n: session.get_one(InvestigationRow, n) for n in (name, old)}
        assert (rows[name].revision, rows[old].revision) == (1, 0)
        assert session.get(PostRow, forgotten_key(name)) is not None
    engine.dispose()


def test_a_backup_is_whole_while_others_write(
    installation: Installation, elsewhere: Settings, tmp_path: Path
) -> None:
    stop, store = threading.Event(), installation.store
    accepted: list[str] = []

    def write() -> None:
        while not stop.is_set():
            accepted.append(installation.alert(f"alert {len(accepted)}"))
            store.add_progress(accepted[-1], "scope", "asking", key="scope")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for number in range(5):
            before = len(accepted)
            back_up(installation.settings, tmp_path / f"{number}.tar.gz")
    finally:
        stop.set()
        writer.join()
    restore(elsewhere, tmp_path / "4.tar.gz")
    restored = Store(connect(f"sqlite:///{tmp_path}/elsewhere/faultline.sqlite"))
    assert restored.count() >= before
    restored.engine.dispose()


def test_nothing_is_overwritten(
    installation: Installation, elsewhere: Settings, tmp_path: Path
) -> None:
    name = installation.alert()
    back_up(installation.settings, tmp_path / "b.tar.gz")
    with pytest.raises(FaultlineError, match="exists already"):
        back_up(installation.settings, tmp_path / "b.tar.gz")
    with pytest.raises(FaultlineError, match="restore into an empty"):
        restore(installation.settings, tmp_path / "b.tar.gz")
    assert installation.store.get(name) is not None
    cases = tmp_path / "elsewhere" / "cases" / "x"
    cases.mkdir(parents=True)
    with pytest.raises(FaultlineError, match="holds cases"):
        restore(elsewhere, tmp_path / "b.tar.gz")


def broken(good: Path, to: Path, how: str) -> None:
    """A backup that something happened to."""
    if how == "cut":
        to.write_bytes(good.read_bytes()[:-200])
        return
    if how == "foreign":
        to.write_bytes(b"not an archive at all")
        return
    with tarfile.open(good) as old, tarfile.open(to, "w:gz") as new:
        for member in old:
            opened = old.extractfile(member)
            content = opened.read() if opened else b""
            if how == "changed" and member.name == "faultline.sqlite":
                content = content[:-4096] + b"\x00" * 4096
            if how == "lacking" and member.name.startswith("cases/"):
                continue
            member.size = len(content)
            new.addfile(member, io.BytesIO(content))
        for name in {
            "outside": ["../outside"],
            "absolute": ["/tmp/outside"],
            "more": ["bin/sh"],
        }.get(how, []):
            new.addfile(tarfile.TarInfo(name), io.BytesIO(b""))
        if how == "link":
            link = tarfile.TarInfo("cases/link")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            new.addfile(link)


@pytest.mark.parametrize(
    "how", ["cut", "foreign", "changed", "lacking", "outside", "absolute", "more", "link"]
)
def test_what_is_no_whole_backup_is_refused_and_nothing_is_left(
    installation: Installation, elsewhere: Settings, tmp_path: Path, how: str
) -> None:
    make_case(installation, installation.alert())
    back_up(installation.settings, tmp_path / "good.tar.gz")
    broken(tmp_path / "good.tar.gz", tmp_path / "bad.tar.gz", how)
    with pytest.raises(EvidenceError):
        restore(elsewhere, tmp_path / "bad.tar.gz")
    assert list((tmp_path / "elsewhere").iterdir()) == []
    restore(elsewhere, tmp_path / "good.tar.gz")


def test_postgresql_is_left_to_its_own_backups(tmp_path: Path) -> None:
    settings = Settings.model_validate({"store": {"database": "postgresql://127.0.0.1/x"}})
    with pytest.raises(SettingsError, match="pg_dump"):
        back_up(settings, tmp_path)
    with pytest.raises(SettingsError, match="--database-is-back"):
        restore(settings, tmp_path / "b")


@pytest.mark.usefixtures("one_worker")
def test_one_that_nobody_works_on_can_be_requeued(installation: Installation) -> None:
    lost, held = installation.alert("lost"), installation.alert("held")
    for name in (lost, held):
        installation.change(name, status="running", dispatched_at=NOW, started_at=NOW)
    installation.workflow(lost, "PENDING", executor=DEAD)
    installation.workflow(held, "PENDING", executor=LIVING)
    with inspected(installation.settings) as inspection:
        assert requeue_by_name(inspection, lost).begun == (lost,)
        with pytest.raises(FaultlineError, match="works on"):
            requeue_by_name(inspection, held)
        with pytest.raises(FaultlineError, match="no investigation"):
            requeue_by_name(inspection, "none")
    assert installation.store.undispatched() == [lost]


def test_a_backup_can_be_opened_by_sqlite_alone(installation: Installation, tmp_path: Path) -> None:
    installation.alert()
    back_up(installation.settings, tmp_path / "b.tar.gz")
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        archive.extract("faultline.sqlite", tmp_path)
    assert (tmp_path / "b.tar.gz").stat().st_mode & 0o077 == 0, (
        "it holds what alerts say: for its owner alone"
    )
    opened = sqlite3.connect(tmp_path / "faultline.sqlite")
    assert opened.execute("SELECT count(*) FROM investigations").fetchone() == (1,)
    opened.close()
