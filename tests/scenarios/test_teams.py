"""A bot that talks in Microsoft Teams alone: an alert is answered in a channel, somebody asks in
the thread of the answer, and is answered there once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline.bot.settings import Settings
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.fake_chats import CHANNEL, SECRET, FakeChats
from tests.bot.intake.teams_on_loopback import APP, HOME, PEOPLE, Teams, first_key, published
from tests.scenarios.bot_story import Story, bot_story
from tests.scenarios.small_case import write_small_case

WITHIN_S = 300.0


@pytest.fixture
def chats() -> Iterator[FakeChats]:
    fake = FakeChats(members=dict(PEOPLE), keys=[published(first_key(), "msteams")])
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


@pytest.fixture
def story(tmp_path: Path, chats: FakeChats) -> Iterator[Story]:
    own = {
        "CLIENT_ID": APP,
        "CLIENT_SECRET": SECRET,
        "TENANT": "a-tenant",
        "TENANT_ID": HOME,
        "CHANNEL": CHANNEL,
        "SERVICE_URL": f"{chats.url}/teams",
        "SERVICE_HOSTS": "127.0.0.1",
        "LOGIN_URL": f"{chats.url}/login",
        "OPENID_URL": f"{chats.url}/openid",
    }
    environ = {f"FAULTLINE_MSTEAMS__{key}": value for key, value in own.items()}
    no_slack = {
        f"FAULTLINE_SLACK__{key}": "" for key in ("BOT_TOKEN", "SIGNING_SECRETS", "CHANNEL")
    }
    case = write_small_case(tmp_path / "case")
    with bot_story(tmp_path, case, "sqlite", environ={**environ, **no_slack}) as running:
        yield running


def card(chats: FakeChats, n: int) -> str:
    """A message as it is now."""
    newest: dict[str, Any] = chats.messages[n].versions[-1]["attachments"][0]["content"]
    return json.dumps(newest)


def test_a_question_in_the_thread_of_an_answer_is_answered_there(
    story: Story, chats: FakeChats
) -> None:
    investigation = story.page_out("PTEAMS").json()["investigation_id"]

    def answered() -> bool:
        return bool(chats.messages) and "Confidence" in card(chats, 0)

    story.wait_for(answered, what="the answer in Teams", within_s=WITHIN_S)
    root = chats.messages[0].name
    ann = Teams(chats, story.store, Settings(), story.bot.url)
    there = {"id": f"{CHANNEL};messageid={root}", "conversationType": "channel"}
    # What is said at once is nothing, or the answer already.
    ann.say("why?", conversation=there)
    story.wait_for(lambda: len(chats.messages) > 1, what="the answer to her", within_s=WITHIN_S)
    [_, told] = chats.messages
    assert told.channel == there["id"]
    assert f"/investigations/{investigation}#F" in card(chats, 1)
    assert story.slack.posts == []
