"""Rules 11, 12, 16 and 17: the host waiting for the accelerator, copies between them, code that is
compiled again and again, and matrix units that stand idle.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob, mean_step_ns
from faultline.analysis.traces.doctor.rule import (
    DoctorRule,
    JobRule,
    ms,
    percent,
    rank_phrase,
    short,
    subject_of,
)

# Rules 11 and 12: the host waiting for the accelerator, and copies between them.

SYNC_SHARE = 0.15
"""Share of the step in which the host waits for the accelerator (nsys-ai warns from 15 %, alarms
from 20 %)."""
SYNC_IDLE = 0.05
"""And the share in which the accelerator is idle because of it (our choice): a host that waits
while work is queued costs nothing."""
MANY_READS = 25
"""Values read one by one in a step, of a rank whose accelerator was not recorded (our choice:
healthy recorded jobs read up to 12)."""
COPY_NS = 50_000_000
"""Copies to the accelerator of 50 ms (nsys-ai), per step."""
COPY_SHARE = 0.05
"""Share of the step in pageable copies (our choice: below it, pinning memory cannot gain more)."""
HOST_SYNCS = DoctorRule(
    name="host_syncs",
    sees="the host waiting for the accelerator in every step (`aten::item`, `aten::nonzero`, "
    "cudaStreamSynchronize, "
    "blocking copies) and the accelerator idle after it; without recorded accelerator work, "
    "values read one by one",
    threshold="15 % of the step in waits and 5 % idle after them; without an accelerator 25 reads "
    "per step",
    source="nsys-ai (synchronisation density 15 %, 20 %); idle time and reads: own measurements",
    fix="Keep losses and metrics on the device and read them every few steps, copy with "
    "non_blocking=True, and avoid "
    "operations whose result size the host must know.",
)
PAGEABLE_COPIES = DoctorRule(
    name="pageable_copies",
    sees="copies from pageable host memory, which block the host and cannot overlap",
    threshold="5 % of the step",
    source="Nsight Systems' rule cuda_memcpy_async; share: own",
    fix="pin_memory=True in the DataLoader (or tensor.pin_memory()) and .to(device, "
    "non_blocking=True).",
)
LONG_COPIES = DoctorRule(
    name="long_copies",
    sees="copies from the host to the accelerator in every step",
    threshold="50 ms and 10 % of the step",
    source="nsys-ai (50 ms)",
    fix="Copy the next batch on its own stream while this one is computed, send smaller types, or "
    "decode on the "
    "device.",
)


def host_rules(job: TrainingJob) -> list[JobDiagnosis]:
    """Waits and copies, over all ranks."""
    return [
        *over_ranks(job, waits_cost, _host_syncs),
        *over_ranks(job, _pageable, _pageable_copies),
        *over_ranks(job, _copies_long, _long_copies),
    ]


def over_ranks(
    job: TrainingJob,
    applies: Callable[[RankSummary], bool],
    diagnosis_of: Callable[[TrainingJob, Sequence[RankSummary]], JobDiagnosis],
) -> list[JobDiagnosis]:
    """One diagnosis of all ranks that a rule applies to; none where it applies to none."""
    affected = [s for s in job.ranks if applies(s)]
    return [diagnosis_of(job, affected)] if affected else []


def _of_step(summary: RankSummary, ns: float) -> float:
    return ns / summary.facts.step_count


def waits_cost(summary: RankSummary) -> bool:
    """Whether the rank's waits are many and leave its accelerator idle."""
    facts, syncs = summary.facts, summary.facts.syncs
    if not facts.on_device:
        # Where no runtime calls were recorded, waits are invisible: reads stand for them.
        return not facts.capture.runtime_calls and syncs.reads / facts.step_count >= MANY_READS
    idle = syncs.idle_after_ns / facts.window_ns
    return syncs.count >= facts.step_count and syncs.share >= SYNC_SHARE and idle >= SYNC_IDLE


