"""A generic HTTP source: one request of the settings per service and window, and the rows that its
JSON answer has by JMESPath.

GET alone, or POST where the settings say that the body only searches: then exactly the bodies that
were made from it, to that one address. Redirects are not followed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from urllib.parse import quote

import httpx

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Scope, Window
from faultline.connectors.shared.auth.server_access import ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, full_window
from faultline.connectors.shared.rows.mapped_entries import EntryMapping, ReadEntries, read_entries
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.placeholders import (
    TIMES,
    filled,
    filled_in,
    names_in,
    values_of,
)
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.transport import CALL, get_only
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.http_source import HttpSourceSettings

LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2)
MOST_SERVICES = 5
MOST_BASELINES = 2
LONGEST_QUERY = 1000
NOBODY = "faultline-check"
"""Whom `faultline check` asks about where the catalogue names no service."""
CHECKED = timedelta(minutes=15)
"""The window of `faultline check`."""


def build(
    source_settings: HttpSourceSettings, settings: SharedSettings
) -> HttpSourceConnector | None:
    """The configured connector, or None without an address or columns."""
    if source_settings.url is None or not source_settings.columns:
        return None
    access = access_of(source_settings, "http_source")
    if source_settings.token is not None and source_settings.token_header:
        # The token goes into the header that the settings name, and into no other.
        headers = {k: v for k, v in access.headers.items() if k != "Authorization"}
        headers[source_settings.token_header] = source_settings.token.get_secret_value()
        access = ServerAccess(headers, access.auth, access.trust)
    names = ServiceNames.of_catalogue(settings.services)
    service = next(iter(settings.services), NOBODY)
    return HttpSourceConnector(source_settings, source_settings.url, access, names, service)


class SourceSession(HttpSession):
    """One collection's requests."""

    async def search(self, path: str, params: list[tuple[str, str]], body: bytes) -> bytes:
        """The answer to a search. Raises ConnectorError, BudgetExceeded."""
        response = await self._client.post(
            self._base_url + path,
            params=httpx.QueryParams(tuple(params)),
            content=body,
            headers={"Content-Type": "application/json"},
            extensions={CALL: path},
        )
        return self._accepted(path, response).content


class SourceHttp(VendorHttp[SourceSession]):
    """The address of the settings. `searches` are the bodies that may be sent by POST."""

    session = SourceSession
    searches: frozenset[bytes] = frozenset()

    def _allowed(self, request: httpx.Request) -> None:
        if request.method == "POST" and request.content in self.searches:
            return
        get_only(request)


@dataclass(frozen=True)
class Question:
    """One request of the settings, filled in."""

    service: str | None
    window: Window
    path: str
    params: list[tuple[str, str]]
    body: bytes | None
    query: str
    """As the evidence cites it."""
    link: str | None

    @classmethod
    def of(
        cls, source_settings: HttpSourceSettings, service: str | None, window: Window
    ) -> Question:
        """For a service (None: for all of them) and a window."""
        values = values_of(service, window)
        # Foreign values must not add a part to the path.
        path = filled(
            source_settings.path, {name: quote(text, safe="") for name, text in values.items()}
        )
        params = [(name, filled(text, values)) for name, text in source_settings.params.items()]
        body = (
            None
            if source_settings.body is None
            else json.dumps(filled_in(source_settings.body, values)).encode()
        )
        phrase = f"{'GET' if body is None else 'POST'} {path}"
        if params:
            phrase += "?" + "&".join(f"{name}={value}" for name, value in params)
        if body is not None:
            phrase += f" {body.decode()}"
        link = source_settings.link
        if link is not None:
            link = filled(link, {name: quote(text, safe="") for name, text in values.items()})
        return cls(service, window, path, params, body, short(phrase, LONGEST_QUERY), link)


