"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream and on recorded systems together. With each system left out of the fit in turn the
first cause was right in 83 of 86 recorded cases and in 68 % of 215 worlds (docs/accuracy.md).
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 4.19,
    "slow": -0.65,
    "failing": -0.97,
    "unexplained_failing": 0.92,
    "local_on_path": 0.57,
    "lost_time": 1.03,
    "lost_requests": 0.70,
    "called_in_vain": 1.15,
    "called_in_vain_on_path": 1.09,
    "named": -1.22,
    "named_share": 0.62,
    "unattributed_lines": 1.42,
    "resource": 0.33,
    "limits_on_path": 0.93,
    "waiting": 0.21,
    "cache_misses": 2.61,
    "stuck": 0.45,
    "starved": 0.66,
    "asks_more": 0.42,
    "surge": 3.30,
    "load": -1.09,
    "load_from_caller": -1.27,
    "surge_above": 2.40,
    "path": -0.15,
    "path_above": 0.28,
    "is_alerting": -0.64,
    "worst_callee": 0.64,
    "place": 1.41,
    "place_share": 1.94,
    "confined": -0.42,
    "is_place": 3.42,
    "unwatched": 1.17,
    "call_gap": 1.15,
    "critical_path": 0.43,
    "flow_break": 1.68,
    "error_origin": -0.17,
}
TEMPERATURE = 0.8
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 3.5
"""The log odds that the cause is none of the suspects."""
