"""One collection of a project's evidence: what each API is asked, and what came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TypeVar
from urllib.parse import quote, urlencode

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.contract.base import Item, Missing, Request
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    full_window,
    sampled_windows,
    split,
)
from faultline.connectors.shared.rows.log_windows import (
    CountGrid,
    LinePage,
    Row,
    lines_of_window,
    log_windows,
)
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.vendors.google_cloud import (
    errors,
    logs,
    metrics,
    operations,
    revisions,
    traces,
)
from faultline.connectors.vendors.google_cloud.logs import EntriesAnswer, LogEntry
from faultline.connectors.vendors.google_cloud.metrics import (
    COUNTS,
    METRICS,
    RUN,
    GoogleMetric,
    SeriesAnswer,
)
from faultline.connectors.vendors.google_cloud.revisions import RunPlace
from faultline.connectors.vendors.google_cloud.session import ApiDisabledError, GoogleSession

T = TypeVar("T")

LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the incident: one may take a day to do harm."""
MOST_TRACED = 3
ERRORS, SAMPLE = 1000, 300
"""Lines of one search, of all services together: `entries.list` has a small quota."""
MOST_PAGES = 3
"""Of one search: a page may be empty though a later one is not."""
PARTS = 3


@dataclass(frozen=True)
class GoogleProject:
    """Which project is asked, and how. `now` is the time that Error Reporting counts back from."""

    id: str
    console: str
    names: ServiceNames
    trace_label: str = "service.name"
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))

    @property
    def paths(self) -> Mapping[str, str]:
        """The path that each API is asked at."""
        project = quote(self.id, safe=":")
        return {
            "monitoring": f"/v3/projects/{project}/timeSeries",
            "cloudtrace": f"/v1/projects/{project}/traces",
            "clouderrorreporting": f"/v1beta1/projects/{project}/groupStats",
            "container": f"/v1/projects/{project}/locations/-/operations",
            "sqladmin": f"/v1/projects/{project}/operations",
        }

    def entries_body(self, text: str, size: int, order: str = "timestamp asc") -> dict[str, object]:
        """What `entries.list` takes."""
        return {
            "resourceNames": [f"projects/{self.id}"],
            "filter": text,
            "orderBy": order,
            "pageSize": size,
        }


