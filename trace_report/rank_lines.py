"""One line per rank: what the table of ranks shows on the terminal, on the page and in JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.step_breakdown import PARTS, TRANSFER
from faultline.analysis.traces.per_rank.step_times import COPIES, DATA, IDLE, OTHER


@dataclass(frozen=True)
class RankLine:
    """Means over the rank's steps; None where unknown. Percentages are of the time on the
    device, from its first work to its last; of the steps where nothing ran on a device."""

    rank: int
    file: str
    format: str
    """What kind of file it is."""
    rank_source: str
    host: str | None
    world_size: int | None
    accelerator: str
    events: int
    steps: int
    step_ms: float | None
    """Mean length of a step."""
    window_ms: float
    """From the first work on the device to the last; without one, from the first event to the end
    of the last."""
    compute_percent: float | None
    communication_percent: float | None
    exposed_communication_percent: float | None
    """Communication that no computation hides."""
    idle_percent: float | None
    data_ms: float | None
    """Data loading that no work on the device (without one: no collective) hides, per step."""
    wait_ms: float | None
    """Inside collectives before the last rank had arrived, per step."""
    blame_percent: float | None
    """Share of the step that the other ranks wait for this one."""

    def as_json(self) -> dict[str, Any]:
        """Rounded: the digits that measurements have."""
        return {k: round(v, 3) if isinstance(v, float) else v for k, v in asdict(self).items()}


def rank_line(
    summary: RankSummary,
    waits_ms: Mapping[int, float] | None = None,
    blames: Mapping[int, float] | None = None,
) -> RankLine:
    """The rank's line. `waits_ms` and `blames` (shares of the step) come from comparing ranks."""
    count = len(summary.steps)
    whole = int((summary.steps.end - summary.steps.start).sum())
    steps = bool(count and whole)
    device = summary.time_on_device
    compute, communication, idle = _shares(summary, whole)
    exposed = summary.exposed_share
    return RankLine(
        rank=summary.rank,
        file=summary.file,
        format=summary.format,
        rank_source=summary.rank_source,
        host=summary.host,
        world_size=summary.world_size,
        accelerator=summary.accelerator.name or summary.accelerator.vendor,
        events=summary.event_count,
        steps=count,
        step_ms=whole / count / 1e6 if steps else None,
        window_ms=(device.window or summary.end_ns - summary.start_ns) / 1e6,
        compute_percent=compute,
        communication_percent=communication,
        exposed_communication_percent=None if exposed is None else 100 * exposed,
        idle_percent=idle,
        data_ms=float(summary.steps.parts[DATA].sum()) / count / 1e6 if steps else None,
        wait_ms=(waits_ms or {}).get(summary.rank),
        blame_percent=100 * blames[summary.rank] if blames and summary.rank in blames else None,
    )


def window_parts_ms(summary: RankSummary) -> dict[str, float]:
    """ms of each part of the time on the device, for a rank without steps; {} without a device."""
    device = summary.time_on_device
    if not device.window:
        return {}
    exposed = device.exposed_communication
    # Whatever else the window holds are copies.
    copies = max(device.window - device.computation - exposed - device.idle, 0)
    parts = {OTHER: device.computation, TRANSFER: exposed, COPIES: copies, IDLE: device.idle}
    return {part: parts.get(part, 0) / 1e6 for part in PARTS}


def _shares(summary: RankSummary, whole: int) -> tuple[float | None, float | None, float | None]:
    """Percent computation, communication, idle."""
    device = summary.time_on_device
    if device.window:
        times = (device.computation, device.communication, device.idle)
        compute, communication, idle = (100 * time / device.window for time in times)
        return compute, communication, idle
    if not whole:
        return None, None, None
    parts = {
        part: 100 * float(values.sum()) / whole for part, values in summary.steps.parts.items()
    }
    worked = sum(parts[p] for p in ("forward pass", "backward pass", "optimizer"))
    return worked, None, None
