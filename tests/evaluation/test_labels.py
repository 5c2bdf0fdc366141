"""Labels hold what is known; whatever is absent is not graded."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.evaluation.labels import read_label, system_of


def labelled(folder: Path, text: str) -> Path:
    (folder / "label.json").write_text(text)
    return folder


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("train-ticket-07", "train-ticket"),
        ("sock-shop2-011", "sock-shop2"),
        ("re2_ob_4", "re2_ob"),
        ("petshop-12-high", "petshop"),
        ("case7", "case"),
        ("slow-rank", "slow-rank"),
        ("42", "42"),
    ],
)
def test_the_system_is_the_name_up_to_its_number(name: str, system: str) -> None:
    assert system_of(name) == system


def test_a_label_without_a_subject_is_no_error(tmp_path: Path) -> None:
    label = read_label(
        labelled(tmp_path, '{"subject": null, "verdict": "no_active_incident", "origin": "x"}')
    )
    assert label is not None
    assert label.gradable
    assert label.subject is None


def test_a_label_that_says_nothing_cannot_be_graded(tmp_path: Path) -> None:
    label = read_label(labelled(tmp_path, '{"dataset": "x"}'))
    assert label is not None
    assert not label.gradable


def test_no_label_is_none(tmp_path: Path) -> None:
    assert read_label(tmp_path) is None


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"verdict": "all good"}',
        '{"subject": 4}',
        json.dumps({"decoys": "abc"}),
        "[" * 100_000,
    ],
)
def test_a_broken_label_is_named(tmp_path: Path, text: str) -> None:
    with pytest.raises(EvidenceError, match=r"label\.json"):
        read_label(labelled(tmp_path, text))


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ({"subject": "a", "fault": "cpu"}, "cpu"),
        ({"subject": "a", "change": "none"}, "no change"),
        ({"subject": "a", "change": "4f2a"}, "a change"),
        ({"subject": "a"}, "unnamed"),
    ],
)
def test_cases_without_a_fault_are_grouped_by_whether_a_change_is_to_blame(
    tmp_path: Path, label: dict[str, str], fault: str
) -> None:
    read = read_label(labelled(tmp_path, json.dumps(label)))
    assert read is not None
    assert read.fault_class == fault
