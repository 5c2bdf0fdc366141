"""Rules 13 to 15: the accelerator's memory."""

from __future__ import annotations

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import (
    DoctorRule,
    JobRule,
    percent,
    rank_phrase,
    short,
    subject_of,
)
from faultline.analysis.traces.judgement.thresholds import PRESSURE_FIX, RESERVED_RATIO, pressure

DRIVER_STEPS = 0.5
"""Share of the steady steps with a call to the driver's allocator from which it is no accident
(own)."""
RESERVED_SHARE = 0.30
"""Of the device's memory, from which what is reserved and not allocated counts (TraceML)."""

ALLOCATOR_CALLS = DoctorRule(
    name="allocator_calls",
    sees="cudaMalloc, cudaFree (hipMalloc, hipFree, cuMemCreate, ...) in steps after the first",
    threshold="in half of these steps",
    source="PyTorch's num_alloc_retries: steady steps need none; share: own",
    fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fixed shapes, no "
    "torch.cuda.empty_cache() in the loop, or "
    "a smaller batch.",
)
FRAGMENTATION = DoctorRule(
    name="memory_fragmentation",
    sees="memory that the allocator reserved but cannot use",
    threshold="reserved at least twice the allocated, and 30 % of the device; not where the "
    "reserved total is the same throughout the trace: it was reserved on purpose, or before",
    source="TraceML; the exception: own",
    fix="PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, or fixed shapes.",
)
MEMORY_GROWTH = DoctorRule(
    name="memory_growth",
    sees="the lowest allocated total of each step, from the profiler's `[memory]` events",
    threshold="above the step before in 80 % of at least 5 steps, by 64 KiB per step in the "
    "median; critical at "
    "21 MB per step",
    source="TraceML: 1 GiB over 50 steps; the slope in short traces: own",
    fix="Something outlives its step: keep loss.item() or loss.detach() instead of losses, clear "
    "lists of outputs, "
    "and look for tensors held by hooks or closures (torch.cuda.memory._snapshot()).",
)
MEMORY_PRESSURE = DoctorRule(
    name="memory_pressure",
    sees="the allocator's largest reserved total against the device's memory",
    threshold="92 % warns, 97 % is critical; not where a job that neither trains nor marks steps "
    "holds the same total throughout: a server's cache takes what there is (vLLM's "
    "gpu_memory_utilization)",
    source="TraceML (92 %, 97 %); TensorBoard's plugin advises from 90 %; the exception: own",
    fix=PRESSURE_FIX,
)


def _driver_calls(job: TrainingJob) -> list[JobDiagnosis]:
    ranks = [s for s in job.ranks if _calls_often(s)]
    if not ranks:
        return []
    worst = max(ranks, key=lambda s: s.facts.allocations.driver_ns)
    allocations = worst.facts.allocations
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    # The first step has to allocate; only those after it should be steady.
    steady = worst.facts.steps - 1
    numbers |= {
        "calls": float(allocations.driver_calls),
        "steps_with": float(allocations.driver_steps),
        "steady_steps": float(steady),
        "calls_ms": short(allocations.driver_ns / 1e6),
    }
    statement = (
        f"{who} still {'asks' if len(ranks) == 1 else 'ask'} the driver for memory in "
        f"{allocations.driver_steps} of {steady} "
        f"steps after the first: {allocations.driver_calls} calls, {numbers['calls_ms']:g} ms"
    )
    subject = subject_of([s.rank for s in ranks], job.count)
    cost = allocations.driver_ns / worst.facts.step_count
    diagnosis = ALLOCATOR_CALLS.diagnosis(
        "warning", subject, statement, numbers, events=allocations.longest, cost_ns=cost
    )
    return [diagnosis]


def _calls_often(summary: RankSummary) -> bool:
    steady = summary.facts.steps - 1
    allocations = summary.facts.allocations
    # Twice at least: a single step may be an accident.
    return steady >= 2 and allocations.driver_steps >= max(2.0, DRIVER_STEPS * steady)


