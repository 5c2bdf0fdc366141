"""Switches on what the settings ask for, in a web process or a worker, and off again."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import product
from typing import Any

import prometheus_client
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4, generate_latest
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext

from faultline.analysis.errors import SettingsError
from faultline.bot.operating.telemetry.cloudwatch import CloudWatchLines
from faultline.bot.operating.telemetry.listener import Listener, Page, Pages
from faultline.bot.operating.telemetry.process_figures import (
    Circuits,
    HangingThreads,
    Pool,
    count_vendor_request,
)
from faultline.bot.operating.telemetry.store_figures import CaseBytes, StoreFigures, posted_since
from faultline.bot.policy.reply_targets import declared_targets
from faultline.bot.runtime import measures, tracing
from faultline.bot.runtime.components import (
    HEARTBEAT,
    START,
    STOP_DEADLINE_S,
    BackgroundLoop,
    Heartbeat,
)
from faultline.bot.runtime.instrumentation import ALARMING, KINDS, WATCH
from faultline.bot.runtime.logs import program_version
from faultline.bot.runtime.measures import REGISTRY, word
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import Store
from faultline.connectors.shared.transport.watching import watch

log = logging.getLogger("faultline.telemetry")

METRICS, HEALTH = "/metrics", "/healthz"
ASK_EVENT_LOOP_EVERY_S = 5.0


class Observing:
    """What was switched on. `stop` sends what is left."""

    def __init__(self) -> None:
        self.listener: Listener | None = None
        self._stops: list[Callable[[], None]] = []
        self._collectors: list[Collector] = []

    def stop(self) -> None:
        """Switch all of it off."""
        for stop in reversed(self._stops):
            stop()
        for collector in self._collectors:
            REGISTRY.unregister(collector)
        self._stops, self._collectors = [], []
        tracing.stop_tracing()

    def collect(self, collector: Collector) -> None:
        """Its metrics are served too."""
        REGISTRY.register(collector)
        self._collectors.append(collector)

    def serve(self, address: str, pages: Pages, *, key: str) -> None:
        """Serve pages. Raises SettingsError."""
        self.listener = Listener(address, pages, key=key)
        self.listener.start()
        self._stops.append(self.listener.stop)

    def run(self, loop: BackgroundLoop) -> None:
        """Run it until all is switched off."""
        loop.start()
        # A loop that measures has nothing to finish, so nobody waits for its last turn.
        self._stops.append(loop.stop_soon)


class EventLoopProbe(BackgroundLoop):
    """Asks the event loop for a beat, several times within the time after which silence counts."""

    def __init__(self, heartbeat: Heartbeat) -> None:
        every_s = min(ASK_EVENT_LOOP_EVERY_S, heartbeat.silent_after_s / 4)
        super().__init__("heartbeat", every_s=every_s)
        self._heartbeat = heartbeat

    def turn(self) -> bool:
        """Ask once."""
        self._heartbeat.ask_loop()
        return False


class Telemetry:
    """What a process measures and serves about itself, as a component."""

    stop_deadline_s = STOP_DEADLINE_S

    def __init__(self, process: str, observe: Callable[[], Observing]) -> None:
        self.name = f"telemetry of the {process}"
        self._observe = observe
        self._observing: Observing | None = None

    def start(self) -> None:
        """Switch it on. Raises SettingsError for an address that cannot be listened on."""
        self._observing = self._observe()

    def stop(self) -> None:
        """Switch it off, and send what is left."""
        if self._observing is not None:
            self._observing.stop()
            self._observing = None


def observe_web(
    settings: Settings,
    store: Store,
    cases: CaseStore,
    request_labels: Iterable[str],
    more: Sequence[Collector] = (),
) -> Observing:
    """For `faultline serve`. `request_labels` is what metrics call requests to alert sources;
    `more` are served beside.

    Raises SettingsError for an address that cannot be listened on.
    """
    telemetry, observing = settings.telemetry, Observing()
    _observe(observing, settings, "web", [store.engine])
    _begin_at_zero(
        (measures.WEBHOOKS, label, outcome) for label in request_labels for outcome in ALARMING
    )
    figures = StoreFigures(store, settings.teams)
    if telemetry.metrics_address is not None:
        sizes = CaseBytes(cases.total_bytes)
        collectors: tuple[Collector, ...] = (figures, sizes, *more)
        for collector in collectors:
            observing.collect(collector)
        observing.run(sizes)
        observing.serve(
            telemetry.metrics_address, {METRICS: metrics_page}, key="telemetry.metrics_address"
        )
    if telemetry.cloudwatch_namespace is not None:
        observing.run(CloudWatchLines(telemetry.cloudwatch_namespace, figures.current))
    return observing


def observe_worker(
    settings: Settings, store: Store, *engines: Engine, heartbeat: Heartbeat = HEARTBEAT
) -> Observing:
    """For a worker. An address that is taken is logged: to investigate matters more than to be
    watched."""
    observing = Observing()
    _observe(observing, settings, "worker", [store.engine, *engines])
    targets = [target.target_name for target in declared_targets(settings)]
    posts = product(targets, KINDS.values(), ("again", "refused"))
    _begin_at_zero([(measures.ENDED, "failed"), *((measures.POSTS, *labels) for labels in posts)])
    WATCH.heartbeat, WATCH.find, WATCH.posted_since = (
        heartbeat,
        store.get,
        partial(posted_since, store),
    )
    heartbeat.beat(START)
    heartbeat.silent_after_s = settings.telemetry.wedged_after_s
    observing.run(EventLoopProbe(heartbeat))
    address = settings.telemetry.worker_address
    if address is None:
        return observing

    def health() -> Page:
        hung = heartbeat.hung()
        return Page(f"{hung}\n", 503) if hung else Page("ok\n")

    def metrics() -> Page:
        for part, seconds in heartbeat.silence().items():
            measures.HEARTBEAT.labels(part).set(seconds)
        return metrics_page()

    try:
        observing.serve(address, {METRICS: metrics, HEALTH: health}, key="telemetry.worker_address")
    except SettingsError as error:
        log.error("cannot serve /metrics and /healthz: %s", error)
    else:
        assert observing.listener is not None
        log.warning("this worker serves /metrics and /healthz at %s", observing.listener.address)
    return observing


def metrics_page() -> Page:
    """Every metric of this process, in the text format that every Prometheus reads."""
    return Page(generate_latest(REGISTRY).decode(), content_type=CONTENT_TYPE_PLAIN_0_0_4)


def _observe(
    observing: Observing, settings: Settings, process: str, engines: Sequence[Engine]
) -> None:
    # Without this, each counter and histogram has another series, `_created`.
    prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
    measures.BUILD.labels(program_version(), process).set(1)
    watch(count_vendor_request)
    # `collect` registers it, so that `stop` can unregister it.
    collectors = (ProcessCollector(registry=None), Circuits(), Pool(engines), HangingThreads())
    for collector in collectors:
        observing.collect(collector)
    for engine in engines:
        if not event.contains(engine, "handle_error", _database_error):
            event.listen(engine, "handle_error", _database_error)
    tracing.start_tracing(settings.telemetry, process, f"{process}-{os.getpid()}")


def _begin_at_zero(series: Iterable[tuple[Any, ...]]) -> None:
    """A counter that appears with its first failure has not grown, as Prometheus sees it: no alert
    would fire."""
    for counter, *labels in series:
        counter.labels(*labels)


def _database_error(context: ExceptionContext) -> None:
    measures.DATABASE_ERRORS.labels(word("error", type(context.original_exception).__name__)).inc()
