"""Is it coincidence? The same departure test over windows of the same length in which nothing was
wrong.

A baseline is cut into all its windows of the incident's length. A departure that is as large in
many of them is what the series always does: bursts, heavy tails, a batch job. The share of such
windows is an empirical p-value (Davison and Hinkley 1997, ch. 4), free of any assumption about the
noise.
"""

from __future__ import annotations

import numpy as np

from faultline.analysis.metrics.shift_statistics import CLIP, DRIFT, Bools, Floats, Ints

HALF_AS_LARGE = 0.5
"""A quiet window with a departure half as large speaks half as much: the largest of few windows is
no bound."""


def quiet_share(
    deviations: Floats, width: int, score: Floats, up: Bools, forgiven: Bools
) -> Floats:
    """For each row the share of its windows of `width` columns with a departure as large as
    `score`, that way.

    `deviations` is the baseline in sigmas, NaN where there is no point; windows half as bad count
    half.
    """
    signed = np.where(up[:, None], deviations, -deviations)
    steps = np.where(np.isfinite(signed), np.clip(signed, -CLIP, CLIP) - DRIFT, 0.0)
    width = min(width, steps.shape[1])
    # The largest excursion that ends within each window of `width` columns, by the window's last
    # column. It begins at most a window before its end, so that a window in the wake of a burst may
    # count it once more.
    sums = np.concatenate([np.zeros((len(steps), 1)), np.cumsum(steps, axis=1)], axis=1)
    heights = (sums + _sliding_max(-sums, width + 1))[:, 1:]
    largest = _sliding_max(heights, width)[:, width - 1 :]
    # Mark by their last column the windows in which at least half of the steps have a point.
    usable = np.isfinite(deviations)
    counts = np.cumsum(
        np.concatenate([np.zeros((len(usable), 1), dtype=np.int64), usable], axis=1), axis=1
    )
    filled_windows: Bools = counts[:, width:] - counts[:, :-width] >= max(1, width // 2)
    whole = _flagged(filled_windows & (largest >= score[:, None]), forgiven)
    half = _flagged(filled_windows & (largest >= HALF_AS_LARGE * score[:, None]), forgiven)
    share: Floats = (whole + half) / 2 / np.maximum(filled_windows.sum(axis=1), 1)
    return share


def _flagged(flagged: Bools, forgiven: Bools) -> Ints:
    """How many windows are flagged in each row, without the longest run of them where one episode
    is forgiven."""
    counts: Ints = np.cumsum(flagged, axis=1)
    runs: Ints = counts - np.maximum.accumulate(np.where(flagged, 0, counts), axis=1)
    left: Ints = counts[:, -1] - np.where(forgiven, runs.max(axis=1), 0)
    return left


def _sliding_max(values: Floats, width: int) -> Floats:
    """Maximum of each column and the `width` - 1 before it, by doubling: O(columns log width)."""
    out, covered = values, 1
    while covered < width:
        by = min(covered, width - covered)
        shifted = np.concatenate([np.full((len(out), by), -np.inf), out[:, :-by]], axis=1)
        out, covered = np.maximum(out, shifted), covered + by
    return out
