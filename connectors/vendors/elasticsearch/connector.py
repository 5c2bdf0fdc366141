"""Elasticsearch and OpenSearch: lines of the services in scope, errors first, and how many were
logged, by searches.

Both windows are asked the same questions, so that what differs is the system. Speaks to
Elasticsearch 7.10 and later, Elastic's serverless projects and OpenSearch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    full_window,
    nanoseconds,
)
from faultline.connectors.shared.rows.log_windows import (
    ERROR_LINES,
    LINES,
    CountGrid,
    LinePage,
    lines_of_window,
    log_windows,
)
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.elasticsearch import ElasticsearchSettings, searches
from faultline.connectors.vendors.elasticsearch.answers import (
    CountsAnswer,
    LinesAnswer,
    NamesAnswer,
    SearchAnswer,
    count_rows,
    line_rows,
)
from faultline.connectors.vendors.elasticsearch.fields import FieldNames, FieldsAnswer, LogFields
from faultline.connectors.vendors.elasticsearch.searches import Search
from faultline.connectors.vendors.elasticsearch.session import LENIENT, SearchHttp, SearchSession

LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=10, concurrency=4)
MOST_SERVICES = 5
ERRORS, SAMPLE = 1000, 300
"""Lines of one search."""


def build(
    elasticsearch_settings: ElasticsearchSettings, settings: SharedSettings
) -> ElasticsearchConnector | None:
    """The configured connector, or None without a URL."""
    if elasticsearch_settings.url is None:
        return None
    access = access_of(elasticsearch_settings, "elasticsearch")
    if elasticsearch_settings.api_key is not None:
        # An API key has its own scheme, which is neither Bearer nor Basic.
        header = {"Authorization": f"ApiKey {elasticsearch_settings.api_key.get_secret_value()}"}
        access = ServerAccess({**access.headers, **header}, access.auth, access.trust)
    usual = FieldNames()
    return ElasticsearchConnector(
        elasticsearch_settings.url,
        access,
        indices=elasticsearch_settings.indices,
        field_names=FieldNames(
            (elasticsearch_settings.time_field,)
            if elasticsearch_settings.time_field
            else usual.times,
            elasticsearch_settings.service_fields or usual.services,
            (elasticsearch_settings.level_field,)
            if elasticsearch_settings.level_field
            else usual.levels,
            (elasticsearch_settings.message_field,)
            if elasticsearch_settings.message_field
            else usual.messages,
        ),
        names=ServiceNames.of_catalogue(settings.services),
        links=Links(elasticsearch_settings.kibana_url, elasticsearch_settings.data_view),
        limits=elasticsearch_settings.limits(LIMITS),
    )


@dataclass(frozen=True)
class Links:
    """Where people look at lines: the base of Kibana, and the id of a data view."""

    base: str | None = None
    data_view: str | None = None

    def link(self, search: Search, window: Window) -> str | None:
        """None without Kibana."""
        if self.base is None:
            return None
        return searches.discover(self.base, self.data_view, search.kql, window)


@dataclass(frozen=True)
class _Lines:
    """Where a service's lines are."""

    service: str
    search: Search