@dataclass
class ProjectCollection:
    """One collection: the services it is about, and what came."""

    project: GoogleProject
    request: Request
    services: Sequence[str]
    collection: CollectionBuilder = field(default_factory=CollectionBuilder)
    run_places: dict[RunPlace, None] = field(default_factory=dict)
    """Where Cloud Run runs the services, as far as anything named it."""
    _audited: tuple[Item, list[Row], frozenset[str]] | None = None
    """What the audit logs tell of, and the ids of what is about Cloud Run."""
    _revised: list[Row] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names, self.console = self.project.names, self.project.console
        self.theirs = [name for service in self.services for name in self.names.theirs(service)]
        self.window = full_window(self.request.scope)

    def keep(self, item: Item, rows: Sequence[Row]) -> None:
        """The rows of an item; one that has none says nothing."""
        if rows:
            self.collection.add(item.kind, rows)
            self.collection.items.append(item.holding(rows))

    async def metrics(self, session: GoogleSession) -> None:
        """The golden signals of all services, each metric by one call."""
        await asyncio.gather(*(self._metric(session, metric) for metric in METRICS))

    async def _metric(self, session: GoogleSession, metric: GoogleMetric) -> None:
        params = metric.params(self.project.id, self.theirs, self.window)
        answer = await self._series(session, params)
        if answer is not None:
            rows = metrics.metric_rows(metric, answer.timeSeries, self.names)
            # Series also tell in which regions Cloud Run runs the services.
            for time_series in answer.timeSeries:
                self._runs(time_series.resource.type, time_series.resource.labels)
            self._keep_series(params, rows, answer)

    async def line_counts(self, session: GoogleSession) -> None:
        """Lines by severity, as Logging counts them."""
        grid = CountGrid.of(self.window)
        # Periods of Monitoring are counted from an end of the window.
        bounds = (grid.start_s, grid.start_s + grid.steps * grid.step_s)
        start, end = (datetime.fromtimestamp(at, UTC) for at in bounds)
        for metric in COUNTS if grid.steps else ():
            whole = Window(start=start, end=end)
            params = metric.params(self.project.id, self.theirs, whole, grid.step_s)
            answer = await self._series(session, params)
            if answer is not None:
                rows = metrics.line_count_rows(answer.timeSeries, grid, self.names, metric.of)
                self._keep_series(params, rows, answer)

    async def _series(
        self, session: GoogleSession, params: list[tuple[str, str]]
    ) -> SeriesAnswer | None:
        call = session.get(self.project.paths["monitoring"], params, type=SeriesAnswer)
        return await self.collection.fetch("metrics", dict(params)["filter"], call)

    def _keep_series(
        self, params: list[tuple[str, str]], rows: list[Row], answer: SeriesAnswer
    ) -> None:
        link = metrics.explorer_link(self.console, self.project.id, params, self.window)
        param_values = dict(params)
        aligned = (
            f"{param_values['aggregation.perSeriesAligner']}, "
            f"{param_values['aggregation.crossSeriesReducer']}"
        )
        query = f"{param_values['filter']} ({aligned})"
        item = Item("metrics", query, self.window, link, rows=len(rows), cut=answer.cut)
        self.keep(item, rows)

    async def lines(self, session: GoogleSession) -> None:
        """Errors and a sample of all lines, of each window, of all services together."""
        every = logs.lines_filter(self.theirs)
        line_queries: list[tuple[str, int, str | None]] = [
            (logs.errors_filter(every), ERRORS, None),
            (every, SAMPLE, None),
        ]
        if (words := self.request.scope.log_words) is not None:
            line_queries.append((logs.words_filter(every, words.words), SAMPLE, words.by))
        # One window after the other, because `entries.list` has a small quota.
        for window in log_windows(self.request.scope):
            await asyncio.gather(
                *(self._lines(session, *line_query, window) for line_query in line_queries)
            )

    async def _lines(
        self, session: GoogleSession, text: str, limit: int, by: str | None, window: Window
    ) -> None:
        async def page(part: Window, count: int) -> LinePage | None:
            call = self._entries(session, logs.within(text, part), count)
            answer = await self.collection.fetch("logs", text, call)
            if answer is None:
                return None
            entries = answer.entries
            for entry in entries:
                self._runs(entry.resource.type, entry.resource.labels)
            return await asyncio.to_thread(logs.line_page, entries, self.services, self.names)

        lines = await lines_of_window(page, window, limit)
        if lines is None:
            return
        link = logs.logs_link(self.console, self.project.id, text, window)
        details = {"asked_by": by} if by else {}
        item = Item(
            "logs", text, window, link, rows=len(lines.rows), cut=lines.cut, details=details
        )
        self.keep(item, lines.rows)

    async def _entries(
        self, session: GoogleSession, text: str, count: int, order: str = "timestamp asc"
    ) -> EntriesAnswer:
        """Entries of as many pages as it takes."""
        body = self.project.entries_body(text, count, order)
        entries_answer = EntriesAnswer()
        for _ in range(MOST_PAGES):
            answer = await session.entries(body, type=EntriesAnswer)
            entries_answer.entries += answer.entries
            body["pageToken"] = answer.nextPageToken
            if not answer.nextPageToken or len(entries_answer.entries) >= count:
                break
        entries_answer.entries = entries_answer.entries[:count]
        return entries_answer

    async def changes(self, session: GoogleSession) -> None:
        """Writes of the audit logs, the latest first."""
        window = self._since()
        text = logs.CHANGES
        log_filter = logs.within(text, window)
        call = self._entries(session, log_filter, logs.MOST_CHANGES, "timestamp desc")
        answer = await self.collection.fetch("changes", text, call)
        if answer is None:
            return
        link = logs.logs_link(self.console, self.project.id, text, window)
        rows = logs.change_rows(answer.entries, self.services, self.names, link)
        is_cut = len(answer.entries) >= logs.MOST_CHANGES
        cut = f"the latest {logs.MOST_CHANGES}; there are more" if is_cut else None
        for entry in answer.entries:
            self._runs(entry.resource.type, entry.resource.labels)
        item = Item("changes", text, window, link, rows=len(rows), cut=cut)
        self._audited = item, rows, frozenset(_ids_of_run(answer.entries))

    async def revisions(self, session: GoogleSession) -> None:
        """Revisions of Cloud Run, once it is known where the services run."""
        window = self._since()
        for place in list(self.run_places)[: revisions.MOST_PLACES]:
            name, region = place
            path = revisions.revisions_path(self.project.id, place)
            params = [("pageSize", str(revisions.MOST_REVISIONS))]
            call = session.get(path, params, type=revisions.RevisionsAnswer)
            answer = await self._if_enabled(path, call)
            if answer is None:
                continue
            service = self.names.ours(name)
            link = revisions.revisions_link(self.console, self.project.id, place)
            more = bool(answer.nextPageToken)
            run_revisions = answer.revisions
            rows = revisions.revision_rows(run_revisions, service, region, window, link, not more)
            cut = f"the latest {revisions.MOST_REVISIONS}; there are more" if more else None
            item = Item("changes", f"GET {path}", window, link, rows=len(rows), cut=cut)
            self._revised += rows
            self.keep(item, rows)

    def keep_audited(self) -> None:
        """What the audit logs tell of, without the deploys that revisions tell of."""
        if self._audited is not None:
            item, rows, of_run = self._audited
            remaining_rows = revisions.without_duplicates(rows, of_run, self._revised)
            self.keep(replace(item, rows=len(remaining_rows)), remaining_rows)

    def _runs(self, type: str, labels: Mapping[str, str]) -> None:
        name, region = labels.get(RUN.named_by, ""), labels.get("location", "")
        # Only the services asked about: others have revisions of no interest.
        if type == RUN.type and name in self.theirs and region:
            self.run_places.setdefault((name, region))

    async def cluster_operations(self, session: GoogleSession) -> None:
        """What GKE did to clusters and nodes."""
        path, window = self.project.paths["container"], self._since()
        answer = await self._if_enabled(path, session.get(path, type=operations.ClusterOperations))
        if answer is None:
            return
        link = f"{self.console}/kubernetes/list/overview?project={self.project.id}"
        rows = operations.cluster_rows(answer.operations, self.services, self.names, window, link)
        self.keep(Item("changes", f"GET {path}", window, link, rows=len(rows)), rows)

    async def database_operations(self, session: GoogleSession) -> None:
        """What Cloud SQL did to databases."""
        path, window = self.project.paths["sqladmin"], self._since()
        params = [("maxResults", str(operations.MOST_OPERATIONS))]
        call = session.get(path, params, type=operations.DatabaseOperations)
        answer = await self._if_enabled(path, call)
        if answer is None:
            return
        link = f"{self.console}/sql/instances?project={self.project.id}"
        rows = operations.database_rows(answer.items, self.services, self.names, window, link)
        self.keep(Item("changes", f"GET {path}", window, link, rows=len(rows)), rows)

    async def _if_enabled(self, query: str, call: Awaitable[T]) -> T | None:
        """The answer; None where the project does not use the API, which is no gap."""
        try:
            return await call
        except ApiDisabledError:
            return None
        except FaultlineError as error:
            self.collection.missing.append(Missing("changes", query, str(error)))
            return None

    async def spans(self, session: GoogleSession) -> None:
        """Whole traces of the services, some of each third of each window."""
        spans = []
        for service in self.services[:MOST_TRACED]:
            for window in sampled_windows(self.request.scope):
                spans.append(self._spans(session, self.names.theirs(service)[0], window))
        await asyncio.gather(*spans)

    async def _spans(self, session: GoogleSession, name: str, window: Window) -> None:
        path = self.project.paths["cloudtrace"]
        cloud_traces: list[traces.CloudTrace] = []
        query = ""
        for part in split(window, PARTS):
            params = traces.trace_params(self.project.trace_label, name, part)
            query = f"GET {path} {dict(params)['filter']}"
            call = session.get(path, params, type=traces.TracesAnswer)
            answer = await self.collection.fetch("spans", query, call)
            cloud_traces += answer.traces if answer else []
        rows, dropped = await asyncio.to_thread(
            traces.span_rows, cloud_traces, self.project.trace_label, self.names
        )
        chosen = f"up to {traces.MOST_TRACES} traces of each third of the window"
        cut = f"{chosen}; {dropped} spans left out" if dropped else chosen
        shown = urlencode({"project": self.project.id})
        link = f"{self.console}/traces/explorer?{shown}"
        self.keep(Item("spans", query, window, link, rows=len(rows), cut=cut), rows)

    async def error_groups(self, session: GoogleSession) -> None:
        """Groups of errors of each service."""
        window = self.window
        # Error Reporting counts back from now, so the incident must be recent.
        period = errors.period_of(self.request.scope.incident, self.project.now())
        if period is None:
            reason = "Error Reporting is only asked about the last day"
            self.collection.missing.append(Missing("logs", "error groups", reason))
            return
        path = self.project.paths["clouderrorreporting"]
        link = f"{self.console}/errors"
        for service in self.services:
            groups: list[errors.ErrorGroup] = []
            names = self.names.theirs(service)
            query = f"GET {path} service={' or '.join(names)} {period.name}"
            for name in names:
                params = errors.group_params(name, period)
                call = session.get(path, params, type=errors.GroupsAnswer)
                answer = await self.collection.fetch("logs", query, call)
                groups += answer.errorGroupStats if answer else []
            lines = errors.group_rows(groups, service, window, link)
            requested_urlencode = urlencode({"project": self.project.id, "service": names[0]})
            shown = f"{link}?{requested_urlencode}"
            self.keep(Item("logs", query, window, shown, rows=len(lines)), lines)
            rates = errors.rate_rows(groups, service, window, period.step_s)
            self.keep(Item("metrics", query, window, shown, rows=len(rates)), rates)

    def name_the_unknown(self) -> None:
        """A gap for each service that nothing names."""
        named_services = set()
        for table in ("metrics", "logs", "spans"):
            # The numbers are the columns that hold the service.
            place = 3 if table == "spans" else 1
            named_services |= {row[place] for row in self.collection.rows.get(table, ())}
        reason = "no metric, line or trace of the project names it; see aliases in the catalogue"
        for service in self.services:
            if service not in named_services:
                self.collection.missing.append(Missing("metrics", service, reason, unknown=True))

    def _since(self) -> Window:
        return Window(start=self.request.scope.incident.start - LOOKBACK, end=self.window.end)


def _ids_of_run(entries: Sequence[LogEntry]) -> list[str]:
    return [logs.change_id(entry) for entry in entries if entry.resource.type == RUN.type]
