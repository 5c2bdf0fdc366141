"""A worker that analyses cases and reads traces, however small they are; it writes down which ones
it reads."""

from __future__ import annotations

import asyncio
import os
import time
from multiprocessing.connection import Connection
from pathlib import Path

from dbos import DBOS

from faultline.bot.investigation import reading_traces
from faultline.bot.investigation.reading_traces import TraceReading
from faultline.bot.investigation.steps import InvestigationSteps
from faultline.bot.investigation.trace_queue import (
    TRACES_QUEUE,
    queue_width,
    register_trace_workflow,
)
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.queue.engine import WorkerEngine
from faultline.bot.queue.engine_database import WORKFLOW_INVESTIGATE
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.settings import Settings, WorkerSettings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.connections import connect
from faultline.bot.store.store import Store

READS = "reads.txt"
SLOWLY_S = 0.4


class SlowReading(TraceReading):
    """Writes down what it reads, and takes its time for it."""

    def __init__(self, cases: CaseStore, settings: WorkerSettings, log: Path) -> None:
        super().__init__(cases, settings)
        self._log = log

    @property
    def pool(self) -> ProcessPool:
        """Its process."""
        return self._pool

    async def _put(self, case_id: str, trace: str, record: bytes) -> None:
        await asyncio.sleep(SLOWLY_S)
        await super()._put(case_id, trace, record)
        with self._log.open("a") as log:
            log.write(f"{os.getpid()} {trace}\n")


def work(
    ready: Connection,
    engine_url: str,
    store_url: str,
    folder: Path,
    location: str,
    endpoint: str | None,
) -> None:
    """Work until killed."""
    reading_traces.FAN_OUT_BYTES = reading_traces.WORTH_A_TURN_BYTES = 1
    cases = CaseStore(location, endpoint_url=endpoint)
    settings = Settings(worker=WorkerSettings(trace_processes=1))
    engine = WorkerEngine(engine_url, folder, concurrency=2, polling_interval_s=0.1)
    reading = SlowReading(cases, settings.worker, folder / READS)
    # The process that reads the traces is enough: cases are analysed when all traces are read.
    store, pool = Store(connect(store_url)), reading.pool
    steps = InvestigationSteps(
        WorkerContext(
            settings, store, cases, connectors=[], reply_targets=[], pool=pool, traces=reading
        )
    )

    @DBOS.workflow(name=WORKFLOW_INVESTIGATE)
    async def investigate(investigation_id: str) -> None:
        await DBOS.run_step_async({"name": "analyze"}, steps.analyze, investigation_id)

    register_trace_workflow(reading.read)
    engine.launch(
        on_lock_lost=lambda: os._exit(70),
        more_queues={TRACES_QUEUE: queue_width(reading.processes)},
    )
    ready.send("ready")
    time.sleep(600)
