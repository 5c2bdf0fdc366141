"""Statements about training jobs and their ranks."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.finding_details import JobDetails, StragglerDetails
from faultline.analysis.phrasing.phrase import (
    NOTHING,
    Phrase,
    Slot,
    measured,
    quote,
    say,
    sentence_clause,
)
from faultline.analysis.phrasing.statement import Statement, Verb, Voice
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import MILLISECONDS, amount

LONGEST = 110
"""Characters of a headline that still leave it one look on a phone."""
PARTS: Mapping[str, str] = {
    "idle": "idle time",
    "other": "time outside of every phase",
    "copies": "copying",
}
"""Parts of a step that are no phases, as people name them."""
NEEDED = frozenset({"wait_ms_per_step", "step_ms", "steps", "steps_blamed"})


def of_a_job(finding: Finding, voice: Voice) -> Statement | None:
    """Of a rank, a GPU or a whole job: the finding's sentence, and in short what is wrong."""
    details = JobDetails.of(finding)
    fault = fault_of(finding)
    if details is None or fault is None:
        return None
    whole = sentence_clause(finding)
    # Its sentence says first what is wrong, then what follows from it.
    sentence, *rest = finding.sentence.split("; ")
    for part in rest:
        if len(sentence) + len(part) > LONGEST:
            break
        sentence = f"{sentence}; {part}"
    first = finding.model_copy(update={"sentence": sentence})
    return Statement(whole, None, shorter=sentence_clause(first))


def straggler(finding: Finding, voice: Voice) -> Statement | None:
    """A rank that the others wait for, by the part of its step that takes longer."""
    details = StragglerDetails.of(finding)
    numbers = finding.numbers
    if details is None or details.rank is None or not numbers.keys() >= NEEDED:
        return None
    if finding.subject != f"rank {details.rank}":
        # Several ranks: the finding names them.
        return None
    waits = say(
        "the others wait {wait} of each {step} step for it",
        wait=measured(finding, "wait_ms_per_step", MILLISECONDS),
        step=measured(finding, "step_ms", MILLISECONDS),
    )
    if not details.phase or not {"phase_ms", "others_phase_ms"} <= numbers.keys():
        steps = _steps(finding)
        delays = say("{steps}: {waits}", steps=steps, waits=waits)
        return Statement(say("{who}", who=voice.who), Verb("delays", "delayed", "delay"), delays,
                         say("{steps}", steps=steps))  # fmt: skip
    phase = PARTS.get(details.phase, details.phase)
    whole = say(
        "{own} per step (other ranks {theirs}){inside}, and {waits}",
        own=measured(finding, "phase_ms", MILLISECONDS),
        theirs=measured(finding, "others_phase_ms", MILLISECONDS),
        inside=_inside(finding, details),
        waits=waits,
    )
    short = say(
        "{own} per step (other ranks {theirs})",
        own=measured(finding, "phase_ms", MILLISECONDS),
        theirs=measured(finding, "others_phase_ms", MILLISECONDS),
    )
    subject = say("{whose} {phase}", whose=voice.whose, phase=phase)
    return Statement(subject, Verb("takes", "took", "take"), whole, short)


def _steps(finding: Finding) -> str:
    steps, blamed = finding.numbers["steps"], finding.numbers["steps_blamed"]
    return "every step" if blamed >= steps else f"{amount(blamed)} of {amount(steps)} steps"


def _inside(finding: Finding, details: StragglerDetails) -> Slot:
    """Where inside of the phase the time goes."""
    operation = details.operation
    if not isinstance(operation, str) or "operation_ms" not in finding.numbers:
        return NOTHING
    spent: Phrase = say(
        ", {ms} of it in {operation}",
        ms=measured(finding, "operation_ms", MILLISECONDS),
        operation=quote(operation, finding),
    )
    return spent
