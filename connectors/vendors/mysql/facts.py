"""What MySQL's and MariaDB's answers say is wrong."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from faultline.analysis.wording.amounts import SECONDS, amount
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

SERVER_COMMANDS = frozenset({"Daemon", "Binlog Dump", "Binlog Dump GTID", "Slave_IO", "Slave_SQL"})
"""Threads of the server itself, and replicas that read its log."""
SERVER_USERS = frozenset({"system user", "event_scheduler"})
METADATA_LOCK = "Waiting for table metadata lock"
"""The state of a session that waits for one ("General Thread States")."""
UNNAMED = "a session that the server does not name"
READING = frozenset(
    {
        "USAGE",
        "PROCESS",
        "REPLICATION CLIENT",
        "BINLOG MONITOR",
        "REPLICA MONITOR",
        "SLAVE MONITOR",
        "SHOW DATABASES",
    }
)
# `GRANT SELECT, PROCESS ON *.* TO ...`. The grant of a role has no ON.
_GRANT = re.compile(r"GRANT (.+?) ON (\S+) TO ", re.IGNORECASE)


class NamedValue(msgspec.Struct):
    """A row of SHOW STATUS and SHOW VARIABLES."""

    variable_name: str
    value: str | None


class CountRow(msgspec.Struct):
    count: int


class SessionRow(msgspec.Struct):
    id: int
    user: str | None
    command: str | None
    state: str | None
    statement: str | None
    state_s: float | None
    open_s: float | None
    waited_s: float | None

    @property
    def is_server(self) -> bool:
        """Whether it is a thread of the server itself, or a replica that reads its log."""
        return self.command in SERVER_COMMANDS or self.user in SERVER_USERS

    @property
    def is_idle(self) -> bool:
        """Whether it waits for its client."""
        return self.command == "Sleep"

    @property
    def doing(self) -> str:
        """What it does, in the server's words."""
        if self.is_idle:
            return "idle in transaction"
        return self.state or self.command or ""


class ProgramRow(msgspec.Struct):
    id: int
    program: str | None


class LockRow(msgspec.Struct):
    waiting: int
    holder: int
    object: str | None


class StatementRow(msgspec.Struct):
    id: str
    text: str | None
    calls: int
    total_ms: float

    def counts(self) -> StatementCounts:
        """The server has removed literals itself; it may be a setting of tomorrow not to."""
        text = masked_statement(self.text or "", quotes_names=False)
        return StatementCounts(self.id, text, self.calls, self.total_ms)


def named(rows: Iterable[NamedValue]) -> dict[str, str]:
    """As a mapping, with names in lower case."""
    return {row.variable_name.lower(): row.value or "" for row in rows}


def number_of(values: Mapping[str, str], name: str) -> int:
    """A value that is a number; 0 where it is none."""
    text = values.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else 0


def server_facts(
    settings: Mapping[str, str], counters: Mapping[str, str], window_s: float, replicates: bool
) -> list[Fact]:
    """`window_s`: what happened at most so long ago belongs to the incident."""
    used, most = number_of(counters, "threads_connected"), number_of(settings, "max_connections")
    facts = connection_facts(used, most)
    if "uptime" in counters:
        facts += restart_facts(number_of(counters, "uptime"), window_s, "Uptime")
    # A replica is read-only on purpose.
    if settings.get("read_only") in ("ON", "1") and not replicates:
        facts.append(Fact("writes_refused", "read_only is on", field="read_only"))
    return facts


def sessions_of(rows: Sequence[SessionRow], locks: Sequence[LockRow]) -> list[DatabaseSession]:
    """Those that have a transaction or run something."""
    holders: dict[int, list[str]] = {}
    objects = {}
    for lock in locks:
        holders.setdefault(lock.waiting, []).append(str(lock.holder))
        objects[lock.waiting] = short((lock.object or "").replace("`", ""), 60)
    sessions = []
    for row in rows:
        # A pooled connection that sleeps without a transaction holds nothing.
        if row.is_server or (row.is_idle and row.open_s is None):
            continue
        waits, waited_s = holders.get(row.id, []), row.waited_s
        if not waits and row.state == METADATA_LOCK:
            # The server does not say who holds the metadata.
            waits, waited_s = [UNNAMED], row.state_s
        sessions.append(
            DatabaseSession(
                id=str(row.id),
                who=f"user {short(row.user, 40)}" if row.user else "",
                doing=short(row.doing, 60),
                statement=masked_statement(row.statement or "", quotes_names=False),
                open_s=row.open_s,
                waits_for=tuple(dict.fromkeys(waits)),
                waited_s=waited_s,
                lock=objects.get(row.id) or ("metadata of a table" if waits else ""),
            )
        )
    return sessions


def clients_of(rows: Sequence[SessionRow], programs: Iterable[ProgramRow]) -> list[tuple[str, str]]:
    """The program and the user of each session of a client."""
    names = {row.id: row.program or "" for row in programs}
    return [(names.get(row.id, ""), row.user or "") for row in rows if not row.is_server]


def connection_details(rows: Sequence[SessionRow]) -> dict[str, str]:
    """Whose connections there are, for people."""
    counts = Counter(short(row.user or "", 60) for row in rows)
    lines = [f"{count} of {name}" for name, count in counts.most_common(10)]
    return listed("connections", lines)


def replica_facts(row: Mapping[str, object]) -> list[Fact]:
    """Of a row of SHOW REPLICA STATUS, whose names differ between versions.

    Of errors only the number is shown: their text quotes the statement with its values.
    """
    facts = []
    for thread, what in (("io", "receives nothing from its source"), ("sql", "applies nothing")):
        running = _first(row, f"replica_{thread}_running", f"slave_{thread}_running")
        if running in (None, "Yes", "Preparing"):
            continue
        number = _first(row, f"last_{thread}_errno")
        phrase = f"{what}: error {number}" if number else what
        facts.append(Fact("database_lagging", phrase, field=f"{thread}_running"))
    behind = _first(row, "seconds_behind_source", "seconds_behind_master")
    on_purpose = _first(row, "sql_delay") or 0
    if isinstance(behind, int) and isinstance(on_purpose, int) and behind - on_purpose >= LAG_S:
        phrase = f"{amount(behind, SECONDS)} behind its source"
        facts.append(Fact("database_lagging", phrase, float(behind), field="seconds_behind_source"))
    return facts


def rejected_facts(before: Mapping[str, str], after: Mapping[str, str]) -> list[Fact]:
    """Connections that were refused while we watched."""
    name = "connection_errors_max_connections"
    count = number_of(after, name) - number_of(before, name)
    if count <= 0:
        return []
    return [Fact("pool_exhausted", f"{count} connections refused just now", field=name)]


def writing(grants: Iterable[str]) -> list[str]:
    """What these grants allow besides reading."""
    rights: dict[str, None] = {}
    for line in grants:
        match = _GRANT.match(line)
        if match is None:
            continue
        for right in match[1].split(","):
            name = right.strip().upper()
            # SELECT may name columns: `SELECT (email)`.
            reads = name in READING or name.startswith("SELECT")
            if not reads:
                rights[short(name, 40)] = None
        if "WITH GRANT OPTION" in line.upper():
            rights["GRANT OPTION"] = None
    return list(rights)


def _first(row: Mapping[str, object], *names: str) -> object:
    return next((row[name] for name in names if name in row), None)
