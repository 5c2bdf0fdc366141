"""What the accelerator of each rank did."""

from __future__ import annotations

import polars as pl

from faultline.traces.event_frames import (
    bandwidth_changes,
    device_work_frame,
    kernels_with_annotations,
)
from faultline.traces.ranks import JobRanks


class DeviceAnalyses:
    """Analyses of work on the accelerator; part of `Job`."""

    _ranks: JobRanks

    def temporal(self) -> pl.DataFrame:
        """Where the device's time goes: computation, communication, copies, nothing.

        One row per rank for its whole window (`part` is "all"), for each device where a rank has
        several, and for each step. Computation hides what runs beside it.

        Columns: rank, part, begin_ns, kernel_ns (length of the window), idle_ns, compute_ns,
        communication_ns, memory_ns, exposed_communication_ns, exposed_memory_ns, and their
        percentages of the window: idle_percent, compute_percent, non_compute_percent,
        communication_percent, memory_percent, exposed_communication_percent,
        exposed_memory_percent.

        Source: HTA's `get_temporal_breakdown`, with the non-computing time split.
        """
        return self._ranks.frame("temporal")

    def overlap(self) -> pl.DataFrame:
        """How much of the communication computation hides, of each rank and step.

        Columns: rank, part ("all" or a step), communication_ns, compute_ns, overlapped_ns,
        exposed_ns, overlap_percent (of the communication, null where there is none).

        Source: HTA's `get_comm_comp_overlap`.
        """
        exposed = pl.col("exposed_communication_ns")
        hidden = pl.col("communication_ns") - exposed
        # Without communication there is nothing to take a share of.
        some = pl.when(pl.col("communication_ns") > 0)
        return self.temporal().select(
            "rank",
            "part",
            "communication_ns",
            "compute_ns",
            hidden.alias("overlapped_ns"),
            exposed.alias("exposed_ns"),
            some.then(100.0 * hidden / pl.col("communication_ns")).alias("overlap_percent"),
        )

    def idle(self) -> pl.DataFrame:
        """Why each stream is idle: the host launched late, the kernel before had just ended, or
        something else.

        Columns: rank, device, stream, category (host_wait, kernel_wait, other), idle_ns,
        idle_percent (of the stream's idle time), gaps, mean_ns, p50_ns, max_ns.

        Source: HTA's `get_idle_time_breakdown`.
        """
        return self._ranks.frame("idle")

    def idle_gaps(self) -> pl.DataFrame:
        """The longest times in which nothing ran on the device, and what the host did meanwhile:
        one row for each gap and call.

        Columns: rank, begin_ns, gap_ns, category, before and after (kernels), unrecorded_ns (the
        host recorded nothing), host_call, thread, launching, self_ns (of the call in the gap).
        """
        return self._ranks.frame("idle_gaps")

    def device_use(self) -> pl.DataFrame:
        """How much of the steps the device worked: one row per rank.

        Columns: rank, busy_ns, busy_percent, long_gaps, long_gaps_ns, longest_gap_ns,
        in_longest_gap (call of the host), full_queue_ns, most_outstanding_launches.
        """
        return self._ranks.frame("device_use")

    def kernels(self) -> pl.DataFrame:
        """Kernels, copies and fills by name, the longest in all first.

        Columns: rank, name, kind (computation, communication, memory), count, total_ns,
        time_percent (of all work), mean_ns, std_ns, min_ns, p50_ns, p90_ns, p99_ns, max_ns.

        Source: HTA's `get_gpu_kernel_breakdown`. Here statistics are of single kernels.
        """
        return self._ranks.frame("kernels")

    def kernel_families(self) -> pl.DataFrame:
        """Work by library and kind: matrix products, attention, Triton, collectives.

        Columns: rank, library, work, dtype, tile, kernels, names (distinct), total_ns,
        time_percent (of all work), top_kernel.
        """
        return self._ranks.frame("kernel_families")

    def device_work(self, rank: int | None = None) -> pl.DataFrame:
        """Every kernel, copy and fill, by start.

        Columns: rank, index (of the event in the file), name, kind, stream, start_ns,
        duration_ns, launch (index of the call that launched it, null if not recorded),
        launch_start_ns, launch_duration_ns, delay_ns (from the call's end, never negative).

        Source: HTA's `get_cuda_kernel_launch_stats`, for every launching function.
        """
        return self._ranks.of_each(device_work_frame, rank)

    def annotations(self) -> pl.DataFrame:
        """What runs on the device below each annotation, and how long the annotation takes.

        Columns: rank, name ("" for kernels outside all), kernels, kernel_ns, host_count,
        host_total_ns, host_mean_ns, host_max_ns, device_count, device_total_ns, device_mean_ns,
        device_max_ns.

        Source: HTA's `get_gpu_user_annotation_breakdown`.
        """
        return self._ranks.frame("annotations")

    def annotated_kernels(self, rank: int | None = None) -> pl.DataFrame:
        """Every kernel with the innermost annotation around it.

        Columns: rank, index, name, stream, start_ns, duration_ns, annotation (null without one),
        annotation_index.

        Source: HTA's `get_gpu_kernels_with_user_annotations`.
        """
        return self._ranks.of_each(kernels_with_annotations, rank)

    def sequences(self) -> pl.DataFrame:
        """Patterns of kernels below operators that come again and again.

        Columns: rank, operator, kernels (names in order), kernels_per_call, calls, kernel_ns,
        host_ns.

        Source: HTA's `get_frequent_cuda_kernel_sequences`, for all operators at once.
        """
        return self._ranks.frame("sequences")

    def tiny_kernels(self) -> pl.DataFrame:
        """Kernels of less than 10 us by name: how small the pieces are that work is cut into.

        Columns: rank, kernel, count, per_step, total_ns, mean_ns.
        """
        return self._ranks.frame("tiny_kernels")

    def tensor_cores(self) -> pl.DataFrame:
        """Whether the kernels of matrix products ran on the matrix units.

        Columns: rank, kernel, uses_matrix_units, count, launched, total_ns.
        """
        return self._ranks.frame("tensor_cores")

    def bandwidth(self) -> pl.DataFrame:
        """Memory copies by direction and sort of host memory.

        Columns: rank, direction, host_memory (pinned, pageable or ""), count, bytes,
        without_bytes (copies that do not say), total_ns, gbps (10**9 bytes a second),
        direction_max_gbps, direction_mean_gbps (of the direction, while it is in use).

        Source: HTA's `get_memory_bw_summary`.
        """
        return self._ranks.frame("bandwidth")

    def bandwidth_series(self, rank: int | None = None) -> pl.DataFrame:
        """The bandwidth that copies use over time: one row for each change.

        Columns: rank, direction, time_ns, gbps.

        Source: HTA's `get_memory_bw_time_series`.
        """
        return self._ranks.of_each(bandwidth_changes, rank)

    def collective_bandwidth(self) -> pl.DataFrame:
        """Collectives, sends and receives of each rank by operation, group and size. Durations
        hold waiting, which one rank's trace cannot tell apart.

        Columns: rank, operation, group, ranks, bytes, count, transfer_ns, median_transfer_ns,
        exposed_ns, hidden_ns, awaited_by_computation_ns, algorithm_gb_per_s, bus_gb_per_s (of the
        median), link, link_gb_per_s, link_percent (null where the link is not known), at_least.

        Source: nccl-tests, PERFORMANCE.md, for bandwidths.
        """
        return self._ranks.frame("collective_bandwidth")

    def copies(self) -> pl.DataFrame:
        """Copies between host and device by name.

        Columns: rank, copy, count, bytes, total_ns, host_ns (of the calls that launched them).
        """
        return self._ranks.frame("copies")
