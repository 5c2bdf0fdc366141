"""Metrics that the database tells: the queue, how many there are of what, judgements, the room that
cases take.

Only the web process has them, once for all workers. They are read when somebody scrapes, and not
again for some seconds, so that several scrapers cost what one does; the size of the cases, which
takes long, is read apart.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.case.earlier import RecordLevel
from faultline.bot.policy.priority import HIGH, LOW, URGENT, USUAL
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.runtime.measures import OTHER
from faultline.bot.store.connections import database_bytes, reading
from faultline.bot.store.databases import AbandonableStore, StoreHangsError, another_store
from faultline.bot.store.listing import Labels
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow as Row
from faultline.bot.store.tables import PostRow

log = logging.getLogger("faultline.telemetry")

FRESH_S = 10.0
"""Figures are read again after this; Prometheus asks every 15 to 60 s as a rule."""
READ_WITHIN_S = 5.0
"""Prometheus abandons a scrape after 10 s by default."""
CASES_EVERY_S = 900.0
"""The size of the cases is read again after this: a bucket of a million files takes a thousand
requests."""
PRIORITIES = {URGENT: "urgent", HIGH: "high", USUAL: "usual", LOW: "low"}
LATELY = timedelta(hours=1)
NO_TEAM = "none"
STATUSES = ("accepted", "running", "done", "failed")
WAITING, RUNNING = "accepted", "running"


@dataclass(frozen=True)
class QueuePart:
    """Investigations of one team and priority that wait or run; `oldest_s` of those that wait."""

    status: str
    priority: str
    team: str
    count: int
    oldest_s: float = 0.0


@dataclass(frozen=True)
class StoreSnapshot:
    """What the database says at one moment. `up` is false where it does not answer; then the rest
    is empty."""

    up: bool
    queue: tuple[QueuePart, ...] = ()
    by_status: dict[str, int] = field(default_factory=dict)
    record: tuple[RecordLevel, ...] = ()
    failed_lately: int = 0
    """Investigations that ended without an answer within the last hour."""
    database_bytes: int = 0

    @property
    def waiting(self) -> int:
        """Accepted investigations that no worker has begun."""
        return sum(part.count for part in self.queue if part.status == WAITING)

    @property
    def oldest_s(self) -> float:
        """How long the oldest of them has waited; 0 where none waits."""
        return max((part.oldest_s for part in self.queue if part.status == WAITING), default=0.0)


def read_figures(
    store: Store, teams: Collection[str], now: datetime | None = None
) -> StoreSnapshot:
    """Read them. Raises SQLAlchemyError. A team that the settings do not name counts as `other`."""
    now = now or datetime.now(UTC)
    waiting = (
        select(Row.status, Row.priority, Row.team, func.count(), func.min(Row.accepted_at))
        .where(Row.status.in_((WAITING, RUNNING)))
        .group_by(Row.status, Row.priority, Row.team)
    )
    with reading(store.engine) as session:
        parts = [
            QueuePart(
                status,
                PRIORITIES.get(priority, OTHER),
                (team if team in teams else OTHER) if team else NO_TEAM,
                count,
                max(0.0, (now - oldest).total_seconds()) if status == WAITING else 0.0,
            )
            for status, priority, team, count, oldest in session.execute(waiting)
        ]
        counted = session.execute(select(Row.status, func.count()).group_by(Row.status)).all()
        lately = select(func.count()).where(Row.status == "failed", Row.finished_at >= now - LATELY)
        failed = session.scalar(lately) or 0
    by_status = {status: count for status, count in counted if status in STATUSES}
    return StoreSnapshot(
        True,
        tuple(parts),
        by_status,
        Labels(store.engine).record(),
        failed,
        database_bytes(store.engine),
    )


def posted_since(store: Store, investigation_id: str, place: str, moment: datetime) -> bool:
    """Whether the investigation's message in that place was posted after that moment."""
    query = select(PostRow.key).where(
        PostRow.key == f"{investigation_id}:{place}", PostRow.posted_at >= moment
    )
    with reading(store.engine) as session:
        return session.scalar(query) is not None


