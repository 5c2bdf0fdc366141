"""Rules 1, 3, 18, 20 and 25: one rank, or one step, that everybody waits for."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from faultline.analysis.traces.across_ranks.blame import LateArrival, RankBlame
from faultline.analysis.traces.across_ranks.comparison import RankComparison
from faultline.analysis.traces.across_ranks.kernel_speed import RankSpeed
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.step_breakdown import (
    ExtraWork,
    SlowStep,
    extra_operation,
)
from faultline.analysis.traces.columns.steps import PHASES
from faultline.analysis.traces.doctor.diagnosis import EventReference, JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import DoctorRule, rank_phrase, short, subject_of
from faultline.analysis.traces.per_rank.host_syncs import READS, SYNC_CALL
from faultline.analysis.traces.per_rank.pauses import Pause
from faultline.analysis.traces.per_rank.step_times import DATA, IDLE
from faultline.analysis.traces.readable import readable

CRITICAL_SHARE = 0.30
"""Share of wall time from which a straggler is critical (our choice: all recorded stragglers lie
above, all healthy jobs below)."""
MAX_SLOW_STEPS = 3
MAX_SLOW_DEVICES = 2
"""More of them share one sentence."""
EXPLAINED_SHARE, MENTION_SHARE = 0.3, 0.1
"""Share of the waiting that a part of the rank's own steps must explain, to tell a cause from a
rank that is itself delayed; and to be said at all. Both are assumptions."""
UNSEEN_SHARE = 0.5
"""Share of the lost time in which the host ran nothing that was recorded, from which that is said
(our choice)."""
_FRAMEWORK = re.compile(
    r"\w+:|cuda|hip|triton|Optimizer\.|Torch-Compiled|## |Distributed|FullySharded|FSDP"
)
"""How operations begin whose names the framework gave."""
PART_WORDS = {"idle": "idle time", "other": "time outside of every phase", "copies": "copying"}

STRAGGLER = DoctorRule(
    name="straggler",
    sees="the time from the second-last to the last arrival at every matched collective, charged "
    "to the rank that "
    "comes last, where the others felt it; of several ranks late at once (fewer than half of at "
    "least 5), from "
    "the median arrival; then what the rank does longer than the others, by phase and operation",
    threshold="20 % of wall time, and 20 % of the step in more than half of the steps; needs 3 "
    "common steps; critical "
    "from 30 %",
    source="TraceML's straggler score (10 %, 20 %); persistence: own, stragglers held up 5 to 8 "
    "of 8 recorded steps, "
    "healthy jobs and single pauses at most 4",
    fix="Compare the rank's host, input and code with another rank's.",
)
STRAGGLER_FIXES = {
    "input": "Look at what it reads and from where, at the storage and CPUs of its host, and "
    "whether its shard is "
    "larger or its samples longer than the others'.",
    "device": "Check the device's temperature, clocks, power limit and ECC (nvidia-smi -q), and "
    "move the rank to "
    "another device.",
    "computation": "Balance the work (sequence lengths, experts, layers); where it is equal, "
    "compare the rank's clocks "
    "and its host's load with another rank's.",
    "host": "Look at its host for other processes, Python code outside of operators, swapping, or "
    "CPU limits and "
    "clocks; record with_stack=True there.",
}
SLOW_KERNELS = DoctorRule(
    name="slow_kernels",
    sees="the same kernels (name, grid, block) on every rank: one rank takes longer for most of "
    "them",
    threshold="1.1x over all shared kernels, at least 5 of them, half of the time in slower ones",
    source="training-telemetry practice; no tool names a number",
    fix=STRAGGLER_FIXES["device"],
)
SLOW_STEP = DoctorRule(
    name="slow_step",
    sees="one step that took far longer than the others and for which the other ranks waited for "
    "one rank; saves and "
    "garbage collections in it",
    threshold="1.5x the median step, half of it charged to the rank, and 5 median steps lost",
    source="nsys-ai's iteration spike (1.5x); size: own, jitter of an oversubscribed healthy "
    "machine cost 3 steps, a "
    "recorded checkpoint 54",
    fix="Look at what the rank did in that step.",
)
PAUSE_FIXES = {
    "checkpoint save": "Save asynchronously (torch.distributed.checkpoint.async_save), or from "
    "all ranks in shards.",
    "garbage collection": "Call gc.freeze() after set-up, or gc.disable() and gc.collect() on all "
    "ranks in the same "
    "step.",
    "evaluation": "Evaluate on all ranks at once, or outside of the training job.",
}
UNSEEN_FIX = (
    "Nothing was recorded in it: garbage collection (gc.freeze(), or collect on all ranks in the "
    "same step), storage, "
    "or another process on that host; record with_stack=True to see."
)


def stragglers(job: TrainingJob) -> list[JobDiagnosis]:
    """Ranks that delay the job persistently, the worst first."""
    compared = job.compared
    if compared is None:
        return []
    # The stragglers whose own work explains why they are late, where any does. With tensor or
    # pipeline parallelism a late rank makes its row late for all other groups that the row is in.
    late = list(compared.stragglers)
    explained = [charged for charged in late if _explained(compared, charged)]
    alone = [_straggler(job, compared, [charged]) for charged in (explained or late)]
    if alone or not compared.blame.together:
        return alone
    return [_straggler(job, compared, compared.blame.together)]


def _explained(compared: RankComparison, charged: RankBlame) -> bool:
    part = compared.extra_part(charged.rank)
    wait_ms = charged.blame_ns / 1e6 / max(compared.blame.step_count, 1)
    return part is not None and part.extra_ms >= EXPLAINED_SHARE * wait_ms


def slow_kernels(job: TrainingJob, named: Collection[int]) -> list[JobDiagnosis]:
    """Ranks with a slow device that are no stragglers; many of them at once."""
    if job.comparison is None:
        return []
    slow = [
        slow_device
        for slow_device in job.comparison.slow_devices
        if slow_device.rank not in named and slow_device.slowest
    ]
    if len(slow) > MAX_SLOW_DEVICES:
        return [_slow_kernels(job, slow)]
    return [_slow_kernels(job, [speed]) for speed in slow]


def _slow_kernels(job: TrainingJob, speeds: Sequence[RankSpeed]) -> JobDiagnosis:
    """The slowest first; its numbers stand for all."""
    speed = speeds[0]
    # `slow_kernels` keeps only devices with a slowest kernel.
    worst = speed.slowest[0]
    ranks = sorted(speed.rank for speed in speeds)
    who, numbers = rank_phrase(ranks, job.count)
    numbers |= {
        "rank": float(speed.rank),
        "ratio": round(speed.ratio, 2),
        "kernels": float(speed.kernels),
        "own_us": short(worst.rank_median / 1e3),
        "others_us": short(worst.peer_median / 1e3),
    }
    takes = "takes" if len(speeds) == 1 else "take up to"
    statement = (
        f"{who} {takes} {numbers['ratio']:g}x as long as the others for {speed.kernels} kernels "
        f"that all of them run, "
        f"{numbers['own_us']:g} us instead of {numbers['others_us']:g} us for "
        f"`{readable(worst.name)}`"
    )
    details = {"ratios": {str(speed.rank): round(speed.ratio, 3) for speed in speeds[:64]}}
    return SLOW_KERNELS.diagnosis(
        "warning", subject_of(ranks, job.count), statement, numbers, ranks=ranks, details=details
    )


def single_slow_steps(job: TrainingJob) -> list[JobDiagnosis]:
    """Outlier steps that one rank delayed, the worst first."""
    compared = job.compared
    if not compared:
        return []
    return [_slow_step(job, compared, slow) for slow in compared.slow_steps[:MAX_SLOW_STEPS]]


@dataclass(frozen=True)
class _Why:
    cause: str
    text: str
    numbers: dict[str, float]
    part: str | None
    operation: str | None


def _straggler(
    job: TrainingJob, compared: RankComparison, late: Sequence[RankBlame]
) -> JobDiagnosis:
    """One rank, or several that are late together: then the worst one's numbers."""
    charged, ranks = late[0], sorted(rank_blame.rank for rank_blame in late)
    (summary,) = job.where([charged.rank])
    who, named = rank_phrase(ranks, job.count)
    delays, them = ("delays", "it") if len(ranks) == 1 else ("together delay", "them")
    steps = compared.blame.step_count
    wait = charged.blame_ns / 1e6 / steps
    numbers = {
        "worst_rank": float(charged.rank),
        "steps_blamed": float(charged.steps_blamed),
        "steps": float(steps),
        "wait_ms_per_step": short(wait),
        "step_ms": short(job.step_ns / 1e6),
    } | named
    statement = (
        f"{who} {delays} {charged.steps_blamed} of {steps} steps: the other ranks wait "
        f"{numbers['wait_ms_per_step']:g} ms of each {numbers['step_ms']:g} ms step for {them}"
    )
    why = _why(compared, charged.rank, wait)
    text = why.text
    if len(ranks) > 1:
        # The phases are those of the worst of several ranks, so name it.
        text = text.replace("; its", f"; rank {charged.rank}'s", 1)
    phases_ms, medians_by_phase = _parts(compared, charged.rank)
    return STRAGGLER.diagnosis(
        "critical" if charged.share >= CRITICAL_SHARE else "warning",
        subject_of(ranks, job.count),
        statement + text,
        numbers | why.numbers,
        ranks=ranks,
        steps=[n for n, ns in charged.step_blame_ns.items() if ns > 0][:32],
        events=_events(charged, summary, why),
        details={
            "rank": charged.rank,
            "host": summary.host,
            "blame_share": round(charged.share, 4),
            "steps_blamed": charged.steps_blamed,
            "steps": steps,
            "wait_ms_per_step": wait,
            "cause": why.cause,
            "phase": why.part,
            "operation": why.operation,
            "phases_ms": phases_ms,
            "others_phases_ms": medians_by_phase,
        },
        fix=_fix(why),
    )


