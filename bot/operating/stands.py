"""The current step of a running investigation: how long it has been in that step, and what it
waits for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import select

from faultline.analysis.wording.phrases import plain
from faultline.bot.operating.check_results import lasting, when
from faultline.bot.operating.engine_rows import Step, Workflow
from faultline.bot.operating.inspection import Inspection
from faultline.bot.queue.names import WORKFLOW_INVESTIGATE
from faultline.bot.store.tables import ProgressRow

ORDER = ("open", "collect", "capture", "assemble", "analyze", "write", "model", "finish")
"""The steps of `faultline.bot.investigation.workflow` that it waits for, in their order; connectors
are asked side by side."""
STEP_PHRASES = {
    "open": "fixing what is looked at",
    "collect": "asking the connectors",
    "capture": "asking the training job for a trace",
    "assemble": "putting the case together",
    "analyze": "analysing the case",
    "write": "writing the report",
    "model": "asking the model",
    "finish": "storing the answer",
}
RETRIED = (
    "a step whose store is locked, full or away is tried again for two hours: the worker's "
    "log names the error"
)
REPLY_TRIES = 200
REPLY_WAIT_S = (1.0, 300.0)
"""Those of `faultline.bot.investigation.workflow`, which takes seconds to load."""
MAX_TEXT = 300


@dataclass(frozen=True)
class Stands:
    """In words: where it stands, and what to do; `todo` is empty where nothing is to be done."""

    text: str
    todo: str = ""


def where_it_stands(inspection: Inspection, name: str, active: Sequence[Workflow]) -> Stands:
    """Of an investigation that runs, by its workflows that have not ended."""
    if inspection.rows is None:
        return Stands(f"the engine's tables cannot be read: {inspection.no_rows}")
    actives = [w for w in active if w.name == WORKFLOW_INVESTIGATE]
    if not actives:
        return Stands("the engine has no work for it", f"`faultline requeue {name}` restarts it")
    workflow = actives[-1]
    # PENDING is DBOS's word for a workflow that an executor has taken.
    if workflow.status != "PENDING":
        return Stands(
            f"it waits in the queue since {when(workflow.updated_at)}",
            "workers are busy, or none is alive",
        )
    living = inspection.executors()
    if workflow.executor and not living.lives(workflow.executor):
        todo = "start a worker: it takes over within seconds, and goes on where this was"
        return Stands(f"its {living.why_dead(workflow.executor)}, and nobody took it over", todo)
    return _running(inspection, name, workflow, inspection.rows.steps(workflow.id))


def _running(
    inspection: Inspection, name: str, workflow: Workflow, steps: Sequence[Step]
) -> Stands:
    with inspection.read() as session:
        query = (
            select(ProgressRow)
            .where(ProgressRow.investigation_id == name)
            .order_by(ProgressRow.id)
            .limit(500)
        )
        progress = list(session.scalars(query))
    step, missing = step_now(steps, progress)
    last = max((s.completed_at for s in steps if s.completed_at), default=workflow.started_at)
    since = f" for {lasting(inspection.now - last)}" if last else ""
    phrase = f"step {step} ({STEP_PHRASES.get(step, 'in between')}){since}"
    if step == "collect" and missing:
        return Stands(
            f"{phrase}, waiting for {', '.join(missing)}",
            f"is {missing[0]} slow? `faultline check` asks it",
        )
    return Stands(phrase, RETRIED)


def step_now(steps: Sequence[Step], progress: Sequence[ProgressRow]) -> tuple[str, list[str]]:
    """The step it is in, by those that are done; of collecting, the connectors that did not answer
    yet."""
    done = [s.name for s in steps]
    words = {name.split(" ")[0] for name in done}
    connectors = _connectors(progress)
    silent = [c for c in connectors if f"collect {c}" not in done]
    if "open" not in words:
        return "open", []
    later = [word for word in ORDER[ORDER.index("capture") :] if word in words]
    if not later:
        return ("collect", silent) if silent else ("assemble", [])
    if "preview" in words and "model" not in words and "finish" not in words:
        return "model", []
    for word in ORDER[ORDER.index(later[-1]) + 1 :]:
        # Not every investigation has these two; without a sign of them they were left out.
        if word not in ("capture", "model"):
            return word, []
    return "finish", []


def next_try(steps: Sequence[Step]) -> tuple[int, datetime | None]:
    """Of a workflow that replies: how often it was tried, and when it is tried again."""
    tries = [s for s in steps if s.name.startswith("reply ")]
    if not tries or tries[-1].completed_at is None or len(tries) >= REPLY_TRIES:
        return len(tries), None
    first, longest = REPLY_WAIT_S
    wait = min(first * 2.0 ** min(len(tries) - 1, 30), longest)
    return len(tries), tries[-1].completed_at + timedelta(seconds=wait)


def last_progress(inspection: Inspection, name: str, stage: str) -> str:
    """The newest line of progress of a stage, on one line."""
    query = select(ProgressRow.text).where(
        ProgressRow.investigation_id == name, ProgressRow.stage == stage
    )
    with inspection.read() as session:
        return plain(session.scalar(query.order_by(ProgressRow.id.desc()).limit(1)) or "", MAX_TEXT)


def _connectors(progress: Sequence[ProgressRow]) -> list[str]:
    """The connectors that the step `open` named in its line: "...; asking a, b"."""
    for row in progress:
        if row.stage == "scope":
            # From the right, because what comes before may hold the word too.
            _, mark, names = row.text.rpartition("asking ")
            if not mark:
                return []
            return [name.strip() for name in names.split(",") if name.strip()]
    return []
