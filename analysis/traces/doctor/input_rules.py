"""Rule 2: ranks that wait for their data loader."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from statistics import median

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
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
from faultline.analysis.traces.judgement.thresholds import CRITICAL_SHARE, WARN_SHARE
from faultline.analysis.traces.per_rank.step_times import DATA, PARTS

PERSISTENT = 0.25
"""Share of the steps that stall (own: workers that read ahead make every second to fourth step of a
recorded job stall; fewer are single slow steps, which other rules see)."""
MIN_RANKS = 0.5
"""Share of the ranks that wait for their loaders, from which it is the job's problem and not one
rank's (our choice)."""

DATALOADER_STALL = DoctorRule(
    name="dataloader_stall",
    sees="time in `enumerate(DataLoader)#...__next__` in which the accelerator has nothing to do; "
    "without an "
    "accelerator, where loading is the longest part of the step",
    threshold="10 % of the time in a quarter of the steps warns (an accelerator, or loading in the "
    "training process), 20 % is critical; "
    "on at least half of the ranks",
    source="TraceML's INPUT_BOUND (10 %, 20 %); TensorBoard's plugin advises from 5 %",
    fix="Give the DataLoader workers (num_workers), prefetch_factor, persistent_workers=True and "
    "pin_memory=True, "
    "or move work out of the dataset's __getitem__ and cache its input.",
)
IN_PROCESS_FIX = (
    "The DataLoader runs in the training process (num_workers=0): set num_workers to a few per "
    "rank, with "
    "persistent_workers=True and pin_memory=True."
)


def input_rules(job: TrainingJob, silenced: Collection[int] = ()) -> list[JobDiagnosis]:
    """Ranks that wait for input; those in `silenced` have been named for it."""
    stalled = [s for s in job.ranks if _stalled(s) and s.rank not in silenced]
    if not stalled or len(stalled) < MIN_RANKS * job.count:
        return []
    ranks = [summary.rank for summary in stalled]
    share = median(summary.facts.data.share for summary in stalled)
    in_process = any(summary.facts.data.in_process for summary in stalled)
    worst = max(stalled, key=lambda summary: summary.facts.data.share)
    who, numbers = rank_phrase(ranks, job.count)
    waiting, waiting_numbers = _waiting(stalled, worst, share)
    numbers |= waiting_numbers
    statement = f"{who} {waiting}"
    if in_process:
        statement += ", which runs in the training process itself"
    diagnosis = DATALOADER_STALL.diagnosis(
        "critical" if share >= CRITICAL_SHARE else "warning",
        subject_of(ranks, job.count),
        statement,
        numbers,
        ranks=ranks if len(ranks) < job.count else (),
        events=worst.facts.data.longest,
        details={"data_share": share, "in_training_process": in_process},
        fix=IN_PROCESS_FIX if in_process else None,
        cost_ns=share * job.step_ns,
    )
    return [diagnosis]


def _waiting(
    stalled: Sequence[RankSummary], worst: RankSummary, share: float
) -> tuple[str, dict[str, float]]:
    """How long the ranks wait, with its numbers: of each step, or of a share of the steps."""
    verb = "spends" if len(stalled) == 1 else "spend"
    # Workers that read ahead stall only every few steps: then count the stalls instead.
    if median(s.facts.data.usual_share for s in stalled) >= WARN_SHARE:
        data_ms = ms(median(s.facts.data.usual_ns for s in stalled))
        step_ms = ms(_usual_step_ns(stalled))
        phrase = f"{verb} {data_ms:g} ms of each {step_ms:g} ms step waiting for the data loader"
        return phrase, {"data_ms": data_ms, "step_ms": step_ms}
    stalled_steps, steps = worst.facts.data.stalled_steps, worst.facts.step_count
    numbers = {
        "percent": percent(share),
        "stalled_steps": float(stalled_steps),
        "steps": float(steps),
    }
    phrase = (
        f"{verb} {numbers['percent']:g} % of the time waiting for the data loader, in "
        f"{stalled_steps} of {plural(steps, 'step')}"
    )
    return phrase, numbers


def _usual_step_ns(ranks: Sequence[RankSummary]) -> float:
    """Median over these ranks of their median steps (of the length of the trace, without steps)."""
    return median(
        median((s.steps.end - s.steps.start).tolist()) if len(s.steps) else s.facts.window_ns
        for s in ranks
    )


def _stalled(summary: RankSummary) -> bool:
    data = summary.facts.data
    if not data.calls or data.stalled_steps < PERSISTENT * summary.facts.steps:
        return False
    if summary.has_accelerator:
        return data.share >= WARN_SHARE
    # On a CPU workers load while the step computes, on the same cores: only much of it is a stall.
    limit = WARN_SHARE if data.in_process else CRITICAL_SHARE
    return data.share >= limit and _longest_part(summary)


def _longest_part(summary: RankSummary) -> bool:
    """Whether no other known part of the steps takes longer than loading; without steps nothing is
    known."""
    if not len(summary.steps):
        return True
    loading = int(summary.steps.parts[DATA].sum())
    for part in PARTS:
        if part in ("other", "idle"):
            continue
        if int(summary.steps.parts[part].sum()) > loading:
            return False
    return True
