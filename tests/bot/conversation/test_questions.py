"""What people ask gets a right answer, or an honest one."""

from __future__ import annotations

import pytest

from tests.bot.conversation.questions import Asked, graded, share

LEAST = 0.85


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Asked:
    return Asked(tmp_path_factory.mktemp("asked"))


@pytest.mark.parametrize("group", ["field", "natural"])
def test_most_of_what_people_ask_gets_a_right_answer(asked: Asked, group: str) -> None:
    answers = graded(asked, group)
    wrong = [f"{one.question.q}: {one.wrong}" for one in answers if one.wrong]
    assert share(answers) >= LEAST, wrong
    assert all(one.text.strip() for one in answers)
