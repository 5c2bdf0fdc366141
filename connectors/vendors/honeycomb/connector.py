"""Honeycomb: golden signals of the services in scope, and markers as changes, of one environment.

A query is created, run and fetched by three calls (docs.honeycomb.io, "Query Data API"; the
specification in irvingpop/honeycomb-api-python): the client refuses every other POST, and a query
with anything else in it than calculations over one dataset.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import quote

import httpx
import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, VendorHttp
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, full_window
from faultline.connectors.shared.rows.log_windows import CountGrid
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.transport import CALL
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.honeycomb import HoneycombSettings
from faultline.connectors.vendors.honeycomb import rows as tables

T = TypeVar("T")

VENDOR = "honeycomb"
API = {"us": "https://api.honeycomb.io", "eu": "https://api.eu1.honeycomb.io"}
LIMITS = Limits(deadline_s=40, max_bytes=32 * 1024 * 1024, requests_per_s=3, concurrency=3)
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the incident: one may take a day to do harm."""
MOST_SERVICES = 5
EVERYWHERE = "__all__"
"""The dataset that stands for the whole environment."""
POLLS, PAUSE_S = 12, 1.0
QUERY_KEYS = frozenset(
    {"calculations", "breakdowns", "filters", "start_time", "end_time", "granularity"}
)
RESULT_KEYS = frozenset({"query_id", "disable_series", "disable_total_by_aggregate"})
_POST = re.compile(r"/1/(queries|query_results)/[A-Za-z0-9_.~%-]{1,300}")


def build(
    honeycomb_settings: HoneycombSettings, settings: SharedSettings
) -> HoneycombConnector | None:
    """The configured connector, or None without a key."""
    if honeycomb_settings.api_key is None:
        return None
    return HoneycombConnector(
        honeycomb_settings.api_url or API[honeycomb_settings.region],
        honeycomb_settings.api_key.get_secret_value(),
        names=ServiceNames.of_catalogue(settings.services),
        run_queries=honeycomb_settings.run_queries,
        deploy_types=honeycomb_settings.deploy_types,
        limits=honeycomb_settings.limits(LIMITS),
    )


class _Created(msgspec.Struct):
    id: str


class QuerySession(HttpSession):
    """One collection's calls. Safe to use from several tasks at once."""

    async def run(self, dataset: str, query: Mapping[str, Any]) -> tables.QueryResult:
        """What a query finds. Raises ConnectorError, BudgetExceeded."""
        created = await self._post(f"/1/queries/{dataset}", query)
        body = {"query_id": created.id, "disable_total_by_aggregate": False}
        result = await self._post(f"/1/query_results/{dataset}", body)
        path = f"/1/query_results/{dataset}/{quote(result.id, safe='')}"
        # A query runs in the background, so ask until its result is complete.
        for _ in range(POLLS):
            query_result = await self.get(path, type=tables.QueryResult)
            if query_result.complete:
                return query_result
            await asyncio.sleep(PAUSE_S)
        raise ConnectorError(self._vendor, path, "the query is still running")

    async def _post(self, path: str, body: Mapping[str, Any]) -> _Created:
        response = await self._client.post(
            self._base_url + path,
            content=msgspec.json.encode(body),
            headers={"Content-Type": "application/json"},
            extensions={CALL: path},
        )
        return self._decoded(path, self._accepted(path, response), _Created)


class QueryHttp(VendorHttp[QuerySession]):
    """The API of one environment."""

    session = QuerySession

    def _allowed(self, request: httpx.Request) -> None:
        """Look at what is about to be sent, whoever built it."""
        if request.method == "GET":
            return
        refused = ConnectorError(self.vendor, request.method, "a connector sends queries only")
        target = _POST.fullmatch(str(request.url).removeprefix(self.base_url))
        if request.method != "POST" or target is None:
            raise refused
        allowed_keys = QUERY_KEYS if target[1] == "queries" else RESULT_KEYS
        try:
            body = msgspec.json.decode(request.content, type=dict[str, Any])
        except (msgspec.DecodeError, httpx.RequestNotRead, RecursionError) as error:
            raise refused from error
        if not allowed_keys.issuperset(body):
            raise refused


