"""New Relic: golden signals, log lines, spans and markers of changes of one account.

All of it is NRQL through NerdGraph, whose one document is a query: docs.newrelic.com, "NerdGraph
tutorial: Query your data with NRQL" and "NerdGraph usage limits".
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.http.graphql import GraphQLReads, GraphQLSession
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    evaluated,
)
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
from faultline.connectors.vendors.new_relic import NewRelicSettings
from faultline.connectors.vendors.new_relic import queries as nrql
from faultline.connectors.vendors.new_relic import rows as tables
from faultline.connectors.vendors.new_relic.conditions import (
    ConditionsAnswer,
    condition_name,
    condition_series,
    query_of_condition,
    timeseries,
)
from faultline.connectors.vendors.new_relic.queries import CONDITIONS, NRQL, NrqlAnswer

VENDOR = "new_relic"
API = {"us": "https://api.newrelic.com", "eu": "https://api.eu.newrelic.com"}
APP = {"us": "https://one.newrelic.com", "eu": "https://one.eu.newrelic.com"}
LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=10, concurrency=5)
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the incident: one may take a day to do harm."""
MOST_SERVICES, MOST_TRACED = 5, 3
ERRORS, SAMPLE = 1000, 300
"""Lines of one query."""
EVENTS = {"Transaction": "metrics", "Span": "spans", "Log": "logs", "Deployment": "changes"}


def build(
    new_relic_settings: NewRelicSettings, settings: SharedSettings
) -> NewRelicConnector | None:
    """The configured connector, or None without an account and a key."""
    if new_relic_settings.account_id is None or new_relic_settings.api_key is None:
        return None
    headers = {"API-Key": new_relic_settings.api_key.get_secret_value()}
    limits = new_relic_settings.limits(LIMITS)
    base = new_relic_settings.api_url or API[new_relic_settings.region]
    reads = GraphQLReads(
        VENDOR, base, "/graphql", (NRQL, CONDITIONS), headers=headers, limits=limits
    )
    account = NewRelicAccount(
        new_relic_settings.account_id,
        new_relic_settings.app_url or APP[new_relic_settings.region],
        reads,
    )
    return NewRelicConnector(account, ServiceNames.of_catalogue(settings.services), limits)


@dataclass(frozen=True)
class NewRelicAccount:
    """An account, and where its pages are."""

    id: int
    app: str
    reads: GraphQLReads

    async def query(self, session: GraphQLSession, text: str) -> list[dict[str, Any]]:
        """The rows of a query. Raises ConnectorError, BudgetExceeded."""
        answer = await session.ask(NRQL, {"account": self.id, "nrql": text}, type=NrqlAnswer)
        # NerdGraph does not refuse: it leaves out an account that the key may not read.
        if answer.results is None:
            problem = f"account {self.id} cannot be read with this key"
            raise ConnectorError(VENDOR, NRQL.name, problem, status=403)
        return answer.results

    def link(self, text: str) -> str:
        """The page of a query."""
        return nrql.link(self.app, self.id, text)