def _host_syncs(job: TrainingJob, ranks: Sequence[RankSummary]) -> JobDiagnosis:
    worst = max(ranks, key=lambda s: (s.facts.syncs.share, s.facts.syncs.reads))
    syncs = worst.facts.syncs
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    subject = subject_of([s.rank for s in ranks], job.count)
    verb = "reads" if len(ranks) == 1 else "read"
    if not worst.facts.on_device:
        numbers["reads_per_step"] = short(fmean(_of_step(s, s.facts.syncs.reads) for s in ranks))
        statement = (
            f"{who} {verb} {numbers['reads_per_step']:g} values per step out of tensors one by "
            f"one (`aten::item`): "
            "each would make the host wait for an accelerator"
        )
        return HOST_SYNCS.diagnosis(
            "warning", subject, statement, numbers, events=syncs.read_events
        )
    waits = fmean(_of_step(s, s.facts.syncs.count) for s in ranks)
    times = "time" if round(waits, 1) == 1 else "times"
    # A wait outside all operators has an empty name.
    operator = next((name for name, _ in syncs.by_operator if name), "")
    numbers |= {
        "syncs_per_step": short(waits),
        "percent": percent(fmean(s.facts.syncs.share for s in ranks)),
        "idle_percent": percent(
            fmean(s.facts.syncs.idle_after_ns / s.facts.window_ns for s in ranks)
        ),
    }
    statement = (
        f"the host waits for the accelerator {numbers['syncs_per_step']:g} {times} per step on "
        f"{who}"
        + (f" (mostly `{operator}`)" if operator else "")
        + f", {numbers['percent']:g} % of the time, and leaves it idle for "
        f"{numbers['idle_percent']:g} %"
    )
    return HOST_SYNCS.diagnosis(
        "warning",
        subject,
        statement,
        numbers,
        events=syncs.longest,
        details={"by_operator": dict(syncs.by_operator)},
        cost_ns=fmean(_of_step(s, s.facts.syncs.idle_after_ns) for s in ranks),
    )


def _pageable(summary: RankSummary) -> bool:
    return summary.facts.copies.pageable_to_device.ns >= COPY_SHARE * summary.facts.window_ns


def _pageable_copies(job: TrainingJob, ranks: Sequence[RankSummary]) -> JobDiagnosis:
    worst = max(ranks, key=lambda s: s.facts.copies.pageable_to_device.ns / s.facts.window_ns)
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    cost_ns = fmean(_of_step(s, s.facts.copies.pageable_to_device.ns) for s in ranks)
    numbers |= {
        "copies_per_step": short(
            fmean(_of_step(s, s.facts.copies.pageable_to_device.count) for s in ranks)
        ),
        "copy_ms": ms(cost_ns),
        "step_ms": ms(mean_step_ns(ranks)),
    }
    statement = (
        f"copies from pageable memory take {numbers['copy_ms']:g} ms of each "
        f"{numbers['step_ms']:g} ms step on {who} "
        f"({numbers['copies_per_step']:g} per step)"
    )
    subject = subject_of([s.rank for s in ranks], job.count)
    return PAGEABLE_COPIES.diagnosis(
        "warning",
        subject,
        statement,
        numbers,
        events=worst.facts.copies.longest_pageable,
        cost_ns=cost_ns,
    )


def _copies_long(summary: RankSummary) -> bool:
    facts = summary.facts
    spent = facts.copies.to_device.ns
    return (
        # Pageable copies have their own rule and their own fix.
        not _pageable(summary)
        and spent >= COPY_NS * facts.step_count
        # Twice the share is the 10 % of the rule's threshold.
        and spent >= 2 * COPY_SHARE * facts.window_ns
    )