class HoneycombConnector:
    """Golden signals of each service in scope, whose dataset bears its name, and markers."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("metrics", "changes")
    follows = ("service",)

    def __init__(
        self,
        url: str,
        key: str,
        *,
        names: ServiceNames,
        run_queries: bool = True,
        deploy_types: Sequence[str] = ("deploy",),
        limits: Limits = LIMITS,
    ) -> None:
        headers = {"X-Honeycomb-Team": key}
        self._http = QueryHttp(VENDOR, url, headers=headers, limits=limits)
        self._names = names
        self._runs_queries = run_queries
        self._deploy_types = frozenset(deploy_type.casefold() for deploy_type in deploy_types)
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Markers and series. A call that fails becomes a gap, the others stand."""
        services, more = in_scope(request, MOST_SERVICES)
        async with self._http.open() as session:
            asking = _Asking(session, self._names, self._deploy_types, request)
            missing = asking.collection.missing
            if more:
                reason = f"{more} more services were not asked about"
                missing.append(Missing("metrics", "services in scope", reason))
            datasets = await asking.collection.fetch("metrics", "datasets", asking.datasets())
            of_service = {
                service: asking.dataset_of(service, datasets or ()) for service in services
            }
            # Markers of the whole environment belong to no service.
            calls = [asking.markers(None, EVERYWHERE)]
            for service, dataset in of_service.items():
                if dataset is not None:
                    calls.append(asking.markers(service, dataset))
                    if self._runs_queries:
                        calls.append(asking.golden(service, dataset))
                # Without the list of datasets, nothing says that one is missing.
                elif datasets is not None:
                    reason = "no dataset bears its name; see aliases in the service catalogue"
                    missing.append(Missing("metrics", service, reason, unknown=True))
            await asyncio.gather(*calls)
        return asking.collection.collected()

    async def check(self) -> Check:
        """Which environment is it, and may the key do more than read?"""
        try:
            async with self._http.open() as session:
                auth = await session.get("/1/auth", type=tables.KeyAnswer)
                datasets = await session.get("/1/datasets", type=list[tables.Dataset])
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        where = f"{auth.team.slug}/{auth.environment.slug}".strip("/")
        line = f"Honeycomb {short(where, 80)} at {self._http.base_url}: {len(datasets)} datasets "
        line += "can be read; only queries are sent"
        able = sorted(name for name, may in auth.api_key_access.items() if may is True)
        if self._runs_queries and "queries" not in able:
            line += "; series need the permission to run queries, or set run_queries = false"
        # Running queries takes a permission as well, which lets nobody write data.
        writing = [name for name in able if name not in ("queries",)]
        if writing:
            line += f"; warning: the key can also write ({short(', '.join(writing), 100)})"
        return Check(self.name, True, line)


@dataclass
class _Asking:
    """One collection: what was asked, and what came."""

    session: QuerySession
    names: ServiceNames
    deploy_types: frozenset[str]
    request: Request
    collection: CollectionBuilder = field(default_factory=CollectionBuilder)

    async def datasets(self) -> list[tables.Dataset]:
        """Those of the environment."""
        return await self.session.get("/1/datasets", type=list[tables.Dataset])

    def dataset_of(self, service: str, datasets: Sequence[tables.Dataset]) -> str | None:
        """The slug of a service's dataset, made fit for an address."""
        for dataset in datasets:
            if self.names.matches(service, (dataset.name, dataset.slug)):
                return quote(dataset.slug, safe="")
        return None

    async def markers(self, service: str | None, dataset: str) -> None:
        """Markers of a dataset, or of the environment."""
        path = f"/1/markers/{dataset}"
        call = self.session.get(path, type=list[tables.Marker])
        markers = await self.collection.fetch("changes", f"GET {path}", call)
        if markers is None:
            return
        scope = self.request.scope
        window = Window(start=scope.incident.start - LOOKBACK, end=scope.incident.end)
        rows = tables.marker_rows(markers, service, window, self.deploy_types)
        if rows:
            self.collection.add("changes", rows)
            item = Item("changes", f"GET {path}", window, rows=len(rows))
            self.collection.items.append(item.holding(rows))

    async def golden(self, service: str, dataset: str) -> None:
        """Rate, errors and latency of the spans that a service serves."""
        window = full_window(self.request.scope)
        grid = CountGrid.of(window)
        if not grid.steps:
            return
        query = tables.golden_query(grid)
        phrase = f"{dataset}: {msgspec.json.encode(query).decode()}"
        query_result = await self.collection.fetch(
            "metrics", phrase, self.session.run(dataset, query)
        )
        if query_result is None:
            return
        rows = tables.golden_rows(query_result, service, grid)
        if rows:
            self.collection.add("metrics", rows)
            item = Item("metrics", phrase, window, query_result.link, rows=len(rows))
            self.collection.items.append(item.holding(rows))
