"""Azure Monitor: metrics, spans and logs of Application Insights, logs of Log Analytics, changes of
the activity log, and platform metrics of resources that an alert names.

All but the last is a KQL query over GET (API version v1); the texts are those of `azure_queries`.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Any
from urllib.parse import quote

import polars as pl

from faultline.analysis.case.tables import METRICS
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.auth.azure_token import VENDOR, Tokens
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.queries.pipe_queries import KQL, pipe_query
from faultline.connectors.shared.queries.record_answers import RecordColumns, records_answer
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.azure import AzureMonitorSettings
from faultline.connectors.vendors.azure import queries as kql
from faultline.connectors.vendors.azure import rows as tables
from faultline.connectors.vendors.azure.log_rules import CLASSIC, evaluated_log_rule
from faultline.connectors.vendors.azure.platform import (
    evaluated_rule,
    named_resources,
    platform_rows,
)
from faultline.connectors.vendors.azure.queries import LogTable, Schema
from faultline.connectors.vendors.azure.session import QueryApi, QuerySession, credential_of

LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=5, concurrency=4)
"""Azure takes 200 queries in 30 s and 5 at once from one user (learn.microsoft.com, "Azure Monitor
service limits")."""
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the incident: one may take a day to do harm."""
MOST_SERVICES, MOST_NAME = 20, 200
READER = 'the role "Monitoring Reader"'


@dataclass(frozen=True)
class AzureSource:
    """One thing that can be asked: an API, the path of its queries, and its page in the portal."""

    api: QueryApi
    path: str
    portal: str
    resource_id: str | None

    def link(self, text: str, timespan: str) -> str | None:
        """The query in the portal, packed as its own "Copy link" does: gzip, then base64."""
        if not self.resource_id:
            return None
        # Without a time in the header, equal queries get equal links.
        packed = base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
        parts = (quote(p, safe="") for p in (self.resource_id, packed, timespan))
        resource, query, when = parts
        blade = "#view/Microsoft_Azure_Monitoring_Logs/LogsBlade"
        share = f"source/LogsBlade.AnalyticsShareLinkToQuery/q/{query}/timespan/{when}"
        return f"{self.portal}/{blade}/resourceId/{resource}/{share}"


@dataclass(frozen=True)
class PlatformSource:
    """Azure Resource Manager, and the portal of its links."""

    api: QueryApi
    portal: str


def build(
    azure_settings: AzureMonitorSettings, settings: SharedSettings
) -> AzureMonitorConnector | None:
    """The configured connector, or None without a workspace or application. Raises
    SettingsError."""
    if azure_settings.workspace_id is None and azure_settings.application_id is None:
        return None
    limits = azure_settings.limits(LIMITS)
    tokens = Tokens(credential_of(azure_settings), limits)
    workspace = application = None
    if azure_settings.workspace_id is not None:
        api = QueryApi(azure_settings.api_url, tokens, limits, "azure_monitor.api_url")
        path = f"/v1/workspaces/{quote(azure_settings.workspace_id, safe='')}/query"
        workspace = AzureSource(
            api, path, azure_settings.portal_url, azure_settings.workspace_resource_id
        )
    if azure_settings.application_id is not None:
        api = QueryApi(
            azure_settings.applications_url, tokens, limits, "azure_monitor.applications_url"
        )
        path = f"/v1/apps/{quote(azure_settings.application_id, safe='')}/query"
        application = AzureSource(
            api, path, azure_settings.portal_url, azure_settings.application_resource_id
        )
    platform = None
    if azure_settings.platform_metrics:
        key = "azure_monitor.management_url"
        api = QueryApi(azure_settings.management_url, tokens, limits, key, below="/subscriptions/")
        platform = PlatformSource(api, azure_settings.portal_url)
    roles = {
        name: entry.azure_role_name
        for name, entry in settings.services.items()
        if entry.azure_role_name
    }
    return AzureMonitorConnector(
        workspace,
        application,
        roles,
        [LogTable.of(t) for t in azure_settings.log_tables],
        platform=platform,
        limits=limits,
    )


class AzureMonitorConnector:
    """`roles`: the role's name in Azure by our name of the service; the service's own where it is
    not given."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "spans", "logs", "changes")
    follows = ("service",)
    query_kinds: tuple[EvidenceKind, ...] = ("metrics", "logs")

    def __init__(
        self,
        workspace: AzureSource | None,
        application: AzureSource | None = None,
        roles: Mapping[str, str] | None = None,
        log_tables: Sequence[LogTable] = (),
        *,
        platform: PlatformSource | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._workspace = workspace
        self._application = application
        self._roles = dict(roles or {})
        self._log_tables = tuple(log_tables)
        self._platform = platform
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Every query side by side; one that fails is a gap, the rest stands."""
        services = list(
            dict.fromkeys(filter(None, (request.alert.service, *request.scope.services)))
        )[:MOST_SERVICES]
        azure_question = _AzureQuestion(self._roles, [s[:MOST_NAME] for s in services])
        resources = named_resources(request.alert) if self._platform is not None else []
        if not services and not resources:
            return Collected(
                missing=(
                    Missing("metrics", "services", "the alert names no service to ask Azure for"),
                )
            )
        # All sources share one deadline and one byte budget.
        deadline, budget = self._allowance()
        sources = self._sources() if services else []
        await asyncio.gather(
            *(self._from(s, request, azure_question, deadline, budget) for s in sources),
            self._measured(resources, request, azure_question, deadline, budget),
        )
        return azure_question.collected()

    def evaluates(self, alert: Alert) -> bool:
        """Whether it is a metric alert on a resource, with a threshold that does not move, or one
        on a search of logs."""
        query = alert.query
        if alert.source != "azure_monitor" or query is None:
            return False
        if query.language == "kql":
            return bool(self._sources())
        is_metric = query.language == "metric" and self._platform is not None
        return is_metric and bool(named_resources(alert))

    async def evaluate(self, request: Request) -> Collected:
        """What the rule measures against its threshold, now and over two weeks. Raises
        FaultlineError."""
        alert, platform = request.alert, self._platform
        query = alert.query
        if query is None:
            return Collected()
        if query.threshold is None or query.comparison is None:
            raise ConnectorError(VENDOR, "metrics", "the rule compares its metric with no number")
        deadline, budget = self._allowance()
        if query.language == "kql":
            is_classic = CLASSIC.match(query.text) is not None
            source = self._application if is_classic else self._workspace or self._application
            if source is None:
                problem = "the rule searches Application Insights: set azure_monitor.application_id"
                raise ConnectorError(VENDOR, "query", problem)
            scope = request.scope
            times = f"{_utc(scope.incident.start)}/{_utc(scope.incident.end)}"
            link = source.link(query.text, times)
            async with source.api.open(deadline, budget) as session:
                return await evaluated_log_rule(session, source.path, query, scope, link=link)
        if platform is None:
            return Collected()
        async with platform.api.open(deadline, budget) as session:
            resource = named_resources(alert)[0]
            return await evaluated_rule(session, resource, query, request.scope, platform.portal)

    async def _measured(
        self,
        resources: Sequence[str],
        request: Request,
        azure_question: _AzureQuestion,
        deadline: Deadline,
        budget: ByteBudget,
    ) -> None:
        """Platform metrics of the resources that the alert names; each that fails is a gap."""
        platform = self._platform
        if platform is None or not resources:
            return
        window = Window(start=request.scope.events_from, end=request.scope.incident.end)
        try:
            async with platform.api.open(deadline, budget) as session:
                for resource in resources:
                    service = azure_question.owner(resource) or request.alert.service
                    named = service or short(resource.rpartition("/")[2], 120)
                    await azure_question.measure(
                        session, platform, resource, named, request, window
                    )
        except FaultlineError as error:
            azure_question.missing.append(Missing("metrics", "platform metrics", str(error)))

    def _allowance(self) -> tuple[Deadline, ByteBudget]:
        return Deadline.within(self.limits), ByteBudget(
            f"size of {VENDOR}'s answers", self.limits.max_bytes
        )

    def _sources(self) -> list[AzureSource]:
        return [s for s in (self._application, self._workspace) if s is not None]

    async def _from(
        self,
        source: AzureSource,
        request: Request,
        azure_question: _AzureQuestion,
        deadline: Deadline,
        budget: ByteBudget,
    ) -> None:
        span = Window(start=request.scope.events_from, end=request.scope.incident.end)
        try:
            async with source.api.open(deadline, budget) as session:
                calls = [
                    azure_question.ask(session, source, query)
                    for query in self._queries(source, azure_question, span, request)
                ]
                await asyncio.gather(*calls)
        except FaultlineError as error:
            azure_question.missing += [
                Missing(kind, source.path, str(error)) for kind in self.kinds
            ]

    def _queries(
        self, source: AzureSource, azure_question: _AzureQuestion, span: Window, request: Request
    ) -> list[KustoQuery]:
        """What one source is asked. Each window's traces are chosen by themselves."""
        kusto_queries: list[KustoQuery] = []
        roles = azure_question.roles
        # Both may hold the same telemetry, so read it from one of them.
        if source is (self._application or self._workspace):
            schema = kql.APPLICATION if self._application is not None else kql.WORKSPACE
            kusto_queries += _telemetry(schema, roles, span)
            # One window of the baseline is enough to compare traces with.
            windows = [request.scope.incident, *request.scope.baseline[:1]]
            kusto_queries += [
                KustoQuery("spans", kql.spans(schema, roles), w, tables.spans_table)
                for w in windows
            ]
        if source is self._workspace:
            kusto_queries += [
                KustoQuery("logs", kql.table_logs(t, roles), span, tables.logs_table)
                for t in self._log_tables
            ]
            since = Window(start=request.scope.incident.start - LOOKBACK, end=span.end)
            kusto_queries.append(KustoQuery("changes", kql.changes(), since, None))
        return kusto_queries

    @property
    def query_language(self) -> str:
        """KQL, and the tables that it may be about."""
        tables = ", ".join(table for source in self._sources() for table in self._queried(source))
        return f"KQL (one of {tables}, then stages)"

    async def answer(self, query: BoundedQuery) -> Collected:
        """The rows of one query over a table that is read anyway. Raises FaultlineError."""
        owners = {table: source for source in self._sources() for table in self._queried(source)}
        taken = pipe_query(KQL, self.name, query, tuple(owners))
        source = owners[taken.source]
        azure_question = _AzureQuestion(self._roles, [*self._roles, *filter(None, [query.service])])
        span = KustoQuery("logs", taken.text, query.window, None).timespan
        deadline, budget = self._allowance()
        async with source.api.open(deadline, budget) as session:
            answer = await session.query(source.path, taken.text, span)
        schema = kql.WORKSPACE if source is self._workspace else kql.APPLICATION
        columns = RecordColumns(schema.role, schema.message, schema.operation, azure_question.named)
        for table in self._log_tables if source is self._workspace else ():
            if table.table == taken.source:
                # A table of the settings has its own columns for the service and the text.
                columns = RecordColumns(table.service, table.message, named=azure_question.named)
        return await asyncio.to_thread(
            records_answer,
            query,
            taken,
            answer.rows,
            columns,
            link=source.link(taken.text, span),
            cut=answer.partial,
        )

    async def check(self) -> Check:
        """Which tables can be read with this credential?"""
        deadline, budget = self._allowance()
        refusals: dict[str, str | None] = {}
        for source in self._sources():
            try:
                async with source.api.open(deadline, budget) as session:
                    for name in self._tables(source):
                        refusals[name] = await _refusal(session, source.path, name)
            except FaultlineError as error:
                return Check(self.name, False, str(error))
        parts = ReadableParts(refusals)
        hosts = " and ".join(s.api.base_url for s in self._sources())
        line = (
            f"Azure Monitor at {hosts}: {parts.words}; only "
            "GET is sent, besides the token's request"
        )
        return Check(self.name, bool(parts.readable), line, parts.unread)

    def _queried(self, source: AzureSource) -> list[str]:
        """What a query may be about: what is read of a source, and the telemetry beside it."""
        schema = kql.WORKSPACE if source is self._workspace else kql.APPLICATION
        tables = self._tables(source)
        more = [schema.dependencies, schema.exceptions] if schema.requests in tables else []
        return [*tables, *more]

    def _tables(self, source: AzureSource) -> list[str]:
        """What is read of a source."""
        if source is not self._workspace:
            return [kql.APPLICATION.requests, kql.APPLICATION.traces]
        telemetry = [] if self._application else [kql.WORKSPACE.requests, kql.WORKSPACE.traces]
        return [*telemetry, "AzureActivity", *(t.table for t in self._log_tables)]


@dataclass(frozen=True)
class KustoQuery:
    """One query, its window, and what makes a table of its rows; changes are made by
    `_AzureQuestion`."""

    kind: EvidenceKind
    text: str
    window: Window
    table: Callable[[Sequence[tables.Row], tables.Named], pl.DataFrame] | None

    @property
    def timespan(self) -> str:
        """The window as ISO 8601 interval."""
        return f"{_utc(self.window.start)}/{_utc(self.window.end)}"


@dataclass
class _AzureQuestion:
    """One collection: the services it is about, and what came."""

    by_service: Mapping[str, str]
    services: Sequence[str]
    parts: dict[str, list[pl.DataFrame]] = field(default_factory=dict)
    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)

    @cached_property
    def _ours(self) -> dict[str, str]:
        by_role = {role.casefold(): service for service, role in self.by_service.items()}
        # A role of the settings wins over a service of the same name.
        return {s.casefold(): s for s in self.services} | by_role

    @property
    def roles(self) -> list[str]:
        """The roles of the services asked for."""
        return [self.by_service.get(s, s)[:MOST_NAME] for s in self.services]

    async def ask(self, session: QuerySession, source: AzureSource, query: KustoQuery) -> None:
        """Ask, and keep the rows or the gap."""
        phrase = f"GET {source.path} timespan={query.timespan} query={query.text}"
        try:
            answer = await session.query(source.path, query.text, query.timespan)
        except FaultlineError as error:
            self.missing.append(Missing(query.kind, phrase, str(error)))
            return
        link = source.link(query.text, query.timespan)
        if query.table is None:
            table = tables.changes_table(answer.rows, self.owner, link)
        else:
            table = await asyncio.to_thread(query.table, answer.rows, self.named)
        self.parts.setdefault(query.kind, []).append(table)
        # What the query itself left out.
        cut: str | None
        # Each row repeats how many lines there were before the query sampled them.
        total = answer.rows[0].get("total") if answer.rows else None
        if isinstance(total, int) and total > len(answer.rows):
            cut = f"{len(answer.rows):,} of {total:,} lines, the same share at all times"
        elif query.kind == "changes" and len(answer.rows) >= kql.MOST_CHANGES:
            cut = f"the latest {kql.MOST_CHANGES}; there are more"
        else:
            cut = f"the first {kql.MOST_ROWS:,} rows" if len(answer.rows) >= kql.MOST_ROWS else None
        item = Item(query.kind, phrase, query.window, link, rows=table.height, cut=cut)
        self.items.append(item.holding(table))
        if answer.partial:
            self.missing.append(Missing(query.kind, phrase, answer.partial))

    async def measure(
        self,
        session: QuerySession,
        platform: PlatformSource,
        resource: str,
        service: str,
        request: Request,
        window: Window,
    ) -> None:
        """Ask for a resource's metrics, and keep the rows or the gap."""
        try:
            rows, items = await platform_rows(
                session, resource, service, request.alert, window, platform.portal
            )
        except ConnectorError as error:
            remedy = f": give the credential {READER} on it" if error.status == 403 else ""
            self.missing.append(Missing("metrics", f"GET {resource}", f"{error}{remedy}"))
            return
        if rows:
            table = pl.DataFrame(rows, schema=METRICS.columns, orient="row")
            self.parts.setdefault("metrics", []).append(table)
        self.items += items

    def named(self, role: str) -> str:
        """Our name of a role, or of the resource that an id ends with; Azure's own where the
        catalogue has none."""
        last = role.rsplit("/", 1)[-1].casefold()
        return self._ours.get(role.casefold()) or self._ours.get(last) or short(role, 120)

    def owner(self, resource: str) -> str | None:
        """The service whose name one of a resource id's parts bears."""
        parts = {p.casefold() for p in resource.split("/")[:30]}
        roles = {**{s: s for s in self.services}, **self.by_service}
        return next(
            (s for s, role in roles.items() if {role.casefold(), s.casefold()} & parts), None
        )

    def collected(self) -> Collected:
        """Everything that came."""
        whole = {name: pl.concat(parts) for name, parts in self.parts.items()}
        # One trace may be chosen in both windows.
        if "spans" in whole:
            whole["spans"] = whole["spans"].unique(["trace_id", "span_id"], maintain_order=True)
        return Collected(whole, tuple(self.items), tuple(self.missing))


def _telemetry(schema: Schema, roles: Sequence[str], span: Window) -> list[KustoQuery]:
    return [
        KustoQuery("metrics", kql.requests(schema, roles), span, tables.request_metrics),
        KustoQuery("metrics", kql.dependencies(schema, roles), span, tables.dependency_metrics),
        KustoQuery("logs", kql.logs(schema, roles), span, tables.logs_table),
    ]


async def _refusal(session: QuerySession, path: str, table: str) -> str | None:
    """Why a table cannot be read, None when it can. Raises what is no answer at all."""
    try:
        await session.query(path, f"{table} | take 1 | project 1", "PT1H")
    except FaultlineError as error:
        status: Any = getattr(error, "status", None)
        # Without an answer, or without permission, no other table can be read either.
        if status is None or status in (401, 403):
            raise
        return getattr(error, "problem", str(error))
    return None


def _utc(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
