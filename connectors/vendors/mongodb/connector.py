"""MongoDB's own state: operations that wait for locks, transactions and operations that stay open,
connections, tickets and cache, the replica set, the disk.

A snapshot of now by commands of the role `clusterMonitor` (serverStatus, $currentOp,
replSetGetStatus, replSetGetConfig, dbStats, listDatabases, listCollections, $collStats), each with
a limit of time. PyMongo blocks, so it is asked in a thread.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

import msgspec
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, ConnectionFailure, OperationFailure, PyMongoError

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.databases.database_facts import lock_facts, open_facts
from faultline.connectors.shared.databases.database_server import (
    DatabaseConnector,
    ServerSnapshot,
    listed,
)
from faultline.connectors.shared.databases.driver_session import DriverSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short, unexpected_response
from faultline.connectors.vendors.mongodb import MongodbSettings, commands, facts
from faultline.connectors.vendors.mongodb.operations import (
    ClientsAnswer,
    OperationsAnswer,
    sessions_of,
)

T = TypeVar("T")
VENDOR = "mongodb"
LIMITS = Limits(deadline_s=30, max_bytes=16 * 1024 * 1024, requests_per_s=10, concurrency=2)
NO_REPLICA_SET = frozenset({59, 76})
"""CommandNotFound of mongos, NoReplicationEnabled (error_codes.yml of MongoDB)."""
GONE = frozenset({26})
"""NamespaceNotFound: a collection that was dropped since it was listed."""
MOST_COLLECTIONS = 50
SIZES_WITHIN_S = 10.0
"""Sizes of collections are asked one by one. A server that takes longer is not asked on."""
LONGEST_CONNECT_S = 5.0
UNAUTHORIZED = 13
DEEPEST = 12


class MongodbError(ConnectorError):
    """An error of the server with its code."""

    code: int | None = None


class MongodbSession(DriverSession):
    """One collection's commands, one after the other."""

    vendor = VENDOR
    errors = (PyMongoError, OSError, ValueError)

    def __init__(self, section: MongodbSettings, host: str, limits: Limits) -> None:
        self._server = section.address(host, section.port)
        super().__init__(self._server.address, limits)
        self._auth_database = section.auth_database
        self._statement_s = section.statement_s
        self._client: MongoClient[dict[str, Any]] | None = None

    async def connect(self) -> None:
        """Log in. Raises ConnectorError, BudgetExceeded."""
        await self.in_thread("connect", self._open)

    async def close(self) -> None:
        """Log out."""
        if self._client is not None:
            await asyncio.to_thread(self._client.close)

    async def answer(
        self, command: Mapping[str, Any], type: type[T], *, database: str = "admin"
    ) -> T:
        """Of one of our commands. Raises ConnectorError, BudgetExceeded."""
        call = next(iter(command))
        reply = await self.in_thread(call, lambda: self._read(command, database))
        try:
            return msgspec.convert(reply, type=type, strict=False)
        except msgspec.ValidationError as error:
            raise unexpected_response(VENDOR, call, error) from error

    def problem(self, call: str, error: Exception) -> ConnectorError:
        if isinstance(error, OperationFailure):
            # The server's message quotes the command, which is ours.
            text = short(str((error.details or {}).get("errmsg") or error), 200)
            if error.code == UNAUTHORIZED:
                text = f"not permitted: {text}"
            ours = MongodbError(VENDOR, call, text)
            ours.code = error.code
            return ours
        if isinstance(error, ConfigurationError):
            return MongodbError(VENDOR, call, short(str(error), 200))
        # The rest of it describes what the driver knows of the server.
        part = str(error).partition(" (configured timeouts")[0].partition(", Timeout:")[0]
        text = short(part, 200) or type(error).__name__
        lost = isinstance(error, ConnectionFailure | OSError)
        return MongodbError(VENDOR, call, text, retryable=lost)

    def _open(self) -> None:
        server = self._server
        connect_ms = round(1000 * max(1.0, min(LONGEST_CONNECT_S, self.deadline.remaining)))
        more: dict[str, Any] = {"tls": server.tls != "off"}
        if server.tls == "require":
            more["tlsAllowInvalidCertificates"] = True
        elif server.tls == "verify" and server.ca_file is not None:
            more["tlsCAFile"] = str(server.ca_file)
        if server.username is not None:
            more |= {"username": server.username, "password": server.password or ""}
            more["authSource"] = self._auth_database
        self._client = MongoClient(
            server.host,
            server.port,
            # This server alone, whatever set it belongs to.
            directConnection=True,
            appname="faultline",
            connectTimeoutMS=connect_ms,
            serverSelectionTimeoutMS=connect_ms,
            socketTimeoutMS=round(1000 * (self._statement_s + 1)),
            maxPoolSize=1,
            retryReads=False,
            tz_aware=True,
            datetime_conversion="DATETIME_CLAMP",
            unicode_decode_error_handler="replace",
            **more,
        )
        self._client.admin.command("ping")

    def _read(self, command: Mapping[str, Any], database: str) -> Any:
        assert self._client is not None, "connect comes first"
        limited = {**command, "maxTimeMS": round(1000 * self._statement_s)}
        return _plain(self._client[database].command(limited), DEEPEST)


def _plain(value: Any, depth: int) -> Any:
    """As plain values: of types that only BSON has, nothing is needed but numbers and times."""
    if depth == 0:
        return None
    if isinstance(value, Mapping):
        return {str(name): _plain(member, depth - 1) for name, member in value.items()}
    if isinstance(value, list):
        return [_plain(member, depth - 1) for member in value]
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float | str | datetime):
        return value
    return str(value)[:100]


