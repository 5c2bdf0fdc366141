"""VictoriaLogs: lines of the services in scope, errors first, and how many were logged, by LogsQL
over its HTTP API.

Both windows are asked the same questions, so that what differs is the system. Calls:
docs.victoriametrics.com/victorialogs/querying.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import msgspec

from faultline.analysis.case.alert_place import bounds_of
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, full_window
from faultline.connectors.shared.rows.log_windows import (
    ERROR_LINES,
    CountGrid,
    LinePage,
    lines_of_window,
    log_windows,
)
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url, unexpected_response
from faultline.connectors.vendors.victorialogs import VictoriaLogsSettings, logsql
from faultline.connectors.vendors.victorialogs.answers import (
    HitsAnswer,
    ValuesAnswer,
    count_rows,
    line_page,
)

VENDOR = "victorialogs"
LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=10, concurrency=4)
QUERY, HITS = "/select/logsql/query", "/select/logsql/hits"
FIELDS, VALUES = "/select/logsql/field_names", "/select/logsql/field_values"
MOST_SERVICES = 5
ERRORS, SAMPLE = 1000, 300
"""Lines of one query."""
MOST_NAMES, MOST_LEVELS = 1000, 50
CHECKED = timedelta(hours=1)
"""`check` looks at the fields of lines of the last hour."""


def build(
    victorialogs_settings: VictoriaLogsSettings, settings: SharedSettings
) -> VictoriaLogsConnector | None:
    """The configured connector, or None without a URL."""
    if victorialogs_settings.url is None:
        return None
    return VictoriaLogsConnector(
        victorialogs_settings.url,
        access_of(victorialogs_settings, VENDOR),
        victorialogs_settings=victorialogs_settings,
        names=ServiceNames.of_catalogue(settings.services),
        limits=victorialogs_settings.limits(LIMITS),
    )


@dataclass(frozen=True)
class _LineFields:
    """Those of the configured fields that lines have, and all fields."""

    services: tuple[str, ...]
    levels: tuple[str, ...]
    every: frozenset[str]


@dataclass(frozen=True)
class _Lines:
    """Where a service's lines are."""

    service: str
    query: str


class VictoriaLogsConnector:
    """Lines of each service in scope and their counts."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("logs", "metrics")
    follows = ("service",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        victorialogs_settings: VictoriaLogsSettings | None = None,
        names: ServiceNames | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._settings = victorialogs_settings or VictoriaLogsSettings()
        tenant = {"AccountID": self._settings.account_id, "ProjectID": self._settings.project_id}
        # Without these headers VictoriaLogs reads the tenant 0:0.
        headers = {name: str(value) for name, value in tenant.items() if value is not None}
        self._http = ReadOnlyHttp(VENDOR, url, headers=headers, access=access, limits=limits)
        self._names = names or ServiceNames()
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Counts and lines of all windows. A call that fails becomes a gap, the others stand."""
        collection = CollectionBuilder()
        services, more = in_scope(request, MOST_SERVICES)
        collection.unasked("logs", bool(services), more)
        if not services:
            return collection.collected()
        windows = log_windows(request.scope)
        async with self._http.open() as session:
            span = full_window(request.scope)
            line_fields = await self._line_fields(session, span)
            all_lines = await self._where(session, line_fields, services, request.alert, span)
            asking = _Asking(session, collection, line_fields, self._link)
            await asyncio.gather(
                *(asking.of_service(service_lines, windows) for service_lines in all_lines)
            )
            if (words := request.scope.log_words) is not None:
                word_filter = logsql.saying(words.words)
                searches = [
                    (service_lines, f"{service_lines.query} {word_filter}", w)
                    for service_lines in all_lines
                    for w in windows
                ]
                await asyncio.gather(
                    *(
                        asking.lines(service_lines, text, SAMPLE, w, words.by)
                        for service_lines, text, w in searches
                    )
                )
        there = {service_lines.service for service_lines in all_lines}
        reason = (
            f"no line names it in {', '.join(self._settings.service_fields)}: see "
            "victorialogs.service_fields, and aliases in the catalogue"
        )
        for service in services:
            if service not in there:
                collection.missing.append(Missing("logs", service, reason, unknown=True))
        return collection.collected()

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """Values of the fields that may name a service."""
        service_names: dict[str, None] = {}
        async with self._http.open() as session:
            line_fields = await self._line_fields(session, window)
            for field in line_fields.services:
                values = await _values(session, field, logsql.EVERYTHING, window)
                service_names |= dict.fromkeys(self._names.ours(value) for value in values)
        return tuple(service_names)

    async def check(self) -> Check:
        """Reachable, and what do lines hold?"""
        now = datetime.now(UTC)
        try:
            async with self._http.open() as session:
                line_fields = await self._line_fields(session, Window(start=now - CHECKED, end=now))
        except FaultlineError as error:
            return Check(VENDOR, False, str(error))
        line = f"VictoriaLogs at {self._http.base_url}: "
        # A quiet hour is no failure.
        if not line_fields.every:
            return Check(VENDOR, True, f"{line}can be read; no line in the last hour")
        line += (
            f"lines of the last hour have {len(line_fields.every)} fields; services in "
            f"{', '.join(line_fields.services) or 'none of them'}, level in "
            f"{', '.join(line_fields.levels) or 'none of them'}; only GET is sent"
        )
        if not line_fields.services:
            line += "; no field names a service: set victorialogs.service_fields"
        return Check(
            VENDOR,
            # Without a field that names services, no line can be found.
            bool(line_fields.services),
            f"{line}; whether these credentials may also write is not asked",
        )

    async def _line_fields(self, session: HttpSession, window: Window) -> _LineFields:
        params = [("query", logsql.EVERYTHING), *logsql.between(window)]
        answer = await session.get(FIELDS, params, type=ValuesAnswer)
        every = frozenset(field_value.value for field_value in answer.values)
        services = tuple(name for name in self._settings.service_fields if name in every)
        levels = tuple(name for name in self._settings.level_fields if name in every)
        return _LineFields(services, levels, every)

    async def _where(
        self,
        session: HttpSession,
        line_fields: _LineFields,
        services: Sequence[str],
        alert: Alert,
        window: Window,
    ) -> list[_Lines]:
        """The services that some field names: in the alert's place, and those that have nothing
        there wherever they are."""
        theirs = [name for service in services for name in self._names.theirs(service)]
        lines: dict[str, _Lines] = {}
        for place in bounds_of(alert, line_fields.every):
            within = logsql.in_place(place)
            for field in line_fields.services:
                if len(lines) == len(services):
                    break
                query = logsql.both(logsql.in_any_case(field, theirs), within)
                values = await _values(session, field, query, window)
                for service in services:
                    named = self._names.matches(service, values)
                    if named and service not in lines:
                        query = logsql.both(logsql.exactly(field, named), within)
                        lines[service] = _Lines(service, query)
        return list(lines.values())

    def _link(self, query: str, window: Window) -> str:
        settings = self._settings
        base = (
            plain_url(settings.public_url, VENDOR) if settings.public_url else self._http.base_url
        )
        return logsql.page(base, query, window, settings.account_id, settings.project_id)


