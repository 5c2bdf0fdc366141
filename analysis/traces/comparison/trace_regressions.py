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

from faultline.analysis.traces.columns.device import is_communication_kernel
from faultline.analysis.traces.comparison.trace_diff import (
    MEASURES,
    STEP,
    NameDifference,
    Side,
    TraceDiff,
)

FAIL_OVER_PERCENT = 5.0
"""Default limit; TraceML's `compare` takes 3 % for a change of step time and 8 % for a large
one."""
NOISE_FACTORS = (235.8, 19.2, 9.22, 6.62, 5.51, 4.90, 4.53, 4.28, 4.09, 3.96)
"""A difference of medians counts from this many of its standard errors, by degrees of freedom from
1: Student's t at the probability of 3 sigmas to one side (99.87 %)."""
NOISE_SIGMAS = 3.2
"""The same from 11 degrees of freedom on, a little on the safe side."""
SIGMA_PER_MAD, MEDIAN_ERROR = 1.4826, 1.2533
"""Of a normal distribution: sigma from the median absolute deviation; the median's standard error
is sigma/sqrt(n) times the second (Kenney and Keeping, Mathematics of Statistics)."""
LEAST_RUNS = 5
"""Runs on both sides together from which the noise between them is estimated; the factor of fewer
would hide any growth."""
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
    comparable = []
    for i, name in enumerate(MEASURES):
        control, test = diff.control.measures[:, i], diff.test.measures[:, i]
        if control.any() or test.any():
            comparable.append(_measure(diff, name, control, test))
    before = [peak for peak in diff.control.peak_bytes if peak >= 0]
    after = [peak for peak in diff.test.peak_bytes if peak >= 0]
    if before and after:
        comparable.append(
            Measure(PEAK, "bytes", max(before), max(after), len(before), len(after), 0.0)
        )
    return comparable


def grown(diff: TraceDiff, limit: int = 20, *, on_device: bool) -> list[NameDifference]:
    """Kernels or operators whose own time per step grew most; not communication, which waits for
    other ranks."""
    chosen = []
    for difference in diff.of("device" if on_device else "host"):
        if difference.growth_ns <= 0 or difference.name == STEP:
            continue
        if on_device and is_communication_kernel(difference.name):
            continue
        chosen.append(difference)
    chosen.sort(key=lambda difference: (-difference.growth_ns, difference.name))
    return chosen[:limit]


def regressions(diff: TraceDiff, fail_over_percent: float = FAIL_OVER_PERCENT) -> list[Regression]:
    """What grew over the limit: measures first, then kernels, then operators, the largest growth
    first. Empty: the run passes. A name that the control does not have fails nothing by itself:
    kernels are renamed and fused.
    """
    step_ns = 0.0
    if len(diff.control.measures):
        step_ns = float(np.median(diff.control.measures[:, 0]))
    least_ns = LEAST_STEP_SHARE * step_ns
    over_limit = []
    for measure in measures(diff):
        if measure.name not in FAILING and measure.name != PEAK:
            continue
        # Any growth of the step counts; other measures must be worth a share of it.
        least = {MEASURES[0]: 0.0, PEAK: LEAST_BYTES}.get(measure.name, least_ns)
        if _fails(measure, fail_over_percent, least):
            over_limit.append(_regression("measure", measure, fail_over_percent))
    failed = bool(over_limit)
    slower = any(regression.measure.name == MEASURES[0] for regression in over_limit)
    kinds: list[Literal["kernel", "operator"]] = ["kernel"]
    # What the host does longer costs nothing while the step is not longer.
    if slower:
        kinds.append("operator")
    for kind in kinds:
        for difference in grown(diff, on_device=kind == "kernel"):
            measure = _of_name(diff, difference)
            # Once the run has failed, a kernel that the control lacks may be the reason.
            control = failed or measure.control
            if control and _fails(measure, fail_over_percent, least_ns):
                over_limit.append(_regression(kind, measure, fail_over_percent))
    return over_limit


def regression_rows(
    diff: TraceDiff, fail_over_percent: float = FAIL_OVER_PERCENT
) -> list[dict[str, Any]]:
    """All measures and whether they fail, then names that fail, as JSON values."""
    failing = regressions(diff, fail_over_percent)
    failed = {regression.measure.name for regression in failing if regression.kind == "measure"}
    rows = []
    for measure in measures(diff):
        rows.append(_row("measure", measure, fails=measure.name in failed))
    for regression in failing:
        if regression.kind != "measure":
            rows.append(_row(regression.kind, regression.measure, fails=True))
    return rows


def _row(kind: str, measure: Measure, *, fails: bool) -> dict[str, Any]:
    growth_percent = None
    # JSON has no infinity.
    if np.isfinite(measure.growth_percent):
        growth_percent = round(measure.growth_percent, 2)
    return {
        "kind": kind,
        "name": measure.name,
        f"control_{measure.unit}": round(measure.control),
        f"test_{measure.unit}": round(measure.test),
        "growth_percent": growth_percent,
        f"noise_{measure.unit}": round(measure.noise),
        "control_samples": measure.control_samples,
        "test_samples": measure.test_samples,
        "fails": fails,
    }


def _measure(
    diff: TraceDiff, name: str, control: NDArray[np.int64], test: NDArray[np.int64]
) -> Measure:
    medians = float(np.median(control)), float(np.median(test))
    # The larger noise decides: runs may differ by more than their steps.
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
    deviations = np.concatenate([_deviations(control), _deviations(test)])
    sigma = SIGMA_PER_MAD * float(np.median(deviations))
    return float(factor * MEDIAN_ERROR * sigma * np.sqrt(1 / len(control) + 1 / len(test)))


def _deviations(values: NDArray[np.int64]) -> NDArray[np.float64]:
    deviations = np.sort(np.abs(values - np.median(values)))
    # With an odd number of values one of them is the median itself.
    return deviations[len(values) % 2 :]


def _of_name(diff: TraceDiff, difference: NameDifference) -> Measure:
    control = _self_times(diff.control, difference)
    test = _self_times(diff.test, difference)
    return _measure(diff, difference.name, control, test)


def _self_times(side: Side, difference: NameDifference) -> NDArray[np.int64]:
    """The name's own time in each sample."""
    times = np.zeros(len(side.samples), dtype=np.int64)
    for place, (name, device) in enumerate(zip(side.names, side.on_device.tolist(), strict=True)):
        if name == difference.name and device == difference.on_device:
            entries = side.name == place
            times[side.sample[entries]] = side.self_ns[entries]
    return times


def _fails(measure: Measure, limit_percent: float, least: float) -> bool:
    grew = measure.growth > 0 and measure.growth_percent > limit_percent
    return grew and measure.growth >= least and measure.growth > measure.noise


def _regression(
    kind: Literal["measure", "kernel", "operator"], measure: Measure, limit: float
) -> Regression:
    if measure.unit == "bytes":
        before, after = f"{measure.control / 1e9:.2f} GB", f"{measure.test / 1e9:.2f} GB"
        where = ""
    else:
        before, after = f"{measure.control / 1e6:.3f} ms", f"{measure.test / 1e6:.3f} ms"
        where = " per step"
    by = f"by {measure.growth_percent:.1f} %" if measure.control else "from nothing"
    subject = measure.name if kind == "measure" else f"{kind} {measure.name[:200]}"
    statement = f"{subject} grew {by}{where}: {before} to {after}"
    if measure.noise_unknown:
        statement += " (one sample each: the noise is unknown)"
    return Regression(kind, measure, limit, statement)
