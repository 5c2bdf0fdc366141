"""The durable queue on which the traces of large cases are read: one workflow per trace, on any
worker.

An investigation waits on a separate queue for what it put on this one, so that no number of them
can block the other.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, TypeVar

from dbos import DBOS

from faultline.bot.queue.engine_database import APPLICATION_VERSION
from faultline.bot.runtime.instrumentation import watched

T = TypeVar("T")

TRACES_QUEUE = "traces"
WORKFLOW_READ_TRACE = "read_trace"
PREFETCH = 1
"""Traces that a worker takes from the queue beyond those that it has a process for: what lies in S3
is copied meanwhile, and no process waits for the next look at the queue."""
WAITING = ["ENQUEUED", "PENDING", "DELAYED"]
ENDED = ("SUCCESS", "ERROR", "CANCELLED", "MAX_RECOVERY_ATTEMPTS_EXCEEDED")
STEP_TRIES = 5
"""After 1, 2, 4, 8 s; then the investigation that waits puts the trace on the queue again."""
Read = Callable[[str, str, str], Coroutine[Any, Any, str]]


def register_trace_workflow(read: Read) -> None:
    """Make the workflow known to DBOS; before it is launched. `read` is given case, trace and
    run."""

    @DBOS.workflow(name=WORKFLOW_READ_TRACE)
    async def read_trace(case_id: str, trace: str, run: str) -> str:
        return await DBOS.run_step_async(
            {
                "name": "read",
                "retries_allowed": True,
                "max_attempts": STEP_TRIES,
                "interval_seconds": 1.0,
            },
            watched(WORKFLOW_READ_TRACE, read),
            case_id,
            trace,
            run,
        )


def queue_width(processes: int) -> int:
    """How many traces one worker takes from the queue at once."""
    return processes + PREFETCH


def this_run(case_id: str) -> str:
    """The workflow that investigates; the case, outside of one."""
    return DBOS.workflow_id or case_id


async def is_awaited(run: str) -> bool:
    """Whether the investigation still waits for its traces: one that was cancelled, or has ended,
    does not."""
    status = await _outside(lambda: DBOS.get_workflow_status(run))
    return status is None or status.status not in ENDED


async def put(case_id: str, traces: Sequence[str], run: str, attempt: int) -> None:
    """Put traces on the queue; the same again changes nothing. All cases in it get their turns."""

    def enqueue() -> None:
        for turn, trace in enumerate(traces, start=1):
            name = hashlib.sha256(trace.encode("utf-8", "surrogateescape")).hexdigest()[:16]
            DBOS.enqueue_workflow_with_options(
                {
                    "workflow_name": WORKFLOW_READ_TRACE,
                    "queue_name": TRACES_QUEUE,
                    # The same id each time, so that a step that is repeated enqueues nothing twice.
                    "workflow_id": f"{_prefix(run, attempt)}{name}",
                    "app_version": APPLICATION_VERSION,
                    # By its place in the case, so that one large case does not delay all others.
                    "priority": turn,
                },
                case_id,
                trace,
                run,
            )

    await _outside(enqueue)


async def left(run: str, attempt: int) -> list[str]:
    """Ids of the workflows that have not ended."""
    statuses = await _outside(
        lambda: DBOS.list_workflows(
            workflow_id_prefix=_prefix(run, attempt),
            status=WAITING,
            load_input=False,
            load_output=False,
        )
    )
    return [status.workflow_id for status in statuses]


async def take_back(workflow_ids: Sequence[str]) -> None:
    """Take workflows off the queue; one that is being read ends without anybody waiting for it."""
    await _outside(lambda: DBOS.cancel_workflows(list(workflow_ids)))


def _prefix(run: str, attempt: int) -> str:
    return f"{run}:traces:{attempt}:"


async def _outside(call: Callable[[], T]) -> T:
    """In a thread that does not know of the step that runs, in which DBOS would not start a
    workflow."""
    return await asyncio.get_running_loop().run_in_executor(None, call)
