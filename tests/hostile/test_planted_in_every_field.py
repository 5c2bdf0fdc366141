"""Planted instructions, of every kind in every field, change nothing that code decided and do
nothing where shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.analysis.case.tables import SCHEMAS
from faultline.analysis.vocabulary import Verdict
from faultline.bot.answer.replay import Replayed, replay
from faultline.bot.answer.writer.payload import Redactor, payload
from tests.hostile.cases import FIELDS, HARMLESS, incident
from tests.hostile.planted import PLANTED
from tests.hostile.rendering import decided, faults

KINDS = tuple(PLANTED)
TURNS = len(KINDS) // 2


def investigated(folder: Path, text_of: dict[str, str] | None = None) -> Replayed:
    given = text_of or {}
    incident(folder, lambda field: given.get(field, HARMLESS))
    return replay(folder)


@pytest.fixture(scope="module")
def harmless(tmp_path_factory: pytest.TempPathFactory) -> Replayed:
    return investigated(tmp_path_factory.mktemp("harmless") / "case")


def test_the_incident_itself_is_understood(harmless: Replayed) -> None:
    assert harmless.diagnosis.verdict is Verdict.CAUSE_FOUND
    assert harmless.diagnosis.causes[0].subject == "api"
    assert faults(harmless, harmless.report) == []


def test_every_field_is_read(tmp_path: Path) -> None:
    """What is planted in a field stands in the case as it is analysed: every
    field tried is one that is read."""
    marks = {field: f"mark{n:03d}mark" for n, field in enumerate(FIELDS)}
    case = incident(tmp_path / "case", lambda field: marks[field])
    tables = [getattr(case, name).write_json() for name in SCHEMAS]
    whole = [case.alert, *case.evidence, *case.gaps, case.runbooks, case.earlier]
    text = "".join([*tables, *(str(one.model_dump(mode="json")) for one in whole)])
    assert [field for field, mark in marks.items() if mark not in text] == []


def test_there_are_enough_kinds_and_fields() -> None:
    assert len(PLANTED) >= 30
    assert len(FIELDS) >= 30


@pytest.mark.parametrize("turn", range(TURNS))
def test_every_kind_in_every_field_changes_nothing(
    turn: int, harmless: Replayed, tmp_path: Path
) -> None:
    """In each turn every field holds two other kinds; over all turns each field has held each
    kind."""
    text_of = {}
    for place, field in enumerate(FIELDS):
        first = (place + turn) % len(KINDS)
        second = (first + TURNS) % len(KINDS)
        text_of[field] = f"{PLANTED[KINDS[first]]} {PLANTED[KINDS[second]]}"
    planted = investigated(tmp_path / "case", text_of)
    assert decided(planted.diagnosis) == decided(harmless.diagnosis)
    assert faults(planted, planted.report) == []
    sent = payload(planted.diagnosis, planted.case.alert, planted.case.gaps, Redactor())
    assert sent.count("<") == sent.count(">") == 2
