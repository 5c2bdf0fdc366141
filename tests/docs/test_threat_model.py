"""The threat model names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

from faultline.bot.intake.alert_sources import built_in_sources, labels_by_path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "threat-model.md").read_text()))
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    known = set(re.findall(r"def (test_\w+)\(", written))
    assert len(named) > 40
    assert named <= known, sorted(named - known)


def test_every_path_of_an_alert_source_stands_in_the_threat_model() -> None:
    text = (ROOT / "docs" / "threat-model.md").read_text()
    paths = labels_by_path(built_in_sources())
    assert len(paths) >= 7
    assert [path for path in paths if f"`{path}`" not in text] == []