def _fix(why: _Why) -> str:
    """Where the job's own name for what takes the time is known, that first."""
    fix = STRAGGLER_FIXES[why.cause]
    if why.cause != "computation" or not why.operation or _FRAMEWORK.match(why.operation):
        return fix
    return f"See what `{why.operation}` does on that rank. {fix}"


def _events(charged: RankBlame, summary: RankSummary, why: _Why) -> list[EventReference]:
    late = [_reference(arrival) for arrival in charged.clearest]
    if why.cause == "input":
        return [*summary.facts.data.longest[:1], *late]
    return late


def _reference(arrival: LateArrival) -> EventReference:
    return EventReference(
        rank=arrival.rank,
        file=arrival.file,
        event=arrival.event,
        name=arrival.operation,
        start_ns=arrival.start_ns,
        duration_ns=arrival.end_ns - arrival.start_ns,
        step=arrival.step,
    )


def _parts(compared: RankComparison, rank: int) -> tuple[dict[str, float], dict[str, float]]:
    """Milliseconds per step of each phase, of the rank and the median of the others."""
    steps = {step.rank: step for step in compared.steps}
    mine = steps.pop(rank)
    of_rank, medians_by_phase = {}, {}
    for phase in PHASES:
        of_rank[phase] = mine.ms(phase)
        medians_by_phase[phase] = median(other.ms(phase) for other in steps.values())
    return of_rank, medians_by_phase


