"""What each rank's work costs: FLOPs and memory."""

from __future__ import annotations

import polars as pl

from faultline.traces.event_frames import allocator_events
from faultline.traces.ranks import JobRanks


class CostAnalyses:
    """Analyses of FLOPs and memory; part of `Job`."""

    _ranks: JobRanks

    def roofline(self) -> pl.DataFrame:
        """Operators by shape against the device's peaks, what could be gained first.

        Columns: rank, operator, family, shapes, precision, calls, kernels, kernel (the longest),
        time_ns, time_percent (of the computation), flops, bytes, flops_per_byte, tflops_per_s,
        tb_per_s, bound (compute or memory). Against the roofline, null where the device is not
        known: roofline_percent, lost_ns, gain_per_step_ns, gain_percent (of the steps).

        Source: Williams, Waterman and Patterson (2009). Peaks are from the vendors' data sheets.
        """
        return self._ranks.frame("roofline")

    def utilization(self) -> pl.DataFrame:
        """FLOPs of each rank in all and of each step, and the share of the device's peak.

        Columns: rank, part ("all" or a step), length_ns, flops, matrix_flops, tflops_per_s,
        mfu_percent (null where it is not known), without_cost (kernels without a known cost),
        costed_percent (of the computation).

        Source: Chowdhery et al., PaLM (2022), for MFU.
        """
        return self._ranks.frame("utilization")

    def memory(self) -> pl.DataFrame:
        """Memory of each device, from the profiler's allocator events. Rows by `kind`: the device
        ("device"), who holds what at the peak ("at_peak"), what was not freed ("never_freed"),
        and at most 400 points of its line ("point").

        Columns: rank, kind, device, has_totals, has_addresses, peak_ns, peak_allocated_bytes,
        reserved_at_peak_bytes, peak_reserved_bytes, allocations, never_freed_bytes,
        slope_bytes_per_step, operator, blocks, bytes, steps, ts_ns, allocated_bytes,
        reserved_bytes.
        """
        return self._ranks.frame("memory")

    def memory_timeline(self, rank: int | None = None) -> pl.DataFrame:
        """Every allocator event, in the order of the file.

        Columns: rank, time_ns, device ("CPU", "GPU 0"), bytes (negative when freed), address,
        allocated_bytes and reserved_bytes (in all after it, null where unknown).
        """
        return self._ranks.of_each(allocator_events, rank)

    def memory_by_category(self) -> pl.DataFrame:
        """Bytes by category over time, of raw memory timelines beside the traces.

        Columns: file, ts_ns, parameter_bytes, optimizer_state_bytes, input_bytes,
        temporary_bytes, activation_bytes, gradient_bytes, autograd_bytes, unknown_bytes.

        Source: torch's `export_memory_timeline`.
        """
        return self._ranks.frame("memory_by_category")

    def allocations(self) -> pl.DataFrame:
        """The lowest allocated total of each step and device: what grows from step to step.

        Columns: rank, device_type (0 CPU, 1 CUDA or HIP), device, step, lowest_bytes.
        """
        return self._ranks.frame("allocations")
