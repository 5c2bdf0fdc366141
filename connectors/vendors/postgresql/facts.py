"""What PostgreSQL's answers say is wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from faultline.analysis.wording.amounts import BYTES, SECONDS, SHARE, amount
from faultline.connectors.shared.databases.database_facts import (
    LAG_S,
    StatementCounts,
    connection_facts,
    restart_facts,
)
from faultline.connectors.shared.databases.database_server import Fact, listed
from faultline.connectors.shared.databases.lock_chains import DatabaseSession
from faultline.connectors.shared.queries.query_bounds import masked_statement
from faultline.connectors.shared.vendor_text import short

HIDDEN = "<insufficient privilege>"
"""What the server shows instead of another user's statement."""
WRAPAROUND_IDS = 1e9
"""Half of all; AWS alarms at that many ("Implement an early warning system for transaction ID
wraparound in Amazon RDS for PostgreSQL"). At 2.1e9 the server takes no more writes."""
# Transaction IDs have 32 bits, and half of them lie in the past.
LAST_IDS = 2**31
LEAST_RETAINED = 2.0**30
"""An inactive slot that keeps less fills no disk soon: 64 segments of 16 MiB, the server's own
`max_wal_size`."""
DEAD_SHARE, DEAD_ROWS = 0.5, 100_000
"""Autovacuum begins at a fifth (`autovacuum_vacuum_scale_factor`); at half it has not kept up."""
MOST_TABLES = 5


class ServerRow(msgspec.Struct):
    version: str
    max_connections: int
    connections: int | None
    in_recovery: bool
    up_s: float
    loaded_s: float
    pending: str | None
    read_only: str
    deadlocks: float | None


class SessionRow(msgspec.Struct):
    pid: int
    database: str | None
    user: str | None
    application: str | None
    backend_type: str | None
    state: str | None
    query: str | None
    open_s: float | None
    state_s: float | None
    blockers: list[int] | None
    waited_s: float | None
    lock: str | None

    @property
    def is_hidden(self) -> bool:
        """Whether this user may not see what it does."""
        return self.query == HIDDEN

    @property
    def is_client(self) -> bool:
        """Not one of the server's own processes."""
        # The type is hidden from a user without pg_monitor.
        return self.backend_type in (None, "client backend", "parallel worker")

    @property
    def who(self) -> str:
        """The program, and the user where one is named."""
        program = short(self.application or self.backend_type or "", 60)
        user = f"user {short(self.user, 40)}" if self.user else ""
        return ", ".join(part for part in (program, user) if part)


class ReplicaRow(msgspec.Struct):
    name: str | None
    host: str | None
    state: str | None
    lag_s: float | None
    lag_bytes: float | None


class SlotRow(msgspec.Struct):
    name: str
    active: bool
    wal_status: str | None
    kept_bytes: float | None


class StandbyRow(msgspec.Struct):
    receivers: int
    lag_s: float | None
    in_recovery: bool
    paused: bool


class DatabaseRow(msgspec.Struct):
    name: str
    age: float
    bytes: float | None


class TableRow(msgspec.Struct):
    name: str
    live: float
    dead: float
    bytes: float
    vacuumed_s: float | None


class SchemaRow(msgspec.Struct):
    schema: str


class StatementRow(msgspec.Struct):
    id: str
    query: str | None
    calls: float
    total_ms: float

    def counts(self) -> StatementCounts:
        """With its text masked: the server keeps the literals of some kinds of statement."""
        text = masked_statement(self.query or "", quotes_names=True)
        return StatementCounts(self.id, text, self.calls, self.total_ms)


class RightsRow(msgspec.Struct):
    superuser: bool
    administers: bool
    writes_by_role: bool
    creates: bool
    tables: int
    reads_statistics: bool


def server_facts(row: ServerRow, window_s: float) -> list[Fact]:
    """`window_s`: what happened at most so long ago belongs to the incident."""
    facts = connection_facts(row.connections or 0, row.max_connections)
    facts += restart_facts(row.up_s, window_s, "pg_postmaster_start_time")
    if row.pending:
        phrase = f"waiting for a restart: {row.pending}"
        facts.append(Fact("database_parameters_pending", phrase, field="pending_restart"))
    # A replica is read-only on purpose.
    if row.read_only == "on" and not row.in_recovery:
        phrase = "default_transaction_read_only is on"
        facts.append(Fact("writes_refused", phrase, field="default_transaction_read_only"))
    return facts


def sessions_of(rows: Sequence[SessionRow]) -> list[DatabaseSession]:
    """Those that do something, with prepared transactions as holders without a session."""
    sessions = []
    for row in rows:
        # A process of the server matters only while it waits, such as autovacuum behind a lock.
        if row.state == "idle" or (not row.is_client and not row.blockers):
            continue
        # pg_blocking_pids gives 0 for a prepared transaction, which has no session.
        waits = ("a prepared transaction" if pid == 0 else str(pid) for pid in row.blockers or ())
        query = "" if row.is_hidden else masked_statement(row.query or "", quotes_names=True)
        sessions.append(
            DatabaseSession(
                id=str(row.pid),
                who=row.who,
                doing=row.state or "",
                statement=query,
                open_s=row.open_s,
                waits_for=tuple(dict.fromkeys(waits)),
                waited_s=row.waited_s,
                lock=short(row.lock or "", 60),
            )
        )
    return sessions


