"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream, on incidents of the plain rig's training seeds and on recorded systems together,
each with the sign that evidence can have. With each system left out of the fit in turn the first
cause was right in 81 of 86 recorded cases, in 69 of 92 incidents of the plain rig and in 112 of 171
worlds.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 3.85,
    "slow": 0.00,
    "failing": -1.57,
    "unexplained_failing": 0.12,
    "local_on_path": 0.86,
    "lost_time": 0.00,
    "lost_requests": 1.87,
    "called_in_vain": 0.65,
    "called_in_vain_on_path": 1.20,
    "named": 0.00,
    "named_share": 0.23,
    "unattributed_lines": 2.20,
    "resource": 0.00,
    "limits_on_path": 0.00,
    "waiting": 0.00,
    "cache_misses": 2.64,
    "stuck": 0.00,
    "starved": 0.33,
    "asks_more": 0.56,
    "cache_overloads": 3.81,
    "place_harm": 2.83,
    "surge": 3.76,
    "load": -1.70,
    "load_from_caller": -0.32,
    "surge_above": 2.83,
    "path": 0.55,
    "path_above": 0.17,
    "is_alerting": -0.96,
    "worst_callee": 0.08,
    "place": 1.93,
    "place_share": 3.04,
    "confined": -0.55,
    "is_place": 3.50,
    "unwatched": 0.88,
    "state_setting": 2.50,
    "state_instance": 1.25,
    "state_effect": 0.60,
    "changed": 5.18,
    "call_gap": 2.59,
    "critical_path": 0.22,
    "flow_break": 2.00,
    "error_origin": 0.00,
    "part_contrast": 1.14,
}
TEMPERATURE = 1.0
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 2.0
"""The log odds that the cause is none of the suspects."""
