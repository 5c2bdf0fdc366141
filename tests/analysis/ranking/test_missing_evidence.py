"""Which missing evidence is reported, and in which order."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from faultline.analysis.ranking.missing_evidence import missing_evidence
from tests.analysis.cases import write_case

COMPARED = {"metrics", "logs", "spans"}


def told(
    folder: Path, kinds: Sequence[str], compared: set[str], **alert: dict[str, str]
) -> list[str]:
    """The kinds of the reported gaps, in their order."""
    gaps: list[dict[str, Any]] = []
    for kind in kinds:
        gap = {"id": f"G{kind}", "kind": kind, "source": "grafana", "query": "q"}
        gaps.append({**gap, "reason": f"no answer about {kind}"})
    case = write_case(folder, alert={"service": "web", **alert}, evidence=gaps)
    said = missing_evidence(case, compared)
    return [entry.split()[0] for entry in said if "from grafana" in entry]


def test_what_tells_most_comes_first(tmp_path: Path) -> None:
    kinds = ["states", "topology", "changes", "logs", "spans", "metrics"]
    expected = ["metrics", "spans", "logs", "changes", "states", "topology"]
    assert told(tmp_path, kinds, set()) == expected


def test_traces_of_a_service_are_not_missed_and_its_monitors_and_alert_are(tmp_path: Path) -> None:
    assert told(tmp_path, ["traces", "alert", "monitors"], COMPARED) == ["alert", "monitors"]


def test_what_is_equally_telling_keeps_its_order(tmp_path: Path) -> None:
    assert told(tmp_path, ["monitors", "alert", "states"], COMPARED) == [
        "states",
        "monitors",
        "alert",
    ]


def test_traces_of_a_job_are_missed_most(tmp_path: Path) -> None:
    kinds, job = ["changes", "traces"], {"job_name": "pretrain"}
    assert told(tmp_path, kinds, COMPARED, labels=job) == ["traces", "changes"]
