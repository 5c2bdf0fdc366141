"""The metrics of a case as matrices: series of similar length as rows, counters as rates,
availability as shortfall.

A row holds one (service, signal, unit, labels). Its baseline ends at the right edge of its matrix
and its searched points begin at the left edge of theirs, so that both side by side are one stretch
of time; NaN is "no point".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec
import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, metric_windows
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.metrics.shift_statistics import Bools, Floats, Ints

# The labels of a series, as the metrics table keeps them: a JSON object in text.


def labels_of(text: str) -> Mapping[str, str]:
    """A series' labels by name; none where the text is no JSON object."""
    if not text.startswith("{"):
        return {}
    try:
        labels = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {}
    if not isinstance(labels, dict):
        return {}
    return {name: value for name, value in labels.items() if isinstance(value, str)}


# The signals of GPUs and their links: one name and one unit each, whatever exporter they came from.
#
# Which vendor's metric is which signal stands in
# `faultline.connectors.shared.training.gpu_metrics`. In the table `metrics` a row's labels say
# whose it is: host, gpu (its number on the host), mig, uuid, model, pod, namespace, container,
# device, port, xid.

SignalKind = Literal["gauge", "counter", "bitmask", "code", "flag"]
"""A gauge's level counts; of a counter its steps up; a code is the number of the last error; a flag
is 0 or 1."""


@dataclass(frozen=True)
class GpuSignal:
    """What one signal measures."""

    kind: SignalKind
    unit: str


SM_CLOCK, EVENT_REASONS = "gpu_sm_clock_mhz", "gpu_clock_event_reasons"
XID, XID_EVENTS = "gpu_xid", "gpu_xid_events"
ECC_DBE, ECC_SBE = "gpu_ecc_dbe", "gpu_ecc_sbe"
ROW_REMAP_PENDING, ROW_REMAP_FAILURE = "gpu_row_remap_pending", "gpu_row_remap_failure"
ROWS_REMAPPED = "gpu_rows_remapped_uncorrectable"
NVLINK_ERRORS, NVLINK_CRC, PCIE_REPLAYS = (
    "gpu_nvlink_errors",
    "gpu_nvlink_crc_errors",
    "gpu_pcie_replays",
)
TEMPERATURE, MEMORY_TEMPERATURE = "gpu_temperature_c", "gpu_memory_temperature_c"
SLOWDOWN_TEMPERATURE = "gpu_slowdown_temperature_c"
POWER, UTILIZATION, SM_ACTIVE = "gpu_power_w", "gpu_utilization_percent", "gpu_sm_active"
TENSOR_ACTIVE, MEMORY_USED = "gpu_tensor_active", "gpu_memory_used_bytes"
THROTTLED_BY_HEAT, THROTTLED_BY_POWER = "gpu_held_back_by_heat_s", "gpu_held_back_by_power_s"
THROTTLED_BY_BRAKE, THROTTLED_BY_BOARD = (
    "gpu_held_back_by_power_brake_s",
    "gpu_held_back_by_board_s",
)
THROTTLED_BY_RELIABILITY = "gpu_held_back_by_reliability_s"
IB_LINK_DOWNED, IB_SYMBOL_ERRORS = "ib_link_downed", "ib_symbol_errors"
IB_LINK_RECOVERIES, IB_RECEIVE_ERRORS = "ib_link_error_recoveries", "ib_receive_errors"
CARRIER_DOWN = "net_carrier_down"

SIGNALS: Mapping[str, GpuSignal] = {
    SM_CLOCK: GpuSignal("gauge", "MHz"),
    EVENT_REASONS: GpuSignal("bitmask", "bits"),
    XID: GpuSignal("code", "code"),
    XID_EVENTS: GpuSignal("counter", "events"),
    ECC_DBE: GpuSignal("counter", "errors"),
    ECC_SBE: GpuSignal("counter", "errors"),
    ROW_REMAP_PENDING: GpuSignal("flag", ""),
    ROW_REMAP_FAILURE: GpuSignal("flag", ""),
    ROWS_REMAPPED: GpuSignal("counter", "rows"),
    NVLINK_ERRORS: GpuSignal("counter", "errors"),
    NVLINK_CRC: GpuSignal("counter", "errors"),
    PCIE_REPLAYS: GpuSignal("counter", "replays"),
    TEMPERATURE: GpuSignal("gauge", "°C"),
    MEMORY_TEMPERATURE: GpuSignal("gauge", "°C"),
    SLOWDOWN_TEMPERATURE: GpuSignal("gauge", "°C"),
    POWER: GpuSignal("gauge", "W"),
    UTILIZATION: GpuSignal("gauge", "percent"),
    SM_ACTIVE: GpuSignal("gauge", "ratio"),
    TENSOR_ACTIVE: GpuSignal("gauge", "ratio"),
    MEMORY_USED: GpuSignal("gauge", "bytes"),
    THROTTLED_BY_HEAT: GpuSignal("counter", "s"),
    THROTTLED_BY_POWER: GpuSignal("counter", "s"),
    THROTTLED_BY_BRAKE: GpuSignal("counter", "s"),
    THROTTLED_BY_BOARD: GpuSignal("counter", "s"),
    THROTTLED_BY_RELIABILITY: GpuSignal("counter", "s"),
    IB_LINK_DOWNED: GpuSignal("counter", "times"),
    IB_SYMBOL_ERRORS: GpuSignal("counter", "errors"),
    IB_LINK_RECOVERIES: GpuSignal("counter", "times"),
    IB_RECEIVE_ERRORS: GpuSignal("counter", "errors"),
    CARRIER_DOWN: GpuSignal("counter", "times"),
}
"""By name. Rows of these signals are judged GPU by GPU and against other GPUs, not as series by
themselves."""
OF_A_GPU = tuple(name for name in SIGNALS if name.startswith("gpu_"))
OF_A_HOST = tuple(name for name in SIGNALS if name not in OF_A_GPU)

