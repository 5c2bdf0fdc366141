"""Two training jobs beside one another, as text, Markdown and JSON show them."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.analysis.traces.comparison.trace_diff import TraceDiff
from faultline.analysis.traces.comparison.trace_regressions import Regression

MAX_NAMES = 10
"""Kernels, and operators, that are named one by one."""


@dataclass(frozen=True)
class JobComparison:
    """What differs, and what of it grew by more than the limit and the noise."""

    diff: TraceDiff
    limit_percent: float
    failing: tuple[Regression, ...]
