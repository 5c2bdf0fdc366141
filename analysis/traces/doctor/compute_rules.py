"""Rules 16 and 17: code that is compiled again and again, and matrix units that stand idle."""

from __future__ import annotations

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import (
    DoctorRule,
    JobRule,
    ms,
    percent,
    rank_phrase,
    subject_of,
)

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