class HttpSourceConnector:
    """One source. `checked` is the service that `faultline check` asks about."""

    name = "http_source"
    follows = ("service",)

    def __init__(
        self,
        source_settings: HttpSourceSettings,
        url: str,
        access: ServerAccess,
        names: ServiceNames,
        checked: str = NOBODY,
    ) -> None:
        self._settings = source_settings
        self._url, self._access = url, access
        self._names = names
        self._checked = checked
        used = names_in(source_settings.path, source_settings.params, source_settings.body)
        self._by_service = "service" in used
        self._by_time = not used.isdisjoint(TIMES)
        self._how = EntryMapping(
            source_settings.table, source_settings.items, source_settings.columns, names
        )
        self.kinds: tuple[EvidenceKind, ...] = (source_settings.table,)
        self.limits = source_settings.limits(LIMITS)

    async def collect(self, request: Request) -> Collected:
        """The rows of every service and window. A request that fails becomes a gap."""
        collection = CollectionBuilder()
        services, more = self._services(request)
        collection.unasked(self._settings.table, bool(services), more)
        questions = []
        for service in services:
            for window in self._windows(request.scope):
                questions.append(Question.of(self._settings, service, window))
        async with self._http(questions).open() as session:
            await asyncio.gather(
                *(self._ask(session, collection, question) for question in questions)
            )
        return collection.collected()

    async def check(self) -> Check:
        """Does the request of the settings work?"""
        service = self._checked if self._by_service else None
        now = datetime.now(UTC)
        question = Question.of(self._settings, service, Window(start=now - CHECKED, end=now))
        try:
            async with self._http([question]).open() as session:
                read = await self._read(session, question)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        how = "GET" if question.body is None else "a POST that the settings call a search"
        line = (
            f"{self._url}: {len(read.rows)} rows of {self._settings.table} in the last 15 minutes"
        )
        line += f"; only {how} is sent"
        if read.cut:
            line += f"; {read.cut}"
        # No rows at all are fine, as long as none was unusable.
        return Check(self.name, bool(read.rows) or not read.unusable, line)

    def _http(self, questions: Iterable[Question]) -> SourceHttp:
        http = SourceHttp(self.name, self._url, access=self._access, limits=self.limits)
        http.searches = frozenset(
            question.body for question in questions if question.body is not None
        )
        return http

    def _services(self, request: Request) -> tuple[Sequence[str | None], int]:
        if not self._by_service:
            return [None], 0
        return in_scope(request, MOST_SERVICES)

    def _windows(self, scope: Scope) -> Sequence[Window]:
        """Of metrics and lines the baseline too, where the request can name it."""
        compared = self._settings.table in ("metrics", "logs")
        if not compared or not self._by_time:
            return [full_window(scope)]
        before = scope.logs_before if self._settings.table == "logs" else scope.baseline
        latest = sorted(before, key=lambda window: window.end)[-MOST_BASELINES:]
        return list(dict.fromkeys((*latest, scope.incident)))

    async def _ask(
        self, session: SourceSession, collection: CollectionBuilder, question: Question
    ) -> None:
        table = self._settings.table
        read = await collection.fetch(table, question.query, self._read(session, question))
        if read is None:
            return
        count = collection.add(table, read.rows)
        item = Item(table, question.query, question.window, question.link, rows=count, cut=read.cut)
        collection.items.append(item.holding(read.rows))

    async def _read(self, session: SourceSession, question: Question) -> ReadEntries:
        """One request and its rows. Raises ConnectorError, BudgetExceeded."""
        path = question.path
        if not {".", ".."}.isdisjoint(path.split("/")):
            # It would lead to another path of the server than the settings say.
            raise ConnectorError(self.name, path, "the service's name cannot be part of a path")
        if question.body is None:
            answer = await session.body(path, question.params)
        else:
            answer = await session.search(path, question.params, question.body)
        reading = asyncio.to_thread(
            read_entries, answer, self._how, question.service, question.query
        )
        try:
            return await reading
        except ValueError as error:
            raise ConnectorError(self.name, path, short(str(error), 300)) from error
