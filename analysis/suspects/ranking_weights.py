"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream, on incidents of the plain rig's training seeds and on recorded systems together,
each with the sign that evidence can have. With each system left out of the fit in turn the first
cause was right in 83 of 86 recorded cases, in 127 of 140 incidents of the plain rig and in 90 of
164 worlds.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 4.61,
    "slow": 0.00,
    "failing": -1.33,
    "unexplained_failing": 0.09,
    "local_on_path": 0.43,
    "lost_time": 0.00,
    "lost_requests": 1.67,
    "called_in_vain": 0.30,
    "called_in_vain_on_path": 1.25,
    "named": 0.00,
    "named_share": 0.00,
    "unattributed_lines": 2.15,
    "resource": 0.19,
    "limits_on_path": 0.00,
    "waiting": 0.00,
    "cache_misses": 2.65,
    "stuck": 0.00,
    "starved": 0.45,
    "asks_more": 0.13,
    "cache_overloads": 2.87,
    "place_harm": 2.99,
    "surge": 2.70,
    "load": -2.57,
    "load_from_caller": -0.86,
    "surge_above": 2.33,
    "path": -0.05,
    "path_above": 0.52,
    "is_alerting": -0.70,
    "worst_callee": 0.64,
    "place": 1.52,
    "place_share": 3.16,
    "confined": -0.77,
    "is_place": 3.36,
    "unwatched": 1.26,
    "state_setting": 2.50,
    "state_instance": 1.25,
    "state_effect": 0.60,
    "changed": 5.42,
    "call_gap": 1.91,
    "critical_path": 0.50,
    "flow_break": 1.68,
    "error_origin": 0.00,
    "part_contrast": 1.46,
}
TEMPERATURE = 1.0
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 1.5
"""The log odds that the cause is none of the suspects."""
