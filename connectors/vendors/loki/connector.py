"""Loki: lines of the services in scope, errors first, and how many were logged, over the HTTP API's
range queries.

Both windows are asked the same questions, so that what differs is the system. Speaks to Loki 2.4
and later.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

import msgspec

from faultline.analysis.alert_signal.conditions import is_complete
from faultline.analysis.case.alert_place import bounds_of
from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    evaluated,
    matrix_series,
)
from faultline.connectors.shared.queries.query_bounds import check_query
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    full_window,
    nanoseconds,
)
from faultline.connectors.shared.rows.log_windows import (
    BAD_WORDS,
    ERROR_LINES,
    FAILING,
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
from faultline.connectors.vendors.grafana import GrafanaSettings
from faultline.connectors.vendors.grafana.links import Explore
from faultline.connectors.vendors.loki import LokiSettings
from faultline.connectors.vendors.loki.answers import (
    CATEGORIZED,
    CountsAnswer,
    LokiLinesAnswer,
    LokiNamesAnswer,
    count_rows,
    line_rows,
    range_of,
    tells_level,
)
from faultline.connectors.vendors.loki.bounded_answers import LokiAnswer, answer_of
from faultline.connectors.vendors.prometheus.promql import names_pattern, quoted

LIMITS = Limits(deadline_s=30, max_bytes=64 * 1024 * 1024, requests_per_s=15, concurrency=5)
CALL = "/loki/api/v1/query_range"
MOST_SERVICES = 5
ERRORS = 1000
"""Error lines of one service asked for at once; Loki's own limit is 5,000
(max_entries_limit_per_query)."""
SAMPLE = 300
"""Lines of any level of one service."""
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")


def _selector(label: str, named: Sequence[str], bound: str) -> str:
    match = f'="{quoted(named[0])}"' if len(named) == 1 else f'=~"{names_pattern(named)}"'
    return f"{{{label}{match},{bound}}}" if bound else f"{{{label}{match}}}"


def build(loki_settings: LokiSettings, settings: SharedSettings) -> LokiConnector | None:
    """The configured connector, or None without a URL."""
    if loki_settings.url is None:
        return None
    grafana = settings.section(GrafanaSettings)
    return LokiConnector(
        loki_settings.url,
        access_of(loki_settings, "loki"),
        service_labels=loki_settings.service_labels,
        names=ServiceNames.of_catalogue(settings.services),
        explore=Explore(grafana.public_url or grafana.url, "loki", loki_settings.grafana_source),
        limits=loki_settings.limits(LIMITS),
    )


@dataclass(frozen=True)
class _Stream:
    """Where a service's lines are: the selector, and what picks its errors."""

    service: str
    selector: str
    errors: str = ""


