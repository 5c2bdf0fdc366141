"""The answers to forty incidents, kept as text."""

from __future__ import annotations

import re

import pytest

from tests.answers.frozen import AnswerFile, answer_files

FILES = answer_files()
INTERNAL = re.compile(r"\bF\d+\b|\bT\d+\b|<\*>|metric_shift|log_new|\bNone\b|\bnan\b")
"""What no reader should see: ids of findings, names of kinds, templates, missing values."""
LONGEST_LINE = 300


@pytest.mark.parametrize("answer", FILES, ids=lambda answer: answer.name)
def test_the_answer_reads_as_it_is_kept(answer: AnswerFile) -> None:
    assert answer.text() == answer.kept.read_text("utf-8"), "see python -m tests.answers write"


@pytest.mark.parametrize("answer", FILES, ids=lambda answer: answer.name)
def test_the_answer_holds_nothing_internal_and_fits_a_screen(answer: AnswerFile) -> None:
    text = answer.text()
    assert not INTERNAL.search(text)
    assert max(len(line) for line in text.splitlines()) <= LONGEST_LINE
    assert text.count("\n") <= 30


def test_there_are_forty_of_all_verdicts() -> None:
    assert len(FILES) >= 40
    assert {answer.decided.diagnosis.verdict.value for answer in FILES} == {
        "cause_found",
        "recovered",
        "no_active_incident",
        "insufficient_evidence",
    }
