"""How often the verdict is right, on simulated cases whose truth is known.

Healthy cases of several kinds of noise, flapping monitors and mis-set thresholds among them; faulty
ones, from which evidence is taken away step by step; and recovered ones.

    python -m benchmarks.verdicts [--cases 20] [--seed 0]

Prints one row per kind of case: how often each verdict was given, the share that is right, and the
mean confidence.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.random import Generator

from faultline.analysis.case.folder import read_case, write_evidence, write_json
from faultline.analysis.case.tables import write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Alert, Diagnosis, Gap, Scope, Verdict, Window

ALERT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
BEFORE, AFTER = 120, 30
"""Minutes of baseline and of incident, one point a minute."""
CHAIN = ("web", "cart", "api", "db", "search", "mail")
"""web calls cart and search, cart calls api, api calls db; mail is called by cart."""
CALLS = (("web", "cart"), ("web", "search"), ("cart", "api"), ("api", "db"), ("cart", "mail"))
MINUTES = np.arange(-BEFORE, AFTER + 1)
COLUMNS = (
    Verdict.CAUSE_FOUND,
    Verdict.RECOVERED,
    Verdict.NO_ACTIVE_INCIDENT,
    Verdict.INSUFFICIENT_EVIDENCE,
)
Noise = Callable[[Generator], np.ndarray]
"""A series around 1 with that kind of noise."""


def gaussian(rng: Generator) -> np.ndarray:
    return 1 + 0.05 * rng.standard_normal(len(MINUTES))


def bursty(rng: Generator) -> np.ndarray:
    """Heavy tails: single points up to many times the level."""
    return np.exp(0.25 * rng.standard_t(3, len(MINUTES)))


def wandering(rng: Generator) -> np.ndarray:
    """Each point depends on the one before (AR(1), 0.8): stretches of minutes lie above or
    below."""
    values = np.zeros(len(MINUTES))
    for n, step in enumerate(0.03 * rng.standard_normal(len(MINUTES))):
        values[n] = 0.8 * values[n - 1] + step if n else step
    return 1 + values


def daily(rng: Generator) -> np.ndarray:
    """A slow swing of a quarter of the level, as of an afternoon."""
    phase = rng.uniform(0, 2 * np.pi)
    return (1 + 0.25 * np.sin(2 * np.pi * MINUTES / 1440 + phase)) * (
        1 + 0.05 * rng.standard_normal(len(MINUTES))
    )


def hourly(rng: Generator) -> np.ndarray:
    """A job that doubles the level for three minutes of every half hour."""
    offset = rng.integers(0, 30)
    return (1 + ((MINUTES + offset) % 30 < 3)) * (1 + 0.05 * rng.standard_normal(len(MINUTES)))


NOISES: dict[str, Noise] = {f.__name__: f for f in (gaussian, bursty, wandering, daily, hourly)}


@dataclass
class Simulated:
    """One case to write: rows of tables by name, the alert's fields, gaps."""

    rng: Generator
    alert: dict[str, Any] = field(
        default_factory=lambda: {"service": "web", "signal": "latency_p99"}
    )
    metrics: dict[tuple[str, str], np.ndarray] = field(default_factory=dict)
    logs: list[tuple[int, str, str, str]] = field(default_factory=list)
    monitors: list[tuple[float, str]] = field(default_factory=list)
    gaps: list[Gap] = field(default_factory=list)
    topology: bool = True

    def write(self, folder: Path) -> None:
        """The case folder."""
        write_json(
            folder / "alert.json",
            Alert(source="simulated", title="web alerts", started_at=ALERT, **self.alert),
        )
        windows = [
            (ALERT - timedelta(minutes=BEFORE), ALERT),
            (ALERT, ALERT + timedelta(minutes=AFTER)),
        ]
        baseline, incident = (Window(start=a, end=b) for a, b in windows)
        write_json(folder / "scope.json", Scope(incident=incident, baseline=(baseline,)))
        times = [ALERT + timedelta(minutes=int(m)) for m in MINUTES]
        rows = [
            (t, s, n, float(v))
            for (s, n), series in self.metrics.items()
            for t, v in zip(times, series, strict=True)
        ]
        if rows:
            schema = ["time", "service", "signal", "value"]
            write_table(folder, "metrics", pl.DataFrame(rows, schema=schema, orient="row"))
        if self.logs:
            lines = [
                (ALERT + timedelta(minutes=m), s, text, level) for m, s, text, level in self.logs
            ]
            schema = ["time", "service", "message", "level"]
            write_table(folder, "logs", pl.DataFrame(lines, schema=schema, orient="row"))
        if self.topology:
            write_table(
                folder, "topology", pl.DataFrame(CALLS, schema=["caller", "callee"], orient="row")
            )
        if self.monitors:
            states = [
                ("web alerts", "web", state, ALERT + timedelta(minutes=m))
                for m, state in self.monitors
            ]
            schema = ["monitor", "service", "state", "since"]
            write_table(folder, "monitors", pl.DataFrame(states, schema=schema, orient="row"))
        write_evidence(folder, [], self.gaps) if self.gaps else None


