"""What people ask gets a right answer, or an honest one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bot.conversation.questions import Asked, graded, share
from tests.kept import assert_kept

LEAST = 0.85
ANSWERS = Path(__file__).with_name("answers.txt")


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return Asked(tmp_path_factory.mktemp("asked"))


@pytest.mark.parametrize("group", ["field", "natural"])
def test_most_of_what_people_ask_gets_a_right_answer(asked: Asked, group: str) -> None:
    answers = graded(asked, group)
    wrong = [f"{one.question.q}: {one.wrong}" for one in answers if one.wrong]
    assert share(answers) >= LEAST, wrong
    assert all(one.text.strip() for one in answers)


def test_each_question_is_answered_as_it_is_kept(asked: Asked) -> None:
    texts = []
    for group in ("field", "natural"):
        for answer in graded(asked, group):
            texts.append(f"# {answer.question.of}: {answer.question.q}\n{answer.text}\n")
    assert_kept(ANSWERS, "\n".join(texts))
