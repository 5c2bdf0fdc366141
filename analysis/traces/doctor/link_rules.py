"""Collectives that reach little of their link's peak. Judged only where waiting for late ranks is
taken off, and silent where a straggler explains the time."""

from __future__ import annotations

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import DoctorRule, ms, percent, short
from faultline.analysis.traces.per_rank.collective_bandwidth import CollectiveRow

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