class MongodbConnector(DatabaseConnector[MongodbSettings, MongodbSession]):
    """One server."""

    name = VENDOR
    default_limits = LIMITS

    def opened(self) -> MongodbSession:
        return MongodbSession(self.section, self.host, self.limits)

    async def read(self, session: MongodbSession, snapshot: ServerSnapshot) -> None:
        reading = _MongodbReading(session, snapshot)
        await reading.operations()
        # Who may not read operations has that gap already.
        clients = await reading.answer(
            commands.CLIENTS, ClientsAnswer, may_lack=frozenset({UNAUTHORIZED})
        )
        if clients is not None:
            self.called_by(snapshot, reading.label(commands.CLIENTS), clients.clients())
        await reading.server()
        await reading.replica_set()
        await reading.sizes()

    async def examined(self, session: MongodbSession) -> Check:
        rights = await session.answer(commands.RIGHTS, facts.RightsAnswer)
        status = await session.answer(commands.SERVER_STATUS, facts.ServerStatusAnswer)
        line = f"MongoDB {short(status.version, 20)} at {session.address} can be read"
        # Without access control nobody is logged in, and there are no rights to list.
        if not rights.authInfo.authenticatedUsers:
            line += "; warning: it asks for no password, so that everybody can write"
            return Check(self.name, True, line)
        actions, unread = facts.actions_of(rights), []
        # `inprog` is the right behind $currentOp.
        if not {"inprog", "anyAction"} & actions:
            unread.append("operations of other users")
            line += "; grant the role clusterMonitor for the operations of others"
        line += f"; each command takes at most {self.section.statement_s:g} s"
        writing = sorted(facts.WRITING & actions)
        if writing:
            line += f"; warning: this user can also write ({', '.join(writing[:8])})"
        return Check(self.name, True, line, tuple(unread))


class _MongodbReading:
    """Commands of one session, whose failures are gaps of the snapshot."""

    def __init__(self, session: MongodbSession, snapshot: ServerSnapshot) -> None:
        self._session = session
        self._snapshot = snapshot

    def label(self, command: Mapping[str, Any]) -> str:
        """The command as evidence names it."""
        name = next(iter(command))
        if name == "aggregate":
            # `aggregate` says little: the first stage tells what is read.
            name = next(iter(command["pipeline"][0]))
        return self._session.label(name)

    async def answer(
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
        except FaultlineError as error:
            if not (isinstance(error, MongodbError) and error.code in may_lack):
                self._snapshot.lacks(self.label(command), str(error))
        return None

    async def operations(self) -> None:
        """Who waits for whom, and what stays open."""
        answer = await self.answer(commands.OPERATIONS, OperationsAnswer)
        if answer is not None:
            running = answer.cursor.firstBatch
            sessions = sessions_of(running)
            operation_facts = [*lock_facts(sessions), *open_facts(sessions)]
            operation_facts += facts.long_operation_facts(running)
            self._snapshot.add(self.label(commands.OPERATIONS), operation_facts)

    async def server(self) -> None:
        """Connections, tickets, cache, the server's start."""
        status = await self.answer(commands.SERVER_STATUS, facts.ServerStatusAnswer)
        if status is not None:
            server_facts = facts.server_facts(status, self._snapshot.window_s)
            self._snapshot.add(self.label(commands.SERVER_STATUS), server_facts)

    async def replica_set(self) -> None:
        """Its members, where it has any."""
        answer = await self.answer(
            commands.REPLICA_SET, facts.ReplicaSetAnswer, may_lack=NO_REPLICA_SET
        )
        if answer is None:
            return
        # Only the configuration says which members are behind on purpose.
        set_settings = await self.answer(commands.REPLICA_SET_CONFIG, facts.SetSettingsAnswer)
        delays = facts.delays_of(set_settings.config) if set_settings is not None else {}
        replica_facts = facts.set_facts(answer, delays, self._snapshot.at, self._snapshot.window_s)
        members = []
        for member in answer.members[:50]:
            members.append(f"{short(member.name, 80)}: {short(member.stateStr, 40)}")
        details = listed("members", members)
        self._snapshot.add(self.label(commands.REPLICA_SET), replica_facts, details)

    async def sizes(self) -> None:
        """The file system, the databases on it, and the collections of the largest."""
        disk = await self.answer(commands.DISK, facts.DiskAnswer)
        databases = await self.answer(commands.DATABASES, facts.DatabasesAnswer)
        largest: list[facts.CollectionSize] = []
        details: dict[str, str] = {}
        if databases is not None:
            largest, unasked = await self._collections(databases)
            details |= facts.size_details(databases) | facts.collection_details(largest, unasked)
        if disk is not None:
            self._snapshot.add(self.label(commands.DISK), facts.disk_facts(disk, largest), details)

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
                    self.label(command), f"{took}; {len(names) - read_count} were left"
                )
                break
            read_count += 1
            # None may stand for a dropped collection, which is no gap: count the gaps to tell.
            gaps = len(self._snapshot.builder.missing)
            answer = await self.answer(
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
            answer = await self.answer(commands.COLLECTIONS, facts.NamesAnswer, database=database)
            if answer is None:
                break
            names += [(database, collection.name) for collection in answer.cursor.firstBatch]
        return names


def build(section: MongodbSettings, shared: SharedSettings) -> MongodbConnector | None:
    """The configured connector, or None without a host."""
    return None if section.host is None else MongodbConnector(section, section.host, shared)
