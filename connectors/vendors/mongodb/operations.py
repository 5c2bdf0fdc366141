"""What MongoDB's operations do and wait for, as the sessions of any database.

MongoDB does not say who holds what another waits for. It says which locks each operation holds and
in which mode ("FAQ: Concurrency"), so whoever holds one that excludes the other is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from faultline.connectors.shared.databases.lock_chains import DatabaseSession
from faultline.connectors.shared.vendor_text import short

UNNAMED = "an operation that the server does not name"
EXCLUDES = frozenset({"W", "R"})
"""Exclusive and shared; the others are only an intent."""
LONGEST_SHOWN = 120
DEEPEST = 4
QUERIES = ("filter", "query", "q", "pipeline", "updates", "deletes")
"""Where commands have what they look for."""


class UserAnswer(msgspec.Struct):
    user: str = ""


class SessionIdAnswer(msgspec.Struct):
    id: str | None = None


class TransactionAnswer(msgspec.Struct):
    timeOpenMicros: float | None = None


class LockStatAnswer(msgspec.Struct):
    timeAcquiringMicros: dict[str, float] = {}


class OperationAnswer(msgspec.Struct):
    opid: int | str | None = None
    type: str = "op"
    op: str = ""
    ns: str = ""
    client: str | None = None
    appName: str | None = None
    effectiveUsers: list[UserAnswer] = []
    secs_running: float | None = None
    waitingForLock: bool = False
    locks: dict[str, str] = {}
    lockStats: dict[str, LockStatAnswer] = {}
    planSummary: str | None = None
    command: dict[str, Any] = {}
    lsid: SessionIdAnswer | None = None
    transaction: TransactionAnswer | None = None

    @property
    def id(self) -> str:
        """Of the operation, or of a session without one."""
        if self.opid is not None:
            return short(str(self.opid), 40)
        return short((self.lsid.id if self.lsid else None) or "", 40)

    @property
    def text(self) -> str:
        """What it does, without values."""
        shape = masked_command(self.command, self.ns)
        # `IXSCAN { email: 1 }`: the first word is enough.
        plan = short((self.planSummary or "").partition(" ")[0], 20)
        return f"{shape} ({plan})" if plan else shape

    @property
    def waited_s(self) -> float:
        """For its locks until now."""
        waits = [
            sum(lock_stat.timeAcquiringMicros.values()) for lock_stat in self.lockStats.values()
        ]
        return max(waits, default=0.0) / 1e6

    @property
    def is_internal(self) -> bool:
        """Of the server itself, or of another member that follows it."""
        return (self.client is None and self.type == "op") or self.ns.startswith("local.")


class CursorAnswer(msgspec.Struct):
    firstBatch: list[OperationAnswer] = []


class OperationsAnswer(msgspec.Struct):
    cursor: CursorAnswer


class ClientAnswer(msgspec.Struct):
    application: str | None = None
    users: list[str] = []


class ClientGroupAnswer(msgspec.Struct):
    client: ClientAnswer = msgspec.field(name="_id", default_factory=ClientAnswer)


class ClientCursorAnswer(msgspec.Struct):
    firstBatch: list[ClientGroupAnswer] = []


class ClientsAnswer(msgspec.Struct):
    cursor: ClientCursorAnswer

    def clients(self) -> list[tuple[str, str]]:
        """Applications, each with its user."""
        groups = [group.client for group in self.cursor.firstBatch]
        return [(group.application or "", " ".join(group.users)) for group in groups]


def sessions_of(operations: Sequence[OperationAnswer]) -> list[DatabaseSession]:
    """Those that wait for a lock, or hold one that others wait for, or have a transaction."""
    sessions = []
    for operation in operations:
        waits: tuple[str, ...] = ()
        if operation.waitingForLock:
            waits = tuple(_holders(operation, operations)) or (UNNAMED,)
        open_us = (
            operation.transaction.timeOpenMicros if operation.transaction is not None else None
        )
        is_idle = operation.type == "idleSession"
        users = ", ".join(
            short(user.user, 40) for user in operation.effectiveUsers[:2] if user.user
        )
        who = [short(operation.appName or "", 40), f"user {users}" if users else ""]
        sessions.append(
            DatabaseSession(
                id=operation.id,
                who=", ".join(part for part in who if part),
                doing="idle in transaction" if is_idle else short(operation.op, 30),
                statement="" if is_idle else operation.text,
                open_s=open_us / 1e6 if open_us is not None else None,
                waits_for=waits,
                waited_s=operation.waited_s if waits else None,
                lock=short(operation.ns, 80),
            )
        )
    return sessions


def _holders(waiting: OperationAnswer, candidates: Sequence[OperationAnswer]) -> list[str]:
    database = waiting.ns.partition(".")[0]
    ids = []
    for answer in candidates:
        if answer is waiting or answer.waitingForLock:
            continue
        # From the widest lock to the narrowest: server, database, collection.
        everything = answer.locks.get("Global") in EXCLUDES
        of_database = answer.locks.get("Database") in EXCLUDES and (
            answer.ns.partition(".")[0] == database
        )
        of_collection = answer.locks.get("Collection") in EXCLUDES and answer.ns == waiting.ns
        if everything or of_database or of_collection:
            ids.append(answer.id)
    return ids


def masked_command(command: Mapping[str, Any], namespace: str) -> str:
    """Its name, collection and the names of the fields that it looks for; `?` for every value."""
    # The first key of a command is its name.
    name = short(next(iter(command), ""), 30)
    text = f"{name} {short(namespace, 80)}".strip()
    for key in QUERIES:
        if key in command:
            text += f" {_shape(command[key], DEEPEST)}"
            break
    return short(text, LONGEST_SHOWN)


def _shape(value: Any, depth: int) -> str:
    if isinstance(value, Mapping) and value and depth:
        parts = []
        for name, member in list(value.items())[:8]:
            parts.append(f"{short(str(name), 40)}: {_shape(member, depth - 1)}")
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list) and depth and any(isinstance(member, Mapping) for member in value):
        return "[" + ", ".join(_shape(member, depth - 1) for member in value[:4]) + "]"
    # A value may be anybody's data.
    return "?"
