"""Whether a run got slower than another: what a continuous integration fails on, and what it names.

A growth counts when it is over the limit, over the noise of the samples, and worth a share of the
step. Medians over steps (and ranks): one slow step, as the first often is, moves nothing. Of
several runs on a side the noise between the runs counts, too: machines differ from run to run by
more than the steps of one run do. Kernels fail a run by themselves, for their times are steady;
operators of the host only explain a step that got slower, for hidden host work costs nothing; and
communication counts where it is exposed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from analysis.traces.columns.device import is_communication_kernel
from analysis.traces.comparison.trace_diff import MEASURES, STEP, NameDifference, Side, TraceDiff

FAIL_OVER_PERCENT = 5.0
"""Default limit; TraceML's `compare` takes 3 % for a change of step time and 8 % for a large
one."""
NOISE_FACTORS = (235.8, 19.2, 9.22, 6.62, 5.51, 4.90, 4.53, 4.28, 4.09, 3.96)
"""A difference of medians counts from so many of its standard errors, by degrees of freedom from 1:
Student's t at the probability of 3 sigmas to one side (99.87 %)."""
NOISE_SIGMAS = 3.2
"""The same from 11 degrees of freedom on, a little on the safe side."""
SIGMA_PER_MAD, MEDIAN_ERROR = 1.4826, 1.2533
"""Of a normal distribution: sigma from the median absolute deviation; the median's standard error
is sigma/sqrt(n) times the second (Kenney and Keeping, Mathematics of Statistics)."""
LEAST_RUNS = 5
"""Runs on both sides together from which the noise between them is told; the factor of fewer would
hide any growth."""
LEAST_STEP_SHARE = 0.01
"""A kernel, an operator or a kind of work fails a run only where it grew by at least this share of
a step."""
LEAST_BYTES = 256 << 20
"""Peak memory fails a run from this growth on (TraceML's `compare`: 256 MiB)."""
FAILING = ("step time", "computation", "exposed communication", "copies and fills")
"""Measures of time that fail a run; the others explain."""
PEAK = "peak memory"


@dataclass(frozen=True)
class Measure:
    """One number of both runs, as the median of its samples."""

    name: str
    unit: Literal["ns", "bytes"]
    control: float
    test: float
    control_samples: int
    test_samples: int
    noise: float
    """Difference that chance makes at most, in the unit; 0 where unknown."""

    @property
    def growth(self) -> float:
        """In the unit."""
        return self.test - self.control

    @property
    def growth_percent(self) -> float:
        """Of the control; 0 where nothing was and nothing is, infinite where something came from
        nothing."""
        if self.control:
            return 100 * self.growth / self.control
        return float("inf") if self.growth > 0 else 0.0

    @property
    def noise_unknown(self) -> bool:
        """One sample on each side; the growth is taken as it is, and said to be so."""
        return self.control_samples + self.test_samples < 3


@dataclass(frozen=True)
class Regression:
    """Something that grew over the limit."""

    kind: Literal["measure", "kernel", "operator"]
    measure: Measure
    limit_percent: float
    statement: str
    """One sentence with its numbers."""


def measures(diff: TraceDiff) -> list[Measure]:
    """Step time, time on the device by kind, idle time and peak memory, as both runs have them."""
    found = [
        _measure(diff, name, diff.control.measures[:, i], diff.test.measures[:, i])
        for i, name in enumerate(MEASURES)
        if diff.control.measures[:, i].any() or diff.test.measures[:, i].any()
    ]
    before, after = ([p for p in side.peak_bytes if p >= 0] for side in (diff.control, diff.test))
    if before and after:
        found.append(Measure(PEAK, "bytes", max(before), max(after), len(before), len(after), 0.0))
    return found


def grown(diff: TraceDiff, limit: int = 20, *, on_device: bool) -> list[NameDifference]:
    """Kernels or operators whose own time per step grew most; not communication, which waits for
    other ranks."""
    chosen = [
        d for d in diff.of("device" if on_device else "host") if d.growth_ns > 0 and d.name != STEP
    ]
    chosen = [d for d in chosen if not on_device or not is_communication_kernel(d.name)]
    return sorted(chosen, key=lambda d: (-d.growth_ns, d.name))[:limit]


def regressions(diff: TraceDiff, fail_over_percent: float = FAIL_OVER_PERCENT) -> list[Regression]:
    """What grew over the limit: measures first, then kernels, then operators, the largest growth
    first. Empty: the run passes. A name that the control does not have fails nothing by itself:
    kernels are renamed and fused.
    """
    step = float(np.median(diff.control.measures[:, 0])) if len(diff.control.measures) else 0.0
    least = {MEASURES[0]: 0.0, PEAK: LEAST_BYTES}
    found = [
        _regression("measure", m, fail_over_percent)
        for m in measures(diff)
        if (m.name in FAILING or m.name == PEAK)
        and _fails(m, fail_over_percent, least.get(m.name, LEAST_STEP_SHARE * step))
    ]
    failed = bool(found)
    slower = any(r.measure.name == MEASURES[0] for r in found)
    for on_device in (True, False) if slower else (True,):
        for difference in grown(diff, on_device=on_device):
            measure = _of_name(diff, difference)
            if (measure.control or failed) and _fails(
                measure, fail_over_percent, LEAST_STEP_SHARE * step
            ):
                found.append(
                    _regression("kernel" if on_device else "operator", measure, fail_over_percent)
                )
    return found


