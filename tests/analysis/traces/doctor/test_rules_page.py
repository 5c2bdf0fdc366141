from __future__ import annotations

import re
from pathlib import Path

from faultline.analysis.kinds.training_causes import GPU_CAUSES, TRAINING_CAUSES
from faultline.analysis.traces.doctor.capture_rules import (
    CAPTURE_LIMITED,
    CAPTURE_UNUSABLE,
    PROFILER_OVERHEAD,
)
from faultline.analysis.traces.doctor.device_rules import LAUNCH_QUEUE_FULL
from faultline.analysis.traces.doctor.host_rules import TENSOR_CORES_UNUSED
from faultline.analysis.traces.doctor.memory_rules import FRAGMENTATION
from faultline.analysis.traces.doctor.rules import JOB_RULES, RULES
from faultline.analysis.traces.doctor.rules_page import OTHER_FILES, rules_page
from faultline.analysis.traces.job.training import ALWAYS_SO

ROOT = Path(__file__).resolve().parents[4]
INFORMATION = (LAUNCH_QUEUE_FULL, TENSOR_CORES_UNUSED, FRAGMENTATION)
CAPTURE = (CAPTURE_UNUSABLE, PROFILER_OVERHEAD, CAPTURE_LIMITED)


def test_the_page_of_rules_is_what_the_rules_say() -> None:
    assert (ROOT / "docs" / "trace-engine" / "rules.md").read_text() == rules_page()


def test_every_rule_that_may_accuse_is_known_as_a_cause() -> None:
    accusing = {r.name for r in (*RULES, *OTHER_FILES) if r not in (*INFORMATION, *CAPTURE)}
    accusing.add(
        FRAGMENTATION.name
    )  # information in a profiler trace, an accusation in a memory snapshot
    accusing -= set(ALWAYS_SO)
    accusing -= {one.rule.name for one in JOB_RULES if one.fault is not None}
    elsewhere = {"training_gap", "run_ended"} | set(GPU_CAUSES)
    assert accusing - {"flight_recorder_incomplete"} == set(TRAINING_CAUSES) - elsewhere


def test_rules_have_names_of_their_own_and_say_where_thresholds_come_from() -> None:
    names = [r.name for r in (*RULES, *OTHER_FILES)]
    assert len(set(names)) == len(names)
    for rule in (*RULES, *OTHER_FILES):
        assert all((rule.sees, rule.threshold, rule.source, rule.fix)), rule.name


def test_the_page_lists_every_rule_on_dumps_metrics_and_logs() -> None:
    rooms = [ROOT / "analysis" / "traces" / room for room in ("flight_recorder", "job_logs")]
    code = "\n".join(path.read_text() for room in rooms for path in sorted(room.glob("*.py")))
    assert set(re.findall(r'rule="(\w+)"', code)) <= {r.name for r in (*OTHER_FILES, *RULES)}
