"""A bot for one command: the store, the engine and the steps of `faultline worker`, in a folder
apart and in this process, without reply targets and pages."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from faultline.analysis.errors import FaultlineError
from faultline.bot.investigation.reading_traces import TraceReading
from faultline.bot.policy.services import Teams
from faultline.bot.policy.values import ENDED
from faultline.bot.processes.worker import RunningEngine, build_context
from faultline.bot.queue.dispatch import FairDispatch
from faultline.bot.queue.engine import WorkerEngine
from faultline.bot.queue.engine_database import (
    INVESTIGATIONS,
    URGENT_INVESTIGATIONS,
    migrate_engine,
)
from faultline.bot.runtime.components import Components, FunctionComponent
from faultline.bot.runtime.nursery import close_nursery, open_nursery
from faultline.bot.settings import Settings
from faultline.bot.settings.processes import StoreSettings
from faultline.bot.store.databases import engine_url, open_store
from faultline.bot.store.store import Arrival, Progress, Store, StoredInvestigation

LOOK_EVERY_S = 0.1
ANSWER_WITHIN_S = 900.0
"""Connectors end after two minutes, a model's rounds after ten."""


@dataclass(frozen=True)
class LocalBot:
    """One that runs. `settings` are those with its own folder."""

    settings: Settings
    store: Store
    in_hand: Callable[[], Collection[str]]
    """The investigations that wait or run."""

    def investigate(
        self, arrival: Arrival, report: Callable[[Progress], None]
    ) -> StoredInvestigation:
        """Investigate, and tell each line of progress as it is written. Raises FaultlineError
        where no answer comes in time."""
        taken = self.store.accept_all([arrival])[0].investigation_id
        assert taken is not None, "what a person asks for is always investigated"
        deadline, after = time.monotonic() + ANSWER_WITHIN_S, 0
        while time.monotonic() < deadline:
            investigate = self.store.get(taken)
            for line in self.store.progress(taken, after):
                report(line)
                after = line.seq
            # The answer stands a moment before the last files of its case do.
            has_ended = investigate is not None and investigate.status in ENDED
            if investigate is not None and has_ended and taken not in self.in_hand():
                return investigate
            time.sleep(LOOK_EVERY_S)
        raise FaultlineError(f"no answer within {ANSWER_WITHIN_S / 60:.0f} minutes")


@contextmanager
def local_bot(settings: Settings, directory: Path) -> Iterator[LocalBot]:
    """Start one whose data lies in `directory`; this process must have one thread yet."""
    bot_settings = settings.model_copy(update={"store": StoreSettings(directory=directory)})
    open_nursery()
    store = open_store(bot_settings)
    migrate_engine(engine_url(bot_settings))
    engine = WorkerEngine(
        engine_url(bot_settings),
        directory,
        concurrency=1,
        polling_interval_s=LOOK_EVERY_S,
    )
    context = build_context(bot_settings, store, owner=engine.executor_id)
    traces = TraceReading(context.cases, bot_settings.worker)
    context = replace(context, reply_targets=(), traces=traces)
    components = Components(
        [
            FunctionComponent("analysis pool", on_stop=context.pool.close),
            FunctionComponent("trace reading", on_stop=traces.close),
            RunningEngine(engine, context, traces, talks=False),
            FairDispatch(
                store, engine, Teams.of(bot_settings), concurrency=1, every_s=LOOK_EVERY_S
            ),
        ]
    )
    components.start()
    try:
        yield LocalBot(bot_settings, store, partial(_in_hand, engine))
    finally:
        components.stop()
        store.engine.dispose()
        close_nursery()


def _in_hand(engine: WorkerEngine) -> list[str]:
    # What a person asks for is urgent.
    return [*engine.in_hand(URGENT_INVESTIGATIONS), *engine.in_hand(INVESTIGATIONS)]
