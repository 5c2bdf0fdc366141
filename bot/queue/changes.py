"""Says at once that the database holds something new, so that an idle worker does not have to look
all the time.

On SQLite `PRAGMA data_version` is asked ten times a second, which costs some microseconds and tells
of every commit of any process (https://sqlite.org/pragma.html#pragma_data_version). On PostgreSQL
triggers notify one listening session. While notifications do not arrive (the connection is lost, or
a pooler in transaction mode holds them), everybody is woken as often as they would look themselves.

It may be late or wrong: whoever is woken looks for themselves, and now and then without a wake.
"""

from __future__ import annotations

import logging
import os
import select
import sqlite3
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import Engine, text
from sqlalchemy.exc import SQLAlchemyError

log = logging.getLogger("faultline.changes")

STORE, QUEUES = "store", "queues"
"""What may have changed: the bot's own tables, or the engine's queues."""
LOOK_AT_LEAST_EVERY_S = 5.0
"""Whoever is woken looks this often all the same: a notification may be lost."""
FILES_EVERY_S = 0.1
RETRY_S = 5.0
CHECK_EVERY_S = 30.0
"""A listening session hears nothing for hours where nothing happens, and when its server is lost.
So it is sent a notification of ours this often."""
ANSWER_WITHIN_S = 2.0
CHANNEL = "faultline_changes"
LOCK = "SELECT pg_advisory_xact_lock(hashtext('faultline_changes'))"
FUNCTION = (
    "CREATE OR REPLACE FUNCTION faultline_changed() RETURNS trigger LANGUAGE plpgsql AS"
    f" $$ BEGIN PERFORM pg_notify('{CHANNEL}', TG_ARGV[0]); RETURN NULL; END $$"
)
HAS_TRIGGER = (
    "SELECT 1 FROM pg_trigger WHERE tgname = 'faultline_changed' AND tgrelid = to_regclass(:table)"
)
TRIGGERS = {
    "investigations": f"FOR EACH STATEMENT EXECUTE FUNCTION faultline_changed('{STORE}')",
    "questions": f"FOR EACH STATEMENT EXECUTE FUNCTION faultline_changed('{STORE}')",
    "dbos.workflow_status": "FOR EACH ROW WHEN (NEW.status = 'ENQUEUED')"
    f" EXECUTE FUNCTION faultline_changed('{QUEUES}')",
}
"""Of one transaction PostgreSQL sends each notification once."""


class Changes(ABC):
    """A thread that wakes whoever asked for it."""

    def __init__(self) -> None:
        self._wake: defaultdict[str, list[Callable[[], None]]] = defaultdict(list)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="changes", daemon=True)

    def on(self, what: str, wake: Callable[[], None]) -> None:
        """Call `wake` when that may have changed. It must return at once."""
        self._wake[what].append(wake)

    def see(self, what: str, engine: Engine) -> None:  # noqa: B027  one database may hold all
        """Watch that engine's database too; before the start."""

    def start(self) -> None:
        """Begin to watch; the tables must be there."""
        self._thread.start()

    def stop_soon(self) -> None:
        """Wake nobody any more; returns at once."""
        self._stopping.set()

    def changed(self, what: str) -> None:
        """Wake whoever waits for that."""
        for wake in self._wake[what]:
            wake()

    @abstractmethod
    def _watch(self) -> None:
        """Until stopped."""


class FileChanges(Changes):
    """Of SQLite files on this machine."""

    def __init__(self, files: Mapping[str, str], *, every_s: float = FILES_EVERY_S) -> None:
        """`files` are by what they hold."""
        super().__init__()
        self._files = dict(files)
        self._every_s = every_s
        self._open: dict[str, sqlite3.Connection] = {}
        self._data_versions: dict[str, int] = {}

    def see(self, what: str, engine: Engine) -> None:
        """Watch that engine's file too; before the start."""
        if engine.url.database is not None:
            self._files[what] = engine.url.database

    def _watch(self) -> None:
        while not self._stopping.wait(self._every_s):
            for what in self._files:
                if self._is_new(what):
                    self.changed(what)
        for connection in self._open.values():
            connection.close()

    def _is_new(self, what: str) -> bool:
        before = self._data_versions.get(what)
        try:
            if what not in self._open:
                # `mode=rw`: a look must not create the file.
                address = f"{Path(self._files[what]).absolute().as_uri()}?mode=rw"
                self._open[what] = sqlite3.connect(address, uri=True, isolation_level=None)
            (now,) = self._open[what].execute("PRAGMA data_version").fetchone()
        except sqlite3.Error:
            # Whoever is woken meets the same error, and reports it.
            if what in self._open:
                self._open.pop(what).close()
            self._data_versions.pop(what, None)
            return True
        self._data_versions[what] = now
        return bool(before != now)


