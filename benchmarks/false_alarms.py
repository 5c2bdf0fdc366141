"""How often healthy series, investigated all the same, get a cause, and how well faulty ones are
found and dated.

    python benchmarks/false_alarms.py [--cases 100]

A healthy case is forty seeded series of ten services and of fourteen kinds
(tests/analysis/simulated_series.py). An alarm is the verdict `cause_found` or `recovered`;
`recovered` because the alerting signal itself had a spike is right, and counted apart.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.metrics.shifts import metric_shifts
from faultline.analysis.vocabulary import Finding, Verdict
from tests.analysis.simulated_series import (
    LAYOUTS,
    Fault,
    Layout,
    case_of,
    gaussian,
    healthy_case,
    rows,
    times,
)

NOISE = 10.0
FAULTS: dict[str, Callable[[int], Fault]] = {
    "step of 5 sigmas": lambda begin: Fault(5, begin + 2),
    "step of 10 sigmas": lambda begin: Fault(10, begin + 2),
    "5 sigmas, begun 5 points before the window": lambda begin: Fault(5, begin - 5),
    "10 sigmas, begun 5 points before the window": lambda begin: Fault(10, begin - 5),
    "ramp to 10 sigmas over 20 points, begun 10 before": lambda begin: Fault(
        10, begin - 10, ramp=20
    ),
}


def alarms(layout: Layout, cases: int) -> None:
    """Print the share of healthy cases with an alarm."""
    causes: Counter[str] = Counter()
    confidences, spikes = [], 0
    for seed in range(cases):
        case = healthy_case(np.random.default_rng(seed), layout)
        diagnosis = diagnose(case)
        first = (
            (diagnosis.causes[0].subject, diagnosis.causes[0].signal) if diagnosis.causes else None
        )
        if diagnosis.verdict is Verdict.RECOVERED and first == (
            case.alert.service,
            case.alert.signal,
        ):
            spikes += 1
        elif diagnosis.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED):
            confidences.append(diagnosis.confidence)
            causes[diagnosis.causes[0].signal or diagnosis.causes[0].kind] += 1
    sure = sum(c >= 0.3 for c in confidences)
    blamed = ", ".join(f"{signal} {count}" for signal, count in causes.most_common(4))
    print(
        f"  healthy: alarms {len(confidences) / cases:.3f}, with confidence 0.3 "
        f"{sure / cases:.3f} ({blamed})"
    )
    print(f"  healthy, but the alerting signal had a spike: {spikes / cases:.3f}")


def detection(layout: Layout, count: int) -> None:
    """Print how many faulty series are found, and how far the onset is from the truth."""
    for name, fault in FAULTS.items():
        injected_fault = fault(layout.before)
        tables = [
            rows(
                layout,
                f"s{n}",
                "latency_ms",
                injected_fault.applied(gaussian(np.random.default_rng(n), layout), NOISE),
            )
            for n in range(count)
        ]
        truth = times(layout)[injected_fault.onset]
        findings = metric_shifts(case_of(layout, tables))
        errors = [_points_away(f, truth.timestamp(), layout) for f in findings]
        near, strength = (
            np.mean([e <= 1 for e in errors]),
            np.median([f.strength for f in findings]),
        )
        print(
            f"  {name}: found {len(findings) / count:.2f}, onset within a point {near:.2f}, "
            "strength "
            f"{strength:.2f}"
        )


def _points_away(finding: Finding, truth: float, layout: Layout) -> float:
    return abs(finding.onset.timestamp() - truth) / layout.step_s if finding.onset else float("inf")


def main() -> None:
    """Print both for each layout."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=100)
    args = parser.parse_args()
    for name, layout in LAYOUTS.items():
        print(
            f"{name}: {layout.before} + {layout.during} points, one in {layout.step_s} s",
            flush=True,
        )
        alarms(layout, args.cases)
        detection(layout, args.cases)


if __name__ == "__main__":
    main()