def _long_copies(job: TrainingJob, ranks: Sequence[RankSummary]) -> JobDiagnosis:
    worst = max(ranks, key=lambda s: s.facts.copies.to_device.ns)
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    cost_ns = fmean(_of_step(s, s.facts.copies.to_device.ns) for s in ranks)
    numbers |= {
        "copy_ms": ms(cost_ns),
        "step_ms": ms(mean_step_ns(ranks)),
    }
    statement = (
        f"copies to the accelerator take {numbers['copy_ms']:g} ms of each "
        f"{numbers['step_ms']:g} ms step on {who}"
    )
    subject = subject_of([s.rank for s in ranks], job.count)
    return LONG_COPIES.diagnosis(
        "warning",
        subject,
        statement,
        numbers,
        events=worst.facts.copies.longest_to_device,
        cost_ns=cost_ns,
    )


# Rules 16 and 17: code that is compiled again and again, and matrix units that stand idle.

RECOMPILE_LIMIT = 8
"""Versions of a frame at which torch._dynamo gives up and runs it uncompiled (its
recompile_limit)."""
MANY_VERSIONS = 3
"""Distinct versions of one frame in one trace (own): the first, and one with dynamic shapes, are
what a healthy job compiles."""
MIN_COMPILING_STEPS = 3
"""Steps with compilations (own): the first, and one with dynamic shapes, are what a healthy job
needs."""
VOLTA = 7.0
"""Compute capability with tensor cores."""
MATRIX_SHARE = 0.10
"""Share of the kernel time in matrix products from which it matters (own)."""

RECOMPILES = DoctorRule(
    name="recompiles",
    sees="distinct `Torch-Compiled Region: f/N` of one frame f, compilations inside steps, and "
    "steps that look "
    "compiled code up and run without it",
    threshold="3 versions of one frame in a trace, compilations in 3 steps, or 3 steps without "
    "the code that "
    "they look up; critical where a frame reaches 8 versions",
    source="torch._dynamo.config.recompile_limit (8); versions and steps: own",
    fix="Call torch._dynamo.mark_dynamic on the dimensions that change, dynamic=True, or pad to a "
    "few fixed shapes; "
    "TORCH_LOGS=recompiles names the guard that failed.",
)
TENSOR_CORES_UNUSED = DoctorRule(
    name="tensor_cores_unused",
    sees="matrix products and convolutions, none of whose kernels uses tensor cores",
    threshold="compute capability 7.0, eligible operators, no such kernel, and 10 % of the kernel "
    "time in matrix "
    "products; information: full precision may be intended",
    source="TensorBoard's plugin (7.0, none used); share: own",
    fix="Automatic mixed precision (torch.autocast), TF32 "
    "(torch.set_float32_matmul_precision('high')), and "
    "dimensions that are multiples of 8.",
)


