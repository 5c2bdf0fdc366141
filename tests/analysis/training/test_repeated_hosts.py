"""How likely it is by chance that a machine is blamed so often, and which machine an answer
blames."""

from __future__ import annotations

import io
import itertools
import json
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.earlier import Earlier, HostIncident, HostRecord
from faultline.analysis.case.folder import read_case, write_json
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.training.fleet_parts import (
    blamed_parts,
    by_chance,
    host_key,
    hosts_of_job,
    is_repeated,
    majority_part,
)
from faultline.analysis.vocabulary import Alert, Diagnosis, JobIdentity, Scope, Window

AT = datetime(2026, 3, 2, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("blamed", range(5))
@pytest.mark.parametrize("chances", [[0.1] * 4, [0.5, 0.25, 0.125, 1.0], [0.0, 0.3, 0.3, 0.9]])
def test_the_probability_is_that_of_counting_all_outcomes(
    blamed: int, chances: list[float]
) -> None:
    expected = 0.0
    for outcome in itertools.product((0, 1), repeat=len(chances)):
        if sum(outcome) >= blamed:
            sides = (p if one else 1 - p for one, p in zip(outcome, chances, strict=True))
            expected += math.prod(sides)
    assert by_chance(blamed, chances) == pytest.approx(expected)


def test_machines_that_are_alike_are_seldom_called_suspicious() -> None:
    # Of 16 machines in 30 incidents: the least count that is called more than chance.
    least = next(n for n in range(31) if is_repeated(n, by_chance(n, [1 / 16] * 30), tested=16))
    tail = sum(math.comb(30, k) * (1 / 16) ** k * (15 / 16) ** (30 - k) for k in range(least, 31))
    assert 16 * tail < 0.05
    assert not is_repeated(1, 0.0)


def test_a_part_is_named_where_most_blame_it() -> None:
    assert majority_part(["gpu3", "gpu3", ""]) == "gpu3"
    assert majority_part(["gpu3", "gpu1"]) == ""
    assert majority_part(["", ""]) == ""


def test_a_machine_has_one_spelling() -> None:
    assert host_key("GPU-07.hpc.example") == host_key("gpu-07") == "gpu-07"
    assert host_key("10.0.0.7") == "10.0.0.7"
    assert host_key("fd00::7") == "fd00::7"


def scope(**training: object) -> Scope:
    window = Window(start=AT - timedelta(minutes=30), end=AT)
    before = Window(start=AT - timedelta(hours=3), end=window.start)
    job = JobIdentity.model_validate({"name": "llm", **training})
    return Scope(incident=window, baseline=(before,), services=("llm",), job="llm", training=job)


def case_of(folder: Path, rows: list[dict[str, object]], own: Scope) -> Diagnosis:
    """The diagnosis of a job on whose machines these facts were reported."""
    write_json(folder / "alert.json", Alert(source="t", title="s", started_at=AT, service="llm"))
    write_json(folder / "scope.json", own)
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "states.jsonl").write_text(lines)
    return diagnose(read_case(folder))


def drained(host: str) -> dict[str, object]:
    since = (AT - timedelta(minutes=10)).isoformat()
    fact = {"kind": "Node", "name": host, "fact": "node_drained", "service": "llm"}
    return {**fact, "value": "Xid 79", "since": since}


def record(host: str, blamed: int = 4, chance: float = 0.003) -> HostRecord:
    incident = HostIncident(
        id="I-1", at=AT - timedelta(days=3), job="llm", fault="gpu_xid", part="gpu3"
    )
    return HostRecord(
        host=host, took_part=6, blamed=blamed, by_chance=chance, part="gpu3", incidents=(incident,)
    )


def with_fleet(folder: Path, *records: HostRecord) -> list[str]:
    write_json(folder / "earlier.json", Earlier(asked_at=AT, fleet=records))
    found = diagnose(read_case(folder)).findings
    return [one.sentence for one in found if one.kind == "fleet_record"]


def test_a_machine_that_was_to_blame_before_is_to_be_drained(tmp_path: Path) -> None:
    found = case_of(tmp_path, [drained("GPU-07.hpc.example")], scope())
    (part,) = blamed_parts(found, scope())
    assert (part.host, part.fault) == ("gpu-07", "node_drained")
    assert with_fleet(tmp_path, record("gpu-01"), record("gpu-07")) == [
        "Drain gpu-07: it was also to blame in 4 of 6 earlier incidents of jobs on it, mostly "
        "gpu3, last on 27 Feb (by chance: 0.3 %)."
    ]


def test_memory_says_nothing_of_a_machine_that_chance_may_have_chosen(tmp_path: Path) -> None:
    case_of(tmp_path, [drained("gpu-07")], scope())
    assert with_fleet(tmp_path, record("gpu-07", chance=0.05)) == []
    assert with_fleet(tmp_path, record("gpu-07", blamed=1)) == []
    assert with_fleet(tmp_path, record("gpu-08")) == []


def test_memory_changes_nothing_else_of_the_answer(tmp_path: Path) -> None:
    before = case_of(tmp_path, [drained("gpu-07")], scope())
    write_json(tmp_path / "earlier.json", Earlier(asked_at=AT, fleet=(record("gpu-07"),)))
    after = diagnose(read_case(tmp_path))
    kept = tuple(one for one in after.findings if one.kind != "fleet_record")
    assert after.model_copy(update={"findings": kept}) == before
    assert len({one.id for one in after.findings}) == len(after.findings)


def test_the_machines_of_a_job_come_from_settings_alert_and_series(tmp_path: Path) -> None:
    own = scope(hosts=("gpu-05.hpc", "gpu-06"), node="gpu-06")
    found = case_of(tmp_path, [drained("gpu-07")], own)
    labels = [
        json.dumps({"host": "gpu-09", "gpu": "0"}),
        json.dumps({"host": "web-1"}),
        "{",
        None,
        json.dumps({"gpu": "1"}),
    ]
    file = io.BytesIO()
    pl.DataFrame({"labels": labels}).write_parquet(file)
    hosts = hosts_of_job(own, found, file.getvalue())
    assert hosts == ("gpu-05", "gpu-06", "gpu-07", "gpu-09")
