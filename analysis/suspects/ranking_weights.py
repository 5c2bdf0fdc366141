"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream, on incidents of the plain rig's training seeds and on recorded systems together,
each with the sign that evidence can have. With each system left out of the fit in turn the first
cause was right in 80 of 86 recorded cases, in 67 of 92 incidents of the plain rig and in 111 of 171
worlds.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 3.80,
    "slow": 0.00,
    "failing": -1.62,
    "unexplained_failing": 0.08,
    "local_on_path": 0.92,
    "lost_time": 0.00,
    "lost_requests": 2.00,
    "called_in_vain": 0.71,
    "called_in_vain_on_path": 1.20,
    "named": 0.00,
    "named_share": 0.20,
    "unattributed_lines": 2.14,
    "resource": 0.00,
    "limits_on_path": 0.00,
    "waiting": 0.00,
    "cache_misses": 2.63,
    "stuck": 0.00,
    "starved": 0.47,
    "asks_more": 0.62,
    "cache_overloads": 3.75,
    "place_harm": 2.92,
    "surge": 3.69,
    "load": -1.72,
    "load_from_caller": -0.53,
    "surge_above": 2.79,
    "path": 0.52,
    "path_above": 0.19,
    "is_alerting": -1.02,
    "worst_callee": 0.12,
    "place": 1.95,
    "place_share": 3.01,
    "confined": -0.59,
    "is_place": 3.44,
    "unwatched": 0.84,
    "state_setting": 2.50,
    "state_instance": 1.25,
    "state_effect": 0.60,
    "changed": 5.24,
    "call_gap": 2.60,
    "critical_path": 0.24,
    "flow_break": 2.07,
    "error_origin": 0.00,
    "part_contrast": 1.21,
}
TEMPERATURE = 1.0
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 2.0
"""The log odds that the cause is none of the suspects."""