def _why(compared: RankComparison, rank: int, wait_ms: float) -> _Why:
    """Where the straggler's extra time goes: part of the step, operation, and what kind of cause
    that is."""
    # A part this small explains nothing: measure the operation against the whole wait.
    part = compared.extra_part(rank)
    if part is not None and part.extra_ms < MENTION_SHARE * wait_ms:
        part = None
    operation = _extra_operation(compared, rank, part.extra_ms if part else wait_ms)
    speed = compared.speed_of(rank)
    text, numbers = _extra_work_phrase(part, operation)
    cause = _cause(part, operation, on_device=all(s.has_accelerator for s in compared.job.ranks))
    if speed is not None and speed.slow and cause != "input":
        cause = "device"
        numbers["kernel_ratio"] = round(speed.ratio, 2)
        text += (
            f"; its device takes {numbers['kernel_ratio']:g}x as long as the others' for the "
            f"same kernels"
        )
    if cause == "host" and operation is None:
        text += "; no recorded operation explains it"
    return _Why(
        cause,
        text,
        numbers,
        part.name if part else None,
        readable(operation.name) if operation else None,
    )


def _extra_operation(compared: RankComparison, rank: int, explained_ms: float) -> ExtraWork | None:
    """As the comparison gives it, but waits of the host for its accelerator explain nothing."""
    common = set(compared.job.steps)
    by_rank: dict[int, dict[str, float]] = {}
    for summary in compared.job.ranks:
        per_step = summary.operations.per_step(common)
        by_rank[summary.rank] = {
            name: ns
            for name, ns in per_step.items()
            if not (name in READS or SYNC_CALL.match(name) is not None)
        }
    rank_times = by_rank.pop(rank)
    return extra_operation(rank_times, list(by_rank.values()), explained_ms)


