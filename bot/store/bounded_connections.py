"""Connections to PostgreSQL that keep to `faultline.bot.store.connections`. Loaded where there is a
PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
from psycopg.pq import TransactionStatus
from sqlalchemy import Engine, event

from faultline.bot.store.connections import MARGIN_S, USUAL, Waits

R = TypeVar("R")

OF_CLIENTS = {
    "tcp_user_timeout": "10s",
    "tcp_keepalives_idle": "5s",
    "tcp_keepalives_interval": "2s",
    "tcp_keepalives_count": "3",
}
"""The server's limits for this session, by which it notices that we are gone
(https://www.postgresql.org/docs/current/runtime-config-connection.html#RUNTIME-CONFIG-TCP-SETTINGS)."""
OPERATOR_SOURCES = ("client", "database", "user", "database user")
"""`pg_settings.source` of what an operator said for this program, role or database. A value for the
whole server was not said with this program in mind; hosted servers set a day."""
SET = """
SELECT set_config(s.name, given.value, false)
FROM unnest(%s::text[], %s::text[]) AS given (name, value)
JOIN pg_settings s ON s.name = given.name
WHERE s.source <> ALL (%s)
"""
LIMIT = "SELECT setting::int FROM pg_settings WHERE name = 'statement_timeout'"


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that is closed when a statement has no answer after `leave_after_s` seconds
    (None: waits)."""

    leave_after_s: float | None = USUAL.statement_s + MARGIN_S

    def wait(self, gen: Generator[Any, Any, R], *args: Any, **kwargs: Any) -> R:
        """Wait for the server. Raises psycopg.OperationalError when the time is up."""
        return super().wait(self._bounded(gen), *args, **kwargs)

    def __del__(self, *_: object) -> None:
        # Nobody else closes a connection whose thread was left behind.
        if hasattr(self, "pgconn") and not self.closed:
            self.pgconn.finish()

    def _bounded(self, gen: Generator[Any, Any, R]) -> Generator[Any, Any, R]:
        began = time.monotonic()
        readiness = None
        while True:
            try:
                ready = gen.send(readiness)
            except StopIteration as end:
                result: R = end.value
                return result
            readiness = yield ready
            longest = self.leave_after_s
            if longest is None or time.monotonic() - began < longest:
                continue
            # A session that listens waits without a statement.
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.close()
                raise psycopg.OperationalError(f"no answer within {longest:g} s; connection left")


def bound(engine: Engine, waits: Waits) -> None:
    """Have every connection of the engine keep to the limits."""
    settings = {
        **OF_CLIENTS,
        "statement_timeout": f"{waits.statement_s * 1000:.0f}",
        "lock_timeout": f"{waits.lock_s * 1000:.0f}",
        "transaction_timeout": f"{waits.transaction_s * 1000:.0f}",
        "idle_in_transaction_session_timeout": f"{waits.idle_s * 1000:.0f}",
    }

    @event.listens_for(engine, "do_connect")
    def _connect(_dialect: Any, _record: Any, args: Any, parameters: Any) -> BoundedConnection:
        return BoundedConnection.connect(*args, **parameters)

    @event.listens_for(engine, "connect")
    def _limit(connection: BoundedConnection, _record: Any) -> None:
        try:
            # By statements and not by `options` of the start packet, which poolers refuse.
            connection.execute(
                SET, [list(settings), list(settings.values()), list(OPERATOR_SOURCES)]
            )
            row = connection.execute(LIMIT).fetchone()
            connection.commit()
        except psycopg.Error:
            # Nobody else knows of it yet.
            connection.close()
            raise
        limit_s = row[0] / 1000 if row else 0
        longest = limit_s + MARGIN_S if limit_s else None
        if waits.leave_after_s is not None:
            longest = min(waits.leave_after_s, longest or waits.leave_after_s)
        connection.leave_after_s = longest
