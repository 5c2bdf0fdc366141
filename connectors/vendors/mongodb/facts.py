"""What MongoDB's answers say is wrong.

Fields: "serverStatus", "replSetGetStatus" and "dbStats" of its manual, versions 4.4 to 8.x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from faultline.analysis.wording.amounts import BYTES, SECONDS, SHARE, amount
from faultline.connectors.shared.databases.database_facts import (
    LAG_S,
    connection_facts,
    restart_facts,
)
from faultline.connectors.shared.databases.database_server import Fact, listed
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.mongodb.operations import OperationAnswer

LONG_OPERATION_S = 60.0
"""No request of a user waits so long; index builds and reports do."""
MOST_OPERATIONS = 5
DIRTY_SHARE = 0.2
"""From here on threads of clients have to write pages out (WiredTiger, eviction_dirty_trigger)."""
DISK_SHARE = 0.95
MOST_DATABASES, MOST_COLLECTIONS_SHOWN = 3, 10
OF_THE_SERVER = frozenset({"admin", "config", "local"})
HEALTHY = frozenset({1, 2, 7})
"""Primary, secondary, arbiter ("Replica Set Member States")."""
PRIMARY, SECONDARY = 1, 2
WRITING = frozenset(
    {
        "insert",
        "update",
        "remove",
        "createCollection",
        "createIndex",
        "dropCollection",
        "dropDatabase",
        "createUser",
        "grantRole",
        "killop",
        "shutdown",
        "fsync",
        "replSetReconfig",
        "setParameter",
        "anyAction",
    }
)


class ConnectionsAnswer(msgspec.Struct):
    current: float = 0
    available: float = 0


class QueueAnswer(msgspec.Struct):
    total: float = 0


class GlobalLockAnswer(msgspec.Struct):
    currentQueue: QueueAnswer = msgspec.field(default_factory=QueueAnswer)


class TicketsAnswer(msgspec.Struct):
    available: float | None = None
    totalTickets: float | None = None


class WiredTigerAnswer(msgspec.Struct):
    cache: dict[str, float] = {}
    concurrentTransactions: dict[str, TicketsAnswer | float | str | bool] = {}
    """Until MongoDB 7."""


class QueuesAnswer(msgspec.Struct):
    execution: dict[str, TicketsAnswer | float | str | bool] = {}
    """From MongoDB 8 on."""


class ServerStatusAnswer(msgspec.Struct):
    version: str = ""
    process: str = "mongod"
    uptime: float | None = None
    connections: ConnectionsAnswer = msgspec.field(default_factory=ConnectionsAnswer)
    globalLock: GlobalLockAnswer = msgspec.field(default_factory=GlobalLockAnswer)
    wiredTiger: WiredTigerAnswer = msgspec.field(default_factory=WiredTigerAnswer)
    queues: QueuesAnswer = msgspec.field(default_factory=QueuesAnswer)


class MemberAnswer(msgspec.Struct):
    name: str
    state: int
    stateStr: str = ""
    health: float = 1
    optimeDate: datetime | None = None
    electionDate: datetime | None = None


class ReplicaSetAnswer(msgspec.Struct):
    set: str
    members: list[MemberAnswer]


class MemberSettings(msgspec.Struct):
    host: str
    secondaryDelaySecs: float = 0
    # Its name before MongoDB 5.
    slaveDelay: float = 0


class SetSettings(msgspec.Struct):
    members: list[MemberSettings] = []


class SetSettingsAnswer(msgspec.Struct):
    config: SetSettings


class DatabaseAnswer(msgspec.Struct):
    name: str
    sizeOnDisk: float = 0


class DatabasesAnswer(msgspec.Struct):
    databases: list[DatabaseAnswer] = []


class NameAnswer(msgspec.Struct):
    name: str


class NamesCursor(msgspec.Struct):
    firstBatch: list[NameAnswer] = []


class NamesAnswer(msgspec.Struct):
    cursor: NamesCursor


class StorageAnswer(msgspec.Struct):
    totalSize: float | None = None
    storageSize: float = 0
    totalIndexSize: float = 0
    freeStorageSize: float = 0


class ShardAnswer(msgspec.Struct):
    storageStats: StorageAnswer = msgspec.field(default_factory=StorageAnswer)


class ShardsCursor(msgspec.Struct):
    firstBatch: list[ShardAnswer] = []


class ShardsAnswer(msgspec.Struct):
    cursor: ShardsCursor


@dataclass(frozen=True)
class CollectionSize:
    """What a collection takes of the disk with its indexes, in bytes; `free_b` of it is empty, and
    only the collection itself can use it again."""

    name: str
    total_b: float
    free_b: float = 0

    @property
    def text(self) -> str:
        """For people."""
        free = f", {amount(self.free_b, BYTES)} of it free" if self.free_b >= 1 else ""
        return f"{self.name}: {amount(self.total_b, BYTES)}{free}"


class DiskAnswer(msgspec.Struct):
    fsUsedSize: float | None = None
    fsTotalSize: float | None = None


class PrivilegeAnswer(msgspec.Struct):
    actions: list[str] = []


class AuthAnswer(msgspec.Struct):
    authenticatedUsers: list[dict[str, str]] = []
    authenticatedUserPrivileges: list[PrivilegeAnswer] = []


class RightsAnswer(msgspec.Struct):
    authInfo: AuthAnswer


def server_facts(status: ServerStatusAnswer, window_s: float) -> list[Fact]:
    """`window_s`: what happened at most so long ago belongs to the incident."""
    current, available = round(status.connections.current), round(status.connections.available)
    # The server tells what is left, not the limit.
    facts = connection_facts(current, current + available, "maxIncomingConnections")
    if status.uptime is not None:
        facts += restart_facts(status.uptime, window_s, "uptime")
    waiting = round(status.globalLock.currentQueue.total)
    tickets = status.queues.execution or status.wiredTiger.concurrentTransactions
    for kind in ("read", "write"):
        ticket = tickets.get(kind)
        if isinstance(ticket, TicketsAnswer) and ticket.available == 0 and ticket.totalTickets:
            value = f"all {ticket.totalTickets:.0f} tickets for a {kind} are taken, {waiting} wait"
            facts.append(Fact("commands_slow", value, field="tickets"))
    cache = status.wiredTiger.cache
    most = cache.get("maximum bytes configured", 0)
    dirty = cache.get("tracked dirty bytes in the cache", 0)
    if most and dirty >= DIRTY_SHARE * most:
        value = f"{amount(dirty / most, SHARE)} of its cache is not yet written to disk"
        facts.append(Fact("commands_slow", value, field="cache"))
    return facts


def long_operation_facts(operations: Sequence[OperationAnswer]) -> list[Fact]:
    """What clients have been running for a minute, without waiting for a lock."""
    facts = []
    for operation in sorted(operations, key=lambda operation: -(operation.secs_running or 0)):
        for_s = operation.secs_running or 0.0
        # Waits for locks and open transactions have facts already.
        waits = operation.waitingForLock or operation.transaction is not None
        if operation.is_internal or waits or for_s < LONG_OPERATION_S:
            continue
        value = f"operation {operation.id} for {amount(for_s, SECONDS)}: {operation.text}"
        facts.append(Fact("commands_slow", value, for_s, field="operations"))
    return facts[:MOST_OPERATIONS]


def set_facts(
    answer: ReplicaSetAnswer, delays: Mapping[str, float], now: datetime, window_s: float
) -> list[Fact]:
    """Of a replica set as this member sees it. `delays`: those on purpose, in seconds."""
    facts = []
    primary = next(
        (member for member in answer.members if member.state == PRIMARY and member.health), None
    )
    if primary is None:
        value = f"replica set {short(answer.set, 40)} has no primary"
        facts.append(Fact("writes_refused", value, field="members"))
    elif primary.electionDate is not None:
        since_s = (now - _utc(primary.electionDate)).total_seconds()
        if 0 <= since_s <= window_s:
            value = f"{short(primary.name, 80)} became primary {amount(since_s, SECONDS)} ago"
            facts.append(Fact("database_failed_over", value, since_s, field="electionDate"))
    for member in answer.members:
        name = short(member.name, 80)
        if not member.health or member.state not in HEALTHY:
            state = short(member.stateStr, 40).lower() or f"state {member.state}"
            # As in `(not reachable/healthy)`.
            state = state.strip("()")
            facts.append(Fact("database_unavailable", state, None, "Member", name, "stateStr"))
        # An arbiter holds no data, so it cannot be behind.
        elif primary is not None and member.state == SECONDARY:
            behind_s = _behind(primary, member) - delays.get(member.name, 0.0)
            if behind_s >= LAG_S:
                value = f"{amount(behind_s, SECONDS)} behind {short(primary.name, 80)}"
                fact = Fact("database_lagging", value, behind_s, "Member", name, "optimeDate")
                facts.append(fact)
    return facts


def _behind(primary: MemberAnswer, member: MemberAnswer) -> float:
    # A member that does not tell its position is not called behind.
    if primary.optimeDate is None or member.optimeDate is None:
        return 0.0
    return (_utc(primary.optimeDate) - _utc(member.optimeDate)).total_seconds()


def _utc(at: datetime) -> datetime:
    # BSON times are UTC, also where the driver does not say so.
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def delays_of(set_settings: SetSettings) -> dict[str, float]:
    """The members that are behind on purpose, by name."""
    return {
        member.host: member.secondaryDelaySecs or member.slaveDelay
        for member in set_settings.members
    }


def disk_facts(disk: DiskAnswer, largest: Sequence[CollectionSize] = ()) -> list[Fact]:
    """Where the file system of its data is almost full, and which collection takes most of it."""
    used, total = disk.fsUsedSize, disk.fsTotalSize
    if not used or not total or used < DISK_SHARE * total:
        return []
    value = f"{amount(used, BYTES)} of {amount(total, BYTES)} in use"
    if largest:
        value += f"; largest collection {largest[0].text}"
    return [Fact("database_storage_full", value, field="fsUsedSize")]


def databases_to_look_into(answer: DatabasesAnswer) -> list[str]:
    """The largest databases of people: the server's own hold little, or are capped."""
    databases = [database for database in answer.databases if database.name not in OF_THE_SERVER]
    databases.sort(key=lambda database: (-database.sizeOnDisk, database.name))
    return [database.name for database in databases[:MOST_DATABASES]]