def _cause(part: ExtraWork | None, operation: ExtraWork | None, *, on_device: bool) -> str:
    if part is not None and part.name == DATA:
        return "input"
    # An idle accelerator waits for its host to launch work.
    if part is not None and part.name == IDLE and on_device:
        return "host"
    return "computation" if operation is not None else "host"


def _extra_work_phrase(
    part: ExtraWork | None, operation: ExtraWork | None
) -> tuple[str, dict[str, float]]:
    text, numbers = "", {}
    if part:
        numbers = {"phase_ms": short(part.rank_ms), "others_phase_ms": short(part.peer_ms)}
        text = f"; its {PART_WORDS.get(part.name, part.name)} takes {numbers['phase_ms']:g} ms"
        text += f" where the others take {numbers['others_phase_ms']:g} ms"
        if part.ratio is not None:
            numbers["ratio"] = short(part.ratio)
            text += f" ({numbers['ratio']:g}x)"
    if operation:
        numbers["operation_ms"] = short(operation.rank_ms)
        text += f", {numbers['operation_ms']:g} ms of it in `{readable(operation.name)}`"
    return text, numbers


def _slow_step(job: TrainingJob, compared: RankComparison, slow: SlowStep) -> JobDiagnosis:
    (summary,) = job.where([slow.rank])
    numbers = {
        "rank": float(slow.rank),
        "step": float(slow.step),
        "step_ms": short(slow.step_ns / 1e6),
        "median_step_ms": short(slow.median_ns / 1e6),
    }
    statement = (
        f"step {slow.step} took {numbers['step_ms']:g} ms on rank {slow.rank} "
        f"(usually {numbers['median_step_ms']:g} ms) while the others waited"
    )
    # The most telling explanation first: a named pause, then an operation, then silence.
    pause = pause_in(summary, slow.step, slow.blame_ns)
    named = slow.operation
    if pause is not None:
        numbers["operation_ms"] = short(pause.event.duration_ns / 1e6)
        statement += f"; `{pause.event.name}` took {numbers['operation_ms']:g} ms of it"
    elif named is not None:
        numbers["operation_ms"] = short(named.rank_ms)
        statement += f"; `{readable(named.name)}` took {numbers['operation_ms']:g} ms of it"
    elif slow.idle_ns >= UNSEEN_SHARE * slow.blame_ns:
        numbers["unseen_ms"] = short(slow.idle_ns / 1e6)
        statement += f"; for {numbers['unseen_ms']:g} ms of it nothing was recorded on that rank"
    operation: str | None = None
    fix: str | None = UNSEEN_FIX
    events = _events_of(compared, slow)
    if pause is not None:
        operation, fix, events = pause.event.name, PAUSE_FIXES[pause.kind], [pause.event]
    elif named is not None:
        # The operation itself is the answer; the rule's own fix says to look at it.
        operation, fix = readable(named.name), None
    details: dict[str, Any] = {
        "rank": slow.rank,
        "host": summary.host,
        "step": slow.step,
        "wait_ms": slow.blame_ns / 1e6,
        "lost_share": slow.blame_ns / max(compared.blame.wall_ns, 1),
        "operation": operation,
        "pause": pause.kind if pause else None,
    }
    return SLOW_STEP.diagnosis(
        "warning",
        f"rank {slow.rank}",
        statement,
        numbers,
        ranks=[slow.rank],
        steps=[slow.step],
        events=events,
        details=details,
        fix=fix,
    )


def pause_in(summary: RankSummary, step: int, lost_ns: int) -> Pause | None:
    """The longest named pause of the step, if it explains a good part of what was lost."""
    for pause in summary.facts.pauses:
        if pause.event.step == step and pause.event.duration_ns >= 0.3 * lost_ns:
            return pause
    return None


def _events_of(compared: RankComparison, slow: SlowStep) -> list[EventReference]:
    """What the rank did for longest in the step, then its late arrivals in it.

    Arrivals in the next step, in which the others may have waited for it, would open a step in
    which all is well.
    """
    events = [slow.event] if slow.event is not None else []
    for charged in compared.blame.ranks:
        if charged.rank == slow.rank:
            events += [
                _reference(arrival) for arrival in charged.clearest if arrival.step == slow.step
            ]
    return events
