"""Rules 8 to 10: accelerators that do too little, small pieces of work, full launch queues."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.host_rules import compiles_again, over_ranks, waits_cost
from faultline.analysis.traces.doctor.input_rules import PERSISTENT
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import (
    DoctorRule,
    ms,
    percent,
    plural,
    rank_phrase,
    short,
    subject_of,
)
from faultline.analysis.traces.per_rank.tiny_kernels import SMALL_NS
from faultline.analysis.traces.readable import readable

LOW_USE, VERY_LOW_USE = 0.50, 0.30
"""Busy share of the accelerator: TensorBoard's plugin advises below 50 %, TraceML calls below 30 %
low."""
MANY_GAPS = 3
"""Gaps of 1 ms (nsys-ai)."""
MIN_KERNELS = 10
"""Kernels per step (our choice): a trace with fewer was cut down to single events, and says nothing
of idle time."""
EXPLAINED = 0.5
"""What explains this much of the idle time is said instead of it (our choice)."""
MIN_LAUNCHES = 100
"""Small kernels per step (nsys-ai)."""
MANY_KERNELS = 1_000
"""Kernels of a trace without steps from which it shows a habit (our choice: ten times the launches
that nsys-ai asks of a step; one token of a 7-billion-parameter model takes some hundred)."""
LATE_SHARE = 0.5
"""Share of the idle time in late launches from which they are its cause (our choice)."""
MANY_OPERATORS = 1_000
"""Operators of a step from which dispatch can set the pace of a rank without an accelerator (own:
healthy recorded jobs run 180 to 820, one with 600 superfluous elementwise operations 3,255)."""
MEAN_OPERATOR_NS = 30_000
"""Time in operators for each of them, below which they are small on the mean too (our choice: 11 us
in that job)."""
OPERATOR_SHARE = 0.25
"""And the operators' share of the step (our choice: healthy recorded jobs 4 to 13 %, the one above
47 %)."""

GPU_IDLE = DoctorRule(
    name="gpu_idle",
    sees="time in which no kernel, copy or fill runs; gaps of 1 ms and more, and what the host "
    "does in the longest",
    threshold="busy below 50 % with 3 gaps of 1 ms, or a gap of 500 ms; not where input, waits, "
    "compilations or small "
    "kernels explain half of it, nor in a trace of less than 2 steps",
    source="TensorBoard's plugin (50 %), TraceML (30 % is low), nsys-ai (3 gaps of 1 ms), Nsight "
    "Systems (500 ms)",
    fix="Look at what the host does in the gaps; move it off the training thread, or give the "
    "accelerator larger "
    "batches.",
)
TINY_KERNELS = DoctorRule(
    name="tiny_kernels",
    sees="computation kernels shorter than 10 us on average on an accelerator that is half idle; "
    "without an "
    "accelerator, very many short operators that fill much of the step",
    threshold="mean below 10 us, at least 100 per step, busy below 50 %; without an accelerator "
    "at least 1,000 "
    "operators per step with a median below 10 us and a mean below 30 us that fill 25 % of it",
    source="nsys-ai (10 us, 100 launches), TensorBoard's plugin (50 %); numbers of operators: own "
    "measurements",
    fix="Launching costs more than computing: torch.compile, CUDA graphs, foreach or fused "
    "optimizers, or one "
    "operation on a stacked tensor instead of many on small ones.",
)
LAUNCH_BOUND = DoctorRule(
    name="launch_bound",
    sees="small kernels of a job that does not train and marks no steps (inference, decoding): the "
    "accelerator waits for the host's next launch",
    threshold="at least 1,000 kernels, mean below 10 us, busy below 50 %, and half of the idle "
    "time in pauses under 1 ms that end with a kernel launched after they began",
    source="nsys-ai (10 us), TensorBoard's plugin (50 %); number and share: own",
    fix="CUDA graphs (torch.compile(mode='reduce-overhead'); vLLM without --enforce-eager, SGLang "
    "without --disable-cuda-graph), or more requests per batch.",
)
LAUNCH_QUEUE_FULL = DoctorRule(
    name="launch_queue_full",
    sees="1,024 kernels launched and not yet started on one stream: the next launch blocks the "
    "host",
    threshold="any time; information: the accelerator is the bottleneck, not the host",
    source="HTA: queue of 1,024",
    fix="Time that the host spends in launches is waiting for the accelerator, no trouble of the "
    "host.",
)


def device_rules(job: TrainingJob) -> list[JobDiagnosis]:
    """Findings over all ranks, those with a cause before idle time that has none."""
    return [
        *(
            # Both rules see the same small kernels: report them once.
            over_ranks(job, _launch_bound, _bound_by_launches)
            or over_ranks(job, _tiny, _tiny_kernels)
        ),
        *over_ranks(job, _idle, _gpu_idle),
        *over_ranks(job, lambda rank: rank.facts.device.full_queue_ns > 0, _queue_full),
    ]


def _launch_bound(summary: RankSummary) -> bool:
    facts = summary.facts
    kernels, pace = facts.tiny.kernels, facts.pace
    # Training, and traces with steps, are the business of tiny_kernels.
    if facts.steps or pace.trains or kernels.count < MANY_KERNELS:
        return False
    small = kernels.mean_ns < SMALL_NS and facts.device.busy_share < LOW_USE
    return small and pace.late_ns >= LATE_SHARE * pace.idle_ns


def _bound_by_launches(job: TrainingJob, ranks: Sequence[RankSummary]) -> JobDiagnosis:
    worst = max(ranks, key=lambda s: s.facts.pace.late_ns)
    named = [summary.rank for summary in ranks]
    who, numbers = rank_phrase(named, job.count)
    kernels = [s.facts.tiny.kernels for s in ranks]
    late = sum(s.facts.pace.late_ns for s in ranks)
    count = sum(k.count for k in kernels)
    numbers |= {
        "kernels": float(round(count / len(ranks))),
        "mean_us": short(sum(k.total_ns for k in kernels) / count / 1e3),
        "busy_percent": percent(fmean(s.facts.device.busy_share for s in ranks)),
        "late_percent": percent(late / sum(s.facts.window_ns for s in ranks)),
    }
    statement = (
        f"{who} {'runs' if len(ranks) == 1 else 'run'} {numbers['kernels']:.0f} kernels of "
        f"{numbers['mean_us']:g} us on average; the accelerator is busy only "
        f"{numbers['busy_percent']:g} % of the time and waits {numbers['late_percent']:g} % of it "
        "for the host to launch the next kernel"
    )
    return LAUNCH_BOUND.diagnosis(
        "warning",
        subject_of(named, job.count),
        statement,
        numbers,
        events=[worst.facts.tiny.kernels.example],
        details={"most_frequent": readable(worst.facts.tiny.kernels.most_frequent)},
        cost_ns=late / len(ranks),
    )


def _tiny(summary: RankSummary) -> bool:
    facts = summary.facts
    if facts.on_device:
        kernels = facts.tiny.kernels
        many = kernels.count >= MIN_LAUNCHES * facts.step_count
        return many and kernels.mean_ns < SMALL_NS and facts.device.busy_share < LOW_USE
    operators = facts.tiny.operators
    busy = facts.tiny.operator_busy_ns
    many = operators.count >= MANY_OPERATORS * facts.step_count
    small = operators.median_ns < SMALL_NS and busy < MEAN_OPERATOR_NS * operators.count
    return many and small and busy >= OPERATOR_SHARE * facts.window_ns


def _tiny_kernels(job: TrainingJob, ranks: Sequence[RankSummary]) -> JobDiagnosis:
    worst = max(ranks, key=lambda s: s.facts.tiny.kernels.count or s.facts.tiny.operators.count)
    named = [summary.rank for summary in ranks]
    who, numbers = rank_phrase(named, job.count)
    if worst.facts.on_device:
        pieces = worst.facts.tiny.kernels
        per_step = fmean(s.facts.tiny.kernels.count / s.facts.step_count for s in ranks)
        total_ns = sum(s.facts.tiny.kernels.total_ns for s in ranks)
        count = sum(s.facts.tiny.kernels.count for s in ranks)
        numbers["kernels_per_step"] = short(per_step)
        numbers["mean_us"] = short(total_ns / count / 1e3)
        numbers["busy_percent"] = percent(fmean(s.facts.device.busy_share for s in ranks))
        verb = "launches" if len(ranks) == 1 else "launch"
        statement = (
            f"{who} {verb} {numbers['kernels_per_step']:g} kernels per step of "
            f"{numbers['mean_us']:g} us on average, "
            f"and the accelerator is busy only {numbers['busy_percent']:g} % of the time"
        )
    else:
        pieces = worst.facts.tiny.operators
        statement = _operator_sentence(who, numbers, ranks)
    details = {
        "most_frequent": readable(pieces.most_frequent),
        "most_frequent_count": pieces.most_frequent_count,
    }
    subject = subject_of(named, job.count)
    return TINY_KERNELS.diagnosis(
        "warning",
        subject,
        statement,
        numbers,
        events=[pieces.example],
        details=details,
        cost_ns=_idle_ns(ranks),
    )


def _operator_sentence(who: str, numbers: dict[str, float], ranks: Sequence[RankSummary]) -> str:
    per_step = fmean(s.facts.tiny.operators.count / s.facts.step_count for s in ranks)
    median_ns = fmean(s.facts.tiny.operators.median_ns for s in ranks)
    share = fmean(s.facts.tiny.operator_busy_ns / s.facts.window_ns for s in ranks)
    numbers["operators_per_step"] = short(per_step)
    numbers["median_us"] = short(median_ns / 1e3)
    numbers["percent"] = percent(share)
    verb = "runs" if len(ranks) == 1 else "run"
    return (
        f"{who} {verb} {numbers['operators_per_step']:g} operators per step, half of them "
        f"shorter than {numbers['median_us']:g} us, in {numbers['percent']:g} % of the time: "
        "calling them costs more than what they compute"
    )


def _idle(summary: RankSummary) -> bool:
    facts = summary.facts
    use = facts.device
    # A busy accelerator passes, unless a single gap is huge.
    if not facts.on_device or (use.busy_share >= LOW_USE and not use.huge_gaps):
        return False
    if facts.tiny.kernels.count < MIN_KERNELS * facts.step_count:
        return False
    if _is_explained(summary) or _tiny(summary):
        return False
    return use.long_gaps >= MANY_GAPS or use.huge_gaps > 0


def _is_explained(summary: RankSummary) -> bool:
    """Whether input, waits or compilations, which have their own rules, make up the idle
    time."""
    facts = summary.facts
    busy = facts.device.busy_ns
    waits = facts.syncs.idle_after_ns if waits_cost(summary) else 0
    compiling = facts.recompiles.compiling_ns if compiles_again(summary) else 0
    # A single stall is not what the rule on input speaks of.
    persistent = facts.data.stalled_steps >= PERSISTENT * facts.steps
    loading = facts.data.exposed_ns if persistent else 0
    explained = max(loading, waits, compiling)
    if explained >= EXPLAINED * (facts.window_ns - busy):
        return True
    # Without that cause the accelerator would be busy enough.
    return explained > 0 and busy + explained >= LOW_USE * facts.window_ns


def _gpu_idle(job: TrainingJob, ranks: Sequence[RankSummary]) -> JobDiagnosis:
    use = max((s.facts.device for s in ranks), key=lambda device: device.longest_gap_ns)
    gaps = sum(s.facts.device.long_gaps for s in ranks)
    named = [summary.rank for summary in ranks]
    who, numbers = rank_phrase(named, job.count)
    numbers["busy_percent"] = percent(fmean(s.facts.device.busy_share for s in ranks))
    numbers["gaps"] = float(gaps)
    numbers["gap_ms"] = ms(use.longest_gap_ns)
    are_busy = f"accelerators of {who} are busy"
    if len(ranks) == 1:
        are_busy = f"accelerator of {who} is busy"
    statement = (
        f"the {are_busy} only {numbers['busy_percent']:g} % of the time: {plural(gaps, 'gap')} of "
        f"a millisecond or more, the longest {numbers['gap_ms']:g} ms"
    )
    doing = use.in_gap.name if use.in_gap is not None else ""
    # The mark of the step itself says nothing about what the host does.
    if doing and not doing.startswith("ProfilerStep"):
        statement += f", in which the host is in `{doing}`"
    subject = subject_of(named, job.count)
    return GPU_IDLE.diagnosis(
        "warning",
        subject,
        statement,
        numbers,
        events=[use.in_gap],
        details={"in_gap": doing},
        cost_ns=_idle_ns(ranks),
    )


def _idle_ns(ranks: Sequence[RankSummary]) -> float | None:
    """Idle time per step, mean over the ranks with an accelerator."""
    facts = [s.facts for s in ranks if s.facts.on_device]
    if not facts:
        return None
    return fmean((f.window_ns - f.device.busy_ns) / f.step_count for f in facts)


def _queue_full(job: TrainingJob, ranks: Sequence[RankSummary]) -> JobDiagnosis:
    device = max((s.facts.device for s in ranks), key=lambda device: device.full_queue_ns)
    named = [summary.rank for summary in ranks]
    who, numbers = rank_phrase(named, job.count)
    numbers["full_ms"] = ms(device.full_queue_ns)
    numbers["most"] = float(device.most_outstanding)
    statement = (
        f"the launch queue is full for {numbers['full_ms']:g} ms on {who} (up to "
        f"{device.most_outstanding} kernels outstanding): launches that take long wait for the "
        "accelerator"
    )
    return LAUNCH_QUEUE_FULL.diagnosis("info", subject_of(named, job.count), statement, numbers)