def size_of(name: str, answer: ShardsAnswer) -> CollectionSize:
    """Of a collection, on all shards together."""
    total_b = free_b = 0.0
    for shard in answer.cursor.firstBatch:
        storage_stats = shard.storageStats
        # Not all servers that speak the protocol have the total.
        total_b += (
            storage_stats.totalSize or storage_stats.storageSize + storage_stats.totalIndexSize
        )
        free_b += storage_stats.freeStorageSize
    return CollectionSize(name, total_b, free_b)


def collection_details(largest: Sequence[CollectionSize], unasked: int) -> dict[str, str]:
    """The largest collections, for people."""
    lines = [collection.text for collection in largest[:MOST_COLLECTIONS_SHOWN]]
    if lines and unasked:
        lines.append(f"({unasked} collections were not asked)")
    return listed("largest collections", lines)


def size_details(answer: DatabasesAnswer) -> dict[str, str]:
    """The largest databases, for people."""
    lines = []
    for database in sorted(
        answer.databases, key=lambda database: (-database.sizeOnDisk, database.name)
    )[:10]:
        lines.append(f"{short(database.name, 63)}: {amount(database.sizeOnDisk, BYTES)}")
    return listed("largest databases", lines)


def actions_of(answer: RightsAnswer) -> frozenset[str]:
    """All that this user may do anywhere."""
    privileges = answer.authInfo.authenticatedUserPrivileges
    return frozenset(action for privilege in privileges for action in privilege.actions)
