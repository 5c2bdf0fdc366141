"""Rules 7 and 18 where no single rank is to blame: all ranks idle together, or slow in the same
step."""

from __future__ import annotations

from collections.abc import Collection

from faultline.analysis.traces.across_ranks.step_breakdown import SLOW_STEP_EXTRA, OutlierStep
from faultline.analysis.traces.across_ranks.wait_transfer import IdleTogether
from faultline.analysis.traces.doctor.diagnosis import EventReference, JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rank_rules import PAUSE_FIXES, pause_in
from faultline.analysis.traces.doctor.rule import DoctorRule, short
from faultline.analysis.traces.per_rank.device_use import HUGE_GAP_NS
from faultline.analysis.traces.per_rank.pauses import Pause, pause_kind
from faultline.analysis.traces.readable import readable

MAX_MENTIONS = 3

ALL_RANKS_IDLE = DoctorRule(
    name="all_ranks_idle",
    sees="times in which no rank works and no collective is pending",
    threshold="500 ms",
    source="Nsight Systems' rule gpu_gaps (500 ms)",
    fix="The cause is shared: storage, a synchronous checkpoint, the loaders, a coordinator. Look "
    "at what the hosts "
    "do in it.",
)
SLOW_STEP_EVERYWHERE = DoctorRule(
    name="slow_step_everywhere",
    sees="one step that took far longer than the others on most ranks, without one rank that they "
    "waited for",
    threshold="1.5x the usual step, and 5 usual steps lost; not the first recorded step",
    source="nsys-ai's iteration spike (1.5x); size: own, as for slow_step",
    fix="Look at what all ranks share in that step: storage, a checkpoint, an evaluation, the "
    "network.",
)


def slow_everywhere(job: TrainingJob, named: Collection[int]) -> list[JobDiagnosis]:
    """Steps that were slow on most ranks; `named` steps have been explained."""
    if job.comparison is None:
        return []
    common = job.comparison.job.steps
    slow_steps = []
    for outlier in job.comparison.outlier_steps:
        lost = outlier.median_ns - outlier.usual_ns
        # The first recorded step warms up: compilation, allocation, the profiler's own start.
        is_explained = outlier.step in named or outlier.step == common[0]
        if not is_explained and lost >= SLOW_STEP_EXTRA * outlier.usual_ns:
            slow_steps.append(_slow_step(job, outlier))
    return slow_steps[:MAX_MENTIONS]


def _slow_step(job: TrainingJob, outlier: OutlierStep) -> JobDiagnosis:
    numbers = {
        "step": float(outlier.step),
        "step_ms": short(outlier.median_ns / 1e6),
        "usual_ms": short(outlier.usual_ns / 1e6),
    }
    where = ""
    if job.count > 1:
        where = f" on all {job.count} ranks"
        numbers["ranks"] = float(job.count)
    statement = (
        f"step {outlier.step} took {numbers['step_ms']:g} ms{where}; a usual step "
        f"takes {numbers['usual_ms']:g} ms"
    )
    events: list[EventReference] = []
    operation = fix = None
    pause = _pause(job, outlier.step, int(outlier.median_ns - outlier.usual_ns))
    if pause is not None:
        operation = pause.event.name
        numbers["operation_ms"] = short(pause.event.duration_ns / 1e6)
        statement += f"; `{operation}` took {numbers['operation_ms']:g} ms of it"
        events.append(pause.event)
        fix = PAUSE_FIXES[pause.kind]
    return SLOW_STEP_EVERYWHERE.diagnosis(
        "warning",
        f"step {outlier.step}",
        statement,
        numbers,
        steps=[outlier.step],
        events=events,
        details={"step": outlier.step, "operation": operation},
        fix=fix,
    )


def all_idle(job: TrainingJob, named: Collection[int]) -> list[JobDiagnosis]:
    """Long times in which every rank was idle, outside of steps that have been explained."""
    # "Together" means something only for several ranks on one clock.
    if job.comparison is None or job.count < 2 or not job.comparison.clocks.agree:
        return []
    long = []
    for interval in job.comparison.idle.intervals:
        if interval.length_ns >= HUGE_GAP_NS and interval.step not in named:
            long.append(interval)
    if not long:
        return []
    worst = max(long, key=lambda interval: interval.length_ns)
    numbers = {"idle_ms": short(worst.length_ns / 1e6), "ranks": float(job.count)}
    statement = f"all {job.count} ranks are idle together for {numbers['idle_ms']:g} ms"
    if worst.step is not None:
        numbers["step"] = float(worst.step)
        statement += f" in step {worst.step}"
    if len(long) > 1:
        numbers["times"] = float(len(long))
        statement += f" ({len(long)} such times)"
    if worst.host:
        statement += f"; the hosts are in `{readable(worst.host)}`"
    diagnosis = ALL_RANKS_IDLE.diagnosis(
        "warning",
        "all ranks",
        statement,
        numbers,
        steps=sorted({interval.step for interval in long if interval.step is not None}),
        details={"intervals": [_interval(interval) for interval in long[:MAX_MENTIONS]]},
        fix=_fix(worst.host),
    )
    return [diagnosis]


def _interval(interval: IdleTogether) -> dict[str, object]:
    return {
        "start_ns": interval.start_ns,
        "length_ns": interval.length_ns,
        "host": readable(interval.host),
    }


def _fix(host: str) -> str | None:
    kind = pause_kind(host) if host else None
    return PAUSE_FIXES[kind] if kind else None


def _pause(job: TrainingJob, step: int, lost_ns: int) -> Pause | None:
    """The longest pause of any rank in that step."""
    longest = None
    for summary in job.ranks:
        pause = pause_in(summary, step, lost_ns)
        if pause is None:
            continue
        if longest is None or pause.event.duration_ns > longest.event.duration_ns:
            longest = pause
    return longest
