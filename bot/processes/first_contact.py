"""The first contact with the database at the start of a web process. Where the database is away
that an earlier start found, the process begins without it: alerts go to the spool, and a restart in
an outage shuts no door."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import FaultlineError
from faultline.bot.settings import Settings
from faultline.bot.store.databases import (
    AbandonableStore,
    StoreHangsError,
    another_store,
    answers,
    first_line,
    migrate,
    open_store,
    spool_directory,
    store_url,
)

IDENTITY_FILE = "database"
"""The file that says which database answered an earlier start, by a hash of its address."""
ANSWER_WITHIN_S = 10.0

log = logging.getLogger("faultline.server")


class FirstContact:
    """The store, and what is to be done once its database answers."""

    def __init__(self, settings: Settings, and_then: Callable[[], None] = lambda: None) -> None:
        """`and_then` runs after the tables are up to date.

        Raises FaultlineError where the database does not answer and never did.
        """
        self._and_then = and_then
        self._identity_path = spool_directory(settings) / IDENTITY_FILE
        # A hash, because the address may hold a password.
        self._identity = hashlib.sha256(store_url(settings).encode()).hexdigest()
        self.store = open_store(settings, migrated=True)
        self.made = False
        try:
            self._answers()
        except (SQLAlchemyError, StoreHangsError) as error:
            line = first_line(error) if isinstance(error, SQLAlchemyError) else str(error)
            if not self._has_answered():
                raise FaultlineError(f"the database does not answer ({line})") from error
            log.error("starting without the database, which does not answer (%s)", line)
        else:
            self.make()

    def make(self) -> None:
        """Bring the tables up to date. Raises SQLAlchemyError, FaultlineError."""
        if self.made:
            return
        migrate(self.store.engine)
        self._and_then()
        self.made = True
        try:
            self._identity_path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._identity_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(self._identity)
        except OSError as error:
            log.warning("cannot write to the spool's directory (%s)", error.strerror)

    def _answers(self) -> None:
        # A call that hangs must not occupy one of the store's own connections.
        abandonable_store = AbandonableStore(
            partial(another_store, self.store), within_s=ANSWER_WITHIN_S
        )
        try:
            abandonable_store.call(answers)
        finally:
            abandonable_store.close()

    def _has_answered(self) -> bool:
        try:
            return self._identity_path.read_text() == self._identity
        except OSError:
            return False