async def _values(session: HttpSession, field: str, query: str, window: Window) -> list[str]:
    params = [("query", query), ("field", field), ("limit", str(MOST_NAMES))]
    answer = await session.get(VALUES, [*params, *logsql.between(window)], type=ValuesAnswer)
    return [field_value.value for field_value in answer.values if field_value.value]


class _Asking:
    """The questions of one collection."""

    def __init__(
        self,
        session: HttpSession,
        collection: CollectionBuilder,
        line_fields: _LineFields,
        link: Callable[[str, Window], str],
    ) -> None:
        self._session = session
        self._collection = collection
        self._line_fields = line_fields
        self._link = link

    async def of_service(self, service_lines: _Lines, windows: Sequence[Window]) -> None:
        """Counts, errors and a sample of each window."""
        counts = await asyncio.gather(*(self._counts(service_lines, window) for window in windows))
        # Without levels, only words mark a line as an error.
        levels = self._line_fields.levels if any(counts) else ()
        errors = f"{service_lines.query} {logsql.errors(levels)}"
        for query, limit in ((errors, ERRORS), (service_lines.query, SAMPLE)):
            await asyncio.gather(
                *(self.lines(service_lines, query, limit, window) for window in windows)
            )

    async def _counts(self, service_lines: _Lines, window: Window) -> bool:
        """Lines per minute as metrics. Says whether the lines' level is known."""
        grid = CountGrid.of(window)
        if not grid.steps:
            return False
        start = datetime.fromtimestamp(grid.start_s, UTC)
        # Whole steps, so that no count is of a part.
        counted = Window(start=start, end=start + timedelta(seconds=grid.steps * grid.step_s))
        params = [
            ("query", service_lines.query),
            *logsql.between(counted),
            ("step", f"{grid.step_s}s"),
        ]
        # Beyond this limit the server adds up the levels that are left.
        params += [("fields_limit", str(MOST_LEVELS))]
        params += [("field", name) for name in self._line_fields.levels]
        query = f"count of {service_lines.query}"
        call = self._session.get(HITS, params, type=HitsAnswer)
        answer = await self._collection.fetch("metrics", query, call)
        if answer is None:
            return False
        rows = count_rows(answer.hits, service_lines.service, grid, self._line_fields.levels)
        count = self._collection.add("metrics", rows)
        item = Item("metrics", query, window, self._link(service_lines.query, window), rows=count)
        self._collection.items.append(item.holding(rows))
        # Column 2 is the signal. Rows of errors exist only where lines have a level.
        return any(row[2] == ERROR_LINES for row in rows)

    async def lines(
        self, service_lines: _Lines, query: str, limit: int, window: Window, by: str | None = None
    ) -> None:
        """The first lines of a window and, where there are more, some of each part of the rest."""

        async def page(part: Window, count: int) -> LinePage | None:
            return await self._collection.fetch("logs", query, self._page(query, count, part))

        page_lines = await lines_of_window(page, window, limit)
        if page_lines is None:
            return
        rows = [(at, service_lines.service, *rest) for at, _, *rest in page_lines.rows]
        link = self._link(query, window)
        self._collection.keep("logs", query, window, rows, link, cut=page_lines.cut, by=by)

    async def _page(self, query: str, limit: int, window: Window) -> LinePage:
        """The first lines of a window, oldest first. Raises ConnectorError."""
        params = [("query", logsql.first(query, limit)), *logsql.between(window)]
        body = await self._session.body(QUERY, params)
        try:
            return await asyncio.to_thread(
                line_page, body, self._line_fields.services, self._line_fields.levels
            )
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
            raise unexpected_response(VENDOR, QUERY, error) from error
