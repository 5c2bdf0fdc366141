"""The GPUs of a case: who they are, their samples by signal, and gauges side by side in common
steps of time.

Samples of one GPU are joined whatever else their labels say (a pod that was replaced, a link);
those of two sources stay apart. Values that stand for "no value" are gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import msgspec
import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import Windows, metric_windows
from faultline.analysis.metrics import series as gs
from faultline.analysis.metrics.shift_statistics import Bools, Floats, Ints
from faultline.analysis.vocabulary import same_host

LEAST_STEP_S = 60.0
"""Gauges are compared in steps of a minute, longer where samples are rarer."""
MOST_STEPS = 2000
MOST_DEVICES = 4096
"""More than the connectors fetch; what a case holds beyond is left out."""
NS = 1_000_000_000


class _Labels(msgspec.Struct):
    host: str | None = None
    gpu: str | int | None = None
    mig: str | int | None = None
    uuid: str | None = None
    model: str | None = None
    device: str | None = None
    port: str | int | None = None
    xid: str | int | None = None


_decoder = msgspec.json.Decoder(_Labels)


@dataclass(frozen=True, order=True)
class Device:
    """One GPU (or MIG slice), or one network port of a host. `service` is what one source files it
    under."""

    host: str
    unit: str
    service: str = field(compare=False)

    @property
    def index(self) -> int | None:
        """The GPU's number on its host."""
        return int(self.unit) if self.unit.isdecimal() and len(self.unit) <= 4 else None


@dataclass(frozen=True)
class Samples:
    """One signal of one device: times in ns, rising, and values; `xid` is an error counter's
    code."""

    times: Ints
    values: Floats
    xid: str | None = None

    def between(self, start: int, end: int) -> Samples:
        """The samples of [start, end]."""
        first, last = np.searchsorted(self.times, [start, end + 1])
        return Samples(self.times[first:last], self.values[first:last], self.xid)


@dataclass(frozen=True)
class Grid:
    """Gauges side by side: a row per GPU, a column per step. NaN where a GPU has no sample."""

    starts: Ints
    step_ns: int
    search: Bools
    """Which steps are searched for the incident; the others are the baseline."""
    gauges: Mapping[str, Floats]

    def gauge(self, signal: str) -> Floats | None:
        """The signal's matrix, or None where nobody has it."""
        return self.gauges.get(signal)


@dataclass(frozen=True)
class Fleet:
    """All GPUs of a case. `samples` is by signal and device; a signal that nobody has is absent."""

    gpus: tuple[Device, ...]
    models: Mapping[Device, str]
    samples: Mapping[str, Mapping[Device, Sequence[Samples]]]
    windows: Windows

    def of(self, signal: str) -> Mapping[Device, Sequence[Samples]]:
        """The samples of a signal."""
        return self.samples.get(signal, {})

    @cached_property
    def search_ns(self) -> tuple[int, int]:
        """The searched window."""
        search = self.windows.search
        return _ns(search.start.timestamp()), _ns(search.end.timestamp())

    @cached_property
    def baseline_ns(self) -> tuple[tuple[int, int], ...]:
        """The baseline windows."""
        spans = []
        for window in self.windows.baseline:
            spans.append((_ns(window.start.timestamp()), _ns(window.end.timestamp())))
        return tuple(spans)

    @cached_property
    def grid(self) -> Grid:
        """The gauges of the GPUs in common steps."""
        return _grid(self)


def read_fleet(case: Case) -> Fleet | None:
    """The case's GPUs and network ports; None where it has none."""
    value, signal_name = pl.col("value"), pl.col("signal")
    # Bytes of memory are the only real values as large as what stands for "no value".
    is_value = (value < gs.BLANK) | (signal_name == gs.MEMORY_USED)
    rows = case.metrics.filter(signal_name.is_in(list(gs.SIGNALS)), value.is_finite())
    rows = rows.filter(value >= 0, is_value)
    if not rows.height:
        return None
    rows = rows.select(
        "time", "signal", "value", pl.col("service").fill_null(""), pl.col("labels").fill_null("")
    )
    samples: dict[str, dict[Device, list[Samples]]] = {}
    models: dict[Device, str] = {}
    gpus: set[Device] = set()
    for device, signal, labels, part in _by_device(rows):
        if len(gpus) >= MOST_DEVICES and device not in gpus:
            continue
        samples.setdefault(signal, {}).setdefault(device, []).append(part)
        if signal in gs.OF_A_GPU:
            gpus.add(device)
            models.setdefault(device, labels.model or "")
    return Fleet(tuple(sorted(gpus)), models, samples, metric_windows(case))


