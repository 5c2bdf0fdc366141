"""What tools outside answered: read line by line, quoted, cited by its call."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from faultline.analysis.kinds.finding_details import ObservationDetails
from tests.bot.investigation.model.tools.conftest import Desk
from tests.hostile.planted import ORDER

TEXT = f"INC-7: jo.doe@example.com cannot pay\n{ORDER}"


@pytest.fixture
def told(rich_case: Path, tmp_path: Path) -> Desk:
    """A desk with an answer of a tool outside."""
    folder = tmp_path / "told"
    shutil.copytree(rich_case, folder)
    file = folder / "evidence.json"
    listed = json.loads(file.read_text()) if file.exists() else []
    item = {"id": "E90", "kind": "external", "source": "mcp_servers tickets", "query": "search {}"}
    file.write_text(json.dumps([*listed, {**item, "details": {"result": TEXT}}]))
    return Desk(folder, tmp_path / "told-work")


def test_each_line_can_be_quoted_and_cites_its_call(told: Desk) -> None:
    rows = told.rows("external")
    assert len(rows) == 3
    assert rows[1].endswith('mcp_servers tickets answered search "INC-7: [EMAIL_1] cannot pay"')
    finding = told.cited(rows[1])
    assert finding.evidence == ("E90",)
    assert finding.strength == 0.0
    assert isinstance(finding.details, ObservationDetails)
    assert finding.details.about == "external"
    assert rows[2].endswith(f'"{ORDER}"')


def test_lines_are_filtered_by_words(told: Desk) -> None:
    assert len(told.rows("external", contains="inc-7")) == 2
    assert "no line" in told.error("external", contains="INC-8")


def test_it_is_offered_only_where_there_is_an_answer(desk: Desk, told: Desk) -> None:
    assert "external" not in desk.offered
    assert "external" in told.offered