class StoreFigures(Collector):
    """The figures, as metrics and as values."""

    def __init__(
        self,
        store: Store,
        teams: Collection[str] = (),
        *,
        fresh_s: float = FRESH_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        # A database that hangs must not hang every other metric.
        self._store = AbandonableStore(partial(another_store, store), within_s=READ_WITHIN_S)
        self._teams = frozenset(teams)
        self._fresh_s = fresh_s
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = -float("inf")
        self._figures = StoreSnapshot(up=False)

    def current(self) -> StoreSnapshot:
        """Not older than a few seconds. Never raises for the database."""
        with self._lock:
            if self._clock() - self._read_at >= self._fresh_s:
                try:
                    self._figures = self._store.call(self._read)
                except (SQLAlchemyError, OSError, StoreHangsError) as error:
                    log.warning("cannot read figures from the database: %s", type(error).__name__)
                    self._figures = StoreSnapshot(up=False)
                finally:
                    # A connection that is used every few seconds is not worth keeping.
                    self._store.close()
                self._read_at = self._clock()
            return self._figures

    def _read(self, store: Store) -> StoreSnapshot:
        return read_figures(store, self._teams)

    def describe(self) -> Iterable[Metric]:
        """Nothing is read when it is registered."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The metrics. A database that does not answer leaves only `faultline_database_up`."""
        figures = self.current()
        yield _gauge("faultline_database_up", "Whether the database answers.", float(figures.up))
        if figures.up:
            yield from _queue(figures)
            # Judgements by tenth of confidence: `0.7` is from 0.7 to below 0.8.
            judged = GaugeMetricFamily(
                "faultline_answers_judged",
                "Answers that people judged, by confidence and whether they were right.",
                labels=["confidence", "judgement"],
            )
            for level in figures.record:
                judged.add_metric([f"0.{level.level}", "right"], level.right)
                judged.add_metric([f"0.{level.level}", "wrong"], level.of - level.right)
            yield judged
            sentence = "The room that the database takes, the engine's tables included."
            yield _gauge("faultline_database_bytes", sentence, figures.database_bytes)


def _queue(figures: StoreSnapshot) -> Iterable[Metric]:
    by_part = ["priority", "team"]
    oldest = (
        "How long the oldest investigation that no worker has begun has waited; 0 where none waits."
    )
    waiting = GaugeMetricFamily(
        "faultline_queue_waiting", "Accepted investigations not begun.", labels=by_part
    )
    running = GaugeMetricFamily(
        "faultline_queue_running", "Investigations that run.", labels=by_part
    )
    for metric, status in ((waiting, WAITING), (running, RUNNING)):
        counts_by_key: dict[tuple[str, str], int] = {}
        for part in figures.queue:
            if part.status == status:
                counts_by_key[part.priority, part.team] = (
                    counts_by_key.get((part.priority, part.team), 0) + part.count
                )
        # An empty queue is a series of 0 and not a missing one.
        for key, count in (counts_by_key or {("usual", NO_TEAM): 0}).items():
            metric.add_metric(list(key), count)
    yield _gauge("faultline_queue_oldest_seconds", oldest, figures.oldest_s)
    yield waiting
    yield running
    metric_family = GaugeMetricFamily(
        "faultline_investigations", "Investigations in the store, by status.", labels=["status"]
    )
    for status in STATUSES:
        metric_family.add_metric([status], figures.by_status.get(status, 0))
    yield metric_family


class CaseBytes(BackgroundLoop):
    """The size of all case folders, read now and then."""

    def __init__(self, measure: Callable[[], int], *, every_s: float = CASES_EVERY_S) -> None:
        super().__init__("case bytes", every_s=every_s)
        self._measure = measure
        self.bytes: int | None = None

    def turn(self) -> bool:
        """Read it once; the last figure stands when that fails."""
        try:
            self.bytes = self._measure()
        # Obstore raises its own errors as well as those of the file system.
        except Exception as error:  # noqa: BLE001
            log.warning("cannot read the size of the case store: %s", type(error).__name__)
        return False

    def describe(self) -> Iterable[Metric]:
        """Nothing is read when it is registered."""
        return []

    def collect(self) -> Iterable[Metric]:
        """Nothing until it was read once."""
        if self.bytes is not None:
            yield _gauge(
                "faultline_case_store_bytes", "The room that the case folders take.", self.bytes
            )


def _gauge(name: str, description: str, value: float) -> Metric:
    metric = GaugeMetricFamily(name, description)
    metric.add_metric([], value)
    return metric
