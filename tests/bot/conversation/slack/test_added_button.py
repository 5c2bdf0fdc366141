"""The button of docs/extending.md works as it stands, once its line is there."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from faultline.bot.answer.targets.slack import buttons
from faultline.loopback.slack_person import actions_of
from tests.bot.conversation.slack.conftest import Room, eventually
from tests.docs.test_extending import PAGE, example


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    section = PAGE.read_text().split("## A button\n", 1)[1]
    line = re.search(r'^    "([\w.]+):(\w+)",$', section, re.MULTILINE)
    assert line is not None
    name, attribute = line.groups()
    module = ModuleType(name)
    exec(compile(example("A button"), name, "exec", dont_inherit=True), module.__dict__)
    monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(buttons, "BUTTONS", (f"{name}:{attribute}", *buttons.BUTTONS))
    buttons.all_buttons.cache_clear()
    yield
    buttons.all_buttons.cache_clear()


@pytest.mark.usefixtures("added")
def test_the_added_button_is_offered_and_does_what_it_says(room: Room) -> None:
    _, message = room.answered()
    ann = room.person()
    assert "faultline_history" in actions_of(message)
    assert ann.click(message, "faultline_history").status_code == 200
    eventually(room.said_aside, "an answer")
    assert room.said_aside() == ["Nobody has done anything with this investigation yet."]
    ann.click(message, "faultline_right")
    ann.click(message, "faultline_history")
    eventually(lambda: len(room.said_aside()) == 2, "the second answer")
    assert room.said_aside()[1] == "ann (U0ANN) said that the answer is right"


@pytest.mark.usefixtures("added")
def test_a_failed_investigation_does_not_offer_it(room: Room) -> None:
    _, message = room.failed()
    assert "faultline_history" not in actions_of(message)


def test_without_its_line_nothing_offers_it(room: Room) -> None:
    _, message = room.answered()
    assert "faultline_history" not in actions_of(message)
