"""The headline is about data that was not used to fit, and shows only what was measured."""

from __future__ import annotations

from dataclasses import replace

from faultline.analysis.vocabulary import Verdict
from faultline.evaluation.labels import CaseLabel, CaseSetting, Grade
from faultline.evaluation.page_tables import headline
from tests.evaluation.test_page_tables import RIGHT, WRONG

ELSEWHERE = replace(RIGHT, case="mall-1", system="mall")
QUIET = Grade(
    "shop-healthy-1",
    "shop-healthy",
    label=CaseLabel(verdict=Verdict.NO_ACTIVE_INCIDENT, change="none", decoys=("d1",)),
    verdict=Verdict.CAUSE_FOUND,
    confidence=0.4,
    right=False,
)


def cells(text: str, start: str) -> list[str]:
    for line in text.splitlines():
        if line.startswith(f"| {start}"):
            return [cell.strip() for cell in line.strip("|").split("|")]
    raise AssertionError(f"no row {start}")


def test_recorded_systems_count_alike_and_the_least_is_named() -> None:
    found = headline([RIGHT, WRONG, ELSEWHERE], (), (), ())
    first = cells(found, "**recorded systems")
    assert first[1:3] == ["3", "**0.75**"]
    assert cells(found, "the least of them, shop")[2] == "0.50"
    assert cells(found, "cases in which a harmless change")[1:3] == ["3", "0.333"]


def test_worlds_are_shown_by_distance_and_calm_ones_apart() -> None:
    far = replace(WRONG, setting=CaseSetting(("a", "b", "c"), "2 calls away"), path_shown=False)
    found = headline((), [far, RIGHT, QUIET], [QUIET, replace(QUIET, verdict=None)], ())
    assert cells(found, "culprit 2 calls away")[1:3] == ["1", "0.00"]
    assert cells(found, "the whole path")[1:3] == ["1", "0.00"]
    assert cells(found, "calm worlds")[1:3] == ["1", "1.000"]
    assert cells(found, "quiet shops")[1:3] == ["3", "0.667"]


def test_what_was_not_measured_has_no_row() -> None:
    found = headline((), (), (), [RIGHT])
    assert "recorded" not in found
    assert "worlds that" not in found
    assert cells(found, "live shop: AC@1")[2] == "1.00"


def test_what_nobody_looked_at_comes_first() -> None:
    found = headline([RIGHT], [WRONG], (), [RIGHT], [ELSEWHERE])
    assert cells(found, "**never looked at: AC@1, mean of 2**")[1:3] == ["3", "**0.75**"]
    assert found.index("never looked at") < found.index("recorded systems")
    assert cells(found, "mall")[2] == "1.00"
