"""Findings whose cost is known are ranked by it; the others keep their place."""

from __future__ import annotations

from analysis.traces.doctor.device_rules import LAUNCH_BOUND
from analysis.traces.doctor.host_rules import LONG_COPIES, PAGEABLE_COPIES
from analysis.traces.doctor.link_rules import SLOW_LINK
from analysis.traces.doctor.rules import by_cost


def test_the_dearest_is_first_and_what_has_no_cost_stays_where_it_is() -> None:
    cheap = LONG_COPIES.found("warning", "all ranks", "is cheap", {}, cost_ns=1e6)
    unknown = LAUNCH_BOUND.found("warning", "all ranks", "is not known", {})
    dear = SLOW_LINK.found("warning", "all ranks", "is dear", {}, cost_ns=9e6)
    middling = PAGEABLE_COPIES.found("warning", "all ranks", "is between", {}, cost_ns=5e6)
    ranked = by_cost([cheap, unknown, dear, middling])
    assert [one.statement for one in ranked] == [
        "is dear",
        "is not known",
        "is between",
        "is cheap",
    ]
