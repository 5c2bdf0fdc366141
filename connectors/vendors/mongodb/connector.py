"""MongoDB's own state: operations that wait for locks, transactions and operations that stay open,
connections, tickets and cache, the replica set, the disk.

A snapshot of now by commands of the role `clusterMonitor` (serverStatus, $currentOp,
replSetGetStatus, replSetGetConfig, dbStats, listDatabases, listCollections, $collStats).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, TypeVar

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.databases.database_facts import lock_facts, open_facts
from faultline.connectors.shared.databases.database_server import ServerSnapshot
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress, Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.mongodb import MongodbSettings, commands, facts
from faultline.connectors.vendors.mongodb.operations import OperationsAnswer, sessions_of
from faultline.connectors.vendors.mongodb.session import MongodbError, MongodbSession, opened

VENDOR = "mongodb"
LIMITS = Limits(deadline_s=30, max_bytes=16 * 1024 * 1024, requests_per_s=10, concurrency=2)
NO_REPLICA_SET = frozenset({59, 76})
"""CommandNotFound of mongos, NoReplicationEnabled (error_codes.yml of MongoDB)."""
GONE = frozenset({26})
"""NamespaceNotFound: a collection that was dropped since it was listed."""
MOST_COLLECTIONS = 50
SIZES_WITHIN_S = 10.0
"""Sizes of collections are asked one by one. A server that takes longer is not asked on."""
T = TypeVar("T")


def build(mongodb_settings: MongodbSettings, settings: SharedSettings) -> MongodbConnector | None:
    """The configured connector, or None without a host."""
    if mongodb_settings.host is None:
        return None
    return MongodbConnector(
        mongodb_settings.address(mongodb_settings.host, mongodb_settings.port),
        mongodb_settings.of_service(mongodb_settings.host),
        auth_database=mongodb_settings.auth_database,
        statement_s=mongodb_settings.statement_s,
        limits=mongodb_settings.limits(LIMITS),
    )


class MongodbConnector:
    """One server. Its facts are about `service`."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("states",)

    def __init__(
        self,
        server: DatabaseAddress,
        service: str,
        *,
        auth_database: str = "admin",
        statement_s: float = 5.0,
        limits: Limits = LIMITS,
    ) -> None:
        self._server = server
        self._service = service
        self._auth_database = auth_database
        self._statement_s = statement_s
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The snapshot. A command that fails becomes a gap, the others stand."""
        snapshot = ServerSnapshot("Database", self._service, datetime.now(UTC), request.scope)
        if snapshot.comes_too_late():
            return snapshot.builder.collected()
        server, within_s = self._server, self._statement_s
        async with opened(server, self._auth_database, self.limits, within_s) as session:
            reading = _MongodbReading(session, snapshot)
            await reading.operations()
            await reading.server()
            await reading.replica_set()
            await reading.sizes()
        return snapshot.builder.collected()

    async def check(self) -> Check:
        """Reachable, and may this user see everything and write nothing?"""
        server, within_s = self._server, self._statement_s
        try:
            async with opened(server, self._auth_database, self.limits, within_s) as session:
                rights = await session.answer(commands.RIGHTS, facts.RightsAnswer)
                status = await session.answer(commands.SERVER_STATUS, facts.ServerStatusAnswer)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        line = f"MongoDB {short(status.version, 20)} at {server.address} can be read"
        # Without access control nobody is logged in, and there are no rights to list.
        if not rights.authInfo.authenticatedUsers:
            line += "; warning: it asks for no password, so that everybody can write"
            return Check(self.name, True, line)
        actions, unread = facts.actions_of(rights), []
        # `inprog` is the right behind $currentOp.
        if not {"inprog", "anyAction"} & actions:
            unread.append("operations of other users")
            line += "; grant the role clusterMonitor for the operations of others"
        line += f"; each command takes at most {self._statement_s:g} s"
        writing = sorted(facts.WRITING & actions)
        if writing:
            line += f"; warning: this user can also write ({', '.join(writing[:8])})"
        return Check(self.name, True, line, tuple(unread))


class _MongodbReading:
    """Commands of one session, whose failures are gaps of the snapshot."""

    def __init__(self, session: MongodbSession, snapshot: ServerSnapshot) -> None:
        self._session = session
        self._snapshot = snapshot

    def _label(self, command: Mapping[str, Any]) -> str:
        """The command as evidence names it."""
        name = next(iter(command))
        if name == "aggregate":
            # `aggregate` says little: the first stage tells what is read.
            name = next(iter(command["pipeline"][0]))
        return f"{self._session.server.address}: {name}"

    async def _answer(
        self,
        command: Mapping[str, Any],
        type: type[T],
        *,
        database: str = "admin",
        may_lack: frozenset[int] = frozenset(),
    ) -> T | None:
        """None where it failed, which is a gap unless the server has no such thing."""
        try:
            return await self._session.answer(command, type, database=database)
        except MongodbError as error:
            if error.code not in may_lack:
                self._snapshot.lacks(self._label(command), str(error))
        except FaultlineError as error:
            self._snapshot.lacks(self._label(command), str(error))
        return None

    async def operations(self) -> None:
        """Who waits for whom, and what stays open."""
        answer = await self._answer(commands.OPERATIONS, OperationsAnswer)
        if answer is not None:
            running = answer.cursor.firstBatch
            sessions = sessions_of(running)
            operation_facts = [*lock_facts(sessions), *open_facts(sessions)]
            operation_facts += facts.long_operation_facts(running)
            self._snapshot.add(self._label(commands.OPERATIONS), operation_facts)

    async def server(self) -> None:
        """Connections, tickets, cache, the server's start."""
        status = await self._answer(commands.SERVER_STATUS, facts.ServerStatusAnswer)
        if status is not None:
            server_facts = facts.server_facts(status, self._snapshot.window_s)
            self._snapshot.add(self._label(commands.SERVER_STATUS), server_facts)

    async def replica_set(self) -> None:
        """Its members, where it has any."""
        answer = await self._answer(
            commands.REPLICA_SET, facts.ReplicaSetAnswer, may_lack=NO_REPLICA_SET
        )
        if answer is None:
            return
        # Only the configuration says which members are behind on purpose.
        set_settings = await self._answer(commands.REPLICA_SET_CONFIG, facts.SetSettingsAnswer)
        delays = facts.delays_of(set_settings.config) if set_settings is not None else {}
        replica_facts = facts.set_facts(answer, delays, self._snapshot.at, self._snapshot.window_s)
        members = [
            f"{short(member.name, 80)}: {short(member.stateStr, 40)}" for member in answer.members
        ]
        details = {"members": "\n".join(members[:50])}
        self._snapshot.add(self._label(commands.REPLICA_SET), replica_facts, details)

    async def sizes(self) -> None:
        """The file system, the databases on it, and the collections of the largest."""
        disk = await self._answer(commands.DISK, facts.DiskAnswer)
        databases = await self._answer(commands.DATABASES, facts.DatabasesAnswer)
        largest: list[facts.CollectionSize] = []
        details: dict[str, str] = {}
        if databases is not None:
            largest, unasked = await self._collections(databases)
            details |= facts.size_details(databases) | facts.collection_details(largest, unasked)
        if disk is not None:
            self._snapshot.add(self._label(commands.DISK), facts.disk_facts(disk, largest), details)

    async def _collections(
        self, databases: facts.DatabasesAnswer
    ) -> tuple[list[facts.CollectionSize], int]:
        """Those that were asked, the largest first, and how many were not. The first failure ends
        it, as a gap: what refuses one collection, or is slow with it, is not asked for the next."""
        until = time.monotonic() + SIZES_WITHIN_S
        names = await self._names(databases)
        sizes: list[facts.CollectionSize] = []
        read_count = 0
        for database, name in names[:MOST_COLLECTIONS]:
            command = commands.storage_of(name)
            if time.monotonic() > until:
                took = f"sizes of collections took more than {SIZES_WITHIN_S:g} s"
                self._snapshot.lacks(
                    self._label(command), f"{took}; {len(names) - read_count} were left"
                )
                break
            read_count += 1
            # None may stand for a dropped collection, which is no gap: count the gaps to tell.
            gaps = len(self._snapshot.builder.missing)
            answer = await self._answer(
                command, facts.ShardsAnswer, database=database, may_lack=GONE
            )
            if answer is not None:
                sizes.append(facts.size_of(short(f"{database}.{name}", 120), answer))
            elif len(self._snapshot.builder.missing) > gaps:
                break
        sizes.sort(key=lambda size: (-size.total_b, size.name))
        return sizes, len(names) - read_count

    async def _names(self, databases: facts.DatabasesAnswer) -> list[tuple[str, str]]:
        """Databases and names of collections; of the largest database first."""
        names: list[tuple[str, str]] = []
        for database in facts.databases_to_look_into(databases):
            answer = await self._answer(commands.COLLECTIONS, facts.NamesAnswer, database=database)
            if answer is None:
                break
            names += [(database, collection.name) for collection in answer.cursor.firstBatch]
        return names
