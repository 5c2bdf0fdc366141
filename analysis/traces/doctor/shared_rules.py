"""Rules 7 and 18 where no single rank is to blame: all ranks idle together, or slow in the same
step."""

from __future__ import annotations

from collections.abc import Collection

from analysis.traces.across_ranks.idle_together import IdleTogether
from analysis.traces.across_ranks.slow_steps import SLOW_STEP_EXTRA
from analysis.traces.doctor.diagnosis import Diagnosis
from analysis.traces.doctor.job import TrainingJob
from analysis.traces.doctor.rank_rules import PAUSE_FIXES, pause_in
from analysis.traces.doctor.rule import Rule, short
from analysis.traces.per_rank.device_use import HUGE_GAP_NS
from analysis.traces.per_rank.pauses import Pause, pause_kind
from analysis.traces.readable import readable

MAX_SAID = 3

ALL_RANKS_IDLE = Rule(
    name="all_ranks_idle",
    sees="times in which no rank works and no collective is pending",
    threshold="500 ms",
    source="Nsight Systems' rule gpu_gaps (500 ms)",
    fix="The cause is shared: storage, a synchronous checkpoint, the loaders, a coordinator. Look "
    "at what the hosts "
    "do in it.",
)
SLOW_STEP_EVERYWHERE = Rule(
    name="slow_step_everywhere",
    sees="one step that took far longer than the others on most ranks, without one rank that they "
    "waited for",
    threshold="1.5x the usual step, and 5 usual steps lost; not the first recorded step",
    source="nsys-ai's iteration spike (1.5x); size: own, as for slow_step",
    fix="Look at what all ranks share in that step: storage, a checkpoint, an evaluation, the "
    "network.",
)


def slow_everywhere(job: TrainingJob, named: Collection[int]) -> list[Diagnosis]:
    """Steps that were slow on most ranks; `named` steps have been explained."""
    if job.comparison is None:
        return []
    common = job.comparison.job.steps
    found = []
    for outlier in job.comparison.outlier_steps:
        lost = outlier.median_ns - outlier.usual_ns
        if (
            outlier.step in named
            or outlier.step == common[0]
            or lost < SLOW_STEP_EXTRA * outlier.usual_ns
        ):
            continue
        numbers = {
            "step": float(outlier.step),
            "step_ms": short(outlier.median_ns / 1e6),
            "usual_ms": short(outlier.usual_ns / 1e6),
        }
        where = f" on all {job.count} ranks" if job.count > 1 else ""
        if where:
            numbers["ranks"] = float(job.count)
        statement = (
            f"step {outlier.step} took {numbers['step_ms']:g} ms{where}; a usual step "
            f"takes {numbers['usual_ms']:g} ms"
        )
        pause = _pause(job, outlier.step, int(lost))
        if pause is not None:
            numbers["operation_ms"] = short(pause.event.duration_ns / 1e6)
            statement += f"; `{pause.event.name}` took {numbers['operation_ms']:g} ms of it"
        found.append(
            SLOW_STEP_EVERYWHERE.found(
                "warning",
                f"step {outlier.step}",
                statement,
                numbers,
                steps=[outlier.step],
                events=[pause.event] if pause else (),
                details={"step": outlier.step, "operation": pause.event.name if pause else None},
                fix=PAUSE_FIXES[pause.kind] if pause else None,
            )
        )
    return found[:MAX_SAID]


def all_idle(job: TrainingJob, named: Collection[int]) -> list[Diagnosis]:
    """Long times in which every rank was idle, outside of steps that have been explained."""
    if job.comparison is None or (job.count > 1 and not job.comparison.clocks.agree):
        return []
    found = job.comparison.idle.intervals
    long = [
        i for i in found if i.length_ns >= HUGE_GAP_NS and (i.step is None or i.step not in named)
    ]
    if not long or job.count < 2:
        return []
    worst = max(long, key=lambda i: i.length_ns)
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
    return [
        ALL_RANKS_IDLE.found(
            "warning",
            "all ranks",
            statement,
            numbers,
            steps=sorted({i.step for i in long if i.step is not None}),
            details={"intervals": [_interval(i) for i in long[:MAX_SAID]]},
            fix=_fix(worst.host),
        )
    ]


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
    found = [p for p in (pause_in(s, step, lost_ns) for s in job.ranks) if p is not None]
    return max(found, key=lambda p: p.event.duration_ns, default=None)
