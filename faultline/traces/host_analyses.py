"""What the host of each rank did, and how it feeds the accelerator."""

from __future__ import annotations

import polars as pl

from faultline.traces.event_frames import queue_changes, steps_frame
from faultline.traces.ranks import JobRanks


class HostAnalyses:
    """Analyses of operators, launches and steps; part of `Job`."""

    _ranks: JobRanks

    def steps(self) -> pl.DataFrame:
        """The steps of each rank: the profiler's, ranges that number themselves, or from one
        optimizer step to the next.

        Columns: rank, step, start_ns, end_ns, duration_ns.

        Source: HTA's `get_profiler_steps`.
        """
        return self._ranks.of_each(steps_frame)

    def launches(self) -> pl.DataFrame:
        """From the call on the host to the kernel, by launching function. The first row of a rank
        is all of them.

        Columns: rank, call, kind, count, work (pieces), short_work (shorter than its launch),
        long_calls (over 50 us), long_delays (over 100 us), launches_without_work,
        work_without_launch, call_p50_ns, call_p99_ns, call_max_ns, delay_p50_ns, delay_p99_ns,
        delay_max_ns.

        Source: HTA's `get_cuda_kernel_launch_stats`. `device_work` has every single launch.
        """
        return self._ranks.frame("launches")

    def launch_queue(self) -> pl.DataFrame:
        """Kernels launched and not yet begun, by stream. The row without a stream is the rank.

        Columns: rank, device, stream, changes, mean_length, p50_length, p99_length, max_length,
        blocked_ns and blocked_percent (1,024 or more launched), launches_without_work,
        work_without_launch, work_before_launch.

        Source: HTA's `get_queue_length_summary` and `get_time_spent_blocked_on_full_queue`.
        """
        return self._ranks.frame("launch_queue")

    def launch_queue_series(self, rank: int | None = None) -> pl.DataFrame:
        """The length of each launch queue over time: one row for each change.

        Columns: rank, device, stream, time_ns, queue_length, index (of the event that changed it).

        Source: HTA's `get_queue_length_time_series`.
        """
        return self._ranks.of_each(queue_changes, rank)

    def host_syncs(self) -> pl.DataFrame:
        """Calls in which the host waits for the device.

        Columns: rank, call, count, total_ns, longest_ns.
        """
        return self._ranks.frame("host_syncs")

    def data_loading(self) -> pl.DataFrame:
        """Time in the data loader by step.

        Columns: rank, step, loader_ns, step_ns, loader_percent.
        """
        return self._ranks.frame("data_loading")

    def operators(self) -> pl.DataFrame:
        """Operators by name: calls, time with and without what they call, kernels.

        Columns: rank, name, category, calls, host_self_ns, host_total_ns, device_self_ns,
        device_total_ns, kernels, launch_delay_ns and runtime_delay_ns (means, of operators that
        launch kernels themselves).
        """
        return self._ranks.frame("operators")

    def operator_delays(self) -> pl.DataFrame:
        """From each operator to its launch, and from there to its kernels, by sequence of kernels.

        Columns: rank, name, kernels (the first names), kernels_per_call, calls, launch_delay_ns,
        runtime_delay_ns (means).

        Source: HTA's `get_aten_op_kernels_and_delay`.
        """
        return self._ranks.frame("operator_delays")

    def call_stacks(self) -> pl.DataFrame:
        """Where in the code the time goes: stacks with the most time on the device, or on the host
        where there is none.

        Columns: rank, stack (from the outermost call), rows (events), host_ns, device_ns.

        Source: HTA's `CallGraph`.
        """
        return self._ranks.frame("call_stacks")

    def critical_path(self) -> pl.DataFrame:
        """The chain of work that the last complete step had to wait for, or the whole trace
        without steps.

        Rows by `what`: "path" (the whole), "bound" (what bounds it, in all), "edge" (the longest
        single ones), "name" (operators and kernels on it), "missing" (what the trace does not say).

        Columns: rank, window, what, name, bound_by (cpu_bound, gpu_compute_bound, ...), time_ns,
        of_path_percent, category, event (index in the file), type, start_ns, edges,
        saved_if_removed_ns (how much shorter the path would be without this name).

        Source: HTA's `critical_path_analysis`.
        """
        return self._ranks.frame("critical_path")

    def serving(self) -> pl.DataFrame:
        """Prefill and decode of an inference server, vLLM or another. Empty for other traces.

        Columns: rank, server, phase, passes, pass_total_ns, pass_median_ns, pass_max_ns, device_ns,
        communication_ns, copy_ns, kernels, kernels_per_pass, prefill_requests, prefill_tokens,
        decode_requests, decode_tokens, device_ns_per_token, top_kernel, top_kernel_ns.
        """
        return self._ranks.frame("serving")

    def recompiles(self) -> pl.DataFrame:
        """Graphs that torch.compile made.

        Columns: rank, frame, versions, highest, first_seen_in_step (of each version).
        """
        return self._ranks.frame("recompiles")

    def pauses(self) -> pl.DataFrame:
        """Checkpoint saves, garbage collections and evaluations, the longest.

        Columns: rank, kind, name, step, start_ns, duration_ns, event (index in the file).
        """
        return self._ranks.frame("pauses")

    def profiler_overhead(self) -> pl.DataFrame:
        """What the profiler itself cost.

        Columns: rank, overhead, count, in_steps_ns.
        """
        return self._ranks.frame("profiler_overhead")

    def counters(self) -> pl.DataFrame:
        """Hardware counters (CUPTI) of each range, with the operators around it.

        Columns: rank, kernel, event (index in the file), operators (from the outermost),
        top_operator, bottom_operator, flops, and one column for each counter.

        Source: HTA's `get_cupti_counter_data_with_operators`.
        """
        return self._ranks.frame("counters")

    def execution_trace(self) -> pl.DataFrame:
        """The node of a Chakra execution trace of each operator, where one lies beside the trace.

        Columns: rank, event (index in the file), name, start_ns, duration_ns, node, op_schema,
        input_shapes, input_types, output_shapes, output_types, kernel_backend, kernel_file.

        Source: HTA's `correlate_execution_trace`.
        """
        return self._ranks.frame("execution_trace")
