"""What the doctor says of the spool and of the alert that always fires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.bot.intake.spool import Spool
from faultline.bot.intake.spool_records import TakenAlert
from faultline.bot.operating.doctor import CANNOT_LOOK, run_doctor
from faultline.bot.settings import load_settings
from faultline.bot.store.reports import HANGING, WATCHDOG, note_times
from tests.bot.intake.test_spool import alert
from tests.bot.operating.installation import NOW, Installation


@pytest.mark.usefixtures("one_worker")
def test_alerts_that_wait_are_named_with_what_to_do(installation: Installation) -> None:
    spool = Spool(installation.settings.store.directory / "spool")
    spool.append([TakenAlert(alert("a").arrival, NOW - timedelta(seconds=3))])
    assert "spool" not in installation.wrong(), "it may be moved this second"
    spool.append([TakenAlert(alert("b").arrival, NOW - timedelta(minutes=5))])
    said = installation.wrong()["spool"]
    assert "2 alerts in " in said
    assert "the oldest for 5 min" in said
    assert "keep the directory" in said
    spool.refused(spool.next(1)[0])
    assert "1 alert" in installation.wrong()["spool"]
    spool.close()


@pytest.mark.usefixtures("one_worker")
def test_a_watchdog_that_went_missing_points_at_the_monitoring(installation: Installation) -> None:
    assert "watchdog" not in installation.wrong()
    note_times(installation.store.engine, {WATCHDOG + "a": NOW - timedelta(minutes=10)})
    assert "watchdog" not in installation.wrong()
    note_times(installation.store.engine, {WATCHDOG + "a": NOW - timedelta(minutes=40)})
    assert "has not arrived from Alertmanager for 40 min" in installation.wrong()["watchdog"]
    assert "look at Prometheus" in installation.wrong()["watchdog"]


def test_calls_that_hang_in_a_web_process_are_told_while_they_do(
    installation: Installation,
) -> None:
    note_times(installation.store.engine, {HANGING + "a": NOW - timedelta(minutes=5)})
    assert "database" not in installation.wrong()
    note_times(installation.store.engine, {HANGING + "a": NOW - timedelta(seconds=5)})
    assert "hang in a web process" in installation.wrong()["database"]


def test_without_the_database_the_spool_is_looked_at_all_the_same(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spool = Spool(tmp_path / "spool")
    spool.append([TakenAlert(alert("a").arrival, datetime.now(UTC) - timedelta(minutes=5))])
    environ = {
        "FAULTLINE_STORE__DIRECTORY": str(tmp_path),
        "FAULTLINE_STORE__DATABASE": "postgresql://nobody@127.0.0.1:9/none",
    }
    assert run_doctor(load_settings(environ=environ), None, json_=False) == CANNOT_LOOK
    said = capsys.readouterr()
    assert "does not answer" in said.err
    assert "1 alert in" in said.out
    spool.close()
