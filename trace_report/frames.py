"""Rows of an analysis as a Polars frame, whose columns are the same whether there are rows or
not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

TYPES: Mapping[str, pl.DataType] = {
    "text": pl.String(),
    "int": pl.Int64(),
    "float": pl.Float64(),
    "bool": pl.Boolean(),
    "texts": pl.List(pl.String()),
    "ints": pl.List(pl.Int64()),
}
RANK = {"rank": TYPES["int"]}

COLUMNS: Mapping[str, str] = {
    "temporal": "part:text begin_ns:int kernel_ns:int idle_ns:int compute_ns:int "
    "communication_ns:int memory_ns:int exposed_communication_ns:int exposed_memory_ns:int "
    "idle_percent:float compute_percent:float non_compute_percent:float "
    "communication_percent:float memory_percent:float exposed_communication_percent:float "
    "exposed_memory_percent:float",
    "idle": "device:text stream:int category:text idle_ns:int idle_percent:float gaps:int "
    "mean_ns:float p50_ns:float max_ns:int",
    "idle_gaps": "begin_ns:int gap_ns:int category:text before:text after:text "
    "unrecorded_ns:int host_call:text thread:text launching:bool self_ns:int",
    "kernels": "name:text kind:text count:int total_ns:int time_percent:float mean_ns:float "
    "std_ns:float min_ns:int p50_ns:float p90_ns:float p99_ns:float max_ns:int",
    "annotations": "name:text kernels:int kernel_ns:int host_count:int host_total_ns:int "
    "host_mean_ns:float host_max_ns:int device_count:int device_total_ns:int "
    "device_mean_ns:float device_max_ns:int",
    "launches": "call:text kind:text count:int work:int short_work:int long_calls:int "
    "long_delays:int launches_without_work:int work_without_launch:int call_p50_ns:float "
    "call_p99_ns:float call_max_ns:int delay_p50_ns:float delay_p99_ns:float delay_max_ns:int",
    "launch_queue": "device:text stream:int changes:int mean_length:float p50_length:float "
    "p99_length:float max_length:int blocked_ns:int blocked_percent:float "
    "launches_without_work:int work_without_launch:int work_before_launch:int",
    "bandwidth": "direction:text host_memory:text count:int bytes:int without_bytes:int "
    "total_ns:int gbps:float direction_max_gbps:float direction_mean_gbps:float",
    "copies": "copy:text count:int bytes:int total_ns:int host_ns:int",
    "host_syncs": "call:text count:int total_ns:int longest_ns:int",
    "data_loading": "step:int loader_ns:int step_ns:int loader_percent:float",
    "operators": "name:text category:text calls:int host_self_ns:int host_total_ns:int "
    "device_self_ns:int device_total_ns:int kernels:int launch_delay_ns:int "
    "runtime_delay_ns:int",
    "operator_delays": "name:text kernels:texts kernels_per_call:int calls:int "
    "launch_delay_ns:int runtime_delay_ns:int",
    "call_stacks": "stack:texts rows:int host_ns:int device_ns:int",
    "sequences": "operator:text kernels:texts kernels_per_call:int calls:int kernel_ns:int "
    "host_ns:int",
    "tiny_kernels": "kernel:text count:int per_step:float total_ns:int mean_ns:int",
    "tensor_cores": "kernel:text uses_matrix_units:bool count:int launched:int total_ns:int",
    "roofline": "operator:text family:text shapes:text precision:text calls:int kernels:int "
    "kernel:text time_ns:int time_percent:float flops:int bytes:int flops_per_byte:float "
    "tflops_per_s:float tb_per_s:float bound:text roofline_percent:float lost_ns:int "
    "gain_per_step_ns:int gain_percent:float",
    "utilization": "part:text length_ns:int flops:int matrix_flops:int tflops_per_s:float "
    "mfu_percent:float without_cost:int costed_percent:float",
    "kernel_families": "library:text work:text dtype:text tile:text kernels:int names:int "
    "total_ns:int time_percent:float top_kernel:text",
    "serving": "server:text phase:text passes:int pass_total_ns:int pass_median_ns:int "
    "pass_max_ns:int device_ns:int communication_ns:int copy_ns:int kernels:int "
    "kernels_per_pass:float prefill_requests:int prefill_tokens:int decode_requests:int "
    "decode_tokens:int device_ns_per_token:float top_kernel:text top_kernel_ns:int",
    "collective_bandwidth": "operation:text group:text ranks:int bytes:int count:int "
    "transfer_ns:int median_transfer_ns:int exposed_ns:int hidden_ns:int "
    "awaited_by_computation_ns:int algorithm_gb_per_s:float bus_gb_per_s:float link:text "
    "link_gb_per_s:float link_percent:float at_least:bool",
    "recompiles": "frame:int versions:int highest:int first_seen_in_step:ints",
    "counters": "kernel:text event:int operators:texts top_operator:text bottom_operator:text "
    "flops:int",
    "memory": "kind:text device:text has_totals:bool has_addresses:bool peak_ns:int "
    "peak_allocated_bytes:int reserved_at_peak_bytes:int peak_reserved_bytes:int "
    "allocations:int never_freed_bytes:int slope_bytes_per_step:int operator:text blocks:int "
    "bytes:int steps:int ts_ns:int allocated_bytes:int reserved_bytes:int",
    "allocations": "device_type:int device:int step:int lowest_bytes:int",
    "device_use": "busy_ns:int busy_percent:float long_gaps:int long_gaps_ns:int "
    "longest_gap_ns:int in_longest_gap:text full_queue_ns:int most_outstanding_launches:int",
    "pauses": "kind:text name:text step:int start_ns:int duration_ns:int event:int",
    "profiler_overhead": "overhead:text count:int in_steps_ns:int",
    "critical_path": "window:text what:text name:text bound_by:text time_ns:int "
    "of_path_percent:float category:text event:int type:text start_ns:int edges:int "
    "saved_if_removed_ns:int",
    "execution_trace": "event:int name:text start_ns:int duration_ns:int node:int "
    "op_schema:text input_shapes:text input_types:text output_shapes:text output_types:text "
    "kernel_backend:text kernel_file:text",
    "steps_by_rank": "rank:int step:int step_ns:int data_loading_ns:int forward_pass_ns:int "
    "backward_pass_ns:int optimizer_ns:int communication_wait_ns:int "
    "communication_transfer_ns:int copies_ns:int idle_ns:int other_ns:int",
    "blame": "rank:int blame_ns:int blame_percent:float last_arrivals:int steps_held_up:int "
    "steps:int",
    "collectives": "operation:text group:text ranks:int bytes:int count:int wait_ns:int "
    "worst_wait_ns:int transfer_ns:int median_transfer_ns:int exposed_ns:int hidden_ns:int "
    "awaited_by_computation_ns:int algorithm_gb_per_s:float bus_gb_per_s:float link:text "
    "link_gb_per_s:float link_percent:float at_least:bool split_by:text",
    "exposed_collectives": "rank:int operation:text count:int per_step_ns:int "
    "exposed_per_step_ns:int hidden_percent:float of_step_percent:float",
    "slow_steps": "step:int median_ns:int usual_ns:int ratio:float",
    "idle_together": "start_ns:int length_ns:int step:int host_call:text ranks_doing_that:int",
    "kernels_by_rank": "kernel:text rank:int count:int total_ns:int shortest_ns:int "
    "median_ns:int p95_ns:int longest_ns:int",
    "kernel_speed": "rank:int kernels:int ratio:float slower_percent:float",
    "memory_by_category": "file:text ts_ns:int parameter_bytes:int optimizer_state_bytes:int "
    "input_bytes:int temporary_bytes:int activation_bytes:int gradient_bytes:int "
    "autograd_bytes:int unknown_bytes:int",
    "diagnoses": "severity:text rule:text subject:text statement:text fix:text ranks:ints "
    "steps:ints cost_ns:float source:text",
    "differences": "name:text on_device:bool change:text growth_ns:int control_calls:int "
    "control_calls_per_step:float control_total_ns:int control_total_per_step_ns:int "
    "control_own_per_step_ns:int test_calls:int test_calls_per_step:float test_total_ns:int "
    "test_total_per_step_ns:int test_own_per_step_ns:int",
}
"""Columns of each analysis and their types; analyses of single ranks have `rank` before them. What
a name does not say in its unit (`_ns`, `_us`, `_bytes`, `_percent`, `_gbps`) is a count."""


def schema_of(name: str) -> dict[str, pl.DataType]:
    """The columns of an analysis, without the rank."""
    pairs = (column.split(":") for column in COLUMNS.get(name, "").split())
    return {column: TYPES[kind] for column, kind in pairs}


def frame_of(
    name: str, rows: Sequence[Mapping[str, Any]], *, by_rank: bool = False
) -> pl.DataFrame:
    """The rows of an analysis; `by_rank` where each comes with its `rank`.

    Columns that only some traces have, such as hardware counters, stand after the others.
    """
    schema = schema_of(name)
    if by_rank:
        schema = RANK | schema
    columns = [_column(key, kind, rows) for key, kind in schema.items()]
    for key in sorted({key for row in rows for key in row} - set(schema)):
        columns.append(pl.Series(key, [row.get(key) for row in rows], strict=False))
    return pl.DataFrame(columns)


def _column(key: str, kind: pl.DataType, rows: Sequence[Mapping[str, Any]]) -> pl.Series:
    values = [row.get(key) for row in rows]
    if kind == TYPES["int"]:
        # "all" stands beside the numbers of streams; a hostile count may not fit.
        values = [v if isinstance(v, int) and -(2**63) <= v < 2**63 else None for v in values]
    return pl.Series(key, values, dtype=kind, strict=False)
