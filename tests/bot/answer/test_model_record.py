"""What a model achieved decides when its verdict leads, and how sure the answer is then."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import DecisionPolicy
from faultline.bot.answer.model_record import ModelRecord, RecordBin, policy_of, read_record

CAUTIOUS = DecisionPolicy()
EDGES = ((0.0, 0.5), (0.5, 0.7), (0.7, 0.9), (0.9, 1.01))


def record(*counts: tuple[int, int, int], agreed: tuple[int, int] = (0, 0)) -> ModelRecord:
    """By bin: verdicts that would lead, how many were right, and how often code was; `agreed` and
    how many of them were right, in the first bin."""
    bins = [
        RecordBin(least=low, below=high, verdicts=n, verdicts_right=right, code_right=code)
        for (low, high), (n, right, code) in zip(EDGES, counts, strict=True)
    ]
    bins[0] = bins[0].model_copy(update={"agreed": agreed[0], "agreed_right": agreed[1]})
    return ModelRecord(model="m", bins=tuple(bins))


def test_without_a_record_and_with_few_verdicts_cautious_numbers_hold() -> None:
    assert policy_of("below_bar", None) == CAUTIOUS
    few = record((5, 5, 0), (4, 4, 0), (0, 0, 0), (0, 0, 0), agreed=(9, 9))
    assert policy_of("below_bar", few) == CAUTIOUS
    assert policy_of("dissent_only", few).decides == "dissent_only"


@pytest.mark.parametrize(
    ("counts", "bar"),
    [
        # Better than code everywhere it was tried.
        (((9, 8, 2), (9, 8, 4), (9, 8, 6), (0, 0, 0)), 0.9),
        (((9, 8, 2), (9, 8, 4), (9, 8, 6), (9, 9, 8)), 1.0),
        # Worse from .7 on.
        (((9, 8, 2), (9, 8, 4), (9, 5, 6), (9, 9, 8)), 0.7),
        # Worse from the beginning: it never leads.
        (((9, 1, 4), (9, 8, 4), (9, 8, 6), (0, 0, 0)), 0.0),
    ],
)
def test_the_bar_is_where_the_model_stops_being_better(counts: Any, bar: float) -> None:
    assert policy_of("below_bar", record(*counts)).bar == bar


def test_confidences_are_the_lower_ends_of_what_was_measured_below_the_bar() -> None:
    measured = record((20, 18, 4), (0, 0, 0), (0, 0, 0), (0, 0, 0), agreed=(30, 30))
    policy = policy_of("below_bar", measured)
    # Wilson's intervals of 18 of 20 and of 30 of 30.
    assert (policy.overruled, policy.agreed) == (0.7, 0.89)


@pytest.mark.parametrize("content", ["", "[]", '{"model": "m"}', '{"model": "m", "record": [1]}'])
def test_a_file_that_is_no_record_is_one_clear_error(tmp_path: Path, content: str) -> None:
    file = tmp_path / "record.json"
    file.write_text(content)
    with pytest.raises(SettingsError, match=r"model\.record.*faultline eval"):
        read_record(file)
    with pytest.raises(SettingsError, match=r"model\.record"):
        read_record(tmp_path / "nothing.json")


def test_a_record_is_read_as_the_evaluation_writes_it(tmp_path: Path) -> None:
    file = tmp_path / "record.json"
    measured = record((1, 1, 0), (0, 0, 0), (0, 0, 0), (0, 0, 0))
    bins = [row.model_dump() for row in measured.bins]
    file.write_text(json.dumps({"model": "m", "graded": 1, "record": bins}))
    assert read_record(file) == measured