class _Key(NamedTuple):
    """What makes rows one series: series of one key are joined."""

    host: str
    unit: str
    service: str
    signal: str
    xid: str


def _by_device(rows: pl.DataFrame) -> Iterator[tuple[Device, str, _Labels, Samples]]:
    """The samples of each device, signal and Xid code, in a stable order."""
    label_sets = rows.select("service", "labels", "signal").unique(maintain_order=True)
    labels_by_text = {text: _decoded(text) for text in label_sets["labels"].unique().to_list()}
    machines = _gpu_machines(labels_by_text.values())
    keys = []
    for service, text, signal in label_sets.iter_rows():
        keys.append((service, text, signal, _key(service, labels_by_text[text], signal, machines)))

    series = sorted({key for *_, key in keys})
    number = {key: n for n, key in enumerate(series)}
    # Reversed, so that a series with several label sets is described by the first of them.
    about = {number[key]: labels_by_text[text] for _, text, _, key in reversed(keys)}
    names = ["service", "labels", "signal", "series"]
    numbered = pl.DataFrame([(*row, number[key]) for *row, key in keys], schema=names, orient="row")
    table = (
        rows.join(numbered, on=names[:3])
        .group_by("series", "time")
        .agg(pl.col("value").max())
        .sort("series", "time")
    )
    times = table["time"].dt.epoch("ns").to_numpy().astype(np.int64)
    values = table["value"].to_numpy().astype(np.float64)
    ends = np.cumsum(np.bincount(table["series"].to_numpy(), minlength=len(series)))
    first = 0
    for n, (key, last) in enumerate(zip(series, ends.tolist(), strict=True)):
        samples = Samples(times[first:last], values[first:last], key.xid or None)
        yield Device(key.host, key.unit, key.service), key.signal, about[n], samples
        first = last


def _gpu_machines(labels: Iterable[_Labels]) -> dict[str, str]:
    """The hosts that have GPUs, by their name without the domain."""
    hosts = {label.host for label in labels if label.host and label.gpu is not None}
    return {host.partition(".")[0].casefold(): host for host in sorted(hosts)}


def _key(service: str, labels: _Labels, signal: str, machines: Mapping[str, str]) -> _Key:
    host = labels.host or service
    if signal in gs.OF_A_GPU:
        gpu = "?" if labels.gpu is None else str(labels.gpu)
        unit = f"{gpu}.{labels.mig}" if labels.mig not in (None, "") else gpu
    else:
        # The machine as its GPUs name it: another exporter may add the domain.
        machine = machines.get(host.partition(".")[0].casefold())
        host = machine if machine is not None and same_host(machine, host) else host
        unit = "/".join(str(part) for part in (labels.device, labels.port) if part)
    xid = str(labels.xid) if labels.xid is not None and signal == gs.XID_EVENTS else ""
    return _Key(host, unit, service, signal, xid)


def _decoded(text: str) -> _Labels:
    try:
        return _decoder.decode(text) if text else _Labels()
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _Labels()


GAUGES = (
    gs.SM_CLOCK, gs.UTILIZATION, gs.TEMPERATURE, gs.MEMORY_TEMPERATURE, gs.SLOWDOWN_TEMPERATURE,
    gs.POWER,
    gs.SM_ACTIVE, gs.TENSOR_ACTIVE,
)  # fmt: skip