CLOCK_EVENTS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}
"""What the bits of the clock-event reasons mean (DCGM, dcgm_fields.h: DCGM_CLOCKS_EVENT_REASON_*;
NVML's the same)."""
HARMFUL_EVENTS = 0x8 | 0x20 | 0x40 | 0x80
"""The bits that DCGM's diagnostics fail on (nvvs, DcgmRecorder::CheckForClocksEvent). A power cap
is how GPUs under full load run; sync boost says that another GPU of the group is the slow one."""
THERMAL_EVENTS, POWER_BRAKE = 0x20 | 0x40, 0x80
BLANK = float(0x7FFFFFF0)
"""DCGM's values from here on stand for "no value" (dcgm_structs.h: DCGM_INT32_BLANK; INT64 and FP64
lie above)."""


def clock_events(bits: int) -> tuple[str, ...]:
    """The names of the bits that are set, the idle and clock-setting ones left out."""
    # Idle and set clocks are no reason for a GPU to be slow.
    return tuple(
        name for bit, name in CLOCK_EVENTS.items() if bits & bit and bit not in (0x1, 0x2, 0x100)
    )


MIN_BASELINE_POINTS = 3
NEAR_CEILING = 0.9
LARGEST = 1e300
"""Values beyond this, and those that are not numbers, are no measurements."""
COUNTER = r"(?i)_(total|count|sum)$"
RISES = 0.9
"""A counter by its name and by this share of its baseline's steps; a gauge with such a name falls
as often."""
PER_SECOND = "per second"


@dataclass(frozen=True)
class Block:
    """Series of similar length as rows: keys, and times (ns) and values of the baseline and of what
    is searched.

    Where `ceiling` is finite the values are the shortfall from it: an availability of 99 % is read
    as 1 % failing. `pooled` is the signal's usual scale on other services; baseline points before
    `recent_ns` are of earlier days.
    """

    keys: pl.DataFrame
    before_times: Ints
    before: Floats
    times: Ints
    values: Floats
    pooled: Floats
    ceiling: Floats
    recent_ns: int


def blocks_of(case: Case) -> tuple[Block, ...]:
    """The blocks of a case's metrics, made once. Whoever reads them must not write to them."""
    if "metric_blocks" not in case.derived:
        made = tuple(metric_blocks(case.metrics, metric_windows(case)))
        case.derived["metric_blocks"] = made
    blocks: tuple[Block, ...] = case.derived["metric_blocks"]
    return blocks


def metric_blocks(metrics: pl.DataFrame, windows: Windows) -> Iterator[Block]:
    """Series in blocks of one power of two in both lengths: padding costs little, and windows are
    of like length."""
    series = _prepared(metrics, windows).filter(
        pl.col("before").list.len() >= MIN_BASELINE_POINTS, pl.col("values").list.len() >= 1
    )
    if not series.height:
        return
    sizes = [
        pl.col(c).list.len().log(2).ceil().cast(pl.Int32).alias(f"{c}_size")
        for c in ("before", "values")
    ]
    by = ["before_size", "values_size"]
    series = series.with_columns(sizes).sort(*by, "service", "signal", "labels", "unit")
    # Median standard deviation of each signal's baselines over the services where it is not flat.
    spread = series.select("signal", pl.col("before").list.std().alias("s")).filter(
        pl.col("s").is_finite() & (pl.col("s") > 0)
    )
    scales = dict(spread.group_by("signal").agg(pl.col("s").median()).iter_rows())
    recent = windows.recent
    # Without windows of earlier days every point is recent.
    recent_ns = int(pl.Series([recent]).dt.epoch("ns")[0]) if recent else np.iinfo(np.int64).min
    for _, block in series.group_by(by, maintain_order=True):
        pooled = np.array([scales.get(s, 0.0) for s in block["signal"]], dtype=np.float64)
        values, before = _padded(block["values"]), _padded(block["before"], at_end=True)
        # 1 or 100 for an availability that lives just below it, NaN for every other series.
        signals = block["signal"]
        top, usual = np.nanmax(before, axis=1), np.nanmedian(before, axis=1)
        # Only a series that lives just below 1, or 100, is a share of that.
        of_unit = (top <= 1.0) & (usual >= NEAR_CEILING)
        of_hundred = (top <= 100.0) & (usual >= 100 * NEAR_CEILING)
        is_availability = np.array(
            [classify(s) is SignalClass.AVAILABILITY for s in signals], dtype=bool
        )
        ceiling: Floats = np.where(
            is_availability & of_unit, 1.0, np.where(is_availability & of_hundred, 100.0, np.nan)
        )
        at_ceiling = np.isfinite(ceiling)
        values[at_ceiling] = ceiling[at_ceiling, None] - values[at_ceiling]
        before[at_ceiling] = ceiling[at_ceiling, None] - before[at_ceiling]
        times = _padded_times(block["times"])
        before_times = _padded_times(block["before_times"], at_end=True)
        keys = block.select("service", "signal", "unit", "labels")
        yield Block(keys, before_times, before, times, values, pooled, ceiling, recent_ns)


