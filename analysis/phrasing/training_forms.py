"""Statements about training jobs and their ranks."""

from __future__ import annotations

from collections.abc import Mapping

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.finding_details import (
    GpuDetails,
    JobDetails,
    RunStateDetails,
    StragglerDetails,
)
from faultline.analysis.phrasing.statement import (
    NOTHING,
    Part,
    Phrase,
    Slot,
    Statement,
    Verb,
    Voice,
    figure,
    listed,
    measured,
    name,
    quote,
    say,
    sentence_clause,
)
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import (
    MILLISECONDS,
    NUMBER,
    PERCENT,
    SHARE,
    Unit,
    amount,
    times,
)

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


# Statements about GPUs and training runs that stand still, are slow or have ended, and about what
# that costs their job.

MINUTES = Unit("time", 60.0)
TENSOR_USE = "gpu_tensor_active"
MEGAHERTZ = Unit("number", noun="MHz")
_REASONS: Mapping[str, str] = {
    "thermal (hardware)": "hardware thermal limit",
    "thermal (software)": "software thermal limit",
}
"""Reasons for a lower clock that DCGM words too tersely for a sentence."""


def spinning(finding: Finding, voice: Voice) -> Statement | None:
    """All GPUs of a job wait in a collective."""
    numbers = finding.numbers
    if not {"minutes", "gpus", "utilisation_percent"} <= numbers.keys():
        return None
    for_long = measured(finding, "minutes", MINUTES)
    gpus = measured(finding, "gpus", NUMBER)
    waiting = say(
        "all {gpus} GPUs have waited in a collective for {long}", gpus=gpus, long=for_long
    )
    percent = measured(finding, "utilisation_percent", PERCENT)
    utilisation = say("({percent} utilisation, but no computing)", percent=percent)
    who = say("{who}", who=voice.who)
    rest = say(": {waiting} {seen}", waiting=waiting, seen=utilisation)
    whole = say("{who} hangs{rest}", who=who, rest=rest)
    # Otherwise the finding rests on power, whose two levels are no shares.
    if finding.signal == TENSOR_USE and {"incident", "usual"} <= numbers.keys():
        idle = say(
            "the tensor cores of {whose} GPUs are {now} in use (usually {usual})",
            whose=voice.whose,
            now=measured(finding, "incident", SHARE),
            usual=measured(finding, "usual", SHARE),
        )
        return Statement(idle, None, shorter=whole)
    return Statement(whole, None, shorter=whole)


def idle_alone(finding: Finding, voice: Voice) -> Statement | None:
    """One GPU does nothing, and the others wait for it."""
    details, who = GpuDetails.of(finding), _device(finding, voice)
    if details is None or who is None or not {"minutes", "others"} <= finding.numbers.keys():
        return None
    whole = say(
        "{who} has done nothing for {long}, and the other {others} GPUs{job} wait for it",
        who=who,
        long=measured(finding, "minutes", MINUTES),
        others=measured(finding, "others", NUMBER),
        job=say(" of {job}", job=name(details.job)) if details.job else NOTHING,
    )
    return Statement(whole, None, shorter=whole)


def throttled(finding: Finding, voice: Voice) -> Statement | None:
    """A GPU whose clock was lowered."""
    details, who = GpuDetails.of(finding), _device(finding, voice)
    if details is None or who is None or not {"incident", "reference"} <= finding.numbers.keys():
        return None
    reasons: Phrase = NOTHING
    if details.events:
        named = [Part(_REASONS.get(event, event), "words", finding.id) for event in details.events]
        reasons = say(" (reasons: {named})", named=listed(named))
    rest = say(
        "at {now} while the other busy GPUs run at {others}{reasons}",
        now=measured(finding, "incident", MEGAHERTZ),
        others=measured(finding, "reference", MEGAHERTZ),
        reasons=reasons,
    )
    return Statement(who, Verb("runs", "ran", "run"), rest)


def run_ended(finding: Finding, voice: Voice) -> Statement | None:
    """A training run that no longer reports."""
    details = RunStateDetails.of(finding)
    if details is None or not details.run or not details.state:
        return None
    short = say(
        "{whose} run {run} {state}", whose=voice.whose, run=details.run, state=details.state
    )
    return Statement(sentence_clause(finding), None, shorter=short)


def stalled(finding: Finding, voice: Voice) -> Statement | None:
    """All ranks wait for their data."""
    numbers = finding.numbers
    # A step of no length has no share to name.
    if not {"ranks", "data_ms", "step_ms"} <= numbers.keys() or not numbers["step_ms"]:
        return None
    share = amount(100 * numbers["data_ms"] / numbers["step_ms"], PERCENT)
    whole = say(
        "all {ranks} ranks wait {data} of each {step} step ({share}) for the data loader",
        ranks=measured(finding, "ranks", NUMBER),
        data=measured(finding, "data_ms", MILLISECONDS),
        step=measured(finding, "step_ms", MILLISECONDS),
        share=figure(finding, "data_ms", share),
    )
    if "training process itself" in finding.sentence:
        whole = say("{whole}, which runs in the training process itself", whole=whole)
    return Statement(whole, None, shorter=whole)


def cost(finding: Finding) -> Phrase:
    """What the fault costs its job, where its own numbers tell it."""
    if RunStateDetails.of(finding) is not None:
        return say("{run} trains nothing until it is started again", run=name(finding.subject))
    details, fault, numbers = JobDetails.of(finding), fault_of(finding), finding.numbers
    if details is None or fault is None or not details.job:
        return NOTHING
    job = name(details.job)
    if fault.hangs or fault.name == "gpu_idle_alone":
        return say("{job} makes no progress", job=job)
    if fault.name == "gpu_throttled" and numbers.get("reference"):
        # Every rank that waits for it in a collective loses as much.
        slower = amount(100 * (1 - numbers["incident"] / numbers["reference"]), PERCENT)
        lower = figure(finding, "incident", slower)
        return say(
            "its clock is {lower} lower, and every rank of {job} that waits for it is as slow",
            lower=lower,
            job=job,
        )
    if fault.name == "gpu_missing":
        return say(
            "whether {job} goes on without it was not measured; a job that needs all of its "
            "ranks stops",
            job=job,
        )
    if fault.name == "dataloader_stall" and {"data_ms", "step_ms"} <= numbers.keys():
        # A step that is all waiting has no speed without the wait.
        work = numbers["step_ms"] - numbers["data_ms"]
        faster = times(numbers["step_ms"] / work) if work > 0 else ""
        gain = figure(finding, "step_ms", faster)
        return say("without the wait {job} could train up to {gain} faster", job=job, gain=gain)
    if fault.name == "slow_step" and {"step_ms", "median_step_ms"} <= numbers.keys():
        lost = amount(numbers["step_ms"] - numbers["median_step_ms"], MILLISECONDS)
        lost_part = figure(finding, "step_ms", lost)
        return say("all ranks of {job} lost {lost} in that step", job=job, lost=lost_part)
    return NOTHING


def _device(finding: Finding, voice: Voice) -> Phrase | None:
    """A rank with its GPU and host; None where the finding is about several."""
    details = GpuDetails.of(finding)
    gpu = finding.numbers.get("gpu")
    if details is None or gpu is None or len(details.hosts) != 1:
        return None
    return say(
        "{who} (GPU {gpu} of {host})", who=voice.who, gpu=f"{gpu:.0f}", host=name(details.hosts[0])
    )
