"""What the rules need to know of one rank: a few kilobytes, whatever the trace's size."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.analysis.traces.columns.events import TraceColumns
from faultline.analysis.traces.per_rank.allocations import Allocations, allocations
from faultline.analysis.traces.per_rank.copies import CopyTimes, copies
from faultline.analysis.traces.per_rank.data_loading import DataLoading, data_loading
from faultline.analysis.traces.per_rank.device_use import DeviceUse, device_use
from faultline.analysis.traces.per_rank.host_syncs import HostSyncs, host_syncs
from faultline.analysis.traces.per_rank.launch_pace import LaunchPace, launch_pace
from faultline.analysis.traces.per_rank.pauses import Pause, pauses
from faultline.analysis.traces.per_rank.profiler_overhead import (
    CaptureContents,
    ProfilerOverhead,
    capture,
    profiler_overhead,
)
from faultline.analysis.traces.per_rank.recompiles import Recompiles, recompiles
from faultline.analysis.traces.per_rank.step_times import window_of
from faultline.analysis.traces.per_rank.tensor_cores import TensorCores, tensor_cores
from faultline.analysis.traces.per_rank.tiny_kernels import TinyKernels, tiny_kernels


@dataclass(frozen=True)
class RankFacts:
    """Facts of one rank that need no other rank to be judged, over its steps (over all of it where
    it has none)."""

    window_ns: int
    steps: int
    """Steps that the profiler marked; 0 for none."""
    capture: CaptureContents
    overhead: ProfilerOverhead
    data: DataLoading
    syncs: HostSyncs
    copies: CopyTimes
    tiny: TinyKernels
    pace: LaunchPace
    device: DeviceUse
    allocations: Allocations
    recompiles: Recompiles
    tensor_cores: TensorCores
    pauses: tuple[Pause, ...]

    @property
    def step_count(self) -> int:
        """Steps to divide by: at least 1."""
        return max(self.steps, 1)

    @property
    def on_device(self) -> bool:
        """Whether anything ran on an accelerator in the trace."""
        return self.capture.device_events > 0


def rank_facts(trace: TraceColumns) -> RankFacts:
    """The facts of one rank's trace. O(events log events)."""
    # One window for all facts, so that their shares compare.
    window = window_of(trace)
    return RankFacts(
        window_ns=window.ns,
        steps=len(window.steps),
        capture=capture(trace, window),
        overhead=profiler_overhead(trace, window),
        data=data_loading(trace, window),
        syncs=host_syncs(trace, window),
        copies=copies(trace, window),
        tiny=tiny_kernels(trace, window),
        pace=launch_pace(trace, window),
        device=device_use(trace, window),
        allocations=allocations(trace, window),
        recompiles=recompiles(trace, window),
        tensor_cores=tensor_cores(trace, window),
        pauses=pauses(trace, window),
    )
