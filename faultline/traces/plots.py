"""Charts of a job's analyses, as Altair draws them in any notebook: `job.plot.temporal()`.

Each is an `altair.Chart`, so that it can be changed, layered and saved.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import polars as pl

from faultline.analysis.errors import SettingsError

try:
    import altair as alt
except ModuleNotFoundError as error:
    from faultline.bot.settings.extras import install

    raise SettingsError(
        "plot", f"needs an extra that is not installed: {install('notebook')}"
    ) from error

if TYPE_CHECKING:
    from faultline.traces.job import Job

WIDTH = 520
MAX_POINTS = 2_000
"""Of one line: more are no use on a screen, and Altair refuses 5,000."""
MAX_LABEL = 60
NS_PER_MS = 1e6


class Plots:
    """The charts of one job."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def temporal(self) -> alt.Chart:
        """Each rank's time on the device: computation, exposed communication and copies, idle."""
        parts = ["compute", "exposed_communication", "exposed_memory", "idle"]
        whole = self._job.temporal().filter(pl.col("part") == "all")
        return _stacked(whole, parts, "rank", "ms of the rank's window")

    def steps(self) -> alt.Chart:
        """Where the mean step of each rank goes."""
        steps = self._job.steps_by_rank()
        parts = [name.removesuffix("_ns") for name in steps.columns if name.endswith("_ns")]
        # The step is the sum of all other parts.
        parts.remove("step")
        means = steps.group_by("rank").agg(pl.col(f"{part}_ns").mean() for part in parts)
        return _stacked(means.sort("rank"), parts, "rank", "ms of the mean step")

    def overlap(self) -> alt.Chart:
        """Communication of each rank: hidden by computation, and exposed."""
        whole = self._job.overlap().filter(pl.col("part") == "all")
        return _stacked(whole, ["overlapped", "exposed"], "rank", "ms of communication")

    def idle(self) -> alt.Chart:
        """Idle time of each rank's streams by its reason."""
        totals = self._job.idle().group_by("rank", "category").agg(pl.col("idle_ns").sum())
        data = totals.with_columns(ms=pl.col("idle_ns") / NS_PER_MS).sort("rank", "category")
        return _bars(data, "rank", "category", "ms idle")

    def kernels(self, most: int = 15) -> alt.Chart:
        """The kernels with the most time over all ranks."""
        totals = self._job.kernels().group_by("name", "kind").agg(pl.col("total_ns").sum())
        top = totals.sort("total_ns", descending=True).head(most)
        short = pl.col("name").str.slice(0, MAX_LABEL).alias("kernel")
        data = top.with_columns(short, ms=pl.col("total_ns") / NS_PER_MS)
        chart = alt.Chart(data.select("kernel", "kind", "ms", "name"), width=WIDTH).mark_bar()
        encoded: alt.Chart = chart.encode(
            x=alt.X("ms:Q", title="ms on all ranks"),
            y=alt.Y("kernel:N", sort="-x", title=None),
            color=alt.Color("kind:N", title=None),
            tooltip=["name:N", "ms:Q"],
        )
        return encoded

    def critical_path(self) -> alt.Chart:
        """What bounds each rank's last complete step."""
        bounds = self._job.critical_path().filter(pl.col("what") == "bound")
        data = bounds.select(
            "rank", pl.col("bound_by").alias("category"), ms=pl.col("time_ns") / NS_PER_MS
        )
        return _bars(data, "rank", "category", "ms of the critical path")

    def launch_queue(self, rank: int = 0) -> alt.Chart:
        """Kernels launched and not yet begun on one rank, by stream."""
        launch_queue_series = self._job.launch_queue_series(rank)
        return _line(launch_queue_series, "queue_length", "stream", "kernels waiting")

    def memory(self, rank: int = 0) -> alt.Chart:
        """Allocated memory of one rank's devices over time."""
        memory_timeline = self._job.memory_timeline(rank).drop_nulls("allocated_bytes")
        data = memory_timeline.with_columns(gib=pl.col("allocated_bytes") / 2**30)
        return _line(data, "gib", "device", "GiB allocated")


def _stacked(frame: pl.DataFrame, parts: Sequence[str], by: str, title: str) -> alt.Chart:
    columns = [
        pl.col(f"{part}_ns").truediv(NS_PER_MS).alias(part.replace("_", " ")) for part in parts
    ]
    long = frame.select(by, *columns).unpivot(index=by, variable_name="category", value_name="ms")
    return _bars(long, by, "category", title)


def _bars(data: pl.DataFrame, by: str, part: str, title: str) -> alt.Chart:
    chart: alt.Chart = (
        alt.Chart(data.select(by, part, "ms"), width=WIDTH)
        .mark_bar()
        .encode(
            x=alt.X("ms:Q", title=title),
            y=alt.Y(f"{by}:O"),
            # Keep the order of the parts: Altair would sort them by name.
            color=alt.Color(f"{part}:N", title=None, sort=None),
            tooltip=[f"{by}:O", f"{part}:N", "ms:Q"],
        )
    )
    return chart


def _line(frame: pl.DataFrame, value: str, part: str, title: str) -> alt.Chart:
    begin = frame["time_ns"].min()
    every = max(1, frame.height // MAX_POINTS)
    data = frame.gather_every(every).select(
        part, value, ms=(pl.col("time_ns") - pl.lit(begin)) / NS_PER_MS
    )
    chart: alt.Chart = (
        alt.Chart(data, width=WIDTH)
        .mark_line(interpolate="step-after")
        .encode(
            x=alt.X("ms:Q", title="ms"),
            y=alt.Y(f"{value}:Q", title=title),
            color=alt.Color(f"{part}:N", title=part),
        )
    )
    return chart