class NotifiedChanges(Changes):
    """Of a PostgreSQL database, in a session that listens."""

    def __init__(self, engine: Engine, *, polling_s: float) -> None:
        """While nothing can be heard, everybody is woken each `polling_s` seconds."""
        super().__init__()
        self._engine = engine
        self._polling_s = polling_s
        # A pipe, because `select` cannot wait for an Event.
        self._wakeup, self._stop_pipe = os.pipe()
        self.hears = False

    def stop_soon(self) -> None:
        """Wake nobody any more; returns at once."""
        super().stop_soon()
        with suppress(OSError):
            os.write(self._stop_pipe, b" ")

    def _watch(self) -> None:
        reported = ""
        while not self._stopping.is_set():
            try:
                self._listen()
                why = "notifications do not arrive"
            except (psycopg.Error, SQLAlchemyError, OSError) as error:
                why = type(error).__name__
            # The edge of the thread: it must outlive unforeseen errors.
            except Exception as error:
                log.exception("listening")
                why = type(error).__name__
            if self.hears:
                reported = ""
            self.hears = False
            if not self._stopping.is_set() and why != reported:
                log.warning("%s; looking for work each %g s instead", why, self._polling_s)
                reported = why
            self._poll()

    def _listen(self) -> None:
        """Until stopped, or until nothing is heard. Raises what the database raises."""
        install(self._engine)
        # Detached: it listens for as long as it lives, and another takes its place in the pool.
        pooled = self._engine.raw_connection()
        session = pooled.driver_connection
        pooled.detach()
        assert isinstance(session, psycopg.Connection)
        with closing(session):
            session.autocommit = True
            session.execute(f"LISTEN {CHANNEL}")
            while not self._stopping.is_set():
                sign = uuid.uuid4().hex
                self._send(sign)
                if not self._hear(session, ANSWER_WITHIN_S, sign):
                    return
                if not self.hears:
                    self.hears = True
                    # Something may have changed before anybody listened.
                    self.changed(STORE)
                    self.changed(QUEUES)
                self._hear(session, CHECK_EVERY_S)

    def _send(self, sign: str) -> None:
        # In another session: a pooler may answer within the one that listens.
        with self._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as other:
            other.execute(
                text("SELECT pg_notify(:channel, :sign)"), {"channel": CHANNEL, "sign": sign}
            )

    def _hear(self, session: psycopg.Connection[Any], seconds: float, sign: str = "") -> bool:
        """Listen for `seconds`, or until `sign` is heard; says whether it was."""
        until = time.monotonic() + seconds
        while not self._stopping.is_set():
            # Read what has arrived before waiting: what is buffered wakes no `select`.
            payloads = {notify.payload for notify in session.notifies(timeout=0)}
            for what in payloads & {STORE, QUEUES}:
                self.changed(what)
            if sign and sign in payloads:
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            select.select([session.fileno(), self._wakeup], [], [], left)
        return False

    def _poll(self) -> None:
        until = time.monotonic() + RETRY_S
        while time.monotonic() < until:
            if self._stopping.wait(min(self._polling_s, RETRY_S)):
                return
            self.changed(STORE)
            self.changed(QUEUES)


def changes_in(engine: Engine, *, polling_s: float) -> Changes:
    """In the engine's database, which on PostgreSQL is the store's too."""
    if engine.dialect.name == "postgresql":
        return NotifiedChanges(engine, polling_s=polling_s)
    return FileChanges({QUEUES: engine.url.database or ""})


def install(engine: Engine) -> None:
    """Make the triggers that are missing, of tables that are there. Raises SQLAlchemyError."""
    missing = []
    # Look without the lock first: all but the first start find every trigger in place.
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as session:
        for table in TRIGGERS:
            there = session.execute(text("SELECT to_regclass(:table)"), {"table": table}).scalar()
            trigger = session.execute(text(HAS_TRIGGER), {"table": table}).scalar()
            if there is not None and trigger is None:
                missing.append(table)
    if not missing:
        return
    with engine.begin() as session:
        # Several workers may begin at once.
        session.execute(text(LOCK))
        session.execute(text(FUNCTION))
        for table in missing:
            # Look again under the lock: another worker may have made it since.
            if session.execute(text(HAS_TRIGGER), {"table": table}).scalar() is None:
                when = f"AFTER INSERT OR UPDATE ON {table} {TRIGGERS[table]}"
                session.execute(text(f"CREATE TRIGGER faultline_changed {when}"))
