"""Once the evidence is analysed: an investigation becomes a part of a related one, or its answer
says what an earlier answer of the same incident named as the cause."""

from __future__ import annotations

from datetime import datetime

from faultline.analysis.case.folder import json_bytes
from faultline.analysis.vocabulary import Alert
from faultline.analysis.wording.phrases import plain
from faultline.bot.investigation.analyzing import Analysis
from faultline.bot.investigation.finishing import blame_of
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.store.store import StoredInvestigation

MOST_NOTES = 2
"""Earlier answers that an answer names."""
LONGEST_TITLE = 120


async def join_incident(
    context: WorkerContext, investigation: StoredInvestigation, analysis: Analysis
) -> bool:
    """Whether it became a part of another investigation. Otherwise its case notes what other
    answers of the incident blame."""
    # A recorded case is its own incident, whatever alert it answers.
    if context.recorded is not None:
        return False
    stored = await in_thread(context.cases.get, investigation.id, "alert.json")
    alert = investigation.alert if stored is None else Alert.model_validate_json(stored)
    blamed, explained = blame_of(alert, analysis.diagnosis)
    # An answer that says no more than that the alerting service fails leaves open what it calls.
    suspects = () if explained or blamed not in (None, alert.service) else analysis.failing_peers
    late_joins = context.store.late_joins
    joined = await in_store(late_joins.join, investigation.id, blamed, suspects)
    if joined is not None:
        line = f"joined {joined.investigation_id}: {joined.why}"
        await context.say(investigation.id, "joined", line)
        return True
    notes: list[str] = []
    before, at = investigation.culprit, investigation.finished_at
    # It is run again because alerts joined.
    if before is not None and at is not None and before != blamed:
        notes.append(
            f"At {_clock(at)} this answer named {plain(before)} as the cause. Alerts that joined "
            "since then brought more evidence."
        )
    for answer in await in_store(late_joins.answers_beside, investigation.id, blamed):
        why = "Its alert is still open, so both may be one incident."
        if not answer.is_tied:
            why = (
                "It began about then, and nothing places it elsewhere. No call between the two is "
                "known, and both may be one incident."
            )
        notes.append(
            f"The answer to “{plain(answer.title, LONGEST_TITLE)}” of {_clock(answer.at)} named "
            f"{plain(answer.culprit)} as the cause. {why}"
        )
    if notes:
        noted = alert.model_copy(update={"notes": (*alert.notes, *notes[:MOST_NOTES])})
        await context.put(investigation.id, "alert.json", json_bytes(noted))
    return False


def _clock(moment: datetime) -> str:
    return f"{moment:%H:%M} UTC"
