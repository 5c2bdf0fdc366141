"""Whether work goes on: workers, queues, work of the dead, what takes long and where it stands,
rows without a half."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import func, select

from faultline.analysis.wording.phrases import counted, plain
from faultline.bot.operating.engine_rows import MOST, Step, Workflow, investigation_of
from faultline.bot.operating.inspection import (
    CheckResult,
    Executors,
    Inspection,
    LostWorker,
    lasting,
    when,
)
from faultline.bot.queue.engine_database import WORKFLOW_INVESTIGATE
from faultline.bot.store.people_tables import QuestionRow
from faultline.bot.store.tables import InvestigationRow, ProgressRow

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


WAITS_LONG = timedelta(minutes=5)
"""An idle worker takes work within a second (`worker.polling_interval_s`); so long means that none
is idle."""
FORGOTTEN = timedelta(minutes=2)
"""Idle workers give what was accepted to the engine within a second."""
SETTLING = timedelta(seconds=60)
"""Takeover looks every second; work of a dead worker that is older than this is taken over by
nobody."""
USUAL_OF = 200
"""The usual duration comes from this many answers."""
LEAST_USUAL = timedelta(minutes=10)
NOTE_LOST_FOR = timedelta(hours=1)
"""A lost worker is worth a note for this long after its work was taken over."""
NAMED = 5


def work_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """All of them."""
    living = inspection.executors()
    yield _workers(inspection, living.count)
    hosts = sorted(living.hosts)
    cases = inspection.settings.store.cases
    # Workers on several machines need one case store, and a directory may be local.
    if len(hosts) > 1 and not (cases or "").startswith("s3://"):
        phrase = (
            f"workers on {len(hosts)} machines, and the case folders in a directory: "
            f"{cases or 'of each machine'}"
        )
        yield CheckResult(
            "note",
            "cases",
            phrase,
            "set store.cases to s3://..., unless all machines share that directory",
        )
    if inspection.rows is None:
        yield CheckResult(
            "wrong",
            "engine",
            f"the engine's tables cannot be read: {inspection.no_rows}",
            "start the bot once: it makes them",
        )
        return
    active = inspection.rows.active()
    yield from _queues(inspection)
    yield from _of_the_lost(active, living)
    yield from _of_the_dead(inspection, active, living)
    yield from _without_half(inspection, active)
    yield from _long(inspection, active)


def _workers(inspection: Inspection, count: int) -> CheckResult:
    if count:
        return CheckResult("ok", "workers", f"{counted(count, 'worker')} alive")
    with inspection.read() as session:
        waiting = (
            session.scalar(
                select(func.count()).where(InvestigationRow.status.in_(("accepted", "running")))
            )
            or 0
        )
    phrase = f"no worker is alive; {counted(waiting, 'investigation')} not ended"
    return CheckResult(
        "wrong",
        "workers",
        phrase,
        "start `faultline serve` or `faultline worker`; what waits goes on by itself",
    )


def _queues(inspection: Inspection) -> Iterator[CheckResult]:
    yield from _in_the_store(inspection)
    assert inspection.rows is not None
    for queue in inspection.rows.queues():
        waits = inspection.now - queue.oldest if queue.oldest else timedelta(0)
        phrase = f"{queue.queue or 'no queue'}: {queue.enqueued} waiting, {queue.pending} at work"
        phrase += f"; the oldest waits for {lasting(waits)}" if queue.enqueued else ""
        late = queue.oldest is not None and waits > WAITS_LONG
        todo = (
            "start more workers, or raise worker.concurrency; a reply target that is down delays "
            "only its own posts"
        )
        yield CheckResult("wrong" if late else "ok", "queue", phrase, todo if late else "")


def _in_the_store(inspection: Inspection) -> Iterator[CheckResult]:
    """What waits in the store: the engine is given no more than the workers can take soon."""
    row = InvestigationRow
    waiting = select(func.count(), func.min(row.accepted_at)).where(row.dispatched_at.is_(None))
    with inspection.read() as session:
        count, oldest = session.execute(waiting).one()
        running = session.scalar(select(func.count()).where(row.status == "running")) or 0
    if not count or oldest is None:
        return
    waits = inspection.now - oldest
    phrase = (
        f"{counted(count, 'investigation')} accepted and waiting, the oldest for "
        f"{lasting(waits)}; {running} running"
    )
    # Nothing runs, so there is room, and yet nobody takes it.
    if not running and waits > FORGOTTEN:
        todo = "no worker takes any: their logs say why (`dispatch: ...`), or none is alive"
        yield CheckResult("wrong", "queue", phrase, todo)
    else:
        late = waits > WAITS_LONG
        yield CheckResult(
            "wrong" if late else "ok", "queue", phrase, "start more workers" if late else ""
        )


def _of_the_lost(active: list[Workflow], living: Executors) -> Iterator[CheckResult]:
    workflows: defaultdict[str, list[Workflow]] = defaultdict(list)
    for workflow in active:
        if workflow.status == "PENDING" and workflow.executor:
            workflows[workflow.executor].append(workflow)
    for name, worker in sorted(living.lost.items()):
        if name in workflows:
            names = f"{worker.summary}; it has {counted(len(workflows[name]), 'workflow')}: "
            names += _names(workflows[name])
            yield CheckResult("wrong", "takeover", names, taken_over(worker, living))
        elif worker.declared and worker.silent < NOTE_LOST_FOR:
            names = f"{worker.summary}; its work was taken over"
            yield CheckResult("note", "workers", names, f"check {worker.host}")


def taken_over(worker: LostWorker, living: Executors) -> str:
    """What to do about a lost worker with work."""
    if not living.count:
        return "start a worker: it takes the work over within seconds"
    return (
        f"another worker takes its work over within seconds; if not, the workers' logs say why "
        f"(`takeover: ...`). Check {worker.host}"
    )


def _of_the_dead(
    inspection: Inspection, active: list[Workflow], living: Executors
) -> Iterator[CheckResult]:
    dead = [
        w
        for w in active
        if w.status == "PENDING"
        and w.executor
        and not living.lives(w.executor)
        # `_of_the_lost` reports these.
        and w.executor not in living.lost
    ]
    old = [w for w in dead if inspection.now - w.updated_at > SETTLING]
    if old:
        owners = sorted({w.executor or "" for w in old})
        phrase = (
            f"{counted(len(old), 'workflow')} of {counted(len(owners), 'worker')} that died: "
            f"{_names(old)}"
        )
        yield CheckResult(
            "wrong",
            "takeover",
            phrase,
            "start a worker: it takes them over within seconds, and each goes on where it was",
        )


def _without_half(inspection: Inspection, active: list[Workflow]) -> Iterator[CheckResult]:
    assert inspection.rows is not None
    # What was dispatched just now may not be among `active` yet.
    row, before = InvestigationRow, inspection.now - FORGOTTEN
    query = (
        select(row.id)
        .where(row.status.in_(("accepted", "running")), row.dispatched_at < before)
        .limit(MOST)
    )
    with inspection.read() as session:
        open_ = list(session.scalars(query))
        present_ids = set(open_)
        # Of the other workflows, ask whether the store knows their investigation at all.
        named = {investigation_of(w.id) for w in active} - {""} - present_ids
        if named:
            present_ids |= _present(inspection, named)
    at_work = {investigation_of(w.id) for w in active}
    lost = [name for name in open_ if name not in at_work]
    if lost:
        some = ", ".join(lost[:NAMED])
        phrase = (
            f"the engine has no work for {counted(len(lost), 'investigation')} that did not "
            f"end: {some}"
        )
        yield CheckResult(
            "wrong",
            "lost",
            phrase,
            f"`faultline requeue {lost[0]}` restarts it; no message is posted twice",
        )
    ghosts = sorted(named - present_ids)
    if ghosts:
        some = ", ".join(ghosts[:NAMED])
        phrase = (
            f"the engine works on {counted(len(ghosts), 'investigation')} that the store does "
            f"not know: {some}"
        )
        yield CheckResult(
            "wrong",
            "lost",
            phrase,
            f"`faultline delete {ghosts[0]}` removes what the engine has of it",
        )


def _present(inspection: Inspection, names: set[str]) -> set[str]:
    with inspection.read() as session:
        some = sorted(names)
        presents = set[str]()
        # In batches, because databases bound the parameters of a statement.
        for first in range(0, len(some), 200):
            presents |= set(
                session.scalars(
                    select(InvestigationRow.id).where(
                        InvestigationRow.id.in_(some[first : first + 200])
                    )
                )
            )
        return presents


def usual_length(inspection: Inspection) -> timedelta:
    """p95 of the durations of investigations, and never less than `LEAST_USUAL`."""
    row = InvestigationRow
    query = (
        select(row.started_at, row.finished_at)
        .where(row.status == "done", row.started_at.is_not(None), row.finished_at.is_not(None))
        .order_by(row.accepted_at.desc())
        .limit(USUAL_OF)
    )
    with inspection.read() as session:
        took = sorted(end - begin for begin, end in session.execute(query) if begin and end)
    return max(took[int(0.95 * (len(took) - 1))], LEAST_USUAL) if took else LEAST_USUAL


def _long(inspection: Inspection, active: list[Workflow]) -> Iterator[CheckResult]:
    usual = usual_length(inspection)
    row = InvestigationRow
    query = select(row.id, row.started_at).where(
        row.status == "running", row.started_at < inspection.now - usual
    )
    with inspection.read() as session:
        slow_rows = [
            (id_, at)
            for id_, at in session.execute(query.order_by(row.started_at).limit(NAMED))
            if at
        ]
    for id_, started in slow_rows:
        stands = where_it_stands(
            inspection, id_, [w for w in active if investigation_of(w.id) == id_]
        )
        phrase = (
            f"{id_} runs for {lasting(inspection.now - started)}, and {lasting(usual)} is usual: "
            f"{stands.text}"
        )
        yield CheckResult(
            "wrong", "slow", phrase, stands.todo or f"`faultline doctor {id_}` tells its story"
        )


def question_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """Questions in Slack that nobody answered."""
    row = QuestionRow
    query = select(func.count(), func.min(row.asked_at)).where(
        row.status == "asked", row.asked_at < inspection.now - WAITS_LONG
    )
    with inspection.read() as session:
        count, oldest = session.execute(query).one()
    if count and oldest:
        phrase = (
            f"{counted(count, 'question')} in Slack without an answer, the oldest for "
            f"{lasting(inspection.now - oldest)}"
        )
        yield CheckResult(
            "wrong",
            "questions",
            phrase,
            "Slack is down or no worker is alive; questions are abandoned after 6 hours",
        )


def _names(workflows: list[Workflow]) -> str:
    names = list(dict.fromkeys(w.id for w in workflows))
    return ", ".join(names[:NAMED]) + (
        f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    )
