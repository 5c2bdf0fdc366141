"""ClickHouse: log lines, golden signals, metrics and spans of the services in scope, by SQL over
the tables of OpenTelemetry's exporter or of SigNoz."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from faultline.analysis.case.alert_place import namespace_of, place_of
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import access_of
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    full_window,
    sampled_windows,
)
from faultline.connectors.shared.rows.log_windows import (
    CountGrid,
    LinePage,
    Row,
    lines_of_window,
    log_windows,
)
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.transport import Timeouts
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.clickhouse import ClickHouseSettings
from faultline.connectors.vendors.clickhouse import queries as sql
from faultline.connectors.vendors.clickhouse import rows as decoded
from faultline.connectors.vendors.clickhouse.layouts import (
    TABLES,
    Column,
    Layout,
    Part,
    SourceTable,
    Tables,
    tables_of,
)
from faultline.connectors.vendors.clickhouse.session import ClickHouseHttp, QuerySession

T = TypeVar("T")

VENDOR = "clickhouse"
LIMITS = Limits(deadline_s=60, max_bytes=64 * 1024 * 1024, requests_per_s=10, concurrency=4)
MOST_SERVICES, MOST_TRACED = 5, 3
ERRORS, SAMPLE = 1000, 300
"""Lines of one query."""
KINDS: Mapping[Part, EvidenceKind] = {
    "logs": "logs",
    "spans": "spans",
    "gauge": "metrics",
    "sum": "metrics",
    "samples": "metrics",
}
NO_TABLES = (
    "no table of OpenTelemetry's exporter or of SigNoz can be read: see clickhouse.database, "
    "clickhouse.logs_table and the user's grants"
)
# A temporary table is gone with its session, so creating one writes nothing.
_WRITES = re.compile(
    r"\b(?:ALL|INSERT|ALTER|DROP|TRUNCATE|OPTIMIZE|SYSTEM|KILL QUERY|DELETE"
    r"|CREATE (?!TEMPORARY TABLE|ARBITRARY))\b"
)


def build(
    clickhouse_settings: ClickHouseSettings, settings: SharedSettings
) -> ClickHouseConnector | None:
    """The configured connector, or None without a URL."""
    if clickhouse_settings.url is None:
        return None
    limits = clickhouse_settings.limits(LIMITS)
    http = ClickHouseHttp(
        VENDOR,
        clickhouse_settings.url,
        access=access_of(clickhouse_settings, VENDOR),
        limits=limits,
        # Longer than the server's own limit, so that its error arrives.
        timeouts=Timeouts(read_s=clickhouse_settings.query_timeout_s + 5),
    )
    http.timeout_s = clickhouse_settings.query_timeout_s
    tables = dict(TABLES)
    if clickhouse_settings.logs_table is not None:
        tables["logs"] = (clickhouse_settings.logs_table,)
    if clickhouse_settings.traces_table is not None:
        tables["spans"] = (clickhouse_settings.traces_table,)
    if clickhouse_settings.metrics_tables:
        for part in ("gauge", "sum", "samples", "series"):
            tables[part] = clickhouse_settings.metrics_tables
    names = ServiceNames.of_catalogue(settings.services)
    return ClickHouseConnector(
        http,
        names,
        tables,
        clickhouse_settings.database,
        public_url=clickhouse_settings.public_url,
        limits=limits,
    )


class ClickHouseConnector:
    """Lines, series and spans of the services in scope. `table_names` gives names of tables by what
    they hold."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "logs", "spans")
    follows = ("service",)

    def __init__(
        self,
        http: ClickHouseHttp,
        names: ServiceNames,
        table_names: Mapping[Part, Sequence[str]],
        database: str | None,
        *,
        public_url: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = http
        self._names = names
        self._table_names = table_names
        self._database = database
        self._public_url = public_url
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Every query side by side; one that fails is a gap, the rest stands."""
        services, more = in_scope(request, MOST_SERVICES)
        async with self._http.open() as session:
            asking = _Asking(session, self._names, request, self._public_url)
            asking.collection.unasked("metrics", bool(services), more)
            if not services:
                return asking.collection.collected()
            tables = await self._tables(session)
            await asking.bind(tables, services)
            calls = [asking.metrics(tables, services)]
            if tables.logs is not None:
                calls += [asking.logs(*tables.logs, service) for service in services]
            if tables.spans is not None:
                calls.append(asking.golden(*tables.spans, services))
                calls += [
                    asking.spans(*tables.spans, service) for service in services[:MOST_TRACED]
                ]
            await asyncio.gather(*calls)
        asking.name_the_unknown(services)
        return asking.collection.collected()

    async def check(self) -> Check:
        """Which tables can be read, and may the user do more?"""
        try:
            async with self._http.open() as session:
                ((version, user),) = await session.rows(
                    "SELECT version(), currentUser()", type=tuple[str, str]
                )
                tables = await self._tables(session)
                refusals = {}
                for part, table in tables.by_part.items():
                    name = f"{table.database}.{table.name} ({KINDS.get(part, 'metrics')})"
                    refusals[name] = await _refusal(session, table)
                grants = await _grants(session)
                has_limits = bool(session.limits)
        except (FaultlineError, ValueError) as error:
            return Check(self.name, False, short(str(error), 300))
        parts = ReadableParts(refusals)
        where = f"ClickHouse {short(version, 40)} at {self._http.base_url}"
        line = f"{where} as {short(user, 60)}: {parts.words}; only GET is sent"
        if not has_limits:
            line += "; the user's profile is read-only, so its own limits hold"
        if grants is None:
            line += "; what else the user may do is not known"
        elif _WRITES.search(grants):
            line += "; warning: the user can also write"
        return Check(self.name, bool(parts.readable), line, parts.unread)

    async def _tables(self, session: QuerySession) -> Tables:
        """Raises ConnectorError without any."""
        names = dict.fromkeys(name for part in self._table_names.values() for name in part)
        text = sql.columns(names, self._database)
        tables = tables_of(await session.rows(text, type=Column), self._table_names)
        if not tables.by_part:
            raise ConnectorError(self.name, "system.columns", NO_TABLES)
        return tables


async def _refusal(session: QuerySession, table: SourceTable) -> str | None:
    try:
        await session.rows(sql.rows_in(table), type=list[int])
    except ConnectorError as error:
        return error.problem
    return None


async def _grants(session: QuerySession) -> str | None:
    """The user's own grants, which it may always list; None where the server does not tell."""
    try:
        rows = await session.rows("SHOW GRANTS", type=list[str])
    except ConnectorError:
        return None
    # Cut before the names of tables, which may read like privileges.
    return "\n".join(" ".join(row).partition(" ON ")[0] for row in rows)


@dataclass
class _Asking:
    """One collection: what was asked, and what came."""

    session: QuerySession
    names: ServiceNames
    request: Request
    public_url: str | None
    collection: CollectionBuilder = field(default_factory=CollectionBuilder)
    within: dict[Part, list[str]] = field(default_factory=dict)
    """The names of the services that have rows in the alert's namespace, by kind of table."""

    def missing(
        self, kind: EvidenceKind, query: str, reason: str, *, unknown: bool = False
    ) -> None:
        """A gap."""
        self.collection.missing.append(Missing(kind, query, reason, unknown=unknown))

    async def query(self, kind: EvidenceKind, text: str, type: type[T]) -> list[T] | None:
        """The rows; a query that fails becomes a gap and gives None."""
        return await self.collection.fetch(kind, text, self.session.rows(text, type=type))

    def keep(
        self,
        kind: EvidenceKind,
        text: str,
        window: Window,
        rows: Sequence[Row],
        cut: str | None = None,
        by: str | None = None,
    ) -> None:
        """The rows as an item; none say nothing."""
        if not rows:
            return
        link = sql.link(self.public_url, text) if self.public_url else None
        self.collection.keep(kind, text, window, rows, link, cut=cut, by=by)

    def theirs(self, services: Sequence[str]) -> list[str]:
        """Every name that the services may have."""
        return [name for service in services for name in self.names.theirs(service)]

    def bounds(self, part: Part) -> sql.Bounds:
        """Where rows of such a table may come from."""
        alert = self.request.alert
        within = self.within.get(part, ())
        return sql.Bounds(place_of(alert), namespace_of(alert), within)

    async def bind(self, tables: Tables, services: Sequence[str]) -> None:
        """Which services have rows in the alert's namespace. The others run in another one, as
        what a service calls often does, and are read wherever they are."""
        if namespace_of(self.request.alert):
            parts = [part for part in tables.by_part if part != "samples"]
            await asyncio.gather(*(self._bind(part, tables, services) for part in parts))

    async def _bind(self, part: Part, tables: Tables, services: Sequence[str]) -> None:
        window = full_window(self.request.scope)
        text = sql.services_within(
            part, tables.by_part[part], self.theirs(services), self.bounds(part), window
        )
        rows = await self.query(KINDS.get(part, "metrics"), text, tuple[str])
        there = {name for (name,) in rows or ()}
        # A service is there under any of its names.
        names = [self.theirs([service]) for service in services]
        self.within[part] = [name for theirs in names if there & set(theirs) for name in theirs]

    async def golden(self, table: SourceTable, layout: Layout, services: Sequence[str]) -> None:
        """Rate, errors and latency of the spans that the services serve."""
        window = full_window(self.request.scope)
        grid = CountGrid.of(window)
        if not grid.steps:
            return
        where = sql.rows_of(table, layout, self.theirs(services), self.bounds("spans"))
        text = sql.golden(table, layout, where, grid)
        query = await self.query("metrics", text, decoded.Golden)
        if query is not None:
            self.keep("metrics", text, window, decoded.golden_rows(query, self.names, grid))

    async def metrics(self, tables: Tables, services: Sequence[str]) -> None:
        """Gauges and counters."""
        window = full_window(self.request.scope)
        grid = CountGrid.of(window)
        names = self.theirs(services)
        points = []
        otel_parts: tuple[Part, ...] = ("gauge", "sum")
        for part in otel_parts:
            if (table := tables.by_part.get(part)) is not None:
                points.append(sql.otel_points(table, names, self.bounds(part), window))
        samples, series = tables.by_part.get("samples"), tables.by_part.get("series")
        if samples is not None and series is not None:
            bounds = self.bounds("series")
            points.append(sql.signoz_points(samples, series, names, bounds, window))
        for point in points if grid.steps else ():
            text = sql.metrics(point, grid)
            query = await self.query("metrics", text, decoded.Point)
            if query is not None:
                is_cut = len(query) >= sql.MOST_POINTS
                cut = f"the first {sql.MOST_POINTS} points, by the names of metrics"
                rows = decoded.metric_rows(query, self.names, grid)
                self.keep("metrics", text, window, rows, cut if is_cut else None)

    async def logs(self, table: SourceTable, layout: Layout, service: str) -> None:
        """Counts, errors and a sample of all lines, of each window."""
        every = sql.rows_of(table, layout, self.theirs([service]), self.bounds("logs"))
        line_queries: list[tuple[str, int, str | None]] = [
            (f"{every} AND {sql.failing(layout)}", ERRORS, None),
            (every, SAMPLE, None),
        ]
        if (words := self.request.scope.log_words) is not None:
            line_queries.append(
                (f"{every} AND {sql.saying(layout, words.words)}", SAMPLE, words.by)
            )
        for window in log_windows(self.request.scope):
            grid = CountGrid.of(window)
            text = sql.line_counts(table, layout, every, grid)
            if grid.steps:
                query = await self.query("metrics", text, decoded.LineCount)
                rows = decoded.count_rows(query or (), service, grid)
                self.keep("metrics", text, window, rows)
            for where, limit, by in line_queries:
                # Bind `where` as a default, because the loop gives the name another value.
                async def page(part: Window, count: int, where: str = where) -> LinePage | None:
                    text = sql.lines(table, layout, where, part, count)
                    query = await self.query("logs", text, decoded.Selected)
                    if query is None:
                        return None
                    return await asyncio.to_thread(decoded.line_page, query, service)

                lines = await lines_of_window(page, window, limit)
                if lines is not None:
                    text = sql.lines(table, layout, where, window, limit)
                    self.keep("logs", text, window, lines.rows, lines.cut, by)

    async def spans(self, table: SourceTable, layout: Layout, service: str) -> None:
        """Whole traces of a service, of each window."""
        where = sql.rows_of(table, layout, self.theirs([service]), self.bounds("spans"))
        for window in sampled_windows(self.request.scope):
            text = sql.trace_ids(table, layout, where, window)
            chosen = await self.query("spans", text, tuple[str])
            # A FixedString is padded with zeros.
            ids = [trace_id.rstrip("\0") for (trace_id,) in chosen or () if trace_id]
            if not ids:
                continue
            text = sql.spans(table, layout, ids, window)
            query = await self.query("spans", text, decoded.Selected)
            if query is None:
                continue
            rows, dropped = await asyncio.to_thread(decoded.span_rows, query, self.names)
            cut = f"{sql.MOST_TRACES} traces of the window at most"
            if len(query) >= sql.MOST_SPANS:
                cut += f", the first {sql.MOST_SPANS} spans of them"
            cut += f"; {dropped} spans left out" if dropped else ""
            self.keep("spans", text, window, rows, cut)

    def name_the_unknown(self, services: Sequence[str]) -> None:
        """A gap for each service that nothing names."""
        named_services: set[str] = set()
        # The numbers are the columns that hold the service.
        for table, column in (("metrics", 1), ("logs", 1), ("spans", 3)):
            named_services |= {row[column] for row in self.collection.rows.get(table, ())}
        reason = "no line, span or metric names it; see aliases in the catalogue"
        if place := place_of(self.request.alert):
            where = ", ".join(f"{kind} {value}" for kind, value in place.items())
            reason = f"no line, span or metric of {short(where, 120)} names it"
        for service in services:
            if service not in named_services:
                self.missing("metrics", service, reason, unknown=True)
