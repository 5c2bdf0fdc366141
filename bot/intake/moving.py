"""Moves what lies in the spool into the database, and writes now and then to know whether that
works.
"""

from __future__ import annotations

import contextvars
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from faultline.bot.intake.accepting import is_fault_of_alert
from faultline.bot.intake.spool import Spool, SpooledAlert
from faultline.bot.intake.watchdog import Watchdog
from faultline.bot.policy.values import Accepted
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.runtime.instrumentation import alert_taken
from faultline.bot.runtime.threads import hanging
from faultline.bot.store.databases import AbandonableStore, answers, left_behind
from faultline.bot.store.reports import HANGING, WATCHDOG, WRITES, last_time, note_times
from faultline.bot.store.store import Store

# Whether alerts get into the database, by when it last took a write and by what waits.

NOT_STORED_S = 10.0
"""An alert is stored within milliseconds, or moved within a second or two of the database's
return. One that waits longer finds a database that takes no writes."""
SILENT_S = 30.0
"""Where no alert comes, a write is tried every `moving.PROBE_EVERY_S`: this is two that failed."""
HUNG_S = 60.0
"""After this a restart is tried. Longer than a failover of a managed database takes as a rule, so
that this alone restarts nothing."""
RESTARTED = "restarted"
"""The file that says that a restart was tried since the database last took a write."""


