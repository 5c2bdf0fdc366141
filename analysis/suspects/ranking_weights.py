"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream, on incidents of the plain rig's training seeds and on recorded systems together,
each with the sign that evidence can have. With each system left out of the fit in turn the first
cause was right in 82 of 86 recorded cases, in 69 of 92 incidents of the plain rig and in 111 of 171
worlds.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 3.87,
    "slow": 0.00,
    "failing": -1.49,
    "unexplained_failing": 0.06,
    "local_on_path": 0.83,
    "lost_time": 0.00,
    "lost_requests": 1.87,
    "called_in_vain": 0.59,
    "called_in_vain_on_path": 1.21,
    "named": 0.00,
    "named_share": 0.20,
    "unattributed_lines": 2.24,
    "resource": 0.00,
    "limits_on_path": 0.00,
    "waiting": 0.00,
    "cache_misses": 2.64,
    "stuck": 0.00,
    "starved": 0.32,
    "asks_more": 0.47,
    "cache_overloads": 3.83,
    "place_harm": 2.84,
    "surge": 3.72,
    "load": -1.72,
    "load_from_caller": -0.35,
    "surge_above": 2.78,
    "path": 0.57,
    "path_above": 0.16,
    "is_alerting": -0.97,
    "worst_callee": 0.09,
    "place": 1.90,
    "place_share": 3.07,
    "confined": -0.48,
    "is_place": 3.48,
    "unwatched": 0.86,
    "state_setting": 2.50,
    "state_instance": 1.25,
    "state_effect": 0.60,
    "changed": 5.44,
    "call_gap": 2.55,
    "critical_path": 0.24,
    "flow_break": 1.97,
    "error_origin": 0.00,
    "part_contrast": 1.08,
}
TEMPERATURE = 1.0
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 2.0
"""The log odds that the cause is none of the suspects."""