def regression_rows(
    diff: TraceDiff, fail_over_percent: float = FAIL_OVER_PERCENT
) -> list[dict[str, Any]]:
    """All measures and whether they fail, then names that fail, as JSON values."""
    failing = regressions(diff, fail_over_percent)
    failed = {r.measure.name for r in failing if r.kind == "measure"}
    table = [("measure", m, m.name in failed) for m in measures(diff)]
    table += [(r.kind, r.measure, True) for r in failing if r.kind != "measure"]
    return [
        {
            "kind": kind,
            "name": m.name,
            f"control_{m.unit}": round(m.control),
            f"test_{m.unit}": round(m.test),
            "growth_percent": round(m.growth_percent, 2) if np.isfinite(m.growth_percent) else None,
            f"noise_{m.unit}": round(m.noise),
            "control_samples": m.control_samples,
            "test_samples": m.test_samples,
            "fails": fails,
        }
        for kind, m, fails in table
    ]


def _measure(
    diff: TraceDiff, name: str, control: NDArray[np.int64], test: NDArray[np.int64]
) -> Measure:
    medians = float(np.median(control)), float(np.median(test))
    noise = max(_noise(control, test), _noise_of_runs(diff, control, test))
    return Measure(name, "ns", *medians, len(control), len(test), noise)


def _noise_of_runs(diff: TraceDiff, control: NDArray[np.int64], test: NDArray[np.int64]) -> float:
    """The same with one value per run, its median: what differs from run to run is in all of a
    run's steps at once."""
    control, test = _by_run(diff.control, control), _by_run(diff.test, test)
    return _noise(control, test) if len(control) + len(test) >= LEAST_RUNS else 0.0


def _by_run(side: Side, values: NDArray[np.int64]) -> NDArray[np.int64]:
    medians = [float(np.median(values[side.run == run])) for run in np.unique(side.run).tolist()]
    return np.rint(medians).astype(np.int64)


def _noise(control: NDArray[np.int64], test: NDArray[np.int64]) -> float:
    """Both sides' deviations from their medians are taken together; that of the median itself,
    always 0, is none."""
    freedom = len(control) + len(test) - 2
    if freedom < 1:
        return 0.0
    factor = NOISE_FACTORS[freedom - 1] if freedom <= len(NOISE_FACTORS) else NOISE_SIGMAS
    apart = [
        np.sort(np.abs(values - np.median(values)))[len(values) % 2 :] for values in (control, test)
    ]
    sigma = SIGMA_PER_MAD * float(np.median(np.concatenate(apart)))
    return float(factor * MEDIAN_ERROR * sigma * np.sqrt(1 / len(control) + 1 / len(test)))


def _of_name(diff: TraceDiff, difference: NameDifference) -> Measure:
    control, test = (_own_times(side, difference) for side in (diff.control, diff.test))
    return _measure(diff, difference.name, control, test)


def _own_times(side: Side, difference: NameDifference) -> NDArray[np.int64]:
    """The name's own time in each sample."""
    times = np.zeros(len(side.samples), dtype=np.int64)
    for place, (name, device) in enumerate(zip(side.names, side.on_device.tolist(), strict=True)):
        if name == difference.name and device == difference.on_device:
            entries = side.name == place
            times[side.sample[entries]] = side.own_ns[entries]
    return times


def _fails(measure: Measure, limit_percent: float, least: float) -> bool:
    grew = measure.growth > 0 and measure.growth_percent > limit_percent
    return grew and measure.growth >= least and measure.growth > measure.noise


def _regression(
    kind: Literal["measure", "kernel", "operator"], measure: Measure, limit: float
) -> Regression:
    if measure.unit == "bytes":
        before, after = (f"{value / 1e9:.2f} GB" for value in (measure.control, measure.test))
    else:
        before, after = (f"{value / 1e6:.3f} ms" for value in (measure.control, measure.test))
    by = f"by {measure.growth_percent:.1f} %" if measure.control else "from nothing"
    where = "" if measure.unit == "bytes" else " per step"
    few = " (one sample each: the noise is unknown)" if measure.noise_unknown else ""
    subject = measure.name if kind == "measure" else f"{kind} {measure.name[:200]}"
    return Regression(kind, measure, limit, f"{subject} grew {by}{where}: {before} to {after}{few}")
