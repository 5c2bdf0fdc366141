"""Seeded healthy and faulty series of the kinds that are met in production, and cases made of them.

A series is a row of values at a fixed step; `layouts` say how many points lie in the baseline and
in the incident window: what a live bot asks for, a short recording, and two days in points of five
minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from faultline.analysis.case.folder import Case
from faultline.analysis.vocabulary import Alert, Scope, Window

Floats = NDArray[np.float64]
Random = np.random.Generator
BEGIN = datetime(2026, 3, 2, 0, 0, tzinfo=UTC)
SERVICES = tuple(f"service-{n}" for n in range(10))
SERIES = 40


@dataclass(frozen=True)
class Layout:
    """Points in the baseline and in the incident window, and seconds from one to the next."""

    before: int
    during: int
    step_s: int

    @property
    def points(self) -> int:
        """Of both windows."""
        return self.before + self.during


LAYOUTS = {"live": Layout(120, 36, 60), "short": Layout(18, 3, 60), "days": Layout(590, 4, 300)}


def gaussian(random: Random, layout: Layout) -> Floats:
    """A gauge with normal noise of 10 %."""
    return random.normal(100, 10, layout.points)


def lognormal(random: Random, layout: Layout) -> Floats:
    """A 99th percentile of latencies: heavy to the right."""
    values: Floats = 80 * np.exp(random.normal(0, random.uniform(0.3, 0.9), layout.points))
    return values


def poisson(random: Random, layout: Layout) -> Floats:
    """Events per interval, a few or some dozens."""
    return random.poisson(random.choice([2.0, 8.0, 40.0]), layout.points).astype(np.float64)


def rare(random: Random, layout: Layout) -> Floats:
    """Errors that come one at a time, in one of ten intervals."""
    return random.poisson(0.1, layout.points).astype(np.float64)


def diurnal(random: Random, layout: Layout) -> Floats:
    """A day's wave with a slow trend and noise."""
    day = 86_400 / layout.step_s
    at = np.arange(layout.points) + random.uniform(0, day)
    wave = np.sin(2 * np.pi * at / day)
    values: Floats = 100 + 30 * wave + 5 * at / day + random.normal(0, 5, layout.points)
    return values


def autocorrelated(random: Random, layout: Layout) -> Floats:
    """A gauge that remembers: AR(1) with 0.8."""
    noise = random.normal(0, 6, layout.points + 50)
    out = np.zeros(layout.points + 50)
    for n in range(1, len(out)):
        out[n] = 0.8 * out[n - 1] + noise[n]
    return 100 + out[50:]


def bursty(random: Random, layout: Layout) -> Floats:
    """Calm, with bursts of one to four points that are three to ten times as high, in about one of
    thirty."""
    out = random.normal(20, 2, layout.points)
    for at in np.flatnonzero(random.random(layout.points) < 1 / 30):
        out[at : at + random.integers(1, 5)] *= random.uniform(3, 10)
    return out


def student(random: Random, layout: Layout) -> Floats:
    """Noise with the tails of Student's t of three degrees of freedom."""
    values: Floats = 100 + 5 * random.standard_t(3, layout.points)
    return values


def counter(random: Random, layout: Layout) -> Floats:
    """A counter since the process began, which restarts from zero once in a while."""
    out = np.cumsum(random.poisson(300, layout.points)).astype(np.float64) + 1e6
    for at in np.flatnonzero(random.random(layout.points) < 1 / 100):
        out[at:] -= out[at]
    return np.maximum(out, 0)


def near_zero(random: Random, layout: Layout) -> Floats:
    """A share of failures, mostly zero."""
    return random.binomial(400, 0.002, layout.points) / 400


def near_one(random: Random, layout: Layout) -> Floats:
    """An availability, mostly one."""
    return 1 - near_zero(random, layout)


def flat(random: Random, layout: Layout) -> Floats:
    """Always the same."""
    return np.full(layout.points, float(random.choice([0.0, 1.0, 512.0])))


def gaps(random: Random, layout: Layout) -> Floats:
    """A gauge of which a third of the points is missing."""
    out = gaussian(random, layout)
    out[random.random(layout.points) < 1 / 3] = np.nan
    return out


def spikes(random: Random, layout: Layout) -> Floats:
    """A gauge with one wild point somewhere."""
    out = gaussian(random, layout)
    out[random.integers(layout.points)] *= random.uniform(3, 20)
    return out


KINDS: dict[str, tuple[str, Callable[[Random, Layout], Floats]]] = {
    "gaussian": ("memory_mb", gaussian),
    "lognormal": ("latency_p99_ms", lognormal),
    "poisson": ("requests_per_minute", poisson),
    "rare": ("errors", rare),
    "diurnal": ("requests_per_second", diurnal),
    "autocorrelated": ("cpu_percent", autocorrelated),
    "bursty": ("queue_depth", bursty),
    "student": ("latency_p50_ms", student),
    "counter": ("http_requests_total", counter),
    "near_zero": ("error_ratio", near_zero),
    "near_one": ("availability", near_one),
    "flat": ("restarts", flat),
    "gaps": ("heap_mb", gaps),
    "spikes": ("disk_io", spikes),
}
"""Each kind with the name of a signal that behaves so."""


def times(layout: Layout) -> list[datetime]:
    """The time of each point."""
    return [BEGIN + timedelta(seconds=n * layout.step_s) for n in range(layout.points)]


def rows(
    layout: Layout, service: str, signal: str, values: Floats, label: str = ""
) -> pl.DataFrame:
    """A series as rows of a case's metrics; points that are missing have none."""
    return pl.DataFrame(
        {
            "time": pl.Series(times(layout), dtype=pl.Datetime("us", "UTC")),
            "service": [service] * layout.points,
            "signal": [signal] * layout.points,
            "value": values,
            "unit": [""] * layout.points,
            "labels": [label] * layout.points,
        }
    ).filter(pl.col("value").is_finite())


def case_of(layout: Layout, tables: list[pl.DataFrame], alert: Alert | None = None) -> Case:
    """A case in memory whose incident window begins at the layout's first point after the
    baseline."""
    at = times(layout)
    incident = Window(start=at[layout.before], end=at[-1] + timedelta(seconds=1))
    scope = Scope(incident=incident, baseline=(Window(start=at[0], end=incident.start),))
    given = alert or Alert(source="test", title="alert", started_at=at[-1])
    case = Case(Path("/nonexistent"), given, scope)
    case.__dict__["metrics"] = pl.concat(tables)
    return case


def healthy_case(random: Random, layout: Layout) -> Case:
    """Forty healthy series of ten services; one of them alerts all the same."""
    names = list(KINDS)
    tables = []
    for n in range(SERIES):
        signal, make = KINDS[names[(n + random.integers(len(names))) % len(names)]]
        tables.append(
            rows(layout, SERVICES[n % len(SERVICES)], signal, make(random, layout), f"n={n}")
        )
    first = tables[0].row(0, named=True)
    alert = Alert(
        source="test",
        title="alert",
        started_at=times(layout)[-1],
        service=first["service"],
        signal=first["signal"],
    )
    return case_of(layout, tables, alert)


@dataclass(frozen=True)
class Fault:
    """What happens to a series: by how many times its noise, from which column, and how."""

    sigmas: float
    onset: int
    ramp: int = 0
    """Columns over which it grows."""
    lasts: int = 10**6

    def applied(self, values: Floats, noise: float) -> Floats:
        """The series with the fault in it."""
        at = np.arange(len(values)) - self.onset
        share = np.clip((at + 1) / max(self.ramp, 1), 0, 1) * (at < self.lasts)
        return values + self.sigmas * noise * share
