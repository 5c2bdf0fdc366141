"""Every wait for PostgreSQL has an end: to connect, for a packet, for a statement, for a lock, and
inside a transaction.

A server that is lost without a word (its host or the network between) ends no statement, so the
limits hold on both sides. On ours, the kernel abandons a silent connection, and `BoundedConnection`
leaves a statement without an answer, even where something on the way still acknowledges packets.
On the server's, a client that is lost inside a transaction holds its locks for some seconds.

What an operator says wins: parameters of the address, and `ALTER ROLE` or `ALTER DATABASE ... SET`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import URL

NETWORK = {
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives": "1",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
}
"""Parameters of libpq
(https://www.postgresql.org/docs/current/libpq-connect.html#LIBPQ-PARAMKEYWORDS): a host that is
gone is noticed after about 11 s. Seconds, but `tcp_user_timeout` in ms."""
MARGIN_S = 2.0
"""The server ends a statement first, where it can still say so."""


@dataclass(frozen=True)
class Waits:
    """How long a statement may take (`statement_s`), and of that wait for a lock (`lock_s`; 0: for
    all of it), how long a transaction may stand still (`idle_s`) and how long it may take
    (`transaction_s`, from PostgreSQL 17 on; 0: any time). A client that is lost in the middle of a
    message does not count as standing still. `leave_after_s`: when our side leaves a statement
    without an answer, where that is before the server's limit."""

    statement_s: float = 10.0
    lock_s: float = 5.0
    idle_s: float = 10.0
    transaction_s: float = 30.0
    leave_after_s: float | None = None


USUAL = Waits()
"""Statements of the store take milliseconds."""
PATIENT = Waits(statement_s=600.0, lock_s=60.0, idle_s=60.0, transaction_s=0.0)
"""What changes or deletes many rows: migrations and retention."""


def bounded_address(url: URL) -> URL:
    """The address with the limits of the network, where it does not say its own."""
    missing = {key: value for key, value in NETWORK.items() if key not in url.query}
    return url.set(drivername="postgresql+psycopg").update_query_dict(missing)
