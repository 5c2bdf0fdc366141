"""Simulated fleets: what dcgm-exporter and node_exporter say of the GPUs of a training job, healthy
in many ways."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import numpy as np
import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.tables import METRICS
from faultline.analysis.metrics import series as gs
from faultline.analysis.metrics.shift_statistics import Bools, Floats
from faultline.analysis.vocabulary import Alert, JobIdentity, Scope, Window
from tests.analysis.cases import START

BEFORE, AFTER = 60.0, 30.0
"""Minutes of baseline before the alert, and of incident from it."""
JOB = "llm-1"
PATTERNS = (
    "steady", "data_bound", "checkpoints", "rank_0_saves", "job_start", "idle_period", "evaluation",
    "pipeline_stages",
    "power_capped", "uneven_load", "unused_gpus", "two_models", "warm_fleet", "job_end", "restarts",
)  # fmt: skip

CALM = {
    gs.SM_CLOCK: 1900.0,
    gs.UTILIZATION: 100.0,
    gs.TENSOR_ACTIVE: 0.4,
    gs.POWER: 600.0,
    gs.TEMPERATURE: 60.0,
    gs.XID: 0.0,
}
"""What each GPU of a calm job reports."""


@dataclass
class SimulatedFleet:
    """Series as [GPU, sample]; NaN is no sample. `minutes` from the alert."""

    minutes: Floats
    gpus: list[tuple[str, int]]
    signals: dict[str, Floats]
    models: list[str]
    ports: dict[str, Floats] = field(default_factory=dict)
    """Signals of each host's network port, as [host, sample]."""

    @property
    def hosts(self) -> list[str]:
        """The hosts in the order of their ranks."""
        return list(dict.fromkeys(host for host, _ in self.gpus))

    def after(self, minute: float) -> Bools:
        """Samples from that minute on."""
        return np.asarray(self.minutes >= minute)

    def put(self, signal: str, row: int, when: Bools, values: float | Floats) -> None:
        """Replace samples of one GPU."""
        self.signals[signal][row, when] = values


def healthy(
    seed: int, pattern: str, *, hosts: int = 4, per_host: int = 8, step_s: float = 60
) -> SimulatedFleet:
    """A job without any trouble."""
    rng = np.random.default_rng(seed)
    minutes = np.arange(-BEFORE, AFTER, step_s / 60)
    gpus = [(f"node-{h}", g) for h in range(hosts) for g in range(per_host)]
    shape = (len(gpus), len(minutes))
    load = np.clip(rng.normal(0.97, 0.02, shape), 0, 1)
    fleet = SimulatedFleet(minutes, gpus, {}, ["NVIDIA H100 80GB HBM3"] * len(gpus))
    waits = np.zeros(shape, dtype=bool)
    _shape_load(rng, pattern, fleet, load, waits)
    _gauges(rng, pattern, fleet, load, waits)
    _counters(rng, fleet)
    _holes(rng, pattern, fleet)
    return fleet


def calm(hosts: int = 2, per_host: int = 4, step_s: float = 60) -> SimulatedFleet:
    """A small job whose GPUs are all alike and never change, to be put near a threshold."""
    minutes = np.arange(-BEFORE, AFTER, step_s / 60)
    gpus = [(f"node-{host}", gpu) for host in range(hosts) for gpu in range(per_host)]
    fleet = SimulatedFleet(minutes, gpus, {}, ["NVIDIA H100 80GB HBM3"] * len(gpus))
    for signal, value in CALM.items():
        fleet.signals[signal] = np.full((len(gpus), len(minutes)), value)
    return fleet


