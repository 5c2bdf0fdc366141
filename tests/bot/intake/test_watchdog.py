"""The alert that always fires: heard, shared between processes, missed, and never investigated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.moving import IntakeHealth, SpoolMover
from faultline.bot.intake.spool import Spool
from faultline.bot.intake.watchdog import Watchdog
from faultline.bot.settings import Settings
from faultline.bot.store.databases import another_store
from faultline.bot.store.store import Store
from tests.bot.intake.conftest import (
    Senders,
    alertmanager_alert,
    alertmanager_group,
    serving,
)

MINUTE = timedelta(minutes=1)


@contextmanager
def listening(settings: Settings, store: Store, watchdog: Watchdog | None) -> Iterator[Senders]:
    with serving(settings, store_accept(store), watchdog=watchdog) as base:
        bot = Senders(base, store)
        yield bot
        bot.client.close()


def outcome(bot: Senders, *alerts: dict[str, Any]) -> list[str]:
    answer = bot.alertmanager(alertmanager_group(*alerts))
    assert answer.status_code == 202
    said = answer.json()
    return [one["outcome"] for one in said.get("alerts", [said])]


def test_it_is_heard_and_starts_nothing(sqlite_store: Store, settings: Settings) -> None:
    watchdog = Watchdog(settings)
    always = alertmanager_alert("Watchdog")
    with listening(settings, sqlite_store, watchdog) as bot:
        assert outcome(bot, alertmanager_alert("Watchdog", status="resolved")) == ["heard"]
        assert watchdog.silent_s() is None, "its end is no sign of life"
        assert outcome(bot, always) == ["heard"]
        assert outcome(bot, always, alertmanager_alert("Real", number=2)) == ["started"]
    assert [one.alert.title for one in sqlite_store.latest()] == ["Real"]
    assert watchdog.silent_s() is not None
    now = datetime.now(UTC)
    assert watchdog.missing(now + 14 * MINUTE) is None
    said = "Watchdog has not arrived from Alertmanager for 16 min"
    assert watchdog.missing(now + 16 * MINUTE) == said


def test_what_never_arrived_is_not_missing(settings: Settings) -> None:
    assert Watchdog(settings).missing(datetime.now(UTC) + timedelta(days=1)) is None


def test_with_an_empty_name_it_is_an_alert_like_others(
    sqlite_store: Store, settings: Settings
) -> None:
    heartbeat = settings.heartbeat.model_copy(update={"watchdog_alert": ""})
    without = settings.model_copy(update={"heartbeat": heartbeat})
    with listening(without, sqlite_store, Watchdog(without)) as bot:
        assert outcome(bot, alertmanager_alert("Watchdog")) == ["started"]


def test_a_process_learns_what_another_heard(
    store: Store, settings: Settings, tmp_path: Path
) -> None:
    one, other = Watchdog(settings), Watchdog(settings)
    heard = datetime.now(UTC) - 3 * MINUTE
    one.note_firing(heard)
    for number, watchdog in enumerate((one, other)):
        health = IntakeHealth(Spool(tmp_path / str(number)))
        mover = SpoolMover(health, partial(another_store, store), watchdog=watchdog)
        mover.process = f"process {number}"
        mover.turn()
        mover.ended()
    assert one.unsaved() is None
    assert 179 < (other.silent_s() or 0) < 200
