"""Servers that tell of themselves over HTTP: a table of endpoints, each with what its answer says
is wrong. Only GET is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, TypeVar
from urllib.parse import urlencode, urlsplit

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.connectors.shared.auth.server_access import access_of
from faultline.connectors.shared.databases.database_server import (
    Fact,
    ServerConnector,
    ServerSnapshot,
)
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.settings.connector_settings import HttpServerSettings, Limits

T = TypeVar("T")


@dataclass(frozen=True)
class Endpoint(Generic[T]):
    """One call of a collection."""

    path: str
    type: type[T]
    facts: Callable[[T, ServerSnapshot], Sequence[Fact] | None]
    """None where the answer tells nothing of the server."""
    params: Sequence[tuple[str, str]] = ()
    details: Callable[[T], Mapping[str, str]] | None = None
    page: str | None = None
    """Where people see the same, below the base URL."""
    empty: str = ""
    """The gap where the answer tells nothing, unless that is usual."""
    facts_of_status: Mapping[int, Fact] = field(default_factory=dict)
    """Statuses that are an answer and no failure."""

    @property
    def label(self) -> str:
        """The call as evidence names it."""
        return f"{self.path}?{urlencode(self.params)}" if self.params else self.path


class HttpServerConnector(ServerConnector[HttpServerSettings, HttpSession]):
    """A broker that is monitored over HTTP."""

    object_kind = "Broker"
    default_limits = Limits(
        deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2
    )
    endpoints: ClassVar[tuple[Endpoint[Any], ...]]

    def __init__(self, section: HttpServerSettings, url: str) -> None:
        super().__init__(section, urlsplit(url).hostname or "")
        access = access_of(section, self.name)
        self.http = ReadOnlyHttp(self.name, url, access=access, limits=self.limits)

    def opened(self) -> AbstractAsyncContextManager[HttpSession]:
        """Its own connections, for one collection."""
        return self.http.open()

    async def read(self, session: HttpSession, snapshot: ServerSnapshot) -> None:
        """Every endpoint in turn."""
        for endpoint in self.endpoints:
            await self._ask(endpoint, session, snapshot)

    async def _ask(
        self, endpoint: Endpoint[Any], session: HttpSession, snapshot: ServerSnapshot
    ) -> None:
        details: Mapping[str, str] = {}
        try:
            answer = await session.get(endpoint.path, list(endpoint.params), type=endpoint.type)
        except FaultlineError as error:
            status = (error.status if isinstance(error, ConnectorError) else None) or 0
            if status not in endpoint.facts_of_status:
                snapshot.lacks(endpoint.label, str(error))
                return
            facts: Sequence[Fact] | None = [endpoint.facts_of_status[status]]
        else:
            facts = endpoint.facts(answer, snapshot)
            details = endpoint.details(answer) if endpoint.details else {}
        if facts is not None:
            link = f"{self.http.base_url}{endpoint.page}" if endpoint.page else None
            snapshot.add(endpoint.label, facts, details, link)
        elif endpoint.empty:
            snapshot.lacks(endpoint.label, endpoint.empty)
