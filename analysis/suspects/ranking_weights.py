"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them anew.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`analysis.suspects.features`). Fitted on simulated worlds of the training stream
and on recorded systems together. With each system left out of the fit in turn the first cause was
right in 82 of 86 recorded cases and in 133 of 215 worlds (docs/accuracy.md).
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 4.06,
    "slow": -0.45,
    "failing": -0.69,
    "own_failing": 0.82,
    "own_on_path": 0.51,
    "lost_time": 1.09,
    "lost_requests": 0.68,
    "called_in_vain": 1.14,
    "called_in_vain_on_path": 1.23,
    "named": -1.20,
    "named_share": 0.64,
    "own_lines": 1.42,
    "resource": 0.44,
    "limits_on_path": 0.74,
    "waiting": 0.16,
    "cache_misses": 2.62,
    "stuck": 0.37,
    "surge": 2.84,
    "load": -1.08,
    "load_from_caller": -1.44,
    "surge_above": 2.07,
    "path": 0.00,
    "path_above": 0.10,
    "is_alerting": -0.64,
    "worst_callee": 0.39,
    "place": 1.41,
    "place_share": 1.91,
    "confined": -0.45,
    "is_place": 3.35,
    "unwatched": 1.17,
    "call_gap": 1.24,
    "critical_path": 0.59,
    "flow_break": 1.84,
    "error_origin": -0.46,
}
TEMPERATURE = 0.8
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NOT_SEEN = 3.5
"""The log odds that the cause is none of the suspects."""
