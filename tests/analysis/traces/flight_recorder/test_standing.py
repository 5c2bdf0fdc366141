"""Whether a running job stands still, told by how long its collectives were pending when it was
asked."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from faultline.analysis.traces.flight_recorder.diagnoses import hang_diagnoses
from faultline.analysis.traces.reading.capture_note import taken_at
from faultline.analysis.traces.reading.job_files import sort_job_files
from tests.analysis.traces.flight_recorder.written_dumps import WrittenRank, world, write_json

PAUSE_NS = 2_000_000_000


def asked(folder: Path, after_s: float, *, known: int = 6) -> tuple[str, str]:
    """Three ranks, a collective every 2 s, the last one without rank 1; asked so long after it
    began."""
    ranks: list[WrittenRank] = world(3)
    for rank in ranks:
        rank.calls("0", known)
        if rank.rank != 1:
            rank.call("0", pending=True)
        for entry in rank.entries:
            entry["time_created_ns"] = PAUSE_NS * (entry["record_id"] + 1)
    files = write_json(folder, ranks)
    at = datetime.fromtimestamp(PAUSE_NS * (known + 1) / 1e9 + after_s, UTC)
    note = {"capture": "c1", "files": [{"path": f.name, "taken": at.isoformat()} for f in files]}
    (folder / "capture.json").write_text(json.dumps(note))
    found = hang_diagnoses(sort_job_files([folder]))[0]
    return found.severity, found.statement


def test_what_stood_for_long_when_asked_is_a_hang_with_its_age(tmp_path: Path) -> None:
    severity, statement = asked(tmp_path, 33)
    assert severity == "critical"
    assert statement.startswith("rank 1 has not joined")
    assert statement.endswith("this has stood for 33 s")


@pytest.mark.parametrize(
    ("after_s", "severity"), [(0.5, "info"), (9.5, "info"), (10.5, "critical"), (-100, "info")]
)
def test_what_is_under_way_is_work(tmp_path: Path, after_s: float, severity: str) -> None:
    assert asked(tmp_path, after_s)[0] == severity


@pytest.mark.parametrize(("after_s", "severity"), [(15, "info"), (59, "info"), (61, "critical")])
def test_a_job_whose_rhythm_is_not_known_gets_more_time(
    tmp_path: Path, after_s: float, severity: str
) -> None:
    assert asked(tmp_path, after_s, known=2)[0] == severity


def test_a_job_of_long_steps_gets_more_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "tests.analysis.traces.flight_recorder.test_standing.PAUSE_NS", 30_000_000_000
    )
    assert asked(tmp_path, 80)[0] == "info"
    assert asked(tmp_path, 91)[0] == "critical"


@pytest.mark.parametrize(
    "note",
    [
        b"",
        b"{}",
        b"[1]",
        b'{"capture": 1, "files": 7}',
        b'{"capture": 1, "files": [7]}',
        b'{"capture": 1, "files": [{"path": "../rank0", "taken": "2026-01-01T00:00:00+00:00"}]}',
        b'{"capture": 1, "files": [{"path": "rank0", "taken": "2026-01-01T00:00:00"}]}',
        b'{"capture": 1, "files": [{"path": "rank0", "taken": "yesterday"}]}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_a_broken_note_tells_nothing(tmp_path: Path, note: bytes) -> None:
    path = tmp_path / "capture.json"
    path.write_bytes(note)
    assert taken_at([path]) == {}


def test_a_note_that_is_not_there_tells_nothing(tmp_path: Path) -> None:
    assert taken_at([tmp_path / "capture.json"]) == {}
