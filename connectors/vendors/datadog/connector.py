"""Datadog: metrics, logs, spans and traces, monitors and their history, events, errors, deployments
and the catalogue.

What is asked follows the alert: the monitor that fired and its own query first, then the services
in scope.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from faultline.analysis.alert_signal.conditions import AlertCondition
from faultline.analysis.alert_signal.datadog import read_datadog_query
from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Link, Scope, Window
from faultline.connectors.shared.contract.abilities import BoundedQuery
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.vendors.datadog import (
    DatadogSettings,
    changes,
    logs,
    metrics,
    monitors,
    spans,
)
from faultline.connectors.vendors.datadog import check as datadog_check
from faultline.connectors.vendors.datadog import gpus as datadog_gpus
from faultline.connectors.vendors.datadog.bounded_answers import answer_of
from faultline.connectors.vendors.datadog.calls import VALIDATE
from faultline.connectors.vendors.datadog.inquiry import (
    DatadogEvidence,
    DatadogInquiry,
    DatadogNames,
    DatadogPart,
)
from faultline.connectors.vendors.datadog.links import APP_HOSTS, AppLinks
from faultline.connectors.vendors.datadog.monitor_queries import (
    CompositeMonitor,
    MetricMonitor,
    SearchMonitor,
    read_monitor,
)
from faultline.connectors.vendors.datadog.session import (
    VENDOR,
    DatadogAccess,
    DatadogSession,
    threads,
)
from faultline.connectors.vendors.datadog.topology import called_by, topology
from faultline.connectors.vendors.datadog.values import text

T = TypeVar("T")

LIMITS = Limits(deadline_s=30.0, requests_per_s=8, concurrency=6)
"""Datadog's limits go by endpoint and are honoured as its headers say; this keeps one investigation
from taking all."""
ENRICH_S = 4.0
MOST_GOLDEN = 4
"""Services whose golden signals are asked: the alert's own, and what it calls."""
MOST_TRACED = 2
"""Services whose spans are asked; each takes four of the 300 searches an hour."""
MOST_COMPOSED = 3
_IDENTITY = frozenset({"fingerprint", "incident_key"})
"""Labels that decide which investigation an alert belongs to; what Datadog adds later must not
change that."""
_NOTHING = "the alert names no Datadog monitor, and no service and no training job is in scope"

_NO_FILES = Path()
_Alerting = tuple[MetricMonitor | SearchMonitor | None, ...]


def build(datadog_settings: DatadogSettings, settings: SharedSettings) -> DatadogConnector | None:
    """The configured connector, or None without both keys."""
    if datadog_settings.api_key is None or datadog_settings.app_key is None:
        return None
    datadog_services_by_name = {}
    for name, entry in settings.services.items():
        if entry.datadog_service:
            datadog_services_by_name[name] = entry.datadog_service
    return DatadogConnector(
        datadog_settings.api_key.get_secret_value(),
        datadog_settings.app_key.get_secret_value(),
        site=datadog_settings.site,
        api_url=datadog_settings.api_url,
        app_host=datadog_settings.app_host,
        env=datadog_settings.env,
        services=datadog_services_by_name,
        limits=datadog_settings.limits(LIMITS),
    )


