"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream and on recorded systems together, each with the sign that evidence can have. With
each system left out of the fit in turn the first cause was right in 79 of 86 recorded cases, in
67 % of 171 worlds, and in 44 of 59 incidents of the plain rig, none of which was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 3.95,
    "slow": 0.00,
    "failing": 0.00,
    "unexplained_failing": 0.00,
    "local_on_path": 0.99,
    "lost_time": 0.00,
    "lost_requests": 1.01,
    "called_in_vain": 1.17,
    "called_in_vain_on_path": 1.38,
    "named": 0.00,
    "named_share": 0.37,
    "unattributed_lines": 1.53,
    "resource": 0.00,
    "limits_on_path": 0.00,
    "waiting": 0.08,
    "cache_misses": 3.43,
    "stuck": 0.00,
    "starved": 0.50,
    "asks_more": 0.92,
    "cache_overloads": 2.25,
    "place_harm": 2.74,
    "surge": 4.43,
    "load": -1.31,
    "load_from_caller": -0.78,
    "surge_above": 3.01,
    "path": 0.05,
    "path_above": 0.30,
    "is_alerting": -0.82,
    "worst_callee": 0.56,
    "place": 2.01,
    "place_share": 2.80,
    "confined": -0.78,
    "is_place": 4.06,
    "unwatched": 1.02,
    "state_setting": 2.00,
    "state_instance": 1.00,
    "state_effect": 0.50,
    "changed": 3.08,
    "call_gap": 2.40,
    "critical_path": 0.35,
    "flow_break": 2.00,
    "error_origin": 0.00,
    "part_contrast": 1.23,
}
TEMPERATURE = 1.1
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 2.0
"""The log odds that the cause is none of the suspects."""