def healthy(rng: Generator, noise: str) -> Simulated:
    """Six services of which nothing is wrong."""
    case, shape = Simulated(rng), NOISES[noise]
    for service in CHAIN:
        traffic = shape(rng)
        rate = 200 * np.abs(traffic)
        case.metrics[service, "latency_p99"] = 100 * np.abs(shape(rng))
        case.metrics[service, "cpu_percent"] = np.clip(
            30 * (0.5 * np.abs(traffic) + 0.5 * np.abs(gaussian(rng))), 0, 100
        )
        case.metrics[service, "request_rate"] = rate
        case.metrics[service, "error_ratio"] = rng.poisson(0.001 * 60 * rate) / (60 * rate)
        case.logs += [
            (int(m), service, f"handled {rng.integers(900)} requests", "INFO") for m in MINUTES
        ]
    case.alert = {"service": "web", "signal": str(rng.choice(["latency_p99", "error_ratio"]))}
    return case


def faulty(rng: Generator, noise: str, until: int = AFTER + 1) -> Simulated:
    """db runs out of CPU from the alert on: api, cart and web become slow behind it."""
    case = healthy(rng, noise)
    case.alert = {"service": "web", "signal": "latency_p99"}
    out = (MINUTES >= 0) & (until > MINUTES)
    case.metrics["db", "cpu_percent"] = np.where(out, 97.0, case.metrics["db", "cpu_percent"])
    for service, times in (("db", 12), ("api", 8), ("cart", 6), ("web", 5)):
        case.metrics[service, "latency_p99"] *= np.where(out, times, 1)
    case.logs += [
        (int(m), "db", "too many connections: pool of 100 is used up", "ERROR")
        for m in MINUTES[out]
    ]
    return case


def diluted(rng: Generator) -> Simulated:
    """A tenth of what api answers fails; web's availability falls by what of its traffic comes
    there: 0.4 %."""
    case = healthy(rng, "gaussian")
    case.alert = {"service": "web", "signal": "availability"}
    for service, share in (("web", 0.004), ("cart", 0.02), ("api", 0.1)):
        failing = np.where(MINUTES >= 0, share, 0.0) + 0.002
        case.metrics[service, "availability"] = 100 * (1 - rng.binomial(3000, failing) / 3000)
        del case.metrics[service, "error_ratio"]
    return case


def mis_set(rng: Generator) -> Simulated:
    """A threshold that the healthy signal crosses in a fifth of its points."""
    case = healthy(rng, str(rng.choice(["gaussian", "wandering", "hourly"])))
    values = case.metrics["web", "latency_p99"]
    threshold = float(np.quantile(values[MINUTES < 0], 0.8))
    crossings = values[(MINUTES >= 0) & (values > threshold)]
    case.alert = {"service": "web", "signal": "latency_p99", "threshold": threshold}
    case.alert |= {"observed": float(crossings[0])} if len(crossings) else {}
    return case


def flapping(rng: Generator) -> Simulated:
    """A monitor that fired six times for two minutes, and now."""
    case = healthy(rng, "gaussian")
    for minute in (*sorted(rng.choice(np.arange(-115, -5, 8), 6, replace=False)), 0):
        case.monitors += [(float(minute), "Alert"), (float(minute) + 2, "OK")]
    return case


