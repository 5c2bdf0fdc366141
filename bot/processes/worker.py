"""`faultline worker`: takes investigations off the queue, until it is asked to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from faultline.bot.answer.announcing import Announce
from faultline.bot.answer.message_updates import MessageUpdates
from faultline.bot.answer.targets.target_type import ReplyTargets
from faultline.bot.conversation.workflow import QUEUES, enqueue_questions, register_conversation
from faultline.bot.investigation import analyzing
from faultline.bot.investigation.asking_alert import AlertQueryConnector
from faultline.bot.investigation.collecting import ReportedChangesConnector
from faultline.bot.investigation.reading_traces import TraceReading
from faultline.bot.investigation.scheduled_checks import DeployCheckLoop, WatchLoop
from faultline.bot.investigation.trace_queue import (
    TRACES_QUEUE,
    queue_width,
    register_trace_workflow,
)
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import register_workflows
from faultline.bot.operating.retention import Retention
from faultline.bot.operating.telemetry.observing import Telemetry, observe_worker
from faultline.bot.policy.reply_targets import (
    configured_targets,
    fewest_channels_at_once,
    slowest_edits,
)
from faultline.bot.policy.services import Teams
from faultline.bot.queue.changes import LOOK_AT_LEAST_EVERY_S, STORE
from faultline.bot.queue.dispatch import Dispatch, FairDispatch
from faultline.bot.queue.engine import WorkerEngine
from faultline.bot.queue.engine_database import migrate_engine
from faultline.bot.runtime.components import (
    HEARTBEAT,
    BackgroundLoop,
    Component,
    Components,
    FunctionComponent,
)
from faultline.bot.runtime.logs import configure_logging
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.runtime.scratch import Scratch
from faultline.bot.runtime.threads import ByNeed
from faultline.bot.settings import Settings
from faultline.bot.store.changes import ReportedChanges
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.databases import engine_url, open_cases, open_store
from faultline.bot.store.store import Store
from faultline.connectors.registry import build_connectors

if TYPE_CHECKING:
    from faultline.analysis.vocabulary import Scope
    from faultline.bot.conversation.steps import ConversationSteps
    from faultline.bot.investigation.steps import InvestigationSteps

log = logging.getLogger("faultline.worker")

LOOK_EVERY_S = 0.2
STOP_MARGIN_S = 5.0
"""After the grace period, for the last writes to the database."""


def run_worker(
    settings: Settings, *, supervised_by: int | None = None, ready_fd: int | None = None
) -> None:
    """Work until SIGTERM or SIGINT; then finish what ends soon and leave the rest to another. Ends
    the process."""
    configure_logging(settings.telemetry, "worker")
    scratch = Scratch()
    store = open_store(settings, migrated=supervised_by is not None)
    migrate_engine(engine_url(settings))
    components = Components(
        [
            FunctionComponent("scratch folder", on_stop=scratch.remove),
            *worker_components(settings, store),
            FunctionComponent("ready", on_start=partial(_ready, ready_fd), on_stop=HEARTBEAT.stop),
        ]
    )
    # Before the start: from the first investigation on, a signal must not end the process at once.
    stop = _stop_requested()
    components.start()
    stop.wait()
    components.stop()
    logging.shutdown()
    # What still runs here must not go on beside the worker that takes it over.
    os._exit(0)


def worker_components(settings: Settings, store: Store) -> list[Component]:
    """What a worker runs, in the order of its start; it is stopped in reverse, so that nothing new
    is taken before the engine stops, and the pools end after what uses them."""
    engine = WorkerEngine(
        engine_url(settings),
        settings.store.directory,
        concurrency=settings.worker.concurrency,
        polling_interval_s=settings.worker.polling_interval_s,
    )
    context = build_context(settings, store, owner=engine.executor_id)
    traces = TraceReading(context.cases, settings.worker)
    context = replace(context, traces=traces)
    talks = any(workspace.slack.bot_token for workspace in settings.per_instance("slack"))
    # Without a tenant id the bot hears nobody in Teams.
    talks = talks or any(tenant.msteams.tenant_id for tenant in settings.per_instance("msteams"))
    # A change of the store wakes them. They also look regularly, for what is due by the clock.
    rest_s = settings.worker.polling_interval_s
    # A loop that gives no sign of life for long counts as hung.
    every_s = max(rest_s, min(LOOK_AT_LEAST_EVERY_S, settings.telemetry.wedged_after_s / 4))
    dispatch = FairDispatch(
        store,
        engine,
        Teams.of(settings),
        concurrency=settings.worker.concurrency,
        every_s=every_s,
        rest_s=rest_s,
    )
    updates = MessageUpdates(
        store,
        context.reply_targets,
        engine.enqueue_on,
        every_s=every_s,
        rest_s=rest_s,
        edit_every=slowest_edits(settings),
    )
    loops: list[BackgroundLoop] = [dispatch, updates]
    if any(target.announces for target in configured_targets(settings)):
        at_once = fewest_channels_at_once(settings)
        targets = context.reply_targets
        loops.append(
            Announce(store, targets, every_s=every_s, rest_s=rest_s, channels_at_once=at_once)
        )
    if talks:
        conversations = Conversations(store.engine)
        enqueue = enqueue_questions(conversations, engine)
        loops.append(Dispatch(conversations, enqueue, every_s=every_s, rest_s=rest_s))
    for loop in loops:
        engine.changes.on(STORE, loop.wake)
    # The clock makes these due, and nothing that is stored.
    checks: list[BackgroundLoop] = [DeployCheckLoop(store, context.connectors)]
    if settings.watch:
        checks.append(WatchLoop(settings, store, context.connectors))
    return [
        Telemetry("worker", partial(observe_worker, settings, store, engine.database)),
        FunctionComponent("analysis pool", on_stop=context.pool.close),
        FunctionComponent("trace reading", on_stop=traces.close),
        *_model_probe(settings),
        RunningEngine(engine, context, traces, talks=talks),
        Retention(settings, store, context.cases),
        *loops,
        *checks,
    ]


class RunningEngine:
    """The durable engine with its workflows, from launch to winding down."""

    name = "engine"

    def __init__(
        self, engine: WorkerEngine, context: WorkerContext, traces: TraceReading, *, talks: bool
    ) -> None:
        self._engine = engine
        self._targets = [
            configured_target.target_name
            for configured_target in configured_targets(context.settings)
        ]
        self._store = context.store.engine
        self._grace_s = context.settings.worker.grace_s
        self.stop_deadline_s = self._grace_s + STOP_MARGIN_S
        self._queues = {TRACES_QUEUE: queue_width(traces.processes)}
        # Workflows must be known before the launch, which takes up those that were left.
        self._steps = ByNeed(partial(_investigation_steps, context))
        register_workflows(self._steps)
        if talks:
            register_conversation(ByNeed(partial(_conversation_steps, context, engine.executor_id)))
            self._queues |= QUEUES
        register_trace_workflow(traces.read)

    def start(self) -> None:
        """Take work off the queues."""
        self._engine.launch(
            on_lock_lost=_end_at_once,
            places=self._targets,
            more_queues=self._queues,
            store=self._store,
        )

    def stop(self) -> None:
        """Take no more work, let running work finish within the grace period, and record that the
        rest was left in order."""
        until = time.monotonic() + self._grace_s
        self._engine.take_no_more(self._grace_s)
        try:
            while time.monotonic() < until and self._engine.running() - self._awaiting_retry():
                time.sleep(LOOK_EVERY_S)
            if self._steps.made is not None:
                self._steps.made.release()
        # Nothing is lost by it: other workers find what is left.
        except (SQLAlchemyError, dbos_error.DBOSException) as error:
            log.warning("stopping: %s", type(error).__name__)

    def _awaiting_retry(self) -> set[str]:
        return self._steps.made.awaiting_retry if self._steps.made is not None else set()


def _investigation_steps(context: WorkerContext) -> InvestigationSteps:
    from faultline.bot.investigation.steps import InvestigationSteps

    return InvestigationSteps(context)


def _conversation_steps(context: WorkerContext, owner: str) -> ConversationSteps:
    from faultline.bot.conversation.steps import ConversationSteps

    return ConversationSteps(context, owner=owner)


def build_context(settings: Settings, store: Store, *, owner: str) -> WorkerContext:
    """What this worker investigates with."""
    connectors = build_connectors(settings)
    connectors = (
        *connectors,
        ReportedChangesConnector(ReportedChanges(store.engine)),
        AlertQueryConnector(connectors),
    )
    # The scope of a recorded incident, where one is played.
    recorded_scope: Scope | None
    if settings.recorded.case is None:
        recorded_scope = None
    else:
        from faultline.connectors.vendors.recorded.connector import RecordedConnector

        recorded_scope = next(
            (c.scope() for c in connectors if isinstance(c, RecordedConnector)), None
        )
    return WorkerContext(
        settings=settings,
        store=store,
        cases=open_cases(settings),
        connectors=connectors,
        reply_targets=ReplyTargets(settings, store, owner=owner),
        pool=ProcessPool(load=analyzing.load),
        recorded=recorded_scope,
    )


def _model_probe(settings: Settings) -> list[Component]:
    if settings.model.name is None:
        return []
    # Late: a worker without a model does not pay for loading the client.
    from faultline.bot.investigation.model.model_check import ModelProbe

    return [ModelProbe(settings.model)]


def _ready(ready_fd: int | None) -> None:
    # The supervisor waits for this byte.
    if ready_fd is not None:
        os.write(ready_fd, b"1")
        os.close(ready_fd)
    HEARTBEAT.started()


def _stop_requested() -> threading.Event:
    """Set by SIGTERM or SIGINT from now on; a second one ends the process at once."""
    stop = threading.Event()

    def on_signal(*_: object) -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, on_signal)
    return stop


def _end_at_once() -> None:
    log.error("lost the executor lock; exiting to avoid duplicate work")
    os._exit(70)
