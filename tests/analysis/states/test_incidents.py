"""Kubernetes and RDS faults from the state of objects and from events alone."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Verdict
from tests.analysis.cases import write_case
from tests.analysis.states.incidents import INCIDENTS, OLD_CRASHES, SHOP, StateIncident


@pytest.mark.parametrize("incident", INCIDENTS, ids=lambda one: one.name.replace(" ", "-"))
def test_the_first_cause_is_the_object_at_fault(tmp_path: Path, incident: StateIncident) -> None:
    case = write_case(
        tmp_path,
        alert=incident.alert,
        states=incident.states,
        logs=incident.logs,
        topology=incident.topology,
        changes=incident.changes,
    )
    answer = diagnose(case)
    assert answer.verdict is Verdict.CAUSE_FOUND
    first = answer.causes[0]
    assert (first.subject, first.kind) == (incident.subject, incident.kind)


def test_what_was_so_for_days_is_no_cause(tmp_path: Path) -> None:
    case = write_case(tmp_path, alert={"service": "checkout"}, states=OLD_CRASHES, topology=SHOP)
    assert diagnose(case).verdict is Verdict.INSUFFICIENT_EVIDENCE
