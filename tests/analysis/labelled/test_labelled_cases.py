from __future__ import annotations

import json
from typing import Any

import pytest

from tests.analysis.labelled.answers import CASES, LABELS, answer

KNOWN: dict[str, Any] = json.loads(LABELS.read_text())


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_the_labelled_one(name: str) -> None:
    assert json.loads(json.dumps(answer(CASES[name]))) == KNOWN[name]


def test_every_label_has_its_story() -> None:
    assert KNOWN.keys() == CASES.keys()
