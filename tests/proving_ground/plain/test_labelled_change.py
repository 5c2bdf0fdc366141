"""The label of a labelled case names the guilty change as the case knows it."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from proving_ground.plain.grading import Truth
from proving_ground.plain.playing import change_in_case

AT = datetime(2026, 11, 30, 9, tzinfo=UTC)
TRUTH = Truth(
    story="bad deploy",
    names=("cart",),
    distinctive=(),
    must="",
    half=(),
    halfway="",
    change="Deploy cart v2",
    change_id="4f2a9c1d",
)


def case_with(folder: Path, *rows: dict[str, Any]) -> Path:
    pl.DataFrame([{"time": AT, **row} for row in rows]).write_parquet(folder / "changes.parquet")
    return folder


@pytest.mark.parametrize(
    ("change_id", "title", "service"),
    [
        ("4f2a9c1d", "anything", "cart"),
        ("annotation 1", "Deploy cart v2 (Rollout of cart)", "cart"),
        ("cart v2", "Rollout of cart: image cart:v1 -> cart:v2", "cart"),
    ],
)
def test_a_change_is_known_by_its_id_its_title_or_its_service(
    tmp_path: Path, change_id: str, title: str, service: str
) -> None:
    unrelated = {"id": "annotation 9", "title": "Deploy web v7", "service": "web"}
    guilty = {"id": change_id, "title": title, "service": service}
    assert change_in_case(case_with(tmp_path, unrelated, guilty), TRUTH) == change_id


def test_a_change_that_the_case_does_not_hold_is_not_graded(tmp_path: Path) -> None:
    assert change_in_case(tmp_path, TRUTH) is None
    unrelated = {"id": "annotation 9", "title": "Deploy web v7", "service": "web"}
    assert change_in_case(case_with(tmp_path, unrelated), TRUTH) is None
