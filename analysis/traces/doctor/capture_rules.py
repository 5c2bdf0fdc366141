"""Rule 26: what makes a capture unfit to judge by, or judges by less than the whole job."""

from __future__ import annotations

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import (
    DoctorRule,
    ms,
    percent,
    plural,
    rank_phrase,
    subject_of,
)

OVERHEAD_SHARE = 0.15
"""Share of the steps spent by the profiler itself from which times are contaminated (nsys-ai)."""
MIN_STEPS = 2
"""Fewer steps show nothing that could be called usual (TraceML)."""

PROFILER_OVERHEAD = DoctorRule(
    name="profiler_overhead",
    sees="events of category `overhead` (buffer flushes, set-up of the accelerator's profiler) in "
    "the steps",
    threshold="15 % of the steps; what later rules find is then information only",
    source="nsys-ai: overhead contaminates from 15 %",
    fix="Record again with fewer activities (no stacks, shapes or memory), or after more warm-up "
    "steps.",
)
CAPTURE_UNUSABLE = DoctorRule(
    name="capture_unusable",
    sees="traces without events, or cut off before they hold 2 steps",
    threshold="every rank",
    source="TensorBoard's plugin and nsys-ai abstain without data",
    fix="Record again: let the profiler stop by itself and write its files before the job ends.",
)
CAPTURE_LIMITED = DoctorRule(
    name="capture_limited",
    sees="fewer than 2 steps, ranks of the job without a trace, cut-off files, accelerators "
    "without recorded work, "
    "clocks that do not agree, steps that differ between ranks",
    threshold="any; says what can therefore not be judged, accuses nobody",
    source="TraceML: at least 2 steps to warn",
    fix="For the whole picture record a few steps (schedule with active=5 or more) on every rank "
    "at the same time, "
    "with CPU and accelerator activities.",
)


def capture_rules(job: TrainingJob) -> list[JobDiagnosis]:
    """What is wrong with the recording itself."""
    return [*_unusable(job), *_overhead(job), *_limited(job)]


def _unusable(job: TrainingJob) -> list[JobDiagnosis]:
    empty = [s.rank for s in job.ranks if s.event_count == 0]
    cut = [
        s.rank
        for s in job.ranks
        if s.event_count and s.facts.capture.truncated and s.facts.steps < MIN_STEPS
    ]
    if not job.ranks or len(empty) + len(cut) < job.count:
        # A single usable trace is enough to judge something.
        return []
    who, numbers = rank_phrase(sorted(empty + cut), job.count)
    why = (
        "no events"
        if not cut
        else "no end: the files are cut off"
        if not empty
        else "no events, or no end"
    )
    verb = "has" if len(empty) + len(cut) == 1 else "have"
    statement = f"the capture cannot be relied on: the traces of {who} {verb} {why}"
    return [CAPTURE_UNUSABLE.diagnosis("warning", "capture", statement, numbers)]


def _overhead(job: TrainingJob) -> list[JobDiagnosis]:
    heavy = [s for s in job.ranks if s.facts.overhead.share >= OVERHEAD_SHARE]
    if not heavy:
        return []
    worst = max(heavy, key=lambda s: s.facts.overhead.share)
    overhead = worst.facts.overhead
    numbers = {
        "percent": percent(overhead.share),
        "overhead_ms": ms(overhead.ns),
        "window_ms": ms(worst.facts.window_ns),
        "rank": float(worst.rank),
    }
    statement = (
        f"the profiler itself takes {numbers['percent']:g} % of the recorded time on rank "
        f"{worst.rank} "
        f"({numbers['overhead_ms']:g} of {numbers['window_ms']:g} ms): its times cannot be relied "
        f"on"
    )
    subject = subject_of([s.rank for s in heavy], job.count)
    return [
        PROFILER_OVERHEAD.diagnosis("warning", subject, statement, numbers, events=overhead.longest)
    ]


def _limited(job: TrainingJob) -> list[JobDiagnosis]:
    if not job.ranks:
        return []
    numbers: dict[str, float] = {}
    parts = [
        part
        for part in (_missing(job, numbers), _steps(job, numbers), _device(job, numbers))
        if part
    ]
    parts += [part for part in (_cut(job, numbers), _clocks(job, numbers)) if part]
    if not parts:
        return []
    statement = "what can be judged is limited: " + "; ".join(parts)
    return [
        CAPTURE_LIMITED.diagnosis("info", "capture", statement, numbers, details={"reasons": parts})
    ]


def _missing(job: TrainingJob, numbers: dict[str, float]) -> str:
    people = job.comparison.job if job.comparison else None
    if people is None or not people.missing_count or not people.world_size:
        return ""
    numbers |= {"ranks_with_trace": float(job.count), "world_size": float(people.world_size)}
    return (
        f"{plural(job.count, 'rank')} of {people.world_size} recorded, so the others' waiting "
        f"is unknown"
    )


def _steps(job: TrainingJob, numbers: dict[str, float]) -> str:
    least = min(s.facts.steps for s in job.ranks)
    if least >= MIN_STEPS:
        people = job.comparison.job if job.comparison else None
        common = len(people.steps) if people else 0
        if people is None or not people.different_steps:
            return ""
        numbers["common_steps"] = float(common)
        return f"the ranks have {plural(common, 'step')} in common"
    if least == 0:
        return "the profiler marked no steps, so everything recorded counts as one"
    numbers["steps"] = float(least)
    return f"{plural(least, 'step')} recorded, so nothing can be called usual"


def _device(job: TrainingJob, numbers: dict[str, float]) -> str:
    # The profiler lists the accelerators even where their activities were not recorded.
    blind = [s for s in job.ranks if s.facts.capture.devices_listed and not s.facts.on_device]
    if not blind or len(blind) < job.count:
        return ""
    devices = max(s.facts.capture.devices_listed for s in blind)
    numbers["accelerators"] = float(devices)
    return f"{plural(devices, 'accelerator')} present, but none of its work recorded"


def _cut(job: TrainingJob, numbers: dict[str, float]) -> str:
    cut = [s.rank for s in job.ranks if s.facts.capture.truncated]
    if not cut:
        return ""
    who, more = rank_phrase(cut, job.count)
    numbers |= {f"cut_{name}": value for name, value in more.items()}
    return f"the traces of {who} end early"


def _clocks(job: TrainingJob, numbers: dict[str, float]) -> str:
    compared = job.comparison
    if compared is None or len(compared.matched) == 0 or compared.clocks.agree:
        return ""
    share = percent(compared.clocks.impossible)
    numbers["impossible_percent"] = share
    return (
        f"{share:g} % of the collectives end on one rank before another has entered, so clocks or "
        f"steps of the "
        "traces do not agree"
    )