class ElasticsearchConnector:
    """Lines of each service in scope and their counts. `indices`: names and patterns."""

    name = "elasticsearch"
    kinds: tuple[EvidenceKind, ...] = ("logs", "metrics")
    follows = ("service",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        indices: Sequence[str] = ("logs-*",),
        field_names: FieldNames | None = None,
        names: ServiceNames | None = None,
        links: Links | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = SearchHttp(self.name, url, access=access, limits=limits)
        self._http.indices = ",".join(indices)
        self._field_names = field_names or FieldNames()
        self._names = names or ServiceNames()
        self._links = links or Links()
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Counts and lines of all windows. A call that fails becomes a gap, the others stand."""
        collection = CollectionBuilder()
        services, more = in_scope(request, MOST_SERVICES)
        collection.unasked("logs", bool(services), more)
        if not services:
            return collection.collected()
        async with self._http.open() as session:
            fields, _ = await self._fields(session)
            sources = await self._where(
                session, collection, fields, services, request.alert, request.scope
            )
            asking = _Asking(session, collection, fields, self._links)
            windows = log_windows(request.scope)
            await asyncio.gather(*(asking.of_service(source, windows) for source in sources))
            if (words := request.scope.log_words) is not None:
                for source in sources:
                    search = searches.with_words(source.search, fields, words.words)
                    for window in windows:
                        await asking.lines(source.service, search, SAMPLE, window, words.by)
        return collection.collected()

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """Values of the fields that may name a service."""
        async with self._http.open() as session:
            fields, _ = await self._fields(session)
            # No names and no place: the search lists every service.
            body = searches.names_of_services(fields, window, (), {})
            answer = await session.search(body, type=NamesAnswer)
        services: dict[str, None] = {}
        for values in answer.aggregations.values():
            services |= dict.fromkeys(self._names.ours(bucket.key) for bucket in values.buckets)
        return tuple(services)

    async def check(self) -> Check:
        """Reachable, and what can be read?"""
        try:
            async with self._http.open() as session:
                product = await _product(session)
                fields, indices = await self._fields(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        line = (
            f"{product} at {self._http.base_url}: {indices} indices of {self._http.indices} can be "
            f"read; time in {fields.time}, services in {', '.join(fields.services) or 'no field'}, "
            f"level in {fields.level or 'no field'}, text in "
            f"{', '.join(fields.messages) or 'no field'}; only searches are sent"
        )
        if not fields.services:
            line += "; no field names a service: set elasticsearch.service_fields"
        return Check(
            self.name,
            bool(fields.services),
            f"{line}; whether these credentials may also write is not asked",
        )

    async def _fields(self, session: SearchSession) -> tuple[LogFields, int]:
        """The fields, and how many indices there are. Raises ConnectorError without any."""
        path = f"/{self._http.indices}/_field_caps"
        params = [("fields", self._field_names.caps_names()), *LENIENT]
        answer = await session.get(path, params, type=FieldsAnswer)
        fields = LogFields.of(answer, self._field_names)
        if fields is None:
            problem = (
                "no index there has a field for the time that these credentials may read: see "
                "elasticsearch.indices and elasticsearch.time_field"
            )
            raise ConnectorError(self.name, path, problem)
        return fields, answer.index_count

    async def _where(
        self,
        session: SearchSession,
        collection: CollectionBuilder,
        fields: LogFields,
        services: Sequence[str],
        alert: Alert,
        scope: Scope,
    ) -> list[_Lines]:
        """The services that some field names: in the alert's place, and those that have nothing
        there wherever they are. Raises ConnectorError where nothing can be asked."""
        if not fields.services:
            problem = "no field names a service: set elasticsearch.service_fields"
            raise ConnectorError(self.name, "fields", problem)
        theirs = [name for service in services for name in self._names.theirs(service)]
        lines: dict[str, _Lines] = {}
        for within in fields.bounds(alert):
            # All were found in the alert's place, so no other place is searched.
            if len(lines) == len(services):
                break
            body = searches.names_of_services(fields, full_window(scope), theirs, within)
            answer = await session.search(body, type=NamesAnswer)
            if answer.incomplete:
                collection.missing.append(Missing("logs", "names of services", answer.incomplete))
            for service in services:
                search = self._search(service, fields, answer, within)
                if search is not None and service not in lines:
                    lines[service] = _Lines(service, search)
        reason = (
            f"no line names it in {', '.join(fields.services)}: see "
            "elasticsearch.service_fields, and aliases in the catalogue"
        )
        for service in services:
            if service not in lines:
                collection.missing.append(Missing("logs", service, reason, unknown=True))
        return list(lines.values())

    def _search(
        self, service: str, fields: LogFields, answer: NamesAnswer, here: Mapping[str, str]
    ) -> Search | None:
        # The fields are in order of preference, so the first that names the service counts.
        for number, field in enumerate(fields.services):
            values = answer.aggregations.get(f"names{number}")
            keys = [bucket.key for bucket in values.buckets] if values else []
            named = self._names.matches(service, keys)
            if named:
                return searches.of_service(field, named, here)
        return None


@dataclass(frozen=True)
class _Asking:
    """The searches of one collection."""

    session: SearchSession
    collection: CollectionBuilder
    log_fields: LogFields
    links: Links

    async def of_service(self, source: _Lines, windows: Sequence[Window]) -> None:
        """Its counts, its errors and a sample of all its lines, of each window."""
        failing = searches.errors(source.search, self.log_fields)
        counts = []
        for window in windows:
            counts.append(self.counts(source, window))
            counts.append(self.lines(source.service, failing, ERRORS, window))
            counts.append(self.lines(source.service, source.search, SAMPLE, window))
        await asyncio.gather(*counts)

    async def counts(self, source: _Lines, window: Window) -> None:
        """Lines per minute as metrics."""
        grid = CountGrid.of(window)
        if not grid.steps:
            return
        body = source.search.counts(self.log_fields, grid)
        query = f"count of {source.search.kql}"
        call = self.session.search(body, type=CountsAnswer)
        answer = await self.collection.fetch("metrics", query, call)
        if answer is None:
            return
        if self._is_cut("metrics", query, answer):
            # Counts of a part would look like a drop.
            return
        rows = count_rows(answer.aggregations, source.service, grid, (LINES, ERROR_LINES))
        count = self.collection.add("metrics", rows)
        link = self.links.link(source.search, window)
        item = Item("metrics", query, window, link, rows=count)
        self.collection.items.append(item.holding(rows))

    async def lines(
        self, service: str, search: Search, limit: int, window: Window, by: str | None = None
    ) -> None:
        """The first lines of a window and, where there are more, some of each part of the rest."""

        async def page(part: Window, count: int) -> LinePage | None:
            return await self._page(service, search, count, part)

        lines = await lines_of_window(page, window, limit)
        if lines is None:
            return
        link = self.links.link(search, window)
        self.collection.keep("logs", search.kql, window, lines.rows, link, cut=lines.cut, by=by)

    async def _page(
        self, service: str, search: Search, limit: int, window: Window
    ) -> LinePage | None:
        """The first lines of a window, oldest first. A failed search becomes a gap."""
        # Times of indices are whole milliseconds for the most part.
        after_ms = -(-nanoseconds(window.start) // 1_000_000)
        body = search.lines(self.log_fields, window, limit, after_ms)
        call = self.session.search(body, type=LinesAnswer)
        answer = await self.collection.fetch("logs", search.kql, call)
        if answer is None:
            return None
        self._is_cut("logs", search.kql, answer)
        hits = answer.hits.hits
        return LinePage(*await asyncio.to_thread(line_rows, hits, service, self.log_fields))

    def _is_cut(self, kind: EvidenceKind, query: str, answer: SearchAnswer) -> bool:
        """Whether a part is missing, which is then a gap."""
        if answer.incomplete:
            self.collection.missing.append(Missing(kind, query, answer.incomplete))
        return answer.incomplete is not None


class _Version(msgspec.Struct):
    number: str = ""
    distribution: str = "elasticsearch"
    build_flavor: str = ""


class _Root(msgspec.Struct):
    version: _Version
    cluster_name: str = ""


async def _product(session: SearchSession) -> str:
    """The distribution and its version. OpenSearch Serverless has no such call, and a role may lack
    the permission (`monitor`): neither is needed."""
    try:
        root = await session.get("/", type=_Root)
    except ConnectorError as error:
        if error.status not in (403, 404):
            raise
        return "Elasticsearch or OpenSearch (which does not tell its version)"
    is_opensearch = root.version.distribution == "opensearch"
    product = "OpenSearch" if is_opensearch else "Elasticsearch"
    number = short(root.version.number, 40)
    flavour = " serverless" if root.version.build_flavor == "serverless" else ""
    return f"{product}{flavour} {number} (cluster {short(root.cluster_name, 60)})"
