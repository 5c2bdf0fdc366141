"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream, on incidents of the plain rig's training seeds and on recorded systems together,
each with the sign that evidence can have. With each system left out of the fit in turn the first
cause was right in 78 of 86 recorded cases and in 61 of 92 incidents of the plain rig; with a
quarter of them left out in 68 % of 171 worlds.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 3.84,
    "slow": 0.00,
    "failing": -1.48,
    "unexplained_failing": 0.65,
    "local_on_path": 0.84,
    "lost_time": 0.00,
    "lost_requests": 1.56,
    "called_in_vain": 0.72,
    "called_in_vain_on_path": 1.30,
    "named": 0.00,
    "named_share": 0.40,
    "unattributed_lines": 1.42,
    "resource": 0.00,
    "limits_on_path": 0.00,
    "waiting": 0.00,
    "cache_misses": 3.44,
    "stuck": 0.00,
    "starved": 0.37,
    "asks_more": 1.06,
    "cache_overloads": 2.17,
    "place_harm": 2.72,
    "surge": 4.54,
    "load": -1.21,
    "load_from_caller": -0.75,
    "surge_above": 3.13,
    "path": 0.30,
    "path_above": 0.17,
    "is_alerting": -0.75,
    "worst_callee": 0.72,
    "place": 2.02,
    "place_share": 2.78,
    "confined": -0.84,
    "is_place": 3.98,
    "unwatched": 0.86,
    "state_setting": 2.50,
    "state_instance": 1.25,
    "state_effect": 0.60,
    "changed": 3.12,
    "call_gap": 2.48,
    "critical_path": 0.34,
    "flow_break": 2.13,
    "error_origin": 0.00,
    "part_contrast": 1.41,
}
TEMPERATURE = 1.1
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 2.0
"""The log odds that the cause is none of the suspects."""
