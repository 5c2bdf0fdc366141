"""Public cases of every system: what is found of each is a valid diagnosis, answer and report.

They are diagnosed here and nowhere else, once for everything that must hold of them.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from faultline.bot.answer.replay import Replayed, as_json, replay
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.guard import keep_supported
from tests.analysis.test_diagnosis import check
from tests.bot.answer.test_replay import check_answer

EVERY = 8
"""Of 86 cases eleven, two or three of each system."""
SYSTEMS = {"online-boutique", "petshop", "rootcausebench", "train-ticket"}


@dataclass(frozen=True)
class PublicCase:
    """What was made of one case, and the processor time that it took."""

    name: str
    replayed: Replayed
    cpu_s: float


@pytest.fixture(scope="module")
def cases(shared: Path) -> list[PublicCase]:
    """Every eighth public case, diagnosed and worded."""
    folders = sorted(path for path in (shared / "cases").iterdir() if path.is_dir())
    assert len(folders) > 80
    made = []
    for folder in folders[::EVERY]:
        began = time.process_time()
        replayed = replay(folder)
        made.append(PublicCase(folder.name, replayed, time.process_time() - began))
    return made


def test_every_system_has_a_case(cases: list[PublicCase]) -> None:
    assert {case.name.rpartition("-")[0] for case in cases} == SYSTEMS


def test_each_gets_a_valid_diagnosis_in_two_seconds(cases: list[PublicCase]) -> None:
    for case in cases:
        check(case.replayed.diagnosis)
        assert case.cpu_s < 2.0, case.name


def test_each_gets_a_valid_answer(cases: list[PublicCase]) -> None:
    for case in cases:
        check_answer(json.loads(json.dumps(as_json(case.replayed))))


def test_the_built_in_report_of_each_passes_unchanged(cases: list[PublicCase]) -> None:
    for case in cases:
        found, diagnosis = case.replayed.case, case.replayed.diagnosis
        report = word(diagnosis, found.alert, found.gaps)
        assert report.claims, case.name
        kept = keep_supported(report, diagnosis, found.alert, gaps=found.gaps)
        assert kept == report, case.name
