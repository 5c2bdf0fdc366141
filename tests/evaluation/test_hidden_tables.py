"""Ablation: the analysis sees the case without a table, and nothing is copied."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.errors import SettingsError
from faultline.evaluation.running import has_tables, parse_hidden, without_tables
from tests.scenarios.small_case import write_small_case


def test_a_hidden_table_is_empty_and_the_others_are_there(tmp_path: Path) -> None:
    folder = write_small_case(tmp_path / "shop-1")
    (folder / "label.json").write_text("{}")
    with without_tables(folder, ["changes"]) as view:
        case = read_case(view)
        assert case.changes.height == 0
        assert case.metrics.height > 0
        assert {e.kind for e in case.evidence} == {"metrics"}
        assert view.name == "shop-1"
        assert (view / "metrics.csv").samefile(folder / "metrics.csv")
        assert not (view / "metrics.csv").is_symlink()
        assert not (view / "label.json").exists()
    assert read_case(folder).changes.height == 1
    assert not view.exists()


def test_evidence_of_a_hidden_table_is_hidden_too(tmp_path: Path) -> None:
    folder = write_small_case(tmp_path / "shop-1")
    items = [
        {"id": f"E{n}", "kind": kind, "source": "s", "query": "q"}
        for n, kind in enumerate(("metrics", "changes"))
    ]
    gap = {"id": "G1", "kind": "logs", "source": "s", "query": "q", "reason": "late"}
    (folder / "evidence.json").write_text(json.dumps([*items, gap]))
    with without_tables(folder, ["changes", "logs"]) as view:
        case = read_case(view)
    assert [e.kind for e in case.evidence] == ["metrics"]
    assert case.gaps == ()


@pytest.mark.parametrize("text", ["{", '{"a": 1}'])
def test_evidence_that_cannot_be_read_stays_for_the_analysis_to_tell(
    tmp_path: Path, text: str
) -> None:
    folder = write_small_case(tmp_path / "shop-1")
    (folder / "evidence.json").write_text(text)
    with without_tables(folder, ["logs"]) as view:
        assert (view / "evidence.json").read_text() == text


def test_what_a_case_does_not_have_need_not_be_hidden(tmp_path: Path) -> None:
    folder = write_small_case(tmp_path / "shop-1")
    assert has_tables(folder, ["logs", "changes"])
    assert not has_tables(folder, ["logs", "spans"])


def test_nothing_hidden_is_the_folder_itself(tmp_path: Path) -> None:
    with without_tables(tmp_path, []) as view:
        assert view == tmp_path


def test_tables_are_named_with_commas() -> None:
    assert parse_hidden("") == ()
    assert parse_hidden(" logs, spans,logs ") == ("logs", "spans")
    with pytest.raises(SettingsError, match="--without"):
        parse_hidden("logs,feelings")
