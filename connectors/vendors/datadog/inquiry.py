"""What one collection from Datadog is about, how it asks, and what it has found so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import polars as pl

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.contract.base import Item, Missing, Request
from faultline.connectors.shared.rows.collection_builder import nanoseconds
from faultline.connectors.shared.rows.log_windows import merged
from faultline.connectors.vendors.datadog.calls import Call
from faultline.connectors.vendors.datadog.links import AppLinks
from faultline.connectors.vendors.datadog.session import DatadogSession
from faultline.connectors.vendors.datadog.values import any_of, quoted

T = TypeVar("T")

MOST_SERVICES = 8
"""Services of the scope that are asked about."""
TIMES = ("time", "start", "since", "last_seen")
SKEW = timedelta(minutes=1)
"""Asked beyond the window's end: clocks differ, and the latest lines count."""


@dataclass(frozen=True)
class DatadogNames:
    """Services by our name, with what Datadog calls them."""

    theirs: Mapping[str, str]

    def of(self, service: str) -> str:
        """Datadog's name; Datadog has service tags in lower case."""
        return self.theirs.get(service, service.lower())

    def ours(self, service: str | None) -> str | None:
        """Our name for a service of Datadog's; its own where the catalogue has none."""
        if not service:
            return None
        for ours, theirs in self.theirs.items():
            if theirs.lower() == service.lower():
                return ours
        return service


@dataclass
class DatadogEvidence:
    """What calls brought: tables in parts, items, and what is missing."""

    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    parts: list[tuple[str, pl.DataFrame]] = field(default_factory=list)

    def add(self, name: str, rows: Sequence[tuple[Any, ...]]) -> int:
        """Rows of a table in its canonical order of columns; times are ns since 1970 or aware
        datetimes."""
        schema = dict(SCHEMAS[name].columns)
        times = [column for column in TIMES if column in schema]
        # Whole numbers reach ns exactly; polars rounds what it takes from a datetime.
        raw: dict[str, pl.DataType] = {**schema, **{column: pl.Int64() for column in times}}
        table = pl.DataFrame([_in_ns(row) for row in rows], schema=raw, orient="row")
        cast = table.with_columns(pl.col(column).cast(schema[column]) for column in times)
        self.parts.append((name, cast))
        return len(rows)

    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables, without rows that came twice: of one span the last that came, which is a
        whole trace's."""
        parts: dict[str, list[pl.DataFrame]] = {}
        for name, part in self.parts:
            parts.setdefault(name, []).append(part)
        tables = {}
        for name, frames in parts.items():
            key = ["trace_id", "span_id"] if name == "spans" else None
            tables[name] = pl.concat(frames).unique(key, keep="last", maintain_order=True)
        return tables

    @classmethod
    def of(cls, parts: Iterable[DatadogEvidence]) -> DatadogEvidence:
        """All in one."""
        whole = cls()
        for part in parts:
            whole.items += part.items
            whole.missing += part.missing
            whole.parts += part.parts
        return whole


def _in_ns(row: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(nanoseconds(value) if isinstance(value, datetime) else value for value in row)


@dataclass(frozen=True)
class DatadogPart:
    """One question of several: what becomes a gap when it fails, and how it is asked."""

    kind: EvidenceKind
    query: str
    question: Callable[[], Awaitable[DatadogEvidence]]


@dataclass(frozen=True)
class DatadogInquiry:
    """One collection: the request, the session, and the names and windows everything is asked
    with."""

    request: Request
    session: DatadogSession
    links: AppLinks
    names: DatadogNames
    env: str | None
    threads: ThreadPoolExecutor
    called: tuple[str, ...] = ()
    """Services that the first one calls, as Datadog knows."""

    async def ask(self, call: Call, type: type[T], **params: Any) -> T:
        """One call, in a thread. Raises ConnectorError, BudgetExceeded."""
        loop = asyncio.get_running_loop()
        ask = partial(self.session.ask, call, type, **params)
        # A thread does not inherit the context, which names the instance that asks.
        return await loop.run_in_executor(self.threads, copy_context().run, ask)

    @property
    def services(self) -> tuple[str, ...]:
        """Our names of the services asked about: the alert's own first, then the scope's, then
        those it calls."""
        alerting = self.request.alert.service
        in_scope = self.request.scope.services
        # A scope that names services decides, also against the alert's service.
        first = (alerting,) if alerting and (alerting in in_scope or not in_scope) else ()
        return tuple(dict.fromkeys((*first, *in_scope, *self.called)))[:MOST_SERVICES]

    @property
    def their_services(self) -> list[str]:
        """The same as Datadog calls them."""
        return [self.names.of(service) for service in self.services]

    @property
    def search(self) -> str:
        """A search for the services in scope, in their environment."""
        services = any_of("service", self.their_services)
        return f"{services} {self.in_env}" if self.in_env else services

    @property
    def in_env(self) -> str:
        """The search for the environment alone; empty where none is known."""
        return f"env:{quoted(self.env)}" if self.env else ""

    @property
    def incident(self) -> Window:
        """The incident, and the minute by which clocks may differ."""
        window = self.request.scope.incident
        return Window(start=window.start, end=window.end + SKEW)

    @property
    def baselines(self) -> tuple[Window, ...]:
        """The baseline's windows."""
        return self.request.scope.baseline

    @property
    def spans_of_time(self) -> tuple[Window, ...]:
        """Baseline and incident, those joined that touch."""
        return merged((*self.baselines, self.incident))

    @property
    def whole(self) -> Window:
        """From the earliest moment asked about to the latest."""
        spans = self.spans_of_time
        return Window(start=spans[0].start, end=spans[-1].end)

    @property
    def around(self) -> Window:
        """When changes and traces matter: `whole` without the same hours of earlier days."""
        start = min(self.request.scope.events_from, self.incident.start)
        return Window(start=start, end=self.incident.end)

    async def gathered(self, parts: Iterable[DatadogPart]) -> DatadogEvidence:
        """Several questions side by side; one that fails is a gap of its kind under its name.

        Raises ConnectorError when the keys themselves are not accepted.
        """

        async def part_evidence(part: DatadogPart) -> DatadogEvidence:
            try:
                return await part.question()
            except FaultlineError as error:
                # Keys that are not accepted fail every question alike: one error says it.
                if isinstance(error, ConnectorError) and error.status == 401:
                    raise
                return DatadogEvidence(missing=[Missing(part.kind, part.query, str(error))])

        return DatadogEvidence.of(await asyncio.gather(*(part_evidence(part) for part in parts)))