class IntakeHealth:
    """Of one web process. Never waits for the database or the disk, but for what says so."""

    def __init__(
        self,
        spool: Spool,
        *,
        survives_restart: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`survives_restart` is whether the spool is still there after a restart."""
        self.spool = spool
        self._survives_restart = survives_restart
        self._clock = clock
        self._written_at = clock()
        self._marker: Path = spool.directory / RESTARTED
        self._restarted_before = self._marker.exists()

    def written(self) -> None:
        """The database took a write just now."""
        self._written_at = self._clock()

    def silent_s(self) -> float:
        """Seconds since the database last took a write, or since the start."""
        return self._clock() - self._written_at

    def not_stored_s(self) -> float:
        """How long the oldest alert has waited that was taken and is not in the database."""
        oldest = self.spool.figures().oldest_at
        if oldest is None:
            return 0.0
        # Not negative, even when the clock was set back.
        return max(0.0, (datetime.now(UTC) - oldest).total_seconds())

    def not_storing(self) -> str | None:
        """Why no alert sent here would be in the database soon, in words that anybody may read."""
        waits, silent = self.not_stored_s(), self.silent_s()
        if waits > NOT_STORED_S:
            return f"the oldest alert that is not stored has waited {waits:.0f} s"
        if silent > SILENT_S:
            return f"the store took no write for {silent:.0f} s"
        return None

    def not_taking(self) -> str | None:
        """Why an alert sent here would be answered 503."""
        not_storing = self.not_storing()
        figures = self.spool.figures()
        full = figures.alerts >= self.spool.max_alerts or figures.bytes >= self.spool.max_bytes
        return not_storing if figures.problem or full else None

    def hung(self) -> str | None:
        """Why this process should be started again: alerts wait, nothing could be written, and that
        was not tried yet in this outage."""
        # A restart would lose what waits, or has not helped in this outage.
        if not self._survives_restart or self._restarted_before:
            return None
        waits, silent = self.not_stored_s(), self.silent_s()
        if waits <= HUNG_S or silent <= HUNG_S:
            return None
        return f"alerts have waited {waits:.0f} s and nothing could be written for {silent:.0f} s"

    def note_restart(self) -> None:
        """So that the next process does not ask for a restart in the same outage. May wait for the
        disk; raises OSError."""
        self._marker.touch(mode=0o600)

    def end_outage(self) -> None:
        """The database takes writes: in the next outage a restart may help. May wait for the
        disk; raises OSError."""
        if self._restarted_before and self.silent_s() < NOT_STORED_S:
            self._marker.unlink(missing_ok=True)
            self._restarted_before = False


EVERY_S = 1.0
PROBE_EVERY_S = 10.0
WITHIN_S = 8.0
"""A transaction takes milliseconds. With this and `EVERY_S` what was spooled is in the database
well within 20 s of its return."""
MAX_TOGETHER = 64
LONGEST_PAUSE_S = 0.25
"""On SQLite a transaction is followed by a pause as long as itself: its one lock would else be free
for no moment, and workers could hardly write."""
SPREAD = timedelta(minutes=1)
"""Alerts that are admitted together count as taken at one time."""

log = logging.getLogger("faultline.spool")


class SpoolMover(BackgroundLoop):
    """Takes over what dead processes left, too."""

    def __init__(
        self,
        health: IntakeHealth,
        open_store: Callable[[], Store],
        make_tables: Callable[[], None] | None = None,
        watchdog: Watchdog | None = None,
        *,
        every_s: float = EVERY_S,
        within_s: float = WITHIN_S,
        probe_every_s: float = PROBE_EVERY_S,
    ) -> None:
        """`make_tables` is called once, before anything is written. What `watchdog` heard is
        shared with other processes."""
        super().__init__("spool", every_s=every_s)
        self._health = health
        self._spool = health.spool
        self._store = AbandonableStore(open_store, within_s=within_s)
        self._make_tables = make_tables
        self._watchdog = watchdog
        self._probe_every_s = probe_every_s
        self._probe_at = 0.0
        self._pause_s = 0.0
        self.process = f"{socket.gethostname()}:{os.getpid()}"

    def hanging(self) -> int:
        """Calls of the database that were given up and have not ended."""
        return self._store.hanging()

    def turn(self) -> bool:
        """Move one batch, or write a sign of life. Raises what the database or the disk raises."""
        self._spool.adopt()
        if self._make_tables is not None:
            self._store.call(answers)
            self._make_tables()
            self._make_tables = None
        if not self._spool.is_empty():
            self._move()
        elif time.monotonic() >= self._probe_at:
            self._store.call(self._probe)
            self._health.written()
            self._probe_at = time.monotonic() + self._probe_every_s
        self._health.end_outage()
        if self._spool.is_empty():
            return False
        self.stopping.wait(self._pause_s)
        return True

    def _probe(self, store: Store) -> None:
        now = datetime.now(UTC)
        times = {WRITES + self.process: now}
        if hanging() + left_behind():
            times[HANGING + self.process] = now
        watchdog_at = self._watchdog.unsaved() if self._watchdog is not None else None
        if watchdog_at is not None:
            times[WATCHDOG + self.process] = watchdog_at
        note_times(store.engine, times)
        if self._watchdog is None:
            return
        # Only after the write: if it fails, the next probe tries again.
        if watchdog_at is not None:
            self._watchdog.saved(watchdog_at)
        latest = last_time(store.engine, WATCHDOG)
        # Another web process may have heard it.
        if latest is not None:
            self._watchdog.note_firing(latest)

    def ended(self) -> None:
        """What is left is moved at the next start."""
        left = self._spool.figures().alerts
        if left:
            log.warning("%d alerts stay in the spool until the next start", left)
        self._spool.close()
        self._store.close()

    def _move(self) -> None:
        alerts = self._spool.next(MAX_TOGETHER)
        if not alerts:
            return
        began = alerts[0].taken.taken_at
        together = [alert for alert in alerts if abs(alert.taken.taken_at - began) <= SPREAD]
        try:
            self._admit(together)
        except Exception as error:
            if not is_fault_of_alert(error):
                raise
            # The database works, so one of them is to blame: store the others without it.
            for alert in together:
                self._admit_alone(alert)

    def _admit_alone(self, alert: SpooledAlert) -> None:
        try:
            self._admit([alert])
        except Exception as error:
            if not is_fault_of_alert(error):
                raise
            log.error("an alert in the spool cannot be stored: %s", type(error).__name__)
            self._spool.refused(alert)

    def _admit(self, alerts: Sequence[SpooledAlert]) -> None:
        arrivals = [alert.taken.arrival for alert in alerts]
        # When they were taken, not now: they may have waited in the spool for long.
        now = max(alert.taken.taken_at for alert in alerts)

        def accept(store: Store) -> list[Accepted]:
            began = time.monotonic()
            accepted = store.accept_all(arrivals, now=now)
            if store.engine.dialect.name == "sqlite":
                self._pause_s = min(time.monotonic() - began, LONGEST_PAUSE_S)
            return accepted

        accepted = self._store.call(accept)
        self._health.written()
        # Only after the commit: what a crash leaves in the spool is moved again, and its delivery
        # id makes it a duplicate.
        self._spool.moved(alerts)
        for alert, outcome in zip(alerts, accepted, strict=True):
            taken = alert.taken
            took_s = max(0.0, (datetime.now(UTC) - taken.taken_at).total_seconds())
            # In a separate context: the log of this thread names no investigation.
            note = partial(alert_taken, taken.arrival.alert.source, outcome, took_s)
            contextvars.Context().run(note)
