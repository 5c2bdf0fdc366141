"""What connectors of databases and brokers share: a server's snapshot as rows of the table
`states`, and the connector that takes it."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Generic, TypeVar

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Scope, Window
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.rows.collection_builder import (
    CallRow,
    CollectionBuilder,
    StateRow,
    full_window,
    nanoseconds,
)
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope, named_service
from faultline.connectors.shared.settings.connector_settings import Limits, ServerIdentity
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short

C = TypeVar("C", bound=ServerIdentity)
S = TypeVar("S")
T = TypeVar("T")
STALE = timedelta(minutes=15)
"""A snapshot tells of an incident that ended at most so long before it."""
LONGEST_VALUE = 200
MOST_SERVICES = 200
LONGEST_S = 1e9


@dataclass(frozen=True)
class Fact:
    """One thing that is wrong. `since_s`: for how many seconds it has been so, where known."""

    name: str
    value: str
    since_s: float | None = None
    kind: str | None = None
    """The object's kind and name, where that is not the server itself."""
    object: str | None = None
    field: str | None = None
    expected: str | None = None


@dataclass
class ServerSnapshot:
    """What one server shows of itself at `at`, put into a collection query by query."""

    kind: str
    """The kind of object: Database, Cache, Broker."""
    service: str
    at: datetime
    request: Request
    builder: CollectionBuilder = field(default_factory=CollectionBuilder)

    @property
    def scope(self) -> Scope:
        """Of the incident."""
        return self.request.scope

    @property
    def window_s(self) -> float:
        """What happened at most so long ago belongs to the incident."""
        return (self.at - full_window(self.scope).start).total_seconds()

    def comes_too_late(self) -> bool:
        """Whether the incident ended too long ago for the present state to tell about it. If so,
        that is the snapshot's gap."""
        is_late = self.at - self.scope.incident.end > STALE
        if is_late:
            self.lacks("snapshot", "the server only tells of now, and the incident is over")
        return is_late

    def add(
        self,
        query: str,
        facts: Iterable[Fact],
        details: Mapping[str, str] | None = None,
        link: str | None = None,
    ) -> None:
        """What a query showed, as a separate item, with what else a person may want to read."""
        rows = [self._row(query, fact) for fact in facts]
        count = self.builder.add("states", rows)
        window = Window(start=min(self.scope.incident.end, self.at), end=self.at)
        item = Item("states", query, window, link, rows=count, details=details or {})
        self.builder.items.append(item)

    def lacks(self, query: str, reason: str) -> None:
        """What could not be asked."""
        self.builder.missing.append(Missing("states", query, reason))

    async def fetch(self, query: str, answer: Awaitable[T]) -> T | None:
        """The answer; None where the call failed, which is a gap then."""
        return await self.builder.fetch("states", query, answer)

    def calls(self, query: str, callers: Iterable[tuple[str, str]]) -> None:
        """Services that have connections to this server, each with the source that tells."""
        observed_nanoseconds = nanoseconds(self.at)
        rows = [
            CallRow(caller, self.service, source, observed_nanoseconds)
            # Sort, so that equal snapshots give equal rows.
            for caller, source in sorted(set(callers))
            # A server's connections to itself are no dependency.
            if caller != self.service
        ]
        if count := self.builder.add("topology", rows):
            item = Item("topology", query, full_window(self.scope), rows=count)
            self.builder.items.append(item)

    def _row(self, query: str, fact: Fact) -> tuple[Any, ...]:
        row = StateRow(
            kind=fact.kind or self.kind,
            name=short(fact.object or self.service, 120),
            fact=fact.name,
            service=self.service,
            field=fact.field,
            value=short(fact.value, LONGEST_VALUE) or None,
            expected=fact.expected,
            query=query,
        )
        since = self.since(fact.since_s)
        values = row._asdict() | {"since": None if since is None else nanoseconds(since)}
        return tuple(values.values())

    def since(self, seconds: float | None) -> datetime | None:
        """The moment so long ago."""
        if seconds is None:
            return None
        # A hostile or broken server may name any age, and `timedelta` overflows.
        return self.at - timedelta(seconds=min(max(0.0, seconds), LONGEST_S))


def listed(title: str, lines: Sequence[str]) -> dict[str, str]:
    """Lines for people under their title; nothing without any."""
    return {title: "\n".join(lines)} if lines else {}


class ServerConnector(Generic[C, S]):
    """One server, asked for its state now. Its facts are about `service`.

    A vendor declares its name and limits, and says what a session is, what is read in it and what
    `check` says of it.
    """

    name: ClassVar[str]
    kinds: tuple[EvidenceKind, ...] = ("states",)
    object_kind: ClassVar[str] = "Database"
    default_limits: ClassVar[Limits]

    def __init__(self, section: C, host: str) -> None:
        self.section = section
        self.host = host
        # Unless the settings name a service, facts are about the instance or the host.
        self.service = section.of_service(host)
        self.limits = section.limits(self.default_limits)

    def opened(self) -> AbstractAsyncContextManager[S]:
        """A session that is logged in. Entering it raises ConnectorError, BudgetExceeded."""
        raise NotImplementedError

    async def read(self, session: S, snapshot: ServerSnapshot) -> None:
        """Put what the server says into the snapshot. A call that fails is a gap, the others
        stand."""
        raise NotImplementedError

    async def examined(self, session: S) -> Check:
        """Whether this user may see everything and change nothing. Raises ConnectorError,
        BudgetExceeded."""
        raise NotImplementedError

    async def collect(self, request: Request) -> Collected:
        """The snapshot."""
        snapshot = ServerSnapshot(self.object_kind, self.service, datetime.now(UTC), request)
        if not snapshot.comes_too_late():
            async with self.opened() as session:
                await self.read(session, snapshot)
        return snapshot.builder.collected()

    async def check(self) -> Check:
        """Reachable, and what `examined` says of it."""
        try:
            async with self.opened() as session:
                return await self.examined(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))


class DatabaseConnector(ServerConnector[C, S]):
    """A server that lists its clients, which are its callers where they are known services."""

    kinds: tuple[EvidenceKind, ...] = ("states", "topology")

    def __init__(self, section: C, host: str, shared: SharedSettings) -> None:
        super().__init__(section, host)
        self._names = ServiceNames.of_catalogue(shared.services)

    def called_by(
        self, snapshot: ServerSnapshot, query: str, clients: Iterable[tuple[str, str]]
    ) -> None:
        """Clients as callers. They are pairs of an application's name and its user.

        A client may call itself anything, so only services of the catalogue and of the
        investigation count. Services may share a user, so it counts only where the application is
        no service.
        """
        scope, _ = in_scope(snapshot.request, MOST_SERVICES)
        services = dict.fromkeys((*self._names.services, *scope))
        spellings = {service.casefold(): service for service in services}
        theirs = {service: self._names.theirs(service) for service in services}
        callers = []
        for application, user in clients:
            service = spellings.get(self._names.ours(application).casefold())
            if service is not None:
                callers.append((service, "database"))
            # Users are called `reports_rw` or `svc-reports`.
            elif (service := named_service(user, theirs)) is not None:
                callers.append((service, "database_users"))
        snapshot.calls(query, callers)
