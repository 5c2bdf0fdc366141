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
    "findings": 4.52,
    "slow": 0.00,
    "failing": -1.33,
    "unexplained_failing": 0.05,
    "local_on_path": 0.50,
    "lost_time": 0.00,
    "lost_requests": 1.65,
    "called_in_vain": 0.28,
    "called_in_vain_on_path": 1.20,
    "named": 0.00,
    "named_share": 0.00,
    "unattributed_lines": 2.13,
    "resource": 0.17,
    "limits_on_path": 0.00,
    "waiting": 0.00,
    "cache_misses": 2.63,
    "stuck": 0.00,
    "starved": 0.47,
    "asks_more": 0.10,
    "cache_overloads": 2.86,
    "place_harm": 2.97,
    "surge": 2.70,
    "load": -2.61,
    "load_from_caller": -0.88,
    "surge_above": 2.28,
    "path": 0.00,
    "path_above": 0.53,
    "is_alerting": -0.70,
    "worst_callee": 0.59,
    "place": 1.52,
    "place_share": 3.14,
    "confined": -0.78,
    "is_place": 3.35,
    "unwatched": 1.27,
    "state_setting": 2.50,
    "state_instance": 1.25,
    "state_effect": 0.60,
    "changed": 5.44,
    "call_gap": 1.94,
    "critical_path": 0.58,
    "flow_break": 1.70,
    "error_origin": 0.00,
    "part_contrast": 1.45,
}
TEMPERATURE = 0.9
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 1.5
"""The log odds that the cause is none of the suspects."""
