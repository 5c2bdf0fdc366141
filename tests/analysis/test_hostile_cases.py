"""Case folders that keep to their schema and mean harm: times at the end of the calendar, names
without end."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import EvidenceError
from faultline.analysis.requests.topology import Topology
from tests.analysis.cases import at, series, write_case

FIRST, LAST = "0001-01-01T00:00:00+00:00", "9999-12-31T23:59:59+00:00"


@pytest.mark.parametrize("baseline", [[[FIRST, LAST]], []])
def test_windows_at_the_ends_of_the_calendar_are_windows(
    tmp_path: Path, baseline: list[list[str]]
) -> None:
    state = {"monitor": "training run r1", "service": "web", "state": "crashed", "since": at(5)}
    scope = {"incident": [FIRST, LAST], "baseline": baseline}
    found = diagnose(
        write_case(
            tmp_path, scope=scope, metrics=series("web", "latency_ms", 1, 9), monitors=[state]
        )
    )
    assert "run_ended" in {f.kind for f in found.findings}


@pytest.mark.parametrize("time", [FIRST, LAST])
def test_an_alert_at_the_end_of_the_calendar_without_a_scope_is_named(
    tmp_path: Path, time: str
) -> None:
    write_case(tmp_path, alert={"started_at": time})
    (tmp_path / "scope.json").unlink()
    with pytest.raises(EvidenceError, match="started_at"):
        read_case(tmp_path)


def test_a_change_of_an_endless_kind_is_told_in_a_short_sentence(tmp_path: Path) -> None:
    change = {
        "time": at(-2),
        "service": "web",
        "kind": "k\u202e" * 5000,
        "id": "c1",
        "title": "t" * 5000,
    }
    found = diagnose(
        write_case(tmp_path, metrics=series("web", "latency_ms", 200, 900), changes=[change])
    )
    told = [f.sentence for f in found.findings if f.details.written().get("change") == "c1"]
    assert told
    assert all(len(s) < 400 and "\u202e" not in s for s in told)


def test_what_lies_above_the_first_cause_is_read_once_for_the_impact(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    upstream = Topology.upstream
    monkeypatch.setattr(
        Topology, "upstream", lambda self, *given: asked.append(given) or upstream(self, *given)
    )
    rows = [row for n in range(20) for row in series(f"s{n}", "latency_ms", 200, 900)]
    edges = [{"caller": f"s{n}", "callee": f"s{n + 1}"} for n in range(20)]
    assert diagnose(write_case(tmp_path, metrics=rows, topology=edges)).causes
    assert len([s for s, *_ in asked]) < 15
