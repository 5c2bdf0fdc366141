"""The GPUs of a case: who they are, their samples by signal, and gauges side by side in common
steps of time.

Samples of one GPU are joined whatever else their labels say (a pod that was replaced, a link);
those of two sources stay apart. Values that stand for "no value" are gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import msgspec
import numpy as np
import polars as pl

from analysis.case.folder import Case
from analysis.case.windows import Windows, metric_windows
from analysis.metrics import gpu_signals as gs
from analysis.metrics.shift_statistics import Bools, Floats, Ints
from analysis.vocabulary import same_host

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
    """One signal of one device: times in ns, rising, and values; `xid` tells an error counter's
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
        return tuple(
            (_ns(w.start.timestamp()), _ns(w.end.timestamp())) for w in self.windows.baseline
        )

    @cached_property
    def grid(self) -> Grid:
        """The gauges of the GPUs in common steps."""
        return _grid(self)


def read_fleet(case: Case) -> Fleet | None:
    """The case's GPUs and network ports; None where it has none."""
    rows = case.metrics.filter(
        pl.col("signal").is_in(list(gs.SIGNALS)) & pl.col("value").is_finite()
    )
    rows = rows.filter(
        (pl.col("value") >= 0)
        & ((pl.col("value") < gs.BLANK) | (pl.col("signal") == gs.MEMORY_USED))
    )
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


def _by_device(rows: pl.DataFrame) -> Iterator[tuple[Device, str, _Labels, Samples]]:
    """The samples of each device, signal and Xid code, in a stable order."""
    seen = rows.select("service", "labels", "signal").unique(maintain_order=True)
    known = {text: _decoded(text) for text in seen["labels"].unique().to_list()}
    keys = []
    told = {labels.host for labels in known.values() if labels.host and labels.gpu is not None}
    machines = {host.partition(".")[0].casefold(): host for host in sorted(told)}
    for service, text, signal in seen.iter_rows():
        labels = known[text]
        gpu = signal in gs.OF_A_GPU
        host = labels.host or service
        if not gpu:
            host = _machine(host, machines)
        unit = (
            _gpu_unit(labels)
            if gpu
            else "/".join(str(p) for p in (labels.device, labels.port) if p)
        )
        xid = str(labels.xid) if labels.xid is not None and signal == gs.XID_EVENTS else ""
        keys.append((service, text, signal, (host, unit, service, signal, xid)))
    series = sorted({key for *_, key in keys})
    number = {key: n for n, key in enumerate(series)}
    about = {number[key]: known[text] for _, text, _, key in reversed(keys)}
    names = ["service", "labels", "signal", "series"]
    found = pl.DataFrame([(*row, number[key]) for *row, key in keys], schema=names, orient="row")
    table = (
        rows.join(found, on=names[:3])
        .group_by("series", "time")
        .agg(pl.col("value").max())
        .sort("series", "time")
    )
    times = table["time"].dt.epoch("ns").to_numpy().astype(np.int64)
    values = table["value"].to_numpy().astype(np.float64)
    ends = np.cumsum(np.bincount(table["series"].to_numpy(), minlength=len(series)))
    for n, (host, unit, service, signal, xid) in enumerate(series):
        own = slice(int(ends[n - 1]) if n else 0, int(ends[n]))
        yield (
            Device(host, unit, service),
            signal,
            about[n],
            Samples(times[own], values[own], xid or None),
        )


def _decoded(text: str) -> _Labels:
    try:
        return _decoder.decode(text) if text else _Labels()
    except (msgspec.DecodeError, UnicodeEncodeError):
        return _Labels()


def _machine(host: str, machines: Mapping[str, str]) -> str:
    """The machine as its GPUs name it: another exporter may add the domain."""
    known = machines.get(host.partition(".")[0].casefold())
    return known if known is not None and same_host(known, host) else host


def _gpu_unit(labels: _Labels) -> str:
    gpu = "?" if labels.gpu is None else str(labels.gpu)
    return f"{gpu}.{labels.mig}" if labels.mig not in (None, "") else gpu


GAUGES = (
    gs.SM_CLOCK, gs.UTILIZATION, gs.TEMPERATURE, gs.MEMORY_TEMPERATURE, gs.SLOWDOWN_TEMPERATURE,
    gs.POWER,
    gs.SM_ACTIVE, gs.TENSOR_ACTIVE,
)  # fmt: skip


def _grid(fleet: Fleet) -> Grid:
    spans = [(*w, False) for w in fleet.baseline_ns] + [(*fleet.search_ns, True)]
    step = max(
        LEAST_STEP_S * NS, 1.05 * _usual_step(fleet), sum(b - a for a, b, _ in spans) / MOST_STEPS
    )
    step_ns = int(step)
    starts = [np.arange(a, max(b, a + 1), step_ns, dtype=np.int64) for a, b, _ in spans]
    search = np.concatenate(
        [np.full(len(s), of, dtype=bool) for s, (_, _, of) in zip(starts, spans, strict=True)]
    )
    all_starts = np.concatenate(starts)
    order = np.argsort(all_starts, kind="stable")
    all_starts, search = all_starts[order], search[order]
    gauges = {}
    for signal in (*GAUGES, gs.EVENT_REASONS):
        if signal in fleet.samples:
            gauges[signal] = _binned(fleet, signal, all_starts, step_ns)
    return Grid(all_starts, step_ns, search, gauges)


def _usual_step(fleet: Fleet) -> float:
    """The longest usual distance of samples of any gauge, in ns."""
    steps = [0.0]
    for signal in (*GAUGES, gs.EVENT_REASONS):
        for parts in list(fleet.of(signal).values())[:8]:
            steps += [float(np.quantile(np.diff(p.times), 0.9)) for p in parts if len(p.times) > 2]
    return max(steps)


def _binned(fleet: Fleet, signal: str, starts: Ints, step_ns: int) -> Floats:
    """The mean of each step; for clock-event reasons every bit that was set in it."""
    matrix = np.full((len(fleet.gpus), len(starts)), np.nan)
    for row, gpu in enumerate(fleet.gpus):
        for part in fleet.of(signal).get(gpu, ()):
            column = np.searchsorted(starts, part.times, side="right") - 1
            inside = (column >= 0) & (part.times < starts[np.maximum(column, 0)] + step_ns)
            column, values = column[inside], part.values[inside]
            if not len(column):
                continue
            if signal == gs.EVENT_REASONS:
                bits = np.zeros(len(starts), dtype=np.int64)
                np.bitwise_or.at(bits, column, values.astype(np.int64))
                told = np.bincount(column, minlength=len(starts)) > 0
                matrix[row] = np.where(told, bits, matrix[row])
            else:
                count = np.bincount(column, minlength=len(starts))
                total = np.bincount(column, weights=values, minlength=len(starts))
                told = count > 0
                matrix[row, told] = total[told] / count[told]
    return matrix


def _ns(seconds: float) -> int:
    return round(seconds * 1000) * 1_000_000
