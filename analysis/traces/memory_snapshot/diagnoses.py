"""What memory snapshots say is wrong, as diagnoses."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.memory_rules import FRAGMENTATION, MEMORY_GROWTH
from faultline.analysis.traces.flight_recorder.wording import Numbers, subject_of
from faultline.analysis.traces.memory_snapshot.history import LineHolder, holders_at
from faultline.analysis.traces.memory_snapshot.judgement import (
    AllocationFailure,
    Growth,
    JudgedSnapshot,
    judge,
)
from faultline.analysis.traces.memory_snapshot.reading import read_snapshot
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.job_files import JobFile

MAX_SNAPSHOTS = 64
"""The latest of each rank, of at most this many ranks."""
MAX_TOTAL_BYTES = 256 << 20
"""Reading takes about a second for 5 MB."""
MAX_HOLDERS = 10
SOURCE = "torch.cuda.memory snapshot; shares and sizes: own, beside TraceML's ratio"
_TORCHTITAN = re.compile(r"^(\d{6})_step_\d+$")
FIXES = {
    "fragmentation": "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, fixed shapes (pad to "
    "buckets), or fewer "
    "sizes that change from step to step.",
    "growth": "Something outlives its step: keep loss.item() or loss.detach() instead of losses, "
    "and clear lists of "
    "outputs.",
    "one large allocation": "Split that allocation: smaller batch or sequence, chunked loss or "
    "attention, sharding.",
    "near the limit": "Activation checkpointing, mixed precision, sharded states (FSDP), or a "
    "smaller batch.",
}
RankSnapshot = tuple[int | None, JudgedSnapshot]
FailedSnapshot = tuple[int | None, JudgedSnapshot, AllocationFailure]


def snapshot_diagnoses(
    files: Iterable[JobFile],
) -> tuple[list[JobDiagnosis], list[tuple[str, str]]]:
    """What the latest snapshot of each rank says, and (file, problem) of those that cannot be read
    or were left out.

    Never raises for what a file holds.
    """
    judged: list[RankSnapshot] = []
    problems: list[tuple[str, str]] = []
    total = 0
    for rank, file in _latest(files):
        total += file.size
        # Reading is slow (about a second for 5 MB): leave the rest out, and say so.
        if len(judged) >= MAX_SNAPSHOTS or total > MAX_TOTAL_BYTES:
            problems.append((file.path.name, "is left out: other snapshots were read before it"))
            continue
        try:
            judged.append((rank, judge(read_snapshot(file.path))))
        except EvidenceError as error:
            problems.append((file.path.name, error.problem))
    return [*_failures(judged), *_growths(judged), *_idle(judged), *_peaks(judged)], problems


def rank_of(path: Path, named: int | None) -> int | None:
    """The rank in a snapshot's name: TorchTitan's 000003_step_40.pickle too."""
    if named is not None:
        return named
    match = _TORCHTITAN.match(path.stem)
    return int(match[1]) if match else None


def _latest(files: Iterable[JobFile]) -> list[tuple[int | None, JobFile]]:
    """The last snapshot of each rank by name (names count steps), and all that name none."""
    by_rank: dict[int, JobFile] = {}
    unnamed: list[tuple[int | None, JobFile]] = []
    for file in files:
        rank = rank_of(file.path, file.rank)
        if rank is None:
            unnamed.append((None, file))
        else:
            # Files come by name, and names count steps: the last one stays.
            by_rank[rank] = file
    return [*sorted(by_rank.items()), *unnamed]


def _failures(judged: Sequence[RankSnapshot]) -> list[JobDiagnosis]:
    """One diagnosis for each cause and line, of all ranks that share them."""
    groups: dict[tuple[str, str], list[FailedSnapshot]] = defaultdict(list)
    for rank, judgement in judged:
        if judgement.failure is not None:
            groups[judgement.failure.cause, judgement.failure.site].append(
                (rank, judgement, judgement.failure)
            )
    return [_failure(group) for group in groups.values()]


def _failure(group: Sequence[FailedSnapshot]) -> JobDiagnosis:
    _, judgement, failed = group[0]
    ranks = tuple(rank for rank, _, _ in group if rank is not None)
    numbers = Numbers()
    who = numbers.ranks(ranks) if ranks else "a process"
    where = f" in {_place(failed.site, numbers, 'line')}" if failed.site else ""
    requested = _size(failed.requested, numbers, "requested")
    free = _size(failed.device_free, numbers, "device_free")
    statement = (
        f"{who} ran out of memory on the GPU{where}: {requested} were asked for, {free} were free "
        f"on the device; {_why(judgement, failed, numbers)}"
    )
    return JobDiagnosis(
        rule="out_of_memory",
        severity="critical",
        subject=subject_of(ranks) if ranks else "the GPU",
        statement=statement,
        fix=FIXES[failed.cause],
        source=SOURCE,
        numbers=numbers,
        ranks=ranks,
        details={
            "memory": "the GPU",
            "cause": failed.cause,
            "line": failed.site,
            "requested_bytes": failed.requested,
            "device_free_bytes": failed.device_free,
            "allocated_bytes": failed.allocated,
            "active_bytes": failed.active,
            "reserved_bytes": failed.reserved,
            "largest_free_block_bytes": failed.largest_free,
            "held_by": _rows(failed.holders),
            "file": readable(judgement.snapshot.file, 200),
        },
    )


def _why(judgement: JudgedSnapshot, failed: AllocationFailure, numbers: Numbers) -> str:
    if failed.cause == "fragmentation":
        inside = _size(max(failed.reserved - failed.active, 0), numbers, "unusable")
        piece = ""
        if failed.largest_free is not None:
            piece = f", the largest {_size(failed.largest_free, numbers, 'largest_free')}"
        return f"the allocator had {inside} more, but in pieces too small{piece}: fragmentation"
    if failed.cause == "growth" and judgement.growth is not None:
        grew = _size(judgement.growth.rise.slope_bytes, numbers, "per_step")
        why = f"what is held grew by {grew} per step"
        if judgement.growth.site:
            why += f", kept from {_place(judgement.growth.site, numbers, 'growing_line')}"
        return why
    phrase = f"{_size(failed.allocated, numbers, 'allocated')} were held"
    top = failed.holders[0] if failed.holders else None
    if top is not None and top.site:
        place = _place(top.site, numbers, "holding_line")
        phrase += f", most by {place} ({_size(top.size, numbers, 'most')})"
    if failed.cause.startswith("one"):
        return f"one allocation that is itself large; {phrase}"
    return phrase


def _growths(judged: Sequence[RankSnapshot]) -> list[JobDiagnosis]:
    """One diagnosis for each line that keeps memory."""
    groups: dict[str, list[tuple[int | None, Growth]]] = defaultdict(list)
    for rank, judgement in judged:
        # A failure by growth has said it already.
        has_failed_by_it = judgement.failure is not None and judgement.failure.cause == "growth"
        if judgement.growth is not None and not has_failed_by_it:
            groups[judgement.growth.site].append((rank, judgement.growth))
    return [_growth(group, len(judged)) for group in groups.values()]


def _growth(group: Sequence[tuple[int | None, Growth]], count: int) -> JobDiagnosis:
    ranks = tuple(rank for rank, _ in group if rank is not None)
    # The rank that grows fastest stands for all.
    _, growth = max(group, key=lambda pair: pair[1].rise.slope_bytes)
    numbers = Numbers()
    who = f" on {numbers.ranks(ranks)}" if ranks else ""
    phrase = ""
    if growth.site:
        stays = _size(growth.site_size, numbers, "kept")
        phrase = f"; {stays} of it stay from {_place(growth.site, numbers, 'line')}"
    per_step = _size(growth.rise.slope_bytes, numbers, "per_step")
    rising = numbers.say("rising", growth.rise.rising)
    changes = numbers.say("changes", growth.rise.steps - 1)
    return MEMORY_GROWTH.diagnosis(
        growth.rise.severity,
        subject_of(ranks) if ranks else "the GPU",
        f"the GPU's memory{who} grows by {per_step} per step, rising in {rising} of {changes} "
        f"steps{phrase}",
        numbers,
        # Growth on all ranks is the program's, so no rank is to blame.
        ranks=ranks if len(group) < count else (),
        details={
            "line": growth.site,
            "grown_bytes": growth.rise.grown_bytes,
            "source": "memory snapshot",
        },
    )


def _idle(judged: Sequence[RankSnapshot]) -> list[JobDiagnosis]:
    """Memory that the allocator reserved and never used."""
    idle_ranks = [
        (rank, judgement)
        for rank, judgement in judged
        # A failure already names its cause, fragmentation included.
        if judgement.idle_reserved and judgement.failure is None
    ]
    if not idle_ranks:
        return []
    ranks = tuple(rank for rank, _ in idle_ranks if rank is not None)
    worst = max(
        (judgement for _, judgement in idle_ranks), key=lambda judgement: judgement.idle_reserved
    )
    numbers = Numbers()
    who = numbers.ranks(ranks) if ranks else "a process"
    reserved = _size(worst.snapshot.reserved, numbers, "reserved")
    idle = _size(worst.idle_reserved, numbers, "idle")
    diagnosis = FRAGMENTATION.diagnosis(
        "warning",
        subject_of(ranks) if ranks else "the GPU",
        f"{who}: of {reserved} that the allocator reserved, {idle} were in use at no moment of "
        "the history",
        numbers,
        details={"split_free_bytes": worst.split_free, "source": "memory snapshot"},
    )
    return [diagnosis]


def _peak_bytes(judgement: JudgedSnapshot) -> int:
    """Bytes that were held at the peak; without a history, when the snapshot was taken."""
    return judgement.peak.allocated if judgement.peak else judgement.snapshot.bytes_in("allocated")


def _peaks(judged: Sequence[RankSnapshot]) -> list[JobDiagnosis]:
    """What was held at most, of the rank that held most, as information."""
    if not judged:
        return []
    rank, judgement = max(judged, key=lambda pair: _peak_bytes(pair[1]))
    numbers = Numbers()
    who = numbers.ranks([rank]) if rank is not None else "a process"
    peak = judgement.peak
    count = _peak_bytes(judgement)
    if peak is not None:
        holders, when = peak.holders, "at its peak"
    else:
        holders = tuple(holders_at(judgement.snapshot, len(judgement.snapshot.events) - 1))
        when = "when the snapshot was taken (no history was recorded)"
    located = [holder for holder in holders if holder.site]
    by = ""
    if located:
        most = _size(located[0].size, numbers, "most")
        by = f", {most} of it from {_place(located[0].site, numbers, 'line')}"
    return [
        JobDiagnosis(
            rule="memory_held",
            severity="info",
            subject=subject_of([rank]) if rank is not None else "the GPU",
            statement=f"{who} held {_size(count, numbers, 'held')} of GPU memory {when}{by}",
            fix="",
            source="torch.cuda.memory snapshot",
            numbers=numbers,
            details={
                "held_by": _rows(holders),
                "peak_event": peak.event if peak else None,
                "events": peak.of_events if peak else 0,
                "reserved_bytes": judgement.snapshot.reserved,
                "active_bytes": judgement.snapshot.bytes_in("allocated", "pending"),
                "split_free_bytes": judgement.split_free,
                "largest_free_block_bytes": judgement.snapshot.largest_free,
                "cut_off": judgement.snapshot.cut_off,
                "file": readable(judgement.snapshot.file, 200),
            },
        )
    ]


def _rows(holders: Sequence[LineHolder]) -> list[dict[str, Any]]:
    rows = []
    for holder in holders[:MAX_HOLDERS]:
        line = holder.site or "not recorded"
        rows.append({"line": line, "bytes": holder.size, "blocks": holder.blocks})
    return rows


def _place(site: str, numbers: Numbers, name: str) -> str:
    """A line of code; its number is kept."""
    match = re.search(r":(\d+)", site)
    if match:
        numbers[name] = float(match[1])
    return site


def _size(count: int, numbers: Numbers, name: str) -> str:
    """ "1.5 GB", "20 MB", "512 bytes"."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{numbers.say(f'{name}_{unit.lower()}', round(count / size, 1))} {unit}"
    return f"{numbers.say(f'{name}_bytes', count)} bytes"