def _grid(fleet: Fleet) -> Grid:
    spans = [(start, end, False) for start, end in fleet.baseline_ns]
    spans.append((*fleet.search_ns, True))
    length = sum(end - start for start, end, _ in spans)
    # A little more than the usual step, so that jitter leaves no column empty.
    step_ns = int(max(LEAST_STEP_S * NS, 1.05 * _usual_step(fleet), length / MOST_STEPS))
    starts, search = [], []
    for start, end, is_search in spans:
        columns = np.arange(start, max(end, start + 1), step_ns, dtype=np.int64)
        starts.append(columns)
        search.append(np.full(len(columns), is_search, dtype=bool))
    all_starts, in_search = np.concatenate(starts), np.concatenate(search)
    order = np.argsort(all_starts, kind="stable")
    all_starts, in_search = all_starts[order], in_search[order]
    gauges = {}
    for signal in (*GAUGES, gs.EVENT_REASONS):
        if signal in fleet.samples:
            # The mean of each step; for clock-event reasons every bit that was set in it.
            binned = _bits_by_step if signal == gs.EVENT_REASONS else _means_by_step
            matrix = np.full((len(fleet.gpus), len(all_starts)), np.nan)
            for row, gpu in enumerate(fleet.gpus):
                for part in fleet.of(signal).get(gpu, ()):
                    column = np.searchsorted(all_starts, part.times, side="right") - 1
                    inside = (column >= 0) & (
                        part.times < all_starts[np.maximum(column, 0)] + step_ns
                    )
                    if inside.any():
                        step_values = binned(column[inside], part.values[inside], len(all_starts))
                        matrix[row] = np.where(np.isfinite(step_values), step_values, matrix[row])
            gauges[signal] = matrix
    return Grid(all_starts, step_ns, in_search, gauges)


def _usual_step(fleet: Fleet) -> float:
    """The longest usual distance of samples of any gauge, in ns."""
    steps = [0.0]
    for signal in (*GAUGES, gs.EVENT_REASONS):
        # All GPUs are scraped alike, so a few of them say how often.
        for parts in list(fleet.of(signal).values())[:8]:
            for part in parts:
                if len(part.times) > 2:
                    steps.append(float(np.quantile(np.diff(part.times), 0.9)))
    return max(steps)


def _bits_by_step(column: Ints, values: Floats, steps: int) -> Floats:
    bits = np.zeros(steps, dtype=np.int64)
    np.bitwise_or.at(bits, column, values.astype(np.int64))
    mask = np.bincount(column, minlength=steps) > 0
    return np.where(mask, bits.astype(np.float64), np.nan)


def _means_by_step(column: Ints, values: Floats, steps: int) -> Floats:
    count = np.bincount(column, minlength=steps)
    total = np.bincount(column, weights=values, minlength=steps)
    means = np.full(steps, np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return means


def _ns(seconds: float) -> int:
    return round(seconds * 1000) * 1_000_000


# What one rule saw on one device, before devices with the same fault share one finding.


@dataclass(frozen=True)
class Sign:
    """`says` follows the device's name in the sentence; each number that it quotes stands in
    `numbers`.

    Devices of one host, or of the whole job, whose signs have the same `kind` and `reason` become
    one finding, worded by the strongest of them.
    """

    kind: str
    device: Device
    signal: str
    strength: float
    says: str
    reason: str
    fix: str
    source: str
    onset_ns: int | None = None
    uncertainty_s: float = 0.0
    numbers: Mapping[str, float] = field(default_factory=dict)
    whole_job: bool = False
    """Whether it speaks of all GPUs together, not of the device."""
    events: tuple[str, ...] | None = None
    """Why the clock was lowered, in words; of a lowered clock only."""
    minutes: float | None = None
    """How long it was lowered."""
    xids: tuple[int, ...] | None = None
    """Xid codes, the one that says most first."""


def longest_run(true: Bools, valid: Bools) -> tuple[int, int, int]:
    """First and last column of the longest run of `true` and how many are true in it; (-1, -1, 0)
    without one.

    A column that is not known neither counts nor breaks the run, and one that is false breaks it
    only with a second.
    """
    longest = (-1, -1, 0)
    first, last, count, misses = -1, -1, 0, 0
    for column in np.flatnonzero(valid):
        if true[column]:
            first = int(column) if first < 0 else first
            last, count, misses = int(column), count + 1, 0
            if count > longest[2]:
                longest = (first, last, count)
        elif first >= 0:
            misses += 1
            if misses > 1:
                first, last, count, misses = -1, -1, 0, 0
    return longest
