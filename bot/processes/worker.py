"""`faultline worker`: takes investigations off the queue, until told to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading
import time
from dataclasses import replace

from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from bot.answer.announcing import Announce
from bot.answer.message_updates import MessageUpdates
from bot.answer.targets.target_type import reply_targets
from bot.conversation.steps import ConversationSteps
from bot.conversation.workflow import QUEUES, enqueue_questions, register_conversation
from bot.investigation.analyzing import AnalysisPool
from bot.investigation.desk import Desk
from bot.investigation.reading_traces import TraceReading
from bot.investigation.steps import Steps
from bot.investigation.trace_queue import TRACES_QUEUE, queue_width, register_trace_workflow
from bot.investigation.workflow import register_workflows
from bot.operating.retention import Retention
from bot.operating.telemetry.observing import observe_worker
from bot.policy.reply_targets import (
    configured_targets,
    fewest_channels_at_once,
    slowest_edits,
)
from bot.policy.teams import Teams
from bot.queue.dispatch import Dispatch, FairDispatch
from bot.queue.engine import WorkerEngine, migrate_engine
from bot.runtime.logs import configure_logging
from bot.runtime.looping import Loop
from bot.runtime.process_life import die_with_parent, say_ready
from bot.runtime.pulse import PULSE
from bot.runtime.scratch import Scratch
from bot.settings import Settings
from bot.store.conversations import Conversations
from bot.store.opening import engine_url, open_cases, open_store
from bot.store.store import Store
from connectors.recorded import RecordedConnector
from connectors.registry import build_connectors

log = logging.getLogger("faultline.worker")

LOOK_EVERY_S = 0.2


def run_worker(
    settings: Settings, *, supervised_by: int | None = None, ready_fd: int | None = None
) -> None:
    """Work until SIGTERM or SIGINT; then finish what ends soon and leave the rest to another. Ends
    the process."""
    configure_logging(settings.telemetry, "worker")
    if supervised_by is not None:
        die_with_parent(supervised_by)
    os.nice(settings.worker.niceness)
    scratch = Scratch()
    url = engine_url(settings)
    store = open_store(settings, migrated=supervised_by is not None)
    if supervised_by is None:
        migrate_engine(url)
    engine = WorkerEngine(
        url,
        settings.store.directory,
        concurrency=settings.worker.concurrency,
        polling_interval_s=settings.worker.polling_interval_s,
    )
    observing = observe_worker(settings, store, engine.database)
    desk = build_desk(settings, store, owner=engine.executor_id)
    traces = TraceReading(desk.cases, settings.worker)
    desk = replace(desk, traces=traces)
    steps = Steps(desk)
    register_workflows(steps)
    if settings.model.name is not None:
        from bot.investigation.model.probe import probe_in_background

        probe_in_background(settings.model)
    talks = settings.slack.bot_token is not None
    if talks:
        register_conversation(ConversationSteps(desk, owner=engine.executor_id))
    register_trace_workflow(traces.read)
    queues = {TRACES_QUEUE: queue_width(traces.processes)} | (QUEUES if talks else {})
    targets = [target.name for target in desk.reply_targets]
    stop = _told_to_stop()
    engine.launch(on_lock_lost=_end_at_once, places=targets, more_queues=queues)
    every_s = settings.worker.polling_interval_s
    loops: list[Loop | Announce] = [
        Retention(settings, store, desk.cases),
        FairDispatch(
            store,
            engine,
            Teams.of(settings),
            concurrency=settings.worker.concurrency,
            every_s=every_s,
        ),
        MessageUpdates(
            store,
            desk.reply_targets,
            engine.enqueue_on,
            every_s=every_s,
            edit_every=slowest_edits(settings),
        ),
    ]
    if any(target.announces for target in configured_targets(settings)):
        at_once = fewest_channels_at_once(settings)
        loops.append(Announce(store, desk.reply_targets, every_s=every_s, channels_at_once=at_once))
    if talks:
        asked = Conversations(store.engine)
        loops.append(Dispatch(asked, enqueue_questions(asked, engine), every_s=every_s))
    for loop in loops:
        loop.start()
    say_ready(ready_fd)
    PULSE.started()
    while not stop.wait(1.0):
        pass
    PULSE.stop()
    for loop in loops:
        loop.stop()
    _wind_down(engine, steps, settings.worker.grace_s)
    traces.close()
    desk.pool.close()
    observing.stop()
    scratch.remove()
    logging.shutdown()
    os._exit(0)  # what still runs here must not go on beside the worker that takes it over


def build_desk(settings: Settings, store: Store, *, owner: str) -> Desk:
    """What this worker investigates with."""
    connectors = build_connectors(settings)
    return Desk(
        settings=settings,
        store=store,
        cases=open_cases(settings),
        connectors=connectors,
        reply_targets=reply_targets(settings, store, owner=owner),
        pool=AnalysisPool(),
        recorded=next((c.scope() for c in connectors if isinstance(c, RecordedConnector)), None),
    )


def _told_to_stop() -> threading.Event:
    """Set by SIGTERM or SIGINT from now on, before any work is taken; a second one ends the process
    at once."""
    stop = threading.Event()

    def told(*_: object) -> None:
        if stop.is_set():
            os._exit(130)
        stop.set()

    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, told)
    return stop


def _wind_down(engine: WorkerEngine, steps: Steps, grace_s: float) -> None:
    """Let end what ends within the grace period; say of the rest that it was left in order."""
    until = time.monotonic() + grace_s
    engine.take_no_more(grace_s)
    try:
        while time.monotonic() < until and engine.running() - steps.resting:
            time.sleep(LOOK_EVERY_S)
        steps.hand_over()
    except (
        SQLAlchemyError,
        dbos_error.DBOSException,
    ) as error:  # nothing is lost by it: others find what is left
        log.warning("stopping: %s", type(error).__name__)


def _end_at_once() -> None:
    log.error("lost the lock on this executor; ending, so that nothing is done twice")
    os._exit(70)
