"""The steps that post: the first message, the answer by code, the answer. For a reply target that
does not answer, the result says whether to try again."""

from __future__ import annotations

from faultline.analysis.case.folder import read_case, read_diagnosis, read_report
from faultline.analysis.errors import ConnectorError
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.traces.job.trace_versions import TRACES
from faultline.bot.answer.outcome import Answer, Outcome, PointsFromJoined, ReplyTarget
from faultline.bot.investigation.analyzing import CHART
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import Posted
from faultline.bot.policy.values import ENDED
from faultline.bot.runtime.threads import in_thread
from faultline.bot.store.store import StoredInvestigation


def reply_target_names(context: WorkerContext, investigation: StoredInvestigation) -> list[str]:
    """Names of the reply targets at which it is to be answered."""
    return [target.name for target in context.reply_targets if target.expects_answer(investigation)]


async def announce(context: WorkerContext, investigation_id: str, target: str) -> str:
    """First message. A target that does not answer gets its message with the final one."""
    try:
        await _target(context, target).announce(await context.investigation(investigation_id))
    except ConnectorError as error:
        await context.say(investigation_id, f"announce {target}", str(error))
        return masked(str(error))
    return "announced"


async def preview(context: WorkerContext, investigation_id: str, target: str) -> str:
    """The answer by code, while the model investigates. A target that does not answer gets the
    final one."""
    try:
        investigation = await context.investigation(investigation_id)
        outcome = Outcome(investigation, await _answer(context, investigation_id))
        await _target(context, target).preview(outcome)
    except ConnectorError as error:
        await context.say(investigation_id, f"preview {target}", str(error))
        return masked(str(error))
    return "shown"


async def reply(context: WorkerContext, investigation_id: str, target: str) -> Posted:
    """Post the answer at one reply target."""
    investigation = await context.investigation(investigation_id)
    if investigation.status not in ENDED:
        return {"again": False, "why": "it is being run again, and that run answers"}
    answer = await _answer(context, investigation_id) if investigation.status == "done" else None
    outcome = Outcome(investigation, answer)
    try:
        await _target(context, target).answer(outcome)
    except ConnectorError as error:
        # The problem is part of the stage: a line is kept once for each, however often we try.
        await context.say(investigation_id, f"reply {target}: {error.problem}", str(error))
        return {"again": error.retryable, "why": masked(str(error))}
    await context.say(investigation_id, f"reply {target}", f"answered in {target}")
    posted: Posted = {"again": False, "why": "posted"}
    pointing = _target(context, target)
    if isinstance(pointing, PointsFromJoined) and pointing.has_joined(investigation):
        posted["joined"] = True
    return posted


async def point_from_joined(context: WorkerContext, investigation_id: str, target: str) -> Posted:
    """Point to the answer from the places of alerts that joined."""
    pointing = _target(context, target)
    assert isinstance(pointing, PointsFromJoined)
    try:
        outcome = Outcome(await context.investigation(investigation_id), None)
        await pointing.point_from_joined(outcome)
    except ConnectorError as error:
        return {"again": error.retryable, "why": masked(str(error))}
    return {"again": False, "why": "posted"}


async def _answer(context: WorkerContext, investigation_id: str) -> Answer:
    chart = await in_thread(context.cases.get, investigation_id, CHART)
    # Traces can have gigabytes, and the answer needs none of them.
    async with context.checkout(investigation_id, without=[TRACES]) as folder:
        case = await in_thread(read_case, folder)
        diagnosis, report = read_diagnosis(folder), read_report(folder)
        return Answer(diagnosis, report, case.evidence, case.gaps, chart, case)


def _target(context: WorkerContext, name: str) -> ReplyTarget:
    for target in context.reply_targets:
        if target.name == name:
            return target
    raise ConnectorError(name, "post", "is not configured any more")
