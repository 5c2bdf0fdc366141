"""Change points on simulated series: this project's comparison with the baseline beside the library
`ruptures`.

    python benchmarks/change_points.py [--series 200]

The library is measured where it is installed (`pip install ruptures`); the project does not need
it. Each line: the share of healthy series in which something is found, and for steps of 5 and 10
sigmas the share found with the onset within one point of the truth; then points per CPU second. The
library knows no baseline: it is given both windows, each series scaled by its noise, and the last
change that it finds is its onset. Penalties are those of BIC for one change.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import polars as pl

from faultline.analysis.metrics.baseline_comparison import compare
from faultline.analysis.metrics.series import Block
from faultline.analysis.metrics.shift_statistics import Floats, Ints, describe
from tests.analysis.simulated_series import KINDS, LAYOUTS, Fault, Layout

KINDS_MEASURED = (
    "gaussian",
    "lognormal",
    "poisson",
    "autocorrelated",
    "student",
    "bursty",
    "diurnal",
    "gaps",
)
STRONG = 4.0
"""Sigmas from which the comparison's departure counts as found: weaker ones speak little."""
Method = Callable[[Floats, Layout], Ints]
"""Series as rows to the column of each onset, -1 where nothing is found."""


def by_comparison(values: Floats, layout: Layout) -> Ints:
    """This project's: every series at once."""
    rows = len(values)
    times = np.tile(np.arange(layout.points) * layout.step_s * 1_000_000_000, (rows, 1))
    cut = layout.before
    block = Block(
        keys=pl.DataFrame(
            {
                "service": ["s"] * rows,
                "signal": ["x"] * rows,
                "unit": [""] * rows,
                "labels": [""] * rows,
            }
        ),
        before_times=times[:, :cut],
        before=values[:, :cut],
        times=times[:, cut:],
        values=values[:, cut:],
        pooled=np.zeros(rows),
        ceiling=np.full(rows, np.nan),
        recent_ns=0,
    )
    comparison = compare(block)
    mask = (
        comparison.departed
        & (comparison.sigmas >= STRONG)
        & (comparison.quiet_share <= 0.05)
        & ~comparison.within_baseline
    )
    mask &= comparison.points > 2
    onsets: Ints = np.where(mask, comparison.onset_ns // (layout.step_s * 1_000_000_000), -1)
    return onsets


def by_ruptures(make: Callable[[Any], Any]) -> Method:
    """A search of the library, series by series."""
    library = importlib.import_module("ruptures")

    def onsets(values: Floats, layout: Layout) -> Ints:
        noise = describe(values).scale
        out = np.full(len(values), -1)
        for n, row in enumerate(values):
            usable = np.flatnonzero(np.isfinite(row))
            signal = (row[usable] / (noise[n] or 1.0)).reshape(-1, 1)
            changes = make(library).fit(signal).predict(pen=2 * math.log(len(signal)))[:-1]
            if changes:
                out[n] = usable[changes[-1]]
        return out

    return onsets


def simulated(kind: str, layout: Layout, count: int, sigmas: float) -> tuple[Floats, Ints]:
    """Series of one kind with a step somewhere in the incident window, and the column of each
    step."""
    rows, onsets = [], []
    for n in range(count):
        random = np.random.default_rng(n)
        healthy = KINDS[kind][1](random, layout)
        onset = int(random.integers(layout.before, layout.points - 3))
        noise = float(np.nanstd(healthy[: layout.before]))
        rows.append(Fault(sigmas, onset).applied(healthy, noise))
        onsets.append(onset)
    return np.array(rows), np.array(onsets)


def measured(
    method: Method, layout: Layout, count: int
) -> dict[str, tuple[float, float, float, float]]:
    """By kind: false alarms, found within a point at 5 and at 10 sigmas, points per CPU second."""
    out = {}
    for kind in KINDS_MEASURED:
        shares = []
        for sigmas in (0.0, 5.0, 10.0):
            values, onsets = simulated(kind, layout, count, sigmas)
            detections = method(values, layout)
            shares.append(
                float(np.mean(detections >= 0 if sigmas == 0 else np.abs(detections - onsets) <= 1))
            )
        spent = _spent(method, layout, count, kind)
        out[kind] = (shares[0], shares[1], shares[2], count * layout.points / spent)
    return out


def _spent(method: Method, layout: Layout, count: int, kind: str) -> float:
    values, _ = simulated(kind, layout, count, 5.0)
    started = time.process_time()
    method(values, layout)
    return max(time.process_time() - started, 1e-6)


def main() -> None:
    """Print a table for each layout."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--series", type=int, default=200)
    parser.add_argument("--layout", choices=sorted(LAYOUTS), default="live")
    args = parser.parse_args()
    methods: dict[str, Method] = {"comparison with the baseline": by_comparison}
    if importlib.util.find_spec("ruptures"):
        methods["ruptures KernelCPD linear"] = by_ruptures(
            lambda r: r.KernelCPD(kernel="linear", min_size=3)
        )
        methods["ruptures BinSeg l2"] = by_ruptures(
            lambda r: r.Binseg(model="l2", min_size=3, jump=1)
        )
        methods["ruptures KernelCPD rbf"] = by_ruptures(
            lambda r: r.KernelCPD(kernel="rbf", min_size=3)
        )
    for name, method in methods.items():
        table = measured(method, LAYOUTS[args.layout], args.series)
        mean = tuple(float(v) for v in np.mean(list(table.values()), axis=0))
        for kind, (alarms, five, ten, speed) in (table | {"mean": mean}).items():
            phrase = f"alarms {alarms:.2f}  5 sigmas {five:.2f}  10 sigmas {ten:.2f}"
            print(f"{name:30} {kind:15} {phrase}  {speed:12,.0f}/s", flush=True)


if __name__ == "__main__":
    main()