def _prepared(metrics: pl.DataFrame, windows: Windows) -> pl.DataFrame:
    # Infinite and absurd values would spoil every sum of their row.
    rows = metrics.filter(pl.col("value").abs() <= LARGEST, pl.col("service").is_not_null())
    rows = rows.filter(
        ~pl.col("signal").is_in(list(SIGNALS))
    )  # `gpu_health` compares these GPU by GPU
    rows = rows.with_columns(
        windows.in_baseline("time").alias("is_baseline"),
        windows.in_search("time").alias("is_search"),
    ).filter(pl.col("is_baseline") | pl.col("is_search"))
    keys = ["service", "signal", "unit", "labels"]
    rows = as_rates(
        rows.with_columns(pl.col("unit", "labels").fill_null(""))
        .group_by([*keys, "time"])
        .agg(pl.col("value").mean(), pl.col("is_baseline").first(), pl.col("is_search").first()),
        keys,
    ).sort("time")
    return rows.group_by(keys).agg(
        pl.col("time").filter("is_search").dt.epoch("ns").alias("times"),
        pl.col("value").filter("is_search").alias("values"),
        pl.col("time").filter("is_baseline").dt.epoch("ns").alias("before_times"),
        pl.col("value").filter("is_baseline").alias("before"),
    )


def as_rates(rows: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Steadily rising counters as their increase per second; an interval with a restart from zero
    is left out.

    A counter that mostly stands still (restarts, rare errors) keeps its level: its steps are the
    events.
    """
    named = pl.col("signal").str.contains(COUNTER)
    counters = rows.filter(named).sort([*keys, "time"])
    if not counters.height:
        return rows
    step = pl.col("value").diff().over(keys)
    seconds = pl.col("time").diff().over(keys).dt.total_nanoseconds() / 1e9
    counters = counters.with_columns(step.alias("step"), seconds.alias("seconds"))
    before = pl.col("step").filter(pl.col("is_baseline"))
    rising = ((before > 0).mean() >= RISES) & ((before < 0).mean() <= 1 - RISES)
    counters = counters.with_columns(rising.fill_null(value=False).over(keys).alias("rising"))
    # A fall is a restart: what was counted in between is unknown.
    rates = counters.filter("rising", pl.col("step") >= 0).with_columns(
        (pl.col("step") / pl.col("seconds")).alias("value"), pl.lit(PER_SECOND).alias("unit")
    )
    remaining_counters = counters.filter(~pl.col("rising"))
    return pl.concat(
        [rows.filter(~named), remaining_counters.select(rows.columns), rates.select(rows.columns)]
    )


def _padded(lists: pl.Series, *, at_end: bool = False) -> Floats:
    """Lists as rows, each at the left edge or `at_end` at the right one; NaN elsewhere."""
    places = _places(lists, at_end=at_end)
    matrix = np.full(places.shape, np.nan)
    matrix[places] = lists.explode(empty_as_null=False).to_numpy()
    return matrix


def _padded_times(lists: pl.Series, *, at_end: bool = False) -> Ints:
    """The same for times; 0 elsewhere."""
    places = _places(lists, at_end=at_end)
    matrix = np.zeros(places.shape, dtype=np.int64)
    matrix[places] = lists.explode(empty_as_null=False).to_numpy()
    return matrix


def _places(lists: pl.Series, *, at_end: bool) -> Bools:
    lengths = lists.list.len().to_numpy().astype(np.int64)
    width = int(lengths.max())
    columns = np.arange(width)[None, :]
    places: Bools = columns >= width - lengths[:, None] if at_end else columns < lengths[:, None]
    return places
