"""The last step of an investigation: its answer is stored, and what is learned from it is kept."""

from __future__ import annotations

import logging

from obstore.exceptions import BaseError

from faultline.analysis.case.folder import json_bytes
from faultline.analysis.vocabulary import Alert, Diagnosis
from faultline.bot.answer.exports.answered import ANSWERED_FILE, answer_times
from faultline.bot.answer.view import answer_view
from faultline.bot.investigation.learning_calls import learn_calls
from faultline.bot.investigation.remembering import keep_in_memory
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import Analyzed
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.case_store import PARTS
from faultline.bot.store.connections import storable

log = logging.getLogger("faultline.steps")

MAX_CULPRIT = 300
"""Characters of a name as lists show it."""


async def store_answer(
    context: WorkerContext, investigation_id: str, analyzed: Analyzed, headline: str
) -> None:
    """From now on the answer stands."""
    await context.say(investigation_id, "done", headline)
    culprit, explained = await _blamed(context, investigation_id)
    await in_store(
        context.store.finish,
        investigation_id,
        "done",
        verdict=analyzed["verdict"],
        confidence=analyzed["confidence"],
        headline=headline,
        culprit=culprit,
        explained=explained,
    )


async def keep_learned(context: WorkerContext, investigation_id: str, headline: str) -> None:
    """What later investigations know of this one. The connectors' parts are in the case now, and
    are deleted."""
    engine, cases, settings = context.store.engine, context.cases, context.settings
    investigation = await context.investigation(investigation_id)
    await in_thread(keep_in_memory, engine, cases, investigation, headline)
    await in_thread(learn_calls, engine, cases, investigation, settings)
    try:
        times = answer_times(investigation, settings.server.public_url)
        await context.put(investigation_id, ANSWERED_FILE, json_bytes(times))
        await in_thread(cases.delete, investigation_id, PARTS)
    # The answer was given; parts that stay only take room.
    except (BaseError, OSError) as error:
        log.warning("cannot delete parts of %s: %s", investigation_id, type(error).__name__)


async def _blamed(context: WorkerContext, investigation_id: str) -> tuple[str | None, bool | None]:
    """What the answer blames, and whether it says why; None where there is no diagnosis."""
    alert, findings = [
        await in_thread(context.cases.get, investigation_id, name)
        for name in ("alert.json", "findings.json")
    ]
    if alert is None or findings is None:
        return None, None
    return blame_of(Alert.model_validate_json(alert), Diagnosis.model_validate_json(findings))


def blame_of(alert: Alert, diagnosis: Diagnosis) -> tuple[str | None, bool]:
    """What an answer blames, and whether it says why."""
    view = answer_view(alert, diagnosis, None)
    culprit = view.cause.subject if view.cause and view.established else None
    return (storable(culprit, MAX_CULPRIT) if culprit else None), view.explained
