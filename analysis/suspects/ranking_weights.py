"""The fitted numbers of the ranking. `benchmarks/suspect_weights.py --print` prints them again.

A conditional logit model: the odds of two suspects are the exponential of the difference of their
weighted features (`faultline.analysis.suspects.features`). Fitted on simulated worlds of the
training stream and on recorded systems together, each with the sign that evidence can have. With
each system left out of the fit in turn the first cause was right in 79 of 86 recorded cases, in 67 %
of 171 worlds, and in 44 of 59 incidents of the plain rig, none of which was fitted.
"""

from __future__ import annotations

from collections.abc import Mapping

WEIGHTS: Mapping[str, float] = {
    "findings": 4.48,
    "slow": 0.00,
    "failing": 0.00,
    "unexplained_failing": 0.83,
    "local_on_path": 0.62,
    "lost_time": 0.65,
    "lost_requests": 0.79,
    "called_in_vain": 1.31,
    "called_in_vain_on_path": 0.84,
    "named": 0.00,
    "named_share": 0.08,
    "unattributed_lines": 1.40,
    "resource": 0.30,
    "limits_on_path": 1.07,
    "waiting": 0.71,
    "cache_misses": 2.49,
    "stuck": 1.53,
    "starved": 0.15,
    "asks_more": 0.20,
    "cache_overloads": 3.01,
    "place_harm": 2.47,
    "surge": 4.12,
    "load": -1.00,
    "load_from_caller": -1.56,
    "surge_above": 2.95,
    "path": -0.18,
    "path_above": 0.61,
    "is_alerting": -0.97,
    "worst_callee": 0.61,
    "place": 2.02,
    "place_share": 2.53,
    "confined": -0.55,
    "is_place": 3.78,
    "unwatched": 1.51,
    "call_gap": 2.04,
    "critical_path": 0.04,
    "flow_break": 2.01,
    "error_origin": 0.00,
}
TEMPERATURE = 1.0
"""Odds are divided by it: fitted, like the next, on answers about systems that were left out."""
NO_SUSPECT_ODDS = 2.0
"""The log odds that the cause is none of the suspects."""
