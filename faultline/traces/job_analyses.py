"""What only all ranks together say, and two jobs beside each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import polars as pl

from faultline.analysis.traces.comparison.trace_diff import (
    Side,
    compared,
    diff_rows,
    joined,
    side_of,
)
from faultline.analysis.traces.comparison.trace_regressions import (
    FAIL_OVER_PERCENT,
    regression_rows,
)
from faultline.trace_report.tables import DIAGNOSES, frame_of
from faultline.traces.ranks import JobRanks

if TYPE_CHECKING:
    from faultline.traces.job import Job


class AcrossRanks:
    """Analyses across ranks; part of `Job`."""

    _ranks: JobRanks

    def diagnose(self) -> pl.DataFrame:
        """What is wrong with the job, the most important first. `Job.diagnoses` has the evidence.

        Columns: severity (critical, warning, info), rule, subject, statement, fix, ranks, steps,
        cost_ns (null where it is not known), source (of the threshold).
        """
        return frame_of("diagnoses", DIAGNOSES.rows(self._ranks.report.diagnoses))

    def steps_by_rank(self) -> pl.DataFrame:
        """Where each step of each rank goes. The parts add up to the step.

        Columns: rank, step, step_ns, data_loading_ns, forward_pass_ns, backward_pass_ns,
        optimizer_ns, communication_wait_ns (for the last rank), communication_transfer_ns,
        copies_ns, idle_ns, other_ns.
        """
        return self._ranks.frame("steps_by_rank")

    def blame(self) -> pl.DataFrame:
        """How long the others wait for each rank. Empty where ranks cannot be compared.

        Columns: rank, blame_ns, blame_percent (of the steps), last_arrivals, steps_held_up, steps.

        Instead of HTA's `get_potential_stragglers`, which counts late arrivals.
        """
        return self._ranks.frame("blame")

    def collectives(self) -> pl.DataFrame:
        """Collectives by operation, group and size.

        Columns: operation, group, ranks, bytes, count, wait_ns, worst_wait_ns, transfer_ns,
        median_transfer_ns, exposed_ns, hidden_ns, awaited_by_computation_ns, algorithm_gb_per_s,
        bus_gb_per_s (of the median), link, link_gb_per_s, link_percent (null where the link is not
        known), at_least (ranks without a trace), split_by (what waiting and transfer are split by).

        Source: nccl-tests, PERFORMANCE.md, for bandwidths.
        """
        return self._ranks.frame("collectives")

    def exposed_collectives(self) -> pl.DataFrame:
        """Collectives of each rank that no computation hides.

        Columns: rank, operation, count, per_step_ns, exposed_per_step_ns, hidden_percent,
        of_step_percent.
        """
        return self._ranks.frame("exposed_collectives")

    def slow_steps(self) -> pl.DataFrame:
        """Steps that are longer than the others on the median rank.

        Columns: step, median_ns, usual_ns, ratio.
        """
        return self._ranks.frame("slow_steps")

    def idle_together(self) -> pl.DataFrame:
        """Times in which all ranks are idle at once, the longest first.

        Columns: start_ns, length_ns, step, host_call, ranks_doing_that.
        """
        return self._ranks.frame("idle_together")

    def kernels_by_rank(self) -> pl.DataFrame:
        """The kernels with the most time, on each rank.

        Columns: kernel, rank, count, total_ns, shortest_ns, median_ns, p95_ns, longest_ns.
        """
        return self._ranks.frame("kernels_by_rank")

    def kernel_speed(self) -> pl.DataFrame:
        """How fast each rank's device runs the same kernels as the others.

        Columns: rank, kernels (compared), ratio (above 1 is slower), slower_percent (of the time,
        in kernels that are slower).
        """
        return self._ranks.frame("kernel_speed")

    def diff(self, other: Job) -> pl.DataFrame:
        """Every operator and kernel here (control) and in the other job (test), the most changed
        first.

        Columns: name, on_device, change (added, deleted, increased, decreased, unchanged: calls
        per step), growth_ns (of the own time per step), and for each side control_calls,
        control_calls_per_step, control_total_ns, control_total_per_step_ns,
        control_own_per_step_ns, test_calls, test_calls_per_step, test_total_ns,
        test_total_per_step_ns, test_own_per_step_ns.

        Source: HTA's `TraceDiff.compare_traces`, with medians per step.
        """
        return frame_of("differences", diff_rows(compared(self._side(), other._side())))

    def regressions(self, other: Job, *, over_percent: float = FAIL_OVER_PERCENT) -> pl.DataFrame:
        """Step time, parts of the step and peak memory of both jobs, as `faultline trace diff`
        compares them. `fails` is true where one grew by more than the limit and the noise.

        Columns: kind (measure, kernel, operator: the latter only where they fail), name,
        control_ns, test_ns, noise_ns or control_bytes, test_bytes, noise_bytes, growth_percent,
        control_samples, test_samples, fails.
        """
        diff = compared(self._side(), other._side())
        # Rows of times and of bytes have other columns, so look at all of them.
        return pl.DataFrame(regression_rows(diff, over_percent), infer_schema_length=None)

    def _side(self) -> Side:
        return joined([side_of(t, short_names=True) for _, t in self._ranks.traces()])
