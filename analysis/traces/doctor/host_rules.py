"""Rules 11 and 12: the host waiting for the accelerator, and copies between them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob, mean_step_ns
from faultline.analysis.traces.doctor.rule import (
    DoctorRule,
    ms,
    percent,
    rank_phrase,
    short,
    subject_of,
)

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
