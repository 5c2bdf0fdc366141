"""Rules 4 to 6: communication that costs time. Silent where a straggler, or a slow step, explains
the waiting.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, median

import numpy as np

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.step_breakdown import TRANSFER, WAIT
from faultline.analysis.traces.across_ranks.wait_transfer import (
    AllReduceOverlap,
    all_reduce_overlap,
    exposures,
)
from faultline.analysis.traces.doctor.diagnosis import EventReference, JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import (
    DoctorRule,
    ms,
    percent,
    rank_phrase,
    short,
    subject_of,
)
from faultline.analysis.traces.per_rank.collective_bandwidth import CollectiveRow

COMMUNICATION_SHARE = 0.10
"""Share of the step (TensorBoard's plugin)."""
EXPOSED_SHARE = 0.40
"""Share of the time that communication takes alone, from which a job is bound by it, whatever the
reason."""
MAINLY = 0.6
"""Share from which one reason is said for exposed communication (our choice)."""
OVERLAP = 0.30
"""Share of the communication that computation hides, below which it counts as not overlapped
(nsys-ai)."""

NO_OVERLAP = DoctorRule(
    name="no_overlap",
    sees="all_reduce calls launched only after the backward pass; or communication that "
    "computation does not hide",
    threshold="90 % of the gradients' all_reduce after the backward pass, exposed for 10 % of the "
    "step; or, on "
    "accelerators, less than 30 % hidden",
    source="TensorBoard's plugin (10 %), nsys-ai (30 %); after the backward pass: own",
    fix="Let DistributedDataParallel reduce gradients in buckets during the backward pass "
    "(bucket_cap_mb, "
    "gradient_as_bucket_view=True, static_graph=True, find_unused_parameters=False) instead of "
    "one by one after it.",
)
COMMUNICATION = DoctorRule(
    name="communication",
    sees="transfer of collectives that no computation hides, after the waiting for other ranks is "
    "taken off",
    threshold="10 % of the step, on accelerators of several ranks",
    source="TensorBoard's plugin (10 %)",
    fix="Compare the bus bandwidth with the hardware's (nccl-tests); larger buckets, gradient "
    "compression or "
    "accumulation; check NCCL_DEBUG=INFO for the transport and the links for errors.",
)
COMMUNICATION_BOUND = DoctorRule(
    name="communication_bound",
    sees="communication that no computation hides, waiting for other ranks included",
    threshold="40 % of the time, with or without accelerators, where no late rank, no data loading "
    "and no other rule on communication explains it",
    source="own: what a job is like, not what went wrong with it; recorded jobs without a fault, "
    "over gloo on two cores, reach 58 %",
    fix="Overlap communication with computation, make steps longer (larger batches, gradient "
    "accumulation), or use faster links; where most of it is waiting, balance the ranks' work.",
)
FSDP_EXPOSED = DoctorRule(
    name="fsdp_exposed",
    sees="all_gather and reduce_scatter of sharded parameters that no computation hides",
    threshold="10 % of the step, on accelerators",
    source="TensorBoard's plugin (10 % for communication)",
    fix="backward_prefetch / set_modules_to_forward_prefetch, reshard_after_forward=False where "
    "memory allows, or "
    "coarser wrapping.",
)


def communication_rules(
    job: TrainingJob, *, explained: bool = False, waits_for_input: bool = False
) -> list[JobDiagnosis]:
    """At most one: gradients reduced too late, else exposed sharding, else exposed transfer, else
    a job that communicates for much of its time. A slow link explains long transfers
    (`explained`). Ranks that wait for input also wait for each other."""
    if job.has_steps:
        # The most specific cause first: a later one would say the same in general terms.
        fsdp = _after_backward(job) or _fsdp(job) or _little_hidden(job)
        if fsdp or explained:
            return fsdp
        fsdp = _transfer(job)
        if fsdp:
            return fsdp
    return [] if waits_for_input else _exposed(job)


def _after_backward(job: TrainingJob) -> list[JobDiagnosis]:
    late = [o for o in map(_overlap, job.ranks) if o is not None]
    if not late or len(late) < job.count or _only_waiting(job):
        return []
    who, numbers = rank_phrase([o.rank for o in late], job.count)
    numbers |= {
        "calls_per_step": short(
            median(o.count / s.facts.step_count for o, s in zip(late, job.ranks, strict=True))
        ),
        "exposed_ms": ms(fmean(o.exposed for o in late)),
        "step_ms": ms(job.step_ns),
    }
    verb = "launches" if len(late) == 1 else "launch"
    statement = (
        f"{who} {verb} the all_reduce of gradients only after the backward pass: "
        f"{numbers['calls_per_step']:g} calls "
        f"per step, {numbers['exposed_ms']:g} ms of each {numbers['step_ms']:g} ms step that no "
        f"computation hides"
    )
    return [
        NO_OVERLAP.diagnosis(
            "warning",
            subject_of([o.rank for o in late], job.count),
            statement,
            numbers,
            events=_longest(job.ranks[0], "all_reduce"),
            cost_ns=fmean(o.exposed for o in late),
            details={
                # Bound the details: a job may have thousands of ranks.
                "after_backward": {str(o.rank): round(o.after_backward, 3) for o in late[:64]}
            },
        )
    ]


def _only_waiting(job: TrainingJob) -> bool:
    """Whether what is exposed is waiting for other ranks (at an all_reduce of one value, say),
    which is no transfer."""
    comparable = job.compared is not None and all(s.has_accelerator for s in job.ranks)
    return comparable and _transfer_share(job) < COMMUNICATION_SHARE


def _overlap(summary: RankSummary) -> AllReduceOverlap | None:
    """The rank's overlap where its gradients are reduced after the backward pass, and that costs
    enough."""
    overlap = all_reduce_overlap(summary)
    late = (
        overlap is not None and overlap.none_overlaps and overlap.step_share >= COMMUNICATION_SHARE
    )
    return overlap if late else None


def _little_hidden(job: TrainingJob) -> list[JobDiagnosis]:
    """Accelerators whose communication is hardly hidden; judged only if waiting is
    known."""
    ranks = [s for s in job.ranks if _hides_little(s)]
    if job.compared is None or len(ranks) < job.count or _transfer_share(job) < COMMUNICATION_SHARE:
        return []
    hidden = median(
        s.time_on_device.hidden_communication / s.time_on_device.communication for s in ranks
    )
    who, numbers = rank_phrase([s.rank for s in ranks], job.count)
    numbers |= {
        "hidden_percent": percent(hidden),
        "transfer_percent": percent(_transfer_share(job)),
    }
    statement = (
        f"computation hides {numbers['hidden_percent']:g} % of the communication on {who}; its "
        f"transfer alone takes "
        f"{numbers['transfer_percent']:g} % of the steps"
    ) + _why_exposed(job, numbers)
    cost = _transfer_share(job) * job.step_ns
    return [NO_OVERLAP.diagnosis("warning", "all ranks", statement, numbers, cost_ns=cost)]


def _hides_little(summary: RankSummary) -> bool:
    device = summary.time_on_device
    return device.communication > 0 and device.hidden_communication < OVERLAP * device.communication


def _transfer_share(job: TrainingJob) -> float:
    return median(s.share(TRANSFER) for s in job.steps_of_ranks) if job.steps_of_ranks else 0.0


def _transfer(job: TrainingJob) -> list[JobDiagnosis]:
    if (
        job.compared is None
        or not all(s.has_accelerator for s in job.ranks)
        or _transfer_share(job) < COMMUNICATION_SHARE
    ):
        return []
    who, numbers = rank_phrase([s.rank for s in job.ranks], job.count)
    transfer_ns = 1e6 * fmean(s.ms(TRANSFER) for s in job.steps_of_ranks)
    numbers |= {
        "percent": percent(transfer_ns / job.step_ns),
        "transfer_ms": short(transfer_ns / 1e6),
        "step_ms": ms(job.step_ns),
    }
    statement = (
        f"transfer of collectives takes {numbers['transfer_ms']:g} ms of each "
        f"{numbers['step_ms']:g} ms step on {who} "
        f"({numbers['percent']:g} %), beside all waiting for other ranks"
    ) + _why_exposed(job, numbers)
    return [
        COMMUNICATION.diagnosis("warning", "all ranks", statement, numbers, cost_ns=transfer_ns)
    ]


def _exposed(job: TrainingJob) -> list[JobDiagnosis]:
    """Communication that takes much of the time, be it transfer or waiting."""
    shares = [s.exposed_share or 0.0 for s in job.ranks]
    if not shares or median(shares) < EXPOSED_SHARE:
        return []
    ranks = [s.rank for s in job.ranks]
    who, numbers = rank_phrase(ranks, job.count)
    numbers["percent"] = percent(median(shares))
    statement = (
        f"{who} {'spends' if job.count == 1 else 'spend'} {numbers['percent']:g} % of the time in "
        "communication that no computation hides"
    )
    if job.compared is not None and job.steps_of_ranks:
        numbers["wait_ms"] = short(median(s.ms(WAIT) for s in job.steps_of_ranks))
        numbers["transfer_ms"] = short(median(s.ms(TRANSFER) for s in job.steps_of_ranks))
        numbers["step_ms"] = ms(job.step_ns)
        statement += (
            f": of each {numbers['step_ms']:g} ms step {numbers['wait_ms']:g} ms wait for the "
            f"other ranks and {numbers['transfer_ms']:g} ms transfer"
        )
    statement += _why_exposed(job, numbers)
    subject = subject_of(ranks, job.count)
    cost = median(shares) * job.step_ns
    return [COMMUNICATION_BOUND.diagnosis("warning", subject, statement, numbers, cost_ns=cost)]


def _why_exposed(job: TrainingJob, numbers: dict[str, float]) -> str:
    """What no computation hides of the collectives: what was launched already had to wait for
    them, or there was nothing to overlap with. "" where one does not prevail, or the ranks have no
    accelerator."""
    if not all(s.has_accelerator for s in job.ranks):
        return ""
    exposed = sum(int(s.collectives.exposed.sum()) for s in job.ranks)
    if not exposed:
        return ""
    awaited = sum(int(s.collectives.awaited.sum()) for s in job.ranks) / exposed
    if awaited >= MAINLY:
        numbers["awaited_percent"] = percent(awaited)
        return f"; for {percent(awaited):g} % of it the next computation is launched and waits"
    if awaited <= 1 - MAINLY:
        numbers["nothing_launched_percent"] = percent(1 - awaited)
        return (
            f"; for {percent(1 - awaited):g} % of it the host has launched nothing to overlap with"
        )
    return ""


def _fsdp(job: TrainingJob) -> list[JobDiagnosis]:
    if (
        job.compared is None
        or not all(s.has_accelerator for s in job.ranks)
        or not job.compared.fsdp
    ):
        return []
    # Exposed time includes waiting: count no more of it than the transfer.
    share = min(median(_sharding(s) for s in job.ranks), _transfer_share(job))
    if share < COMMUNICATION_SHARE:
        return []
    who, numbers = rank_phrase([s.rank for s in job.ranks], job.count)
    numbers["percent"] = percent(share)
    statement = (
        f"all_gather and reduce_scatter of sharded parameters are exposed for "
        f"{numbers['percent']:g} % of the step on "
        f"{who}, beside all waiting for other ranks"
    ) + _why_exposed(job, numbers)
    cost = share * job.step_ns
    return [FSDP_EXPOSED.diagnosis("warning", "all ranks", statement, numbers, cost_ns=cost)]


def _sharding(summary: RankSummary) -> float:
    step_shares = [
        e.step_share for e in exposures(summary) if e.operation in ("all_gather", "reduce_scatter")
    ]
    # Calls in flight at once can add up to more than the step.
    return min(sum(step_shares), 1.0)


def _longest(summary: RankSummary, operation: str) -> Sequence[EventReference]:
    calls = summary.collectives
    rows = np.flatnonzero(calls.named(operation) & (calls.step >= 0))
    # Start minus end is the negative length: the longest come first.
    rows = rows[np.argsort(calls.start[rows] - calls.end[rows], kind="stable")][:3]
    return [
        EventReference(
            summary.rank,
            summary.file,
            int(calls.event[r]),
            operation,
            int(calls.start[r]),
            int(calls.end[r] - calls.start[r]),
            int(calls.step[r]),
        )
        for r in rows.tolist()
    ]


# Collectives that reach little of their link's peak. Judged only where waiting for late ranks is
# taken off, and silent where a straggler explains the time.

LARGE_BYTES = 64 * 2**20
"""Smaller messages are bound by latency. From here on published runs of all_reduce_perf reach 68 %
of NVLink's peak on eight A100 (203 of 300 GB/s) and 80 % on eight H100 (360 of 450 GB/s)."""
REACHABLE = 0.80
"""Share of NVLink's line rate that NCCL can use (a maintainer, nccl-tests issue 212: 370 of 450
GB/s)."""
LOW_SHARE = REACHABLE / 2
"""Share of the peak below which a link is not used well (our choice: half of what can be had)."""
COST_SHARE = 0.10
"""Exposed transfer of the step (TensorBoard's plugin, for communication)."""

SLOW_LINK = DoctorRule(
    name="slow_link",
    sees="collectives within a host whose bus bandwidth is far below the peak of its links, "
    "waiting for other ranks taken off",
    threshold="messages of 64 MiB or more, less than 40 % of the peak, and 10 % of the step in "
    "transfer that no computation hides; ranks on one host with a known device",
    source="nccl-tests (bus bandwidth; its maintainers: 80 % of NVLink's peak can be had; "
    "published runs reach 68 to 80 % at 64 MiB), TensorBoard's plugin (10 %)",
    fix="Run nccl-tests on that host. NCCL_DEBUG=INFO names the transport: NVLink is P2P, not SHM "
    "or NET (NCCL_P2P_DISABLE, a container without the devices); nvidia-smi nvlink -s shows links "
    "that are down.",
)


def slow_links(job: TrainingJob) -> list[JobDiagnosis]:
    """One diagnosis per operation and group at most, that of the size that costs the most."""
    if job.compared is None or not job.step_count:
        return []
    window = job.step_ns * job.step_count
    collective_rows: dict[tuple[str, str, int], CollectiveRow] = {}
    for row in job.compared.collectives.rows:
        if not _is_slow(row) or _bare(row) < COST_SHARE * window:
            continue
        key = (row.operation, row.group, row.ranks)
        if key not in collective_rows or _bare(row) > _bare(collective_rows[key]):
            collective_rows[key] = row
    return [_link_diagnosis(job, row) for row in collective_rows.values()]


def _is_slow(row: CollectiveRow) -> bool:
    share = row.link_percent
    large = row.bytes >= LARGE_BYTES and not row.at_least
    return large and share is not None and share < 100 * LOW_SHARE


def _bare(row: CollectiveRow) -> int:
    """Exposed ns without the waiting, which is always exposed or another's work."""
    return min(max(row.exposed - row.wait, 0), row.transfer)


def _link_diagnosis(job: TrainingJob, row: CollectiveRow) -> JobDiagnosis:
    share, peak, reached = row.link_percent, row.link.peak_gb_per_s, row.bus_bandwidth
    # `_is_slow` lets only rows with a known link pass.
    assert share is not None
    assert peak is not None
    assert reached is not None
    bare = _bare(row) / job.step_count
    numbers = {
        "ranks": float(row.ranks),
        "link_percent": percent(share / 100),
        "peak_gb_per_s": short(peak),
        "bus_gb_per_s": short(reached),
        "message_mb": short(row.bytes / 1e6),
        "exposed_ms": ms(bare),
        "step_ms": ms(job.step_ns),
    }
    group = f"`{row.group}` of {row.ranks} ranks" if row.group else f"{row.ranks} ranks"
    statement = (
        f"{row.operation} of {group} reaches {numbers['link_percent']:g} % of the "
        f"{row.link.name} peak at {numbers['message_mb']:g} MB messages "
        f"({numbers['bus_gb_per_s']:g} of {numbers['peak_gb_per_s']:g} GB/s), and no computation "
        f"hides {numbers['exposed_ms']:g} ms of it in each {numbers['step_ms']:g} ms step"
    )
    # A fix can only gain what NCCL can reach, not the full peak.
    gain = bare * (1 - share / 100 / REACHABLE)
    return SLOW_LINK.diagnosis("warning", "all ranks", statement, numbers, cost_ns=gain)