def _recompiles(job: TrainingJob) -> list[JobDiagnosis]:
    ranks = [s for s in job.ranks if compiles_again(s)]
    if not ranks:
        return []
    worst = max(ranks, key=lambda s: (_versions(s), _highest(s), s.facts.recompiles.compilations))
    recompiles = worst.facts.recompiles
    rank_numbers = [s.rank for s in ranks]
    who, numbers = rank_phrase(rank_numbers, job.count)
    parts = []
    if _versions(worst) >= MANY_VERSIONS:
        frame = recompiles.frames[0]
        numbers |= {
            "versions": float(frame.versions),
            "frame": float(frame.frame),
            "highest": float(frame.highest),
        }
        parts.append(
            f"{frame.versions} versions of compiled frame {frame.frame} run in one trace, up to "
            f"version {frame.highest}"
        )
    elif _limit_reached(worst):
        # A trace may show only the latest version; its number alone tells the limit.
        frame = max(recompiles.frames, key=lambda f: f.highest)
        numbers |= {
            "frame": float(frame.frame),
            "highest": float(frame.highest),
            "limit": float(RECOMPILE_LIMIT),
        }
        parts.append(
            f"compiled frame {frame.frame} is at version {frame.highest}, and torch._dynamo gives "
            f"up at "
            f"{RECOMPILE_LIMIT}"
        )
    if recompiles.uncompiled_steps >= MIN_COMPILING_STEPS:
        numbers["uncompiled_steps"] = float(recompiles.uncompiled_steps)
        parts.append(
            f"{recompiles.uncompiled_steps} steps look compiled code up and run without it"
        )
    if recompiles.steps_compiling >= MIN_COMPILING_STEPS:
        numbers |= {
            "compilations": float(recompiles.compilations),
            "steps_compiling": float(recompiles.steps_compiling),
            "compiling_ms": ms(recompiles.compiling_ns),
        }
        parts.append(
            f"{recompiles.compilations} compilations in {recompiles.steps_compiling} steps take "
            f"{numbers['compiling_ms']:g} ms"
        )
    limit = _limit_reached(worst) or recompiles.uncompiled_steps >= MIN_COMPILING_STEPS
    return [
        RECOMPILES.diagnosis(
            "critical" if limit else "warning",
            subject_of(rank_numbers, job.count),
            f"code is compiled again and again on {who}: " + "; ".join(parts),
            numbers,
            ranks=rank_numbers if len(ranks) < job.count else (),
            events=recompiles.events,
            details={"frames": {str(f.frame): f.versions for f in recompiles.frames}},
            # What running without the code costs is not in the trace: only compiling is.
            cost_ns=recompiles.compiling_ns / worst.facts.step_count
            if recompiles.compiling_ns
            else None,
        )
    ]


def _versions(summary: RankSummary) -> int:
    return max((f.versions for f in summary.facts.recompiles.frames), default=0)


def _highest(summary: RankSummary) -> int:
    return max((f.highest for f in summary.facts.recompiles.frames), default=-1)


def _limit_reached(summary: RankSummary) -> bool:
    # Versions are numbered from 0.
    return _highest(summary) + 1 >= RECOMPILE_LIMIT


def compiles_again(summary: RankSummary) -> bool:
    """Whether the rank compiles more than a healthy job needs."""
    recompiles = summary.facts.recompiles
    often = max(recompiles.steps_compiling, recompiles.uncompiled_steps) >= MIN_COMPILING_STEPS
    return often or _versions(summary) >= MANY_VERSIONS or _limit_reached(summary)


def _tensor_cores(job: TrainingJob) -> list[JobDiagnosis]:
    ranks = [s for s in job.ranks if _unused(s)]
    if not ranks:
        return []
    worst = max(ranks, key=lambda s: s.facts.tensor_cores.matrix_ns)
    tensor_cores = [s.facts.tensor_cores for s in ranks]
    operators = sum(o.eligible_operators for o in tensor_cores)
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    share = sum(o.matrix_ns for o in tensor_cores) / sum(o.kernel_ns for o in tensor_cores)
    numbers |= {"operators": float(operators), "percent": percent(share)}
    statement = (
        f"{operators} operators on {who} could use tensor cores and none does; matrix products "
        f"without "
        f"them take {numbers['percent']:g} % of the kernel time"
    )
    subject = subject_of([s.rank for s in ranks], job.count)
    return [
        TENSOR_CORES_UNUSED.diagnosis(
            "info", subject, statement, numbers, events=worst.facts.tensor_cores.longest
        )
    ]


def _unused(summary: RankSummary) -> bool:
    tensor_cores = summary.facts.tensor_cores
    able = tensor_cores.compute_capability is not None and tensor_cores.compute_capability >= VOLTA
    matters = (
        tensor_cores.matrix_ns > 0
        and tensor_cores.matrix_ns >= MATRIX_SHARE * tensor_cores.kernel_ns
    )
    return (
        able and tensor_cores.eligible_operators > 0 and not tensor_cores.used_kernels and matters
    )


JOB_RULES = (JobRule(RECOMPILES, _recompiles), JobRule(TENSOR_CORES_UNUSED, _tensor_cores))