def _shape_load(
    rng: np.random.Generator, pattern: str, fleet: SimulatedFleet, load: Floats, waits: Bools
) -> None:
    """How much each GPU computes, and when it only waits in a collective."""
    m = fleet.minutes
    if pattern == "data_bound":
        load[:] = np.clip(rng.normal(0.65, 0.2, load.shape), 0.1, 1)
    every, long = rng.uniform(12, 40), rng.uniform(0.5, 3.5)
    saving = (m + BEFORE) % every < long
    if pattern == "checkpoints":
        load[:, saving] = rng.uniform(0, 0.03, (len(load), int(saving.sum())))
    if pattern == "rank_0_saves":
        waits[1:, saving] = True
        load[0, saving] = 0.01
    if pattern == "job_start":
        load[:, m < rng.uniform(-90, 20)] = 0
    if pattern == "idle_period":
        start = rng.uniform(-100, 10)
        load[:, (m > start) & (m < start + rng.uniform(5, 40))] = 0
    if pattern == "evaluation":
        load[:, (m + BEFORE) % rng.uniform(20, 60) < 6] *= 0.45
    if pattern == "pipeline_stages":
        load *= np.repeat(rng.uniform(0.55, 1.0, len(fleet.hosts)), len(load) // len(fleet.hosts))[
            :, None
        ]
    if pattern == "uneven_load":  # one rank computes while the others wait for it in every step
        load[:] *= 0.7
        load[rng.integers(len(load))] = np.clip(rng.normal(1.0, 0.01, load.shape[1]), 0, 1)
    if pattern == "unused_gpus":
        load[rng.choice(len(load), size=max(1, len(load) // 8), replace=False)] = 0
    if pattern == "two_models":
        half = len(load) // 2
        fleet.models[half:] = ["NVIDIA A100-SXM4-80GB"] * (len(load) - half)


def _gauges(
    rng: np.random.Generator, pattern: str, fleet: SimulatedFleet, load: Floats, waits: Bools
) -> None:
    n, shape = len(load), load.shape
    busy = load > 0.05
    top = np.array([1980.0 if "H100" in model else 1410.0 for model in fleet.models])[:, None]
    silicon = rng.normal(1.0, 0.03, n)[:, None]
    if pattern == "power_capped":
        silicon = rng.normal(0.85, 0.05, n)[:, None]
    pull = 0.12 * load * (1.4 if pattern == "uneven_load" else 1.0)
    clock = np.minimum(top, top * (1.06 - pull) * silicon + rng.normal(0, 12, shape))
    idle_clock = np.where(rng.random(shape) < 0.7, 345.0, 1980.0)
    working = busy | waits
    power = np.where(busy, 90 + 580 * load * silicon, 75.0) + rng.normal(0, 8, shape)
    power = np.where(waits, rng.normal(210, 15, shape), power)
    place = rng.normal(0, 3.5, n)[:, None] + (18 if pattern == "warm_fleet" else 0)
    drift = 1.5 * np.sin(fleet.minutes / 40 + rng.uniform(0, 6, n)[:, None])
    heat = 34 + place + 0.045 * power + drift + rng.normal(0, 0.6, shape)
    bits = np.where(working, np.where((load > 0.9) & (rng.random(shape) < 0.6), 0x4, 0), 0x1)
    bits = np.where(
        rng.random(shape) < 0.003, bits | 0x8, bits
    )  # "may be also reported during PState change"
    used: Floats = np.minimum(100.0, 100.0 * np.power(load, 0.3)) * busy
    used[waits] = 100.0
    fleet.signals |= {
        gs.SM_CLOCK: np.round(np.where(working, clock, idle_clock) / 15) * 15,
        gs.UTILIZATION: np.round(used),
        gs.SM_ACTIVE: np.where(waits, 0.15, 0.9 * load),
        gs.TENSOR_ACTIVE: np.where(waits, 0.0, 0.45 * load * (load > 0.05)),
        gs.POWER: power,
        gs.TEMPERATURE: np.round(heat),
        gs.MEMORY_TEMPERATURE: np.round(heat + 9),
        gs.EVENT_REASONS: bits.astype(np.float64),
        gs.MEMORY_USED: np.where(busy, 7.1e10, 5e8) + np.zeros(shape),
    }
    if rng.random() < 0.3:
        del fleet.signals[gs.EVENT_REASONS]
    if rng.random() < 0.3:
        del fleet.signals[gs.TENSOR_ACTIVE], fleet.signals[gs.SM_ACTIVE]


def _counters(rng: np.random.Generator, fleet: SimulatedFleet) -> None:
    n, t = len(fleet.gpus), len(fleet.minutes)
    step = fleet.minutes[1] - fleet.minutes[0]

    def counter(rows: int, per_hour: float, share: float) -> Floats:
        rate = np.where(rng.random(rows) < share, per_hour / 60 * step, 0.0)[:, None]
        start = np.where(rate > 0, rng.integers(0, 5000, (rows, 1)), 0)
        return np.asarray(
            start + np.cumsum(rng.poisson(np.broadcast_to(rate, (rows, t))), axis=1),
            dtype=np.float64,
        )

    fleet.signals |= {
        gs.XID: np.where(rng.random((n, 1)) < 0.1, rng.choice([13, 31, 43, 45, 63], (n, 1)), 0.0)
        + np.zeros((n, t)),
        gs.ECC_DBE: np.where(rng.random((n, 1)) < 0.03, 1.0, 0.0) + np.zeros((n, t)),
        gs.ECC_SBE: counter(n, 2.0, 0.1),
        gs.ROW_REMAP_PENDING: np.zeros((n, t)),
        gs.ROW_REMAP_FAILURE: np.zeros((n, t)),
        gs.ROWS_REMAPPED: np.where(rng.random((n, 1)) < 0.05, 2.0, 0.0) + np.zeros((n, t)),
        gs.PCIE_REPLAYS: counter(n, 20.0, 0.3),
        gs.NVLINK_ERRORS: counter(n, 0.5, 0.1),
        gs.NVLINK_CRC: counter(n, 60.0, 0.2),
        # At the power cap as often as the GPU draws much, which differs with the silicon.
        gs.THROTTLED_BY_POWER: 5e6 + np.cumsum(60 * step * (fleet.signals[gs.POWER] > 620), axis=1),
        gs.THROTTLED_BY_HEAT: np.full((n, t), 900.0),
    }
    hosts = len(fleet.hosts)
    fleet.ports = {
        gs.IB_LINK_DOWNED: np.where(rng.random((hosts, 1)) < 0.3, 2.0, 0.0) + np.zeros((hosts, t)),
        gs.IB_SYMBOL_ERRORS: counter(hosts, 3.0, 0.3),
        gs.IB_LINK_RECOVERIES: np.zeros((hosts, t)),
    }


def _holes(rng: np.random.Generator, pattern: str, fleet: SimulatedFleet) -> None:
    """Missed scrapes, an exporter that restarts (counters begin at zero, the last Xid is
    forgotten), the job's end."""
    per_host = len(fleet.gpus) // len(fleet.hosts)
    lost = rng.random((len(fleet.hosts), len(fleet.minutes))) < 0.01
    for signal in fleet.signals:
        fleet.signals[signal][np.repeat(lost, per_host, axis=0)] = np.nan
    if pattern == "restarts":
        at = rng.uniform(-100, 25)
        rows = slice(0, per_host)
        gap = (fleet.minutes > at) & (fleet.minutes < at + 2.5)
        later = fleet.minutes >= at + 2.5
        for signal, values in fleet.signals.items():
            if gs.SIGNALS[signal].kind in ("counter", "code"):
                values[rows, later] = 0
            values[rows, gap] = np.nan
    if pattern == "job_end":
        over = fleet.minutes > rng.uniform(5, 25)
        for values in fleet.signals.values():
            values[:, over] = np.nan


def case_of(
    fleet: SimulatedFleet, *, ranks: bool = True, labels: Mapping[str, str] | None = None
) -> Case:
    """The fleet's case, with its table in memory."""
    gpus = [
        _label({"host": host, "gpu": str(gpu), "model": fleet.models[row], **(labels or {})})
        for row, (host, gpu) in enumerate(fleet.gpus)
    ]
    ports = [_label({"host": host, "device": "mlx5_0", "port": "1"}) for host in fleet.hosts]
    frames = [_rows(fleet, signal, values, gpus) for signal, values in fleet.signals.items()]
    frames += [_rows(fleet, signal, values, ports) for signal, values in fleet.ports.items()]
    per_host = len(fleet.gpus) // len(fleet.hosts)
    training = JobIdentity(name=JOB, hosts=tuple(fleet.hosts), ranks_per_host=per_host)
    scope = Scope(
        incident=Window(start=START, end=START + timedelta(minutes=AFTER)),
        baseline=(Window(start=START - timedelta(minutes=BEFORE), end=START),),
        job=JOB,
        training=training if ranks else None,
    )
    alert = Alert(
        source="test", title="step time is up", started_at=START, service=JOB, signal="step_time"
    )
    case = Case(Path("simulated"), alert, scope)
    case.__dict__["metrics"] = pl.concat(frames).cast(dict(METRICS.columns))  # type: ignore[arg-type]
    return case


def _label(labels: Mapping[str, str]) -> str:
    return json.dumps(labels, sort_keys=True)


def _rows(
    fleet: SimulatedFleet, signal: str, values: Floats, labels: Sequence[str]
) -> pl.DataFrame:
    """The samples of one signal that were taken, one series after the other."""
    times = round(START.timestamp()) * 10**9 + np.round(fleet.minutes * 60e9).astype(np.int64)
    row, column = np.nonzero(np.isfinite(values))
    return pl.select(
        pl.Series("time", times[column]).cast(METRICS.columns["time"]),
        pl.lit(JOB).alias("service"),
        pl.lit(signal).alias("signal"),
        pl.Series("value", values[row, column]),
        pl.lit(gs.SIGNALS[signal].unit).alias("unit"),
        pl.Series("labels", labels).gather(row),
    )