class LokiConnector:
    """Lines of each service in scope and their counts. `service_labels`: labels that may name a
    service, in order."""

    name = "loki"
    kinds: tuple[EvidenceKind, ...] = ("logs", "metrics")
    follows = ("service",)
    query_language = "LogQL"
    query_kinds: tuple[EvidenceKind, ...] = ("logs", "metrics")

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        service_labels: Sequence[str] = ("service_name", "app", "job"),
        names: ServiceNames | None = None,
        explore: Explore | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(self.name, url, headers=CATEGORIZED, access=access, limits=limits)
        self._labels = tuple(service_labels)
        self._names = names or ServiceNames()
        self._explore = explore or Explore(None, "loki", "")
        self.limits = limits
        for label in self._labels:
            # A label becomes part of queries and paths.
            if not _LABEL.fullmatch(label):
                raise SettingsError(
                    "loki.service_labels", f"{label[:80]!r} is not the name of a label"
                )

    async def collect(self, request: Request) -> Collected:
        """Counts and lines of all windows. A call that fails becomes a gap, the others stand."""
        collection = CollectionBuilder()
        services, more = in_scope(request, MOST_SERVICES)
        windows = log_windows(request.scope)
        async with self._http.open() as session:
            span = full_window(request.scope)
            streams = await self._streams(session, services, request.alert, span)
            await asyncio.gather(
                *(self._of_service(session, collection, stream, windows) for stream in streams)
            )
            if (words := request.scope.log_words) is not None:
                phrase = f'|~ "(?i)({names_pattern(words.words)})"'
                searches = [
                    (stream, w, f"{stream.selector} {phrase}")
                    for stream in streams
                    for w in windows
                ]
                lines = (
                    self._lines(session, collection, stream, text, SAMPLE, w, words.by)
                    for stream, w, text in searches
                )
                await asyncio.gather(*lines)
        stream_services = {stream.service for stream in streams}
        labels = ", ".join(self._labels)
        unknown = (
            f"no stream names it in {labels}: see loki.service_labels, and aliases in the catalogue"
        )
        for service in services:
            if service not in stream_services:
                collection.missing.append(Missing("logs", service, unknown, unknown=True))
        collection.unasked("logs", bool(services), more)
        return collection.collected()

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert's query is in LogQL, and says when it is true."""
        query = alert.query
        return query is not None and query.language == "logql" and is_complete(query, alert.links)

    async def evaluate(self, request: Request) -> Collected:
        """What the alert's own query counts, now and over two weeks. Raises FaultlineError."""
        query = request.alert.query
        if query is None:
            return Collected()
        async with self._http.open() as session:

            async def ask(text: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
                params = [("query", text), *_between(at.window), ("step", f"{at.step_s}s")]
                answer = await session.get(CALL, params, type=CountsAnswer)
                return matrix_series(answer.data.result)

            link = self._link(query.text, request.scope.incident)
            return await evaluated(query, request.scope, ask, link=link)

    async def answer(self, query: BoundedQuery) -> Collected:
        """The lines, or the counts, of one query. Raises FaultlineError."""
        check_query(self.query_language, self.name, query.text)
        params = [("query", query.text)]
        # A query for lines begins with its selector. Any other query counts.
        if query.text.lstrip().startswith("{"):
            params += [("limit", str(query.rows)), ("direction", "forward")]
            params += _between(query.window)
        else:
            # A count is of the step that ends at its moment, so moments are whole seconds.
            first, last = query.window.start.timestamp(), query.window.end.timestamp()
            step_s = max(1, math.ceil(query.window.seconds / query.points))
            params += [("start", str(math.ceil(first))), ("end", str(math.floor(last)))]
            params.append(("step", f"{step_s}s"))
        async with self._http.open() as session:
            answer = await session.get(CALL, params, type=LokiAnswer)
        link = self._link(query.text, query.window)
        return await asyncio.to_thread(answer_of, answer, query, self._labels, link)

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """Values of the labels that may name a service. Of a job as `namespace/service` the
        service."""
        between = _between(window)
        service_names: dict[str, None] = {}
        async with self._http.open() as session:
            labels = await session.get("/loki/api/v1/labels", between, type=LokiNamesAnswer)
            for label in (label for label in self._labels if label in (labels.data or ())):
                path = f"/loki/api/v1/label/{label}/values"
                answer = await session.get(path, between, type=LokiNamesAnswer)
                tails = (value.rpartition("/")[2] for value in answer.data or [])
                service_names |= dict.fromkeys(self._names.ours(tail) for tail in tails)
        return tuple(service_names)

    async def check(self) -> Check:
        """Reachable and allowed? Loki itself has no permissions, so what others may do is the
        gateway's matter."""
        try:
            async with self._http.open() as session:
                labels = (await session.get("/loki/api/v1/labels", type=LokiNamesAnswer)).data or []
                version = await _version(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        named = [label for label in self._labels if label in labels]
        line = (
            f"Loki{version} at {self._http.base_url}: {len(labels)} "
            "labels can be read; only GET is sent"
        )
        if not named:
            line += f"; none of {', '.join(self._labels)} is among them: set loki.service_labels"
        return Check(
            self.name,
            # Without a label that names services, no line can be found.
            bool(named),
            f"{line}; Loki cannot tell whether these credentials may also send lines",
        )

    async def _streams(
        self,
        session: HttpSession,
        services: Sequence[str],
        alert: Alert,
        window: Window,
    ) -> list[_Stream]:
        """The services that some label names: in the alert's place, and those that have nothing
        there wherever they are. Raises where nothing can be asked."""
        between = _between(window)
        there = (await session.get("/loki/api/v1/labels", between, type=LokiNamesAnswer)).data or []
        streams: dict[str, _Stream] = {}
        for place in bounds_of(alert, there):
            bound = ",".join(f'{label}="{quoted(value)}"' for label, value in place.items())
            for label in (label for label in self._labels if label in there):
                if len(streams) == len(services):
                    break
                params = [*between, ("query", f"{{{bound}}}")] if bound else between
                path = f"/loki/api/v1/label/{label}/values"
                answer = await session.get(path, params, type=LokiNamesAnswer)
                for service in services:
                    named = self._values(service, answer.data or [])
                    if named and service not in streams:
                        streams[service] = _Stream(service, _selector(label, named, bound))
        return list(streams.values())

    def _values(self, service: str, label_values: Sequence[str]) -> list[str]:
        """Values that name the service; a job may be `namespace/service` (Grafana Alloy's discovery
        of pods)."""
        exact = self._names.matches(service, label_values)
        tails = {value.rpartition("/")[2]: value for value in label_values}
        return list(exact or (tails[name] for name in self._names.matches(service, tails)))[:10]

    async def _of_service(
        self,
        session: HttpSession,
        collection: CollectionBuilder,
        stream: _Stream,
        windows: Sequence[Window],
    ) -> None:
        levels = await asyncio.gather(
            *(self._counts(session, collection, stream, window) for window in windows)
        )
        # Without levels, only words mark a line as an error.
        errors = _by_level() if any(levels) else f'|~ "(?i)({"|".join(BAD_WORDS)})"'
        for query, limit in ((f"{stream.selector} {errors}", ERRORS), (stream.selector, SAMPLE)):
            await asyncio.gather(
                *(self._lines(session, collection, stream, query, limit, w) for w in windows)
            )

    async def _counts(
        self, session: HttpSession, collection: CollectionBuilder, stream: _Stream, window: Window
    ) -> bool:
        """Lines per minute as metrics. Says whether Loki knows the lines' levels."""
        grid = CountGrid.of(window)
        # A window shorter than a step has nothing to count.
        if not grid.steps:
            return False
        query = (
            f"sum by (detected_level, level) (count_over_time({stream.selector}[{grid.step_s}s]))"
        )
        call = session.get(CALL, [("query", query), *range_of(grid)], type=CountsAnswer)
        answer = await collection.fetch("metrics", query, call)
        if answer is None:
            return False
        levels = any(tells_level(line_series.metric) for line_series in answer.data.result)
        rows = count_rows(answer.data.result, stream.service, grid, (LINES, ERROR_LINES))
        if not levels:  # without levels nothing is said of errors
            rows = [row for row in rows if row[2] == LINES]
        link = self._link(query, window)
        count = collection.add("metrics", rows)
        collection.items.append(Item("metrics", query, window, link, rows=count).holding(rows))
        return levels

    async def _lines(
        self,
        session: HttpSession,
        collection: CollectionBuilder,
        stream: _Stream,
        query: str,
        limit: int,
        window: Window,
        by: str | None = None,
    ) -> None:
        """The first lines of a window and, where there are more, some of each part of the rest."""

        async def page(part: Window, count: int) -> LinePage | None:
            return await collection.fetch("logs", query, _page(session, query, count, part))

        lines = await lines_of_window(page, window, limit)
        if lines is None:
            return
        rows = [(at, stream.service, *rest) for at, _, *rest in lines.rows]
        link = self._link(query, window)
        collection.keep("logs", query, window, rows, link, cut=lines.cut, by=by)

    def _link(self, query: str, window: Window) -> str:
        otherwise = (
            f"{self._http.base_url}{CALL}?{urlencode([('query', query), *_between(window)])}"
        )
        return self._explore.link({"expr": query, "queryType": "range"}, window, otherwise)


async def _page(session: HttpSession, query: str, limit: int, window: Window) -> LinePage:
    """The first lines of a window, oldest first."""
    params = [("query", query), ("limit", str(limit)), ("direction", "forward"), *_between(window)]
    answer = await session.get(CALL, params, type=LokiLinesAnswer)
    return LinePage(*await asyncio.to_thread(line_rows, answer.data.result, ""))


def _by_level() -> str:
    """Picks lines by their level. A label that a line does not have is empty and matches none."""
    phrase = f"(?i)({'|'.join(sorted(FAILING))})"
    return f'| detected_level=~"{phrase}" or level=~"{phrase}"'


def _between(window: Window) -> list[tuple[str, str]]:
    return [("start", str(nanoseconds(window.start))), ("end", str(nanoseconds(window.end)))]


class _LokiBuildInfo(msgspec.Struct):
    version: str = ""


async def _version(session: HttpSession) -> str:
    try:
        version = (await session.get("/loki/api/v1/status/buildinfo", type=_LokiBuildInfo)).version
    # The version is only shown: a gateway that hides it must not fail the check.
    except ConnectorError:
        return ""
    return f" {short(version, 40)}" if version else ""
