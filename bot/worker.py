"""`faultline worker`: takes investigations off the queue, until told to stop."""

from __future__ import annotations

import logging
import os
import signal
import threading

from bot.conversation.steps import ConversationSteps
from bot.conversation.workflow import QUEUES, enqueue_questions, register_conversation
from bot.dispatch import Dispatch, FairDispatch
from bot.engine import WorkerEngine, migrate_engine
from bot.investigation.analyzing import AnalysisPool
from bot.investigation.desk import Desk, Place
from bot.investigation.steps import Steps
from bot.investigation.workflow import register_workflows
from bot.queueing.teams import Teams
from bot.operating.retention import Retention
from bot.replies.pagerduty_replies import PagerDutyReplies
from bot.replies.slack_digest import SlackDigests
from bot.replies.slack_replies import SlackReplies
from bot.retelling import Retell
from bot.settings import Settings
from bot.storage import engine_url, open_cases, open_store
from bot.store.conversations import Conversations
from bot.store.store import Store
from bot.supervisor import die_with_parent, say_ready
from connectors.recorded import RecordedConnector
from connectors.registry import build_connectors

log = logging.getLogger("faultline.worker")


def run_worker(settings: Settings, *, supervised_by: int | None = None, ready_fd: int | None = None) -> None:
    """Work until SIGTERM or SIGINT; then what is running is left for the next worker to take over."""
    if supervised_by is not None:
        die_with_parent(supervised_by)
    os.nice(settings.worker.niceness)
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
    desk = build_desk(settings, store, owner=engine.executor_id)
    register_workflows(Steps(desk))
    if settings.model.name is not None:
        from bot.model.probe import probe_in_background

        probe_in_background(settings.model)
    talks = settings.slack.bot_token is not None
    if talks:
        register_conversation(ConversationSteps(desk, owner=engine.executor_id))
    places, queues = [place.name for place in desk.places], QUEUES if talks else None
    engine.launch(on_lock_lost=_end_at_once, places=places, more_queues=queues)
    every_s = settings.worker.polling_interval_s
    digests = digests_for(settings, store, engine.executor_id)
    dispatches: list[Dispatch | Retell | Retention] = [
        Retention(settings, store, desk.cases),
        FairDispatch(store, engine, Teams.of(settings), concurrency=settings.worker.concurrency, every_s=every_s),
        Retell(store, desk.places, engine.enqueue_on, digests, every_s=every_s),
    ]
    if talks:
        asked = Conversations(store.engine)
        dispatches.append(Dispatch(asked, enqueue_questions(asked, engine), every_s=every_s))
    for dispatch in dispatches:
        dispatch.start()
    say_ready(ready_fd)
    _wait_for_stop()
    for dispatch in dispatches:
        dispatch.stop()
    engine.stop()
    desk.pool.close()


def build_desk(settings: Settings, store: Store, *, owner: str) -> Desk:
    """What this worker investigates with."""
    connectors = build_connectors(settings)
    return Desk(
        settings=settings,
        store=store,
        cases=open_cases(settings),
        connectors=connectors,
        places=places_for(settings, store, owner),
        pool=AnalysisPool(),
        recorded=next((c.scope() for c in connectors if isinstance(c, RecordedConnector)), None),
    )


def places_for(settings: Settings, store: Store, owner: str) -> list[Place]:
    """Where answers are posted: one line per place."""
    places: list[Place] = []
    if settings.slack.bot_token:
        places.append(SlackReplies(settings, store, owner=owner))
    if settings.pagerduty.api_token:
        places.append(PagerDutyReplies(settings, store, owner=owner))
    return places


def digests_for(settings: Settings, store: Store, owner: str) -> SlackDigests | None:
    """What tells channels of their quiet hours."""
    return SlackDigests(settings, store, owner=owner) if settings.slack.bot_token else None


def _wait_for_stop() -> None:
    stop = threading.Event()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stop.set())
    while not stop.wait(1.0):
        pass


def _end_at_once() -> None:
    log.error("lost the lock on this executor; ending, so that nothing is done twice")
    os._exit(70)
