"""`benchmarks/year.py` copies an investigation so that nothing of the first is left in it."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from benchmarks import year
from faultline.analysis.vocabulary import Alert
from faultline.bot.store.people_tables import LabelRow
from faultline.bot.store.tables import InvestigationRow
from tests.conftest import new_database

AT = datetime(2026, 1, 2, tzinfo=UTC)
NAME = "20260102-000000-00aa00"


def example(case: Path) -> year.Example:
    """Of two tables in the store and of two in the engine."""
    case.mkdir()
    (case / "alert.json").write_text("{}")
    ours: dict[str, Any] = {c.name: None for c in InvestigationRow.__table__.columns}
    ours |= {"id": NAME, "fingerprint": "f", "accepted_at": AT}
    alert = Alert(source="pagerduty", title="slow", started_at=AT, service="a")
    ours["alert"] = alert.model_dump(mode="json")
    ours |= {"repeats": 0, "automatic": True, "channel": "", "members": 0, "surplus": 0}
    ours |= {"changes": 0, "told": 0, "wants_run": False, "runs": 0, "team": "", "priority": 2}
    ms = int(AT.timestamp() * 1000)
    status = {"workflow_uuid": NAME, "status": "SUCCESS", "created_at": ms, "updated_at": ms}
    status |= {"priority": 0, "completed_at": ms}
    step = {"workflow_uuid": NAME, "function_id": 1, "function_name": "open", "output": NAME}
    engine = {"workflow_status": [status], "operation_outputs": [step]}
    return year.Example(NAME, AT, {"investigations": [ours]}, engine, case)


def test_a_row_is_moved_with_its_ids_and_times(tmp_path: Path) -> None:
    row = {"key": f"{NAME}:slack", "at": AT, "ms": 1_767_312_000_000, "n": 3, "of": {"id": NAME}}
    by = timedelta(days=2)
    assert year.moved(row, example(tmp_path / "case"), "other", by) == {
        "key": "other:slack",
        "at": AT + by,
        "ms": 1_767_312_000_000 + 172_800_000,
        "n": 3,
        "of": {"id": "other"},
    }


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_short_year_is_filled_and_measured(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.setattr(year, "answered_examples", lambda _: [example(tmp_path / "case")])
    options = argparse.Namespace(days=7, a_day=3, keep_all=False, engine=kind)
    (tmp_path / "scratch").mkdir()
    if kind == "sqlite":
        year.run(tmp_path / "scratch", options, kind)
    else:
        with new_database(request.getfixturevalue("postgres_server")) as url:
            year.run(tmp_path / "scratch", options, url)
    said = capsys.readouterr().out
    assert "7 days of 3 incidents, default retention" in said
    assert "investigation, ms" in said
    assert "reads it all" not in said


def test_days_are_filled_in_every_table(tmp_path: Path) -> None:
    examples = [example(tmp_path / "case")]
    with year.installation(tmp_path / "one", "sqlite", examples, 10) as one:
        for day in range(2):
            one.day(AT + timedelta(days=day))
        with one.store.engine.connect() as connection:
            count = connection.scalar(select(func.count()).select_from(InvestigationRow))
            judged = connection.scalar(select(func.count()).select_from(LabelRow))
        assert (count, judged) == (20, 4)
        assert len(list((one.settings.store.directory / "cases").iterdir())) == 20
        one.sweep(AT + timedelta(days=500))
        with one.store.engine.connect() as connection:
            assert connection.scalar(select(func.count()).select_from(InvestigationRow)) == 0
        assert list((one.settings.store.directory / "cases").rglob("*.json")) == []
