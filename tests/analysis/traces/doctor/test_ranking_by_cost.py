"""Critical findings come first. Within a severity those whose cost is known are ranked by it, and
the others keep their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from faultline.analysis.traces.doctor.communication_rules import SLOW_LINK
from faultline.analysis.traces.doctor.device_rules import LAUNCH_BOUND
from faultline.analysis.traces.doctor.host_rules import LONG_COPIES, PAGEABLE_COPIES
from faultline.analysis.traces.doctor.rules import by_cost, diagnose
from tests.analysis.traces.device_traces import kernel
from tests.analysis.traces.doctor.written_ranks import gpu_steps, one_rank
from tests.analysis.traces.written_traces import event


def test_the_dearest_is_first_and_what_has_no_cost_stays_where_it_is() -> None:
    cheap = LONG_COPIES.diagnosis("warning", "all ranks", "is cheap", {}, cost_ns=1e6)
    unknown = LAUNCH_BOUND.diagnosis("warning", "all ranks", "is not known", {})
    dear = SLOW_LINK.diagnosis("warning", "all ranks", "is dear", {}, cost_ns=9e6)
    middling = PAGEABLE_COPIES.diagnosis("warning", "all ranks", "is between", {}, cost_ns=5e6)
    ranked = by_cost([cheap, unknown, dear, middling])
    assert [one.statement for one in ranked] == [
        "is dear",
        "is not known",
        "is between",
        "is cheap",
    ]


def test_a_cheap_critical_finding_stands_before_a_dear_warning(tmp_path: Path) -> None:
    def loads_and_copies(step: int, at: float) -> list[dict[str, Any]]:
        name = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
        copied = kernel("Memcpy HtoD (Pageable -> Device)", at + 4_000, 5_000) | {
            "cat": "gpu_memcpy"
        }
        copied["args"] |= {"bytes": 1 << 20, "correlation": 8_000 + step}
        load = event(name, at + 1_200, 2_400, cat="user_annotation") | {"pid": 100}
        return [load, copied]

    found = diagnose(one_rank(tmp_path, gpu_steps(loads_and_copies, busy_us=900)))
    said = [(one.severity, one.rule) for one in found if one.severity != "info"]
    assert said[0] == ("critical", "dataloader_stall")
    costs = {one.rule: one.cost_ns or 0.0 for one in found}
    assert costs["pageable_copies"] > costs["dataloader_stall"]
    severities = [severity for severity, _ in said]
    assert "warning" in severities
    assert severities == sorted(severities)