def _growth(job: TrainingJob) -> list[JobDiagnosis]:
    growing = [(s.rank, g) for s in job.ranks if (g := s.facts.allocations.growth) is not None]
    growing = [(rank, growth) for rank, growth in growing if growth.rise.grows()]
    if not growing:
        return []
    ranks = [rank for rank, _ in growing]
    growth = max(
        (memory_growth for _, memory_growth in growing),
        key=lambda memory_growth: memory_growth.rise.slope_bytes,
    )
    rise = growth.rise
    who, numbers = rank_phrase(ranks, job.count)
    numbers |= {
        "mb_per_step": round(rise.slope_bytes / 1e6, 2),
        "rising": float(rise.rising),
        "changes": float(rise.steps - 1),
        "grown_mb": round(rise.grown_bytes / 1e6, 2),
    }
    # Device type 0 is the CPU.
    where = "the host's memory" if growth.device_type == 0 else "the accelerator's memory"
    statement = (
        f"{where} on {who} grows by {numbers['mb_per_step']:g} MB per step: "
        f"{numbers['grown_mb']:g} MB more is held "
        f"at the end of the trace, rising in {rise.rising} of {rise.steps - 1} steps"
    )
    return [
        MEMORY_GROWTH.diagnosis(
            rise.severity,
            subject_of(ranks, job.count),
            statement,
            numbers,
            ranks=ranks if len(ranks) < job.count else (),
        )
    ]


def _pressure(job: TrainingJob) -> list[JobDiagnosis]:
    ranks = [s for s in job.ranks if not _serves_from_pool(s)]
    worst = max(ranks, key=_used, default=None)
    severity = pressure(_used(worst)) if worst is not None else None
    if worst is None or severity is None:
        return []
    ranks = [s for s in ranks if pressure(_used(s)) is not None]
    allocations = worst.facts.allocations
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    numbers |= {
        "percent": percent(_used(worst)),
        "reserved_gb": short(allocations.peak_reserved / 1e9),
        "device_gb": short(allocations.device_memory / 1e9),
    }
    statement = (
        f"{who} {'reserves' if len(ranks) == 1 else 'reserve'} {numbers['percent']:g} % of the "
        f"accelerator's memory "
        f"({numbers['reserved_gb']:g} of {numbers['device_gb']:g} GB)"
    )
    return [
        MEMORY_PRESSURE.diagnosis(
            severity, subject_of([s.rank for s in ranks], job.count), statement, numbers
        )
    ]


def _is_fixed(summary: RankSummary) -> bool:
    """Whether the reserved total never changed in the trace."""
    allocations = summary.facts.allocations
    return (
        allocations.peak_reserved > 0 and allocations.lowest_reserved == allocations.peak_reserved
    )


def _serves_from_pool(summary: RankSummary) -> bool:
    facts = summary.facts
    # A pool that was reserved once and is then kept is by design, as in a server.
    return _is_fixed(summary) and not facts.steps and not facts.pace.trains


def _used(summary: RankSummary) -> float:
    allocations = summary.facts.allocations
    return (
        allocations.peak_reserved / allocations.device_memory if allocations.device_memory else 0.0
    )


def _fragmentation(job: TrainingJob) -> list[JobDiagnosis]:
    ranks = [s for s in job.ranks if _fragmented(s)]
    if not ranks:
        return []
    worst = max(ranks, key=_used)
    allocations = worst.facts.allocations
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    numbers |= {
        "reserved_gb": short(allocations.peak_reserved / 1e9),
        "allocated_gb": short(allocations.peak_allocated / 1e9),
        "percent": percent(_used(worst)),
    }
    statement = (
        f"the allocator on {who} reserves {numbers['reserved_gb']:g} GB ({numbers['percent']:g} % "
        f"of the device) "
        f"where at most {numbers['allocated_gb']:g} GB are allocated"
    )
    return [
        FRAGMENTATION.diagnosis(
            "info", subject_of([s.rank for s in ranks], job.count), statement, numbers
        )
    ]


def _fragmented(summary: RankSummary) -> bool:
    allocations = summary.facts.allocations
    wide = (
        allocations.peak_allocated > 0
        and allocations.peak_reserved >= RESERVED_RATIO * allocations.peak_allocated
    )
    return wide and not _is_fixed(summary) and _used(summary) >= RESERVED_SHARE


JOB_RULES = (
    JobRule(MEMORY_GROWTH, _growth),
    JobRule(ALLOCATOR_CALLS, _driver_calls),
    JobRule(MEMORY_PRESSURE, _pressure),
    JobRule(FRAGMENTATION, _fragmentation),
)