class DatadogConnector:
    """One organisation. `services`: Datadog's name by our name, where they differ."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = (
        "metrics",
        "logs",
        "spans",
        "changes",
        "topology",
        "monitors",
    )
    follows = ("service",)
    query_language = "metrics (avg:name{tag:value} by {tag}), or a search for logs"
    query_kinds: tuple[EvidenceKind, ...] = ("metrics", "logs")

    def __init__(
        self,
        api_key: str,
        app_key: str,
        *,
        site: str = "datadoghq.com",
        api_url: str | None = None,
        app_host: str | None = None,
        env: str | None = None,
        services: Mapping[str, str] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._access = DatadogAccess(api_url or f"https://api.{site}", api_key, app_key, limits)
        self._links = AppLinks(app_host or APP_HOSTS.get(site, f"app.{site}"))
        self._env = env
        self._names = DatadogNames(dict(services or {}))
        self._threads = threads(limits)
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Everything around the alert. A call that fails is a gap, the others stand."""
        with _opened(self._access, Deadline.within(self.limits)) as session:
            monitor_id = monitors.monitor_of(request.alert)
            inquiry = self._inquiry(session, request)
            if monitor_id is None and not inquiry.services and request.scope.job is None:
                return Collected(missing=(Missing("metrics", "monitor and services", _NOTHING),))
            relations = DatadogPart(
                "topology", "relations of the catalogue", partial(topology, inquiry)
            )
            # First the monitor and the catalogue: what they name decides what is asked next.
            (alerting, evidence), around = await asyncio.gather(
                self._alerting(inquiry, monitor_id),
                inquiry.gathered([relations] if inquiry.services else ()),
            )
            if inquiry.services:
                inquiry = replace(inquiry, called=called_by(around, inquiry.services[0]))
            rest = await inquiry.gathered(self._parts(inquiry, monitor_id, alerting))
            evidence = DatadogEvidence.of([evidence, around, rest])
        return Collected(evidence.tables(), tuple(evidence.items), tuple(evidence.missing))

    async def answer(self, query: BoundedQuery) -> Collected:
        """The series, or the lines, of one query. Raises FaultlineError."""
        alert = Alert(source=VENDOR, title="query", started_at=query.window.start)
        request = Request(alert, Scope(incident=query.window), _NO_FILES)
        with _opened(self._access, Deadline.within(self.limits)) as session:
            return await answer_of(self._inquiry(session, request), query)

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert's query is a monitor's."""
        return alert.query is not None and alert.query.language == "datadog"

    async def evaluate(self, request: Request) -> Collected:
        """What the monitor's expression gives against its threshold, now and over two weeks. Raises
        FaultlineError."""
        query = request.alert.query
        reading = read_datadog_query(query.text) if query is not None else None
        monitor = read_monitor(query.text, "query alert") if query is not None else None
        if query is None or reading is None or not isinstance(monitor, MetricMonitor):
            raise ConnectorError(VENDOR, "query", "the monitor compares no metric with a number")
        threshold = reading.threshold if query.threshold is None else query.threshold
        comparison = query.comparison or reading.comparison
        if threshold is None or comparison is None:
            raise ConnectorError(VENDOR, "query", "the monitor compares no metric with a number")
        condition = AlertCondition(
            query.text, monitor.expression, comparison, threshold, decides=True
        )
        with _opened(self._access, Deadline.within(self.limits)) as session:
            inquiry = self._inquiry(session, request)
            return await metrics.monitor_evaluation(inquiry, query, monitor, condition)

    async def enrich(self, alert: Alert) -> Alert:
        """The alert with the tags of its monitor as labels. Raises ConnectorError."""
        monitor_id = monitors.monitor_of(alert)
        if monitor_id is None:
            return alert
        window = Window(start=alert.started_at, end=alert.started_at)
        with _opened(self._access, Deadline.after(ENRICH_S)) as session:
            inquiry = self._inquiry(session, Request(alert, Scope(incident=window), _NO_FILES))
            try:
                monitor = await monitors.read_monitor_of(inquiry, monitor_id)
            except BudgetExceeded as error:
                raise ConnectorError(VENDOR, "enrich", str(error), retryable=True) from error
        page = self._links.monitor(monitor_id, window)
        new = {
            name: value
            for name, value in monitors.tags_of(monitor).items()
            if name not in _IDENTITY
        }
        links = alert.links
        if not any("/monitors/" in link.url for link in links):
            links = (*links, Link(title="Datadog monitor", url=page))
        service = alert.service or self._names.ours(new.get("service"))
        # The alert's labels win over what Datadog adds.
        return alert.model_copy(
            update={"labels": {**new, **alert.labels}, "links": links, "service": service}
        )

    async def check(self) -> Check:
        """What can these keys read, and could they write?"""
        with _opened(self._access, Deadline.within(self.limits)) as session:
            try:
                await self._in_thread(lambda: session.ask(VALIDATE, dict[str, Any]))
                refusals = await datadog_check.readable(session, self._in_thread)
                write = await datadog_check.writing(
                    session, self._in_thread, self._access.application_key
                )
            except FaultlineError as error:
                return Check(self.name, False, str(error))
        parts = ReadableParts(refusals, datadog_check.PERMISSIONS)
        line = f"Datadog at {self._access.url}: {parts.words}; {write}; only reading calls are sent"
        return Check(self.name, "metrics" in parts.readable, line, parts.unread)

    def _inquiry(self, session: DatadogSession, request: Request) -> DatadogInquiry:
        env = request.alert.labels.get("env") or self._env
        return DatadogInquiry(request, session, self._links, self._names, env, self._threads)

    async def _alerting(
        self, inquiry: DatadogInquiry, monitor_id: int | None
    ) -> tuple[_Alerting, DatadogEvidence]:
        """What the monitor that fired measures; from the alert's own labels where the monitor
        cannot be read."""
        # In another vendor's alert these labels may mean something else.
        labels = inquiry.request.alert.labels if inquiry.request.alert.source == VENDOR else {}
        query = labels.get("query", "")
        kind = labels.get("monitor_type", "")
        evidence = DatadogEvidence()
        if monitor_id is not None:
            try:
                monitor = await monitors.read_monitor_of(inquiry, monitor_id)
            except FaultlineError as error:
                if isinstance(error, ConnectorError) and error.status == 401:
                    raise
                evidence.missing.append(Missing("monitors", f"monitor {monitor_id}", str(error)))
            else:
                evidence = monitors.of_monitor(inquiry, monitor_id, monitor)
                query, kind = text(monitor.get("query"), 4000), text(monitor.get("type"))
        measures = read_monitor(query, kind) if query else None
        if isinstance(measures, CompositeMonitor):
            return await self._composed(inquiry, measures, evidence)
        return (measures,), evidence

    async def _composed(
        self, inquiry: DatadogInquiry, composite: CompositeMonitor, evidence: DatadogEvidence
    ) -> tuple[_Alerting, DatadogEvidence]:
        """What the monitors measure that a composite one is made of."""
        parts: list[MetricMonitor | SearchMonitor | None] = []
        for monitor_id in composite.monitors[:MOST_COMPOSED]:
            try:
                monitor = await monitors.read_monitor_of(inquiry, monitor_id)
            except FaultlineError as error:
                evidence.missing.append(Missing("monitors", f"monitor {monitor_id}", str(error)))
                continue
            evidence = DatadogEvidence.of(
                [evidence, monitors.of_monitor(inquiry, monitor_id, monitor)]
            )
            measures = read_monitor(text(monitor.get("query"), 4000), text(monitor.get("type")))
            parts.append(None if isinstance(measures, CompositeMonitor) else measures)
        return tuple(parts), evidence

    def _parts(
        self, inquiry: DatadogInquiry, monitor_id: int | None, alerting: _Alerting
    ) -> list[DatadogPart]:
        """All questions, in the order in which they take their turns: the most telling first."""
        parts = [*_alerting_metrics(inquiry, alerting)]
        for added in inquiry.request.scope.queries_of(self.name):
            question = partial(metrics.added, inquiry, added)
            parts.append(DatadogPart("metrics", added.query, question))
        parts += _golden_signals(inquiry)
        history = partial(monitors.history, inquiry, monitor_id)
        in_logs = partial(logs.logs, inquiry, _search_in("logs", alerting))
        parts += [
            DatadogPart("metrics", "dcgm.*", partial(datadog_gpus.gpus, inquiry)),
            DatadogPart("monitors", "state changes", history),
            DatadogPart("logs", "logs", in_logs),
        ]
        if not inquiry.services:
            return parts
        watching = partial(monitors.of_services, inquiry, monitor_id)
        parts += [
            DatadogPart("changes", "DORA deployments", partial(changes.deployments, inquiry)),
            DatadogPart("changes", "events", partial(changes.events, inquiry)),
            DatadogPart("changes", "CI pipelines", partial(changes.pipelines, inquiry)),
            DatadogPart("logs", "counts of logs", partial(logs.counts, inquiry)),
            DatadogPart("monitors", "monitors of the services", watching),
        ]
        alerting_spans = _search_in("spans", alerting)
        for service in inquiry.services[:MOST_TRACED]:
            question = partial(spans.spans, inquiry, service, alerting_spans)
            parts.append(DatadogPart("spans", f"spans of {service}", question))
            # The monitor's own search is asked once, with the first service.
            alerting_spans = None
        for track in ("trace", "logs"):
            question = partial(logs.issues, inquiry, track)
            parts.append(DatadogPart("logs", f"error tracking, {track}", question))
        return parts

    async def _in_thread(self, call: Callable[[], T]) -> T:
        # A thread does not inherit the context, which names the instance that asks.
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, copy_context().run, call
        )


def _alerting_metrics(inquiry: DatadogInquiry, alerting: _Alerting) -> Iterator[DatadogPart]:
    """What the monitors that fired measure: metrics first, then searches."""
    for monitor in alerting:
        if isinstance(monitor, MetricMonitor):
            question = partial(metrics.monitored, inquiry, monitor)
            yield DatadogPart("metrics", monitor.expression, question)
    for monitor in alerting:
        if isinstance(monitor, SearchMonitor):
            yield DatadogPart(
                "metrics", monitor.search, partial(metrics.searched, inquiry, monitor)
            )


def _golden_signals(inquiry: DatadogInquiry) -> Iterator[DatadogPart]:
    for place, service in enumerate(inquiry.services[:MOST_GOLDEN]):
        split = place < metrics.MOST_SPLIT_SERVICES
        question = partial(metrics.golden, inquiry, service, split=split)
        yield DatadogPart("metrics", f"golden signals of {service}", question)


def _search_in(source: str, alerting: _Alerting) -> str | None:
    """The search of the first monitor that fired and watches logs, or spans."""
    for monitor in alerting:
        if isinstance(monitor, SearchMonitor) and monitor.source == source:
            return monitor.search
    return None


@contextmanager
def _opened(access: DatadogAccess, deadline: Deadline) -> Iterator[DatadogSession]:
    session = access.session(deadline)
    try:
        yield session
    finally:
        session.close()