class NewRelicConnector:
    """Golden signals, lines, spans and changes of the services in scope."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "logs", "spans", "changes")
    follows = ("service",)

    def __init__(
        self, account: NewRelicAccount, names: ServiceNames, limits: Limits = LIMITS
    ) -> None:
        self._account = account
        self._names = names
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Every query side by side; one that fails is a gap, the rest stands."""
        services, more = in_scope(request, MOST_SERVICES)
        async with self._account.reads.open() as session:
            asking = _Asking(self._account, session, self._names, request)
            asking.collection.unasked("metrics", bool(services), more)
            traced = services[:MOST_TRACED]
            await asyncio.gather(
                asking.changes(),
                asking.golden(services),
                *(asking.logs(service) for service in services),
                *(asking.spans(service) for service in traced),
            )
        # Last: a row in any of the tables makes a service known.
        asking.name_the_unknown(services)
        return asking.collection.collected()

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The NRQL of the condition that the alert names. Raises ConnectorError."""
        name = condition_name(alert)
        if not name:
            return None
        async with self._account.reads.open() as session:
            variables = {"account": self._account.id, "name": name}
            answer = await session.ask(CONDITIONS, variables, type=ConditionsAnswer)
        return query_of_condition(answer.conditions, name)

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert's query is NRQL."""
        return alert.query is not None and alert.query.language == "nrql"

    async def evaluate(self, request: Request) -> Collected:
        """What the condition measures against its threshold, now and over two weeks. Raises
        FaultlineError."""
        query = request.alert.query
        if query is None:
            return Collected()
        if query.threshold is None or query.comparison is None:
            problem = "the condition compares with a learned baseline, which cannot be asked"
            raise ConnectorError(VENDOR, CONDITIONS.name, problem)
        async with self._account.reads.open() as session:

            async def ask(text: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
                sent = timeseries(text, at, query.window_s)
                return condition_series(text, await self._account.query(session, sent))

            link = self._account.link(query.text)
            return await evaluated(query, request.scope, ask, link=link, unit=query.unit)

    async def check(self) -> Check:
        """Can the account's data be read?"""
        refusals: dict[str, str | None] = {}
        try:
            async with self._account.reads.open() as session:
                for event, kind in EVENTS.items():
                    query = await self._account.query(session, nrql.counted(event))
                    has_some = any(row.get("events") for row in query)
                    name = f"{event} ({kind})"
                    refusals[name] = None if has_some else "none in the last hour"
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        parts = ReadableParts(refusals)
        where = f"New Relic account {self._account.id} at {self._account.reads.base_url}"
        line = f"{where}: {parts.words}; only NRQL is sent, which cannot write"
        line += "; what else the key may do is not asked"
        # An account that is quiet for an hour can be read all the same.
        return Check(self.name, True, line, ())


@dataclass
class _Asking:
    """One collection: what was asked, and what came."""

    account: NewRelicAccount
    session: GraphQLSession
    names: ServiceNames
    request: Request
    collection: CollectionBuilder = field(default_factory=CollectionBuilder)

    def missing(
        self, kind: EvidenceKind, query: str, reason: str, *, unknown: bool = False
    ) -> None:
        """A gap."""
        self.collection.missing.append(Missing(kind, query, reason, unknown=unknown))

    async def query(self, kind: EvidenceKind, text: str) -> list[dict[str, Any]] | None:
        """The rows; a query that fails becomes a gap and gives None."""
        return await self.collection.fetch(kind, text, self.account.query(self.session, text))

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
        self.collection.keep(kind, text, window, rows, self.account.link(text), cut=cut, by=by)

    async def golden(self, services: Sequence[str]) -> None:
        """Rate, errors and latency of all services, of agents and of OpenTelemetry."""
        window = full_window(self.request.scope)
        grid = CountGrid.of(window)
        names = [name for service in services for name in self.names.theirs(service)]
        if not names or not grid.steps:
            return
        # Agents measure durations in seconds, OpenTelemetry in milliseconds.
        for text, to_ms in (
            (nrql.transactions(names, grid), 1000.0),
            (nrql.server_spans(names, grid), 1.0),
        ):
            query = await self.query("metrics", text)
            if query is not None:
                rows = tables.golden_rows(query, self.names, to_ms)
                self.keep("metrics", text, window, rows)

    async def logs(self, service: str) -> None:
        """Counts, errors and a sample of all lines, of each window."""
        names = self.names.theirs(service)
        every = nrql.lines(names)
        searches: list[tuple[str, int, str | None]] = [
            (nrql.lines(names, nrql.failing()), ERRORS, None),
            (every, SAMPLE, None),
        ]
        if (words := self.request.scope.log_words) is not None:
            searches.append((nrql.lines(names, nrql.saying(words.words)), SAMPLE, words.by))
        for window in log_windows(self.request.scope):
            await self._counts(service, window)
            for text, limit, by in searches:
                await self._lines(service, text, limit, by, window)

    async def _counts(self, service: str, window: Window) -> None:
        grid = CountGrid.of(window)
        if not grid.steps:
            return
        text = nrql.log_counts(self.names.theirs(service), grid)
        query = await self.query("metrics", text)
        if query is not None:
            self.keep("metrics", text, window, tables.count_rows(query, service, grid))

    async def _lines(
        self, service: str, text: str, limit: int, by: str | None, window: Window
    ) -> None:
        async def page(part: Window, count: int) -> LinePage | None:
            query = await self.query("logs", nrql.page(text, part, count))
            if query is None:
                return None
            return await asyncio.to_thread(tables.line_page, query, service)

        lines = await lines_of_window(page, window, limit)
        if lines is not None:
            self.keep("logs", nrql.page(text, window, limit), window, lines.rows, lines.cut, by)

    async def spans(self, service: str) -> None:
        """Whole traces of a service, of each window."""
        for window in sampled_windows(self.request.scope):
            chosen = await self.query("spans", nrql.trace_ids(self.names.theirs(service), window))
            ids = chosen[0].get("ids") if chosen else None
            texts = (
                [trace_id for trace_id in ids if isinstance(trace_id, str)]
                if isinstance(ids, list)
                else []
            )
            if not texts:
                continue
            text = nrql.spans(texts[: nrql.MOST_TRACES], window)
            query = await self.query("spans", text)
            if query is None:
                continue
            rows, dropped = await asyncio.to_thread(tables.span_rows, query, self.names)
            cut = f"{nrql.MOST_TRACES} traces of the window at most"
            cut += f"; {dropped} spans left out" if dropped else ""
            self.keep("spans", text, window, rows, cut)

    async def changes(self) -> None:
        """Markers of all services."""
        scope = self.request.scope
        window = Window(start=scope.incident.start - LOOKBACK, end=scope.incident.end)
        text = nrql.changes(window)
        query = await self.query("changes", text)
        if query is not None:
            is_cut = len(query) >= nrql.MOST_CHANGES
            cut = f"the latest {nrql.MOST_CHANGES}; there are more" if is_cut else None
            rows = tables.change_rows(query, self.names, self.account.link(text))
            self.keep("changes", text, window, rows, cut)

    def name_the_unknown(self, services: Sequence[str]) -> None:
        """A gap for each service that nothing names."""
        named_services: set[str] = set()
        # The column of the service in each table's rows.
        for table, place in (("metrics", 1), ("logs", 1), ("spans", 3)):
            named_services |= {row[place] for row in self.collection.rows.get(table, ())}
        reason = "no transaction, line or span names it; see aliases in the catalogue"
        for service in services:
            if service not in named_services:
                self.missing("metrics", service, reason, unknown=True)
