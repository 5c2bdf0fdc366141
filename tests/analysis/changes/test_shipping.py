"""When a merge reached production."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.changes.shipping import shipped_changes
from tests.analysis.cases import START, at, write_case

HOUR = 60


@pytest.mark.parametrize(("hours_waited", "rides"), [(18, True), (24, True), (25, False)])
def test_a_merge_waits_a_day_for_a_deploy(
    tmp_path: Path, hours_waited: float, *, rides: bool
) -> None:
    changes = [
        {"time": at(-hours_waited * HOUR), "kind": "merge", "id": "m1"},
        {"time": at(0), "kind": "deploy", "id": "v2"},
    ]
    rows = [{**row, "service": "api", "title": "other pool"} for row in changes]
    merge = next(
        one for one in shipped_changes(write_case(tmp_path, changes=rows)) if one.id == "m1"
    )
    assert (merge.kind == "deploy") is rides
    assert (merge.time == START) is rides
