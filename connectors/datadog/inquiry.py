"""What one collection from Datadog is about, how it asks, and what it has found so far."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import polars as pl

from analysis.case.tables import SCHEMAS
from analysis.errors import ConnectorError, FaultlineError
from analysis.vocabulary import EvidenceKind, Window
from connectors.base import Item, Missing, Request
from connectors.datadog.calls import Call
from connectors.datadog.links import AppLinks
from connectors.datadog.session import DatadogSession
from connectors.datadog.values import any_of, quoted
from connectors.prometheus.connector import merged

T = TypeVar("T")

MOST_SERVICES = 8
"""Services of the scope that are asked about."""
SKEW = timedelta(minutes=1)
"""So much is asked after the window's end: clocks differ, and the latest lines count."""


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
        return next(
            (ours for ours, theirs in self.theirs.items() if theirs.lower() == service.lower()),
            service,
        )


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
        times = [c for c in ("time", "start", "since") if c in schema]
        raw: dict[str, pl.DataType] = {**schema, **{c: pl.Int64() for c in times}}
        ready = [tuple(_as_ns(v) if isinstance(v, datetime) else v for v in row) for row in rows]
        table = pl.DataFrame(ready, schema=raw, orient="row")
        self.parts.append((name, table.with_columns(pl.col(c).cast(schema[c]) for c in times)))
        return len(rows)

    def tables(self) -> dict[str, pl.DataFrame]:
        """The tables, without rows that came twice: of one span the last that came, which is a
        whole trace's."""
        whole = {
            n: pl.concat([p for name, p in self.parts if name == n])
            for n in dict.fromkeys(n for n, _ in self.parts)
        }
        same = {"spans": ["trace_id", "span_id"]}
        return {
            n: t.unique(same.get(n), keep="last", maintain_order=True) for n, t in whole.items()
        }

    @classmethod
    def of(cls, found: Iterable[DatadogEvidence]) -> DatadogEvidence:
        """All in one."""
        whole = cls()
        for one in found:
            whole.items += one.items
            whole.missing += one.missing
            whole.parts += one.parts
        return whole


def _as_ns(at: datetime) -> int:
    since = at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000_000 + since.microseconds * 1000


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

    async def ask(self, call: Call, type: type[T], **given: Any) -> T:
        """One call, in a thread. Raises ConnectorError, BudgetExceeded."""
        loop = asyncio.get_running_loop()
        ask = partial(self.session.ask, call, type, **given)
        return await loop.run_in_executor(self.threads, copy_context().run, ask)

    @property
    def services(self) -> tuple[str, ...]:
        """Our names of the services asked about: the alert's own first, then the scope's, then
        those it calls."""
        alert = (self.request.alert.service,) if self.request.alert.service else ()
        known = tuple(
            dict.fromkeys(
                (
                    *(s for s in alert if s in self.request.scope.services),
                    *self.request.scope.services,
                )
            )
        )
        return tuple(dict.fromkeys((*(known or alert), *self.called)))[:MOST_SERVICES]

    @property
    def their_services(self) -> list[str]:
        """The same as Datadog calls them."""
        return [self.names.of(service) for service in self.services]

    @property
    def search(self) -> str:
        """A search for the services in scope, in their environment."""
        return " ".join(filter(None, (any_of("service", self.their_services), self.in_env)))

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
        return Window(
            start=min(self.request.scope.events_from, self.incident.start), end=self.incident.end
        )

    async def gathered(self, parts: Iterable[DatadogPart]) -> DatadogEvidence:
        """Several questions side by side; one that fails is a gap of its kind under its name.

        Raises ConnectorError when the keys themselves are not accepted.
        """

        async def one(part: DatadogPart) -> DatadogEvidence:
            try:
                return await part.question()
            except FaultlineError as error:
                if isinstance(error, ConnectorError) and error.status == 401:
                    raise
                return DatadogEvidence(missing=[Missing(part.kind, part.query, str(error))])

        return DatadogEvidence.of(await asyncio.gather(*(one(part) for part in parts)))
