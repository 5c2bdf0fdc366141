"""What is judged alike in databases of any vendor: chains of locks, transactions that stay open,
statements that became slower, connections that run out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.wording.amounts import MILLISECONDS, SECONDS, SHARE, amount, times
from faultline.analysis.wording.phrases import counted
from faultline.connectors.shared.databases.database_server import Fact, listed
from faultline.connectors.shared.databases.lock_chains import DatabaseSession, lock_holders

CONNECTIONS_SHARE = 0.9
"""As of the exporters' facts (exporter_metrics.toml; jsonnet-libs warns at 80 %)."""
BEHIND = 10_000
"""Messages that wait in a queue, a stream or a topic (exporter_metrics.toml)."""
LAG_S = 30.0
"""As of the exporters' facts (jsonnet-libs, PostgreSQLReplicationLag)."""
IDLE_OPEN_S = 60.0
"""GitLab ends what is idle in a transaction for so long (idle_in_transaction_session_timeout of
its database settings)."""
RUNNING_OPEN_S = 300.0
"""No request of a user waits so long; reports and migrations do."""
MOST_HOLDERS = 5
LEAST_CALLS, LEAST_CALLS_BEFORE = 5, 100
"""Of one statement, in the sample and before it: fewer give no mean worth comparing."""
SLOWER = 3.0
"""A mean of few calls is often twice that of many."""
LEAST_MEAN_MS = 5.0
LEAST_SHARE = 0.1
"""Of the time of all statements in the sample."""
MOST_STATEMENTS = 5


def lock_facts(sessions: Sequence[DatabaseSession]) -> list[Fact]:
    """A fact for each session that others wait for."""
    facts = []
    for lock_holder in lock_holders(sessions)[:MOST_HOLDERS]:
        facts.append(
            Fact(
                "sessions_blocked", lock_holder.summary(), lock_holder.longest_wait_s, field="locks"
            )
        )
    return facts


def open_facts(sessions: Sequence[DatabaseSession]) -> list[Fact]:
    """The transaction that has been open longest, unless others wait for it, which is
    a fact about locks."""
    holders = {lock_holder.id for lock_holder in lock_holders(sessions)}
    old = []
    for session in sessions:
        limit = IDLE_OPEN_S if session.doing.startswith("idle") else RUNNING_OPEN_S
        # A session that waits is the victim; its open time is somebody else's doing.
        if (session.open_s or 0) >= limit and session.id not in holders and not session.waits_for:
            old.append(session)
    if not old:
        return []
    first = max(old, key=lambda session: (session.open_s or 0, session.id))
    open_s = first.open_s or 0.0
    who = ", ".join(part for part in (first.who, first.doing) if part)
    value = f"session {first.id} ({who}) for {amount(open_s, SECONDS)}"
    if len(old) > 1:
        value += f", and {len(old) - 1} more"
    if first.statement:
        value += f"; its statement: {first.statement}"
    return [Fact("transaction_held_open", value, open_s, field="transactions")]


def restart_facts(up_s: float, window_s: float, field: str) -> list[Fact]:
    """A start at most `window_s` ago, which belongs to the incident."""
    if up_s > window_s:
        return []
    value = f"its server started {amount(up_s, SECONDS)} ago"
    return [Fact("database_restarted", value, float(up_s), field=field)]


def connection_facts(used: int, most: int, what: str = "max_connections") -> list[Fact]:
    """Where almost all connections are taken."""
    if most <= 0 or used < CONNECTIONS_SHARE * most:
        return []
    value = f"{used} of {most} ({amount(used / most, SHARE)} of {what})"
    return [Fact("pool_exhausted", value, field=what)]


def deadlock_facts(before: float, after: float) -> list[Fact]:
    """Deadlocks while we watched."""
    # Servers count since their start, so only the difference tells of now.
    count = round(after - before)
    if count <= 0:
        return []
    return [Fact("database_deadlocks", counted(count, "deadlock") + " just now", field="deadlocks")]


@dataclass(frozen=True)
class StatementCounts:
    """What a server has counted of one statement; its text is masked."""

    id: str
    text: str
    calls: float
    total_ms: float

    @property
    def mean_ms(self) -> float:
        """Of one call."""
        return self.total_ms / self.calls if self.calls > 0 else 0.0


def slower_facts(before: Iterable[StatementCounts], after: Iterable[StatementCounts]) -> list[Fact]:
    """Statements whose mean time in the sample is several times that of all calls before it."""
    earlier = {count.id: count for count in before}
    sampled = []
    for count in after:
        previous = earlier.get(count.id)
        # Fewer calls than before mean that the server reset its counters.
        if previous is not None and count.calls > previous.calls:
            calls, total = count.calls - previous.calls, count.total_ms - previous.total_ms
            sampled.append((previous, StatementCounts(count.id, count.text, calls, total)))
    whole = sum(now.total_ms for _, now in sampled)
    facts = []
    for previous, now in sorted(sampled, key=lambda pair: -pair[1].total_ms):
        # Too few calls, or none before: a ratio of such means is noise.
        if previous.calls < LEAST_CALLS_BEFORE or now.calls < LEAST_CALLS or not previous.mean_ms:
            continue
        ratio = now.mean_ms / previous.mean_ms
        is_large = now.mean_ms >= LEAST_MEAN_MS and now.total_ms >= LEAST_SHARE * whole
        if ratio >= SLOWER and is_large:
            was, is_now = (amount(statement.mean_ms, MILLISECONDS) for statement in (previous, now))
            value = f"{is_now} per call now, {was} on average before ({times(ratio)}): {now.text}"
            facts.append(Fact("statements_slower", value, field="statements"))
    return facts[:MOST_STATEMENTS]


def slowest_details(statements: Iterable[StatementCounts]) -> Mapping[str, str]:
    """Where the server's time went since it began to count, for people."""
    shown = sorted(statements, key=lambda statement: -statement.total_ms)[:10]
    lines = []
    for statement in shown:
        spent = amount(statement.total_ms, MILLISECONDS)
        mean = amount(statement.mean_ms, MILLISECONDS)
        lines.append(f"{spent} in {statement.calls:,.0f} calls of {mean}: {statement.text}")
    return listed("most time since counted", lines)