def without(rng: Generator, step: int) -> Simulated:
    """The fault with less and less to see: 0 all, then without logs, topology, the culprit's
    metrics, all but web's latency, web's metrics, and all metrics, each of the last two with a
    gap."""
    case = faulty(rng, "gaussian")
    if step >= 1:
        case.logs = []
    case.topology = step < 2
    if step >= 3:
        case.metrics = {k: v for k, v in case.metrics.items() if k[0] != "db"}
    if step >= 4:
        case.metrics = {k: v for k, v in case.metrics.items() if k == ("web", "latency_p99")}
    if step >= 5:
        quiet = healthy(rng, "gaussian").metrics
        case.metrics = {k: v for k, v in quiet.items() if k[0] == "mail"} if step == 5 else {}
        case.gaps = [
            Gap(
                id="G1",
                kind="metrics",
                source="prometheus",
                query="web",
                reason="no answer within 20 s",
            )
        ]
    return case


@dataclass(frozen=True)
class Kind:
    """A kind of case and the verdicts that are right for it."""

    name: str
    make: Callable[[Generator], Simulated]
    right: frozenset[Verdict]


def kinds() -> Iterator[Kind]:
    """All kinds, the healthy ones first."""
    calm, cause, unknown = (
        frozenset({v})
        for v in (
            # Fmt: skip.
            Verdict.NO_ACTIVE_INCIDENT,
            Verdict.CAUSE_FOUND,
            Verdict.INSUFFICIENT_EVIDENCE,
        )
    )
    for noise in NOISES:
        yield Kind(f"healthy, {noise}", lambda rng, noise=noise: healthy(rng, noise), calm)  # type: ignore[misc]
    yield Kind("healthy, threshold mis-set", mis_set, calm)
    yield Kind("healthy, monitor flaps", flapping, calm)
    for noise in NOISES:
        yield Kind(f"faulty, {noise}", lambda rng, noise=noise: faulty(rng, noise), cause)  # type: ignore[misc]
    yield Kind("faulty, 0.4 % of requests", diluted, cause)
    for noise in NOISES:
        make = lambda rng, noise=noise: faulty(rng, noise, until=12)  # noqa: E731
        yield Kind(f"recovered, {noise}", make, frozenset({Verdict.RECOVERED}))
    left = ("all", "no logs", "no topology", "nothing of the culprit", "only the alerting signal")
    for step, name in enumerate(left):
        yield Kind(f"faulty, {name}", lambda rng, step=step: without(rng, step), cause)  # type: ignore[misc]
    yield Kind("faulty, nothing of web", lambda rng: without(rng, 5), unknown)
    yield Kind("faulty, no metrics", lambda rng: without(rng, 6), unknown)


def diagnosed(case: Simulated) -> Diagnosis:
    """The diagnosis of the case, by way of its folder."""
    with tempfile.TemporaryDirectory() as folder:
        case.write(Path(folder))
        return diagnose(read_case(Path(folder)))


def table(cases: int, seed: int) -> Iterator[str]:
    """The rows, one per kind of case, then the sums."""
    yield (
        f"{'kind of case':32} {'right':>6}  {'cause':>5} {'recov':>5} {'none':>5} {'insuf':>5}  "
        f"confidence"
    )
    by_truth: dict[str, list[bool]] = {}
    for number, kind in enumerate(kinds()):
        rng = np.random.default_rng([seed, number])
        diagnoses = [diagnosed(kind.make(rng)) for _ in range(cases)]
        right = [d.verdict in kind.right for d in diagnoses]
        by_truth.setdefault(kind.name.split(",")[0], []).extend(right)
        verdicts = Counter(d.verdict for d in diagnoses)
        counts = " ".join(f"{verdicts[v]:5d}" for v in COLUMNS)
        yield (
            f"{kind.name:32} {np.mean(right):6.0%}  {counts}  "
            f"{np.mean([d.confidence for d in diagnoses]):.2f}"
        )
    for truth, right in by_truth.items():
        yield f"{'all ' + truth:32} {np.mean(right):6.0%}  of {len(right)}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    for row in table(args.cases, args.seed):
        print(row, flush=True)


if __name__ == "__main__":
    main()