def connection_details(rows: Sequence[SessionRow]) -> dict[str, str]:
    """Who has how many connections, for people."""
    counts = Counter(
        (row.application or "no name", row.state or "unknown") for row in rows if row.is_client
    )
    lines = [
        f"{count} of {short(app, 60)}, {state}" for (app, state), count in counts.most_common(20)
    ]
    return listed("connections", lines)


def replica_facts(rows: Sequence[ReplicaRow]) -> list[Fact]:
    """Replicas that are behind, as the primary sees them."""
    facts = []
    for row in rows:
        if (row.lag_s or 0.0) >= LAG_S:
            name = short(row.name or row.host or "a replica", 60)
            value = f"{name} is {amount(row.lag_s or 0.0, SECONDS)} behind"
            if row.lag_bytes:
                value += f" ({amount(row.lag_bytes, BYTES)})"
            facts.append(Fact("database_lagging", value, row.lag_s, field="replay_lag"))
    return facts


def slot_facts(rows: Sequence[SlotRow]) -> list[Fact]:
    """Slots that nobody reads and that keep the log, and those whose log is already gone."""
    facts = []
    for row in rows:
        retained_bytes = row.kept_bytes or 0.0
        name = short(row.name, 63)
        if row.wal_status == "lost":
            value = f"the log that slot {name} needs is gone"
            facts.append(Fact("database_lagging", value, field="wal_status"))
        elif not row.active and retained_bytes >= LEAST_RETAINED:
            value = f"slot {name} is not read and keeps {amount(retained_bytes, BYTES)}"
            facts.append(Fact("replication_log_kept", value, field="restart_lsn"))
    return facts


def standby_facts(row: StandbyRow, name: str) -> list[Fact]:
    """How far a replica is behind, as it sees it itself."""
    if not row.in_recovery:
        value = f"{name} takes writes itself: it is no replica any more"
        return [Fact("database_failed_over", value, field="pg_is_in_recovery")]
    # Before the lag, which a pause explains.
    if row.paused:
        return [Fact("database_lagging", f"replay is paused on {name}", row.lag_s, field="paused")]
    if (row.lag_s or 0.0) >= LAG_S and not row.receivers:
        value = f"{name} receives nothing from its primary"
        return [Fact("database_lagging", value, row.lag_s, field="pg_stat_wal_receiver")]
    if (row.lag_s or 0.0) >= LAG_S:
        value = f"{name} is {amount(row.lag_s or 0.0, SECONDS)} behind"
        return [Fact("database_lagging", value, row.lag_s, field="replay_lag")]
    return []


def age_facts(rows: Sequence[DatabaseRow]) -> list[Fact]:
    """The database whose transaction IDs run out first, where it has used half of them."""
    oldest = max(rows, key=lambda row: row.age, default=None)
    if oldest is None or oldest.age < WRAPAROUND_IDS:
        return []
    share = amount(oldest.age / LAST_IDS, SHARE)
    value = f"{short(oldest.name, 63)} has used {share} ({amount(oldest.age)})"
    return [Fact("wraparound_near", value, field="datfrozenxid")]


def size_details(databases: Sequence[DatabaseRow]) -> dict[str, str]:
    """The largest databases, for people."""
    largest = sorted(databases, key=lambda row: -(row.bytes or 0.0))[:10]
    lines = [f"{short(row.name, 63)}: {amount(row.bytes or 0.0, BYTES)}" for row in largest]
    return listed("sizes", lines)


def table_facts(rows: Sequence[TableRow]) -> list[Fact]:
    """Tables with half of their rows dead, the most dead rows first."""
    # Half of a small table is soon dead, and harmless.
    bad = [row for row in rows if row.dead >= max(DEAD_ROWS, DEAD_SHARE * (row.live + row.dead))]
    bad.sort(key=lambda row: -row.dead)
    facts = []
    for row in bad[:MOST_TABLES]:
        share = amount(row.dead / (row.live + row.dead), SHARE)
        last = "never vacuumed"
        if row.vacuumed_s is not None:
            last = f"vacuumed {amount(row.vacuumed_s, SECONDS)} ago"
        value = f"{amount(row.dead)} of {short(row.name, 100)} ({share}), {last}"
        facts.append(Fact("rows_not_vacuumed", value, field="n_dead_tup"))
    return facts


def table_details(rows: Sequence[TableRow]) -> dict[str, str]:
    """The largest tables, for people."""
    largest = sorted(rows, key=lambda row: -row.bytes)[:10]
    lines = [f"{short(row.name, 100)}: {amount(row.bytes, BYTES)}" for row in largest]
    return listed("largest tables", lines)
