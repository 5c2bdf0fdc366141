"""What people write in Slack reaches the conversation through the real Bolt, and nothing else
does."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.slack_listener import _addressed, _is_persons, may_be_for_us
from faultline.bot.intake.slack_payload import Envelope, Message
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations, Question
from faultline.bot.store.store import ReplyTo, Store
from tests.bot.intake.conftest import Senders, mention, serving, slack_event
from tests.bot.intake.slack_on_loopback import Slack, slack_on_loopback

THREAD, CHANNEL = "1763690000.000100", "C9"


@dataclass
class Ears:
    """The senders, and what was kept."""

    senders: Senders
    conversations: Conversations
    numbers: int = 0

    def hear(self, event: dict[str, Any]) -> Question | None:
        """Send one event; the question that came of its message."""
        self.numbers += 1
        assert (
            self.senders.slack(slack_event(event, event_id=f"EvH{self.numbers}")).status_code == 200
        )
        return self.conversations.get(f"{event.get('channel')}:{event.get('ts')}")


@pytest.fixture
def slack() -> Iterator[Slack]:
    with slack_on_loopback() as slack:
        yield slack


@pytest.fixture
def ears(settings: Settings, sqlite_store: Store, slack: Slack) -> Iterator[Ears]:
    """A server with a message router, and one investigation that is answered in a thread."""
    reached = settings.model_copy(
        update={"slack": settings.slack.model_copy(update={"api_url": slack.api_url})}
    )
    alert = Alert(source="slack", title="checkout is slow", started_at="2026-11-20T03:00:00Z")
    sqlite_store.accept(alert, reply_to=ReplyTo(CHANNEL, THREAD))
    conversations = Conversations(sqlite_store.engine)
    with serving(
        reached, store_accept(sqlite_store), message_router=MessageRouter(reached, conversations)
    ) as base:
        senders = Senders(base, sqlite_store)
        yield Ears(senders, conversations)
        senders.client.close()


def written(text: str, ts: str, **more: Any) -> dict[str, Any]:
    return {
        "type": "message",
        "user": "U1",
        "text": text,
        "ts": ts,
        "channel": CHANNEL,
        "thread_ts": THREAD,
        **more,
    }


def test_a_question_in_our_thread_is_kept(ears: Ears) -> None:
    found = ears.hear(written("what changed?", "1763690001.000100"))
    assert found is not None
    assert (found.kind, found.surface, found.text, found.thread) == (
        "question",
        "thread",
        "what changed?",
        THREAD,
    )
    assert found.investigation_id


def test_a_mention_is_one_question_though_slack_sends_two_events(ears: Ears) -> None:
    ts = "1763690002.000100"
    ears.hear(written("<@U0BOT> explian F3", ts))
    assert ears.conversations.get(f"{CHANNEL}:{ts}") is None, "the other event brings that"
    found = ears.hear(mention("explian F3", ts=ts, thread_ts=THREAD))
    assert found is not None
    assert found.kind == "explain"
    ears.hear(mention("explian F3", ts=ts, thread_ts=THREAD))
    assert ears.conversations.waiting() == 1


@pytest.mark.parametrize(
    "event",
    [
        written("I'll take a look", "1763690003.000100"),
        written("what changed?", "1763690003.000200", bot_id="B0OTHER"),
        written("what changed?", "1763690003.000300", user="U0BOT"),
        written("what changed?", "1763690003.000400", metadata={"event_type": "faultline_answer"}),
        written("what changed?", "1763690003.000500", thread_ts="1763600000.000001"),
        written("what changed?", "1763690003.000600", subtype="channel_join"),
        written("<@U0ADA> what changed?", "1763690003.000700"),
        written("what changed?", "1763690003.000800", thread_ts=""),
        written("what changed?", "not a ts"),
        written("what changed?", "1763690003.000900", channel="C9/../x"),
        mention("thanks!", ts="1763690003.001000"),
    ],
)
def test_what_is_not_for_us_is_not_kept(ears: Ears, event: dict[str, Any]) -> None:
    assert ears.hear(event) is None
    assert ears.conversations.waiting() == 0


def test_an_edit_changes_an_unanswered_question_and_a_deletion_withdraws_it(ears: Ears) -> None:
    ts = "1763690004.000100"
    ears.hear(written("what changed?", ts))
    changed = {
        "type": "message",
        "user": "U1",
        "text": "who is affected?",
        "ts": ts,
        "thread_ts": THREAD,
    }
    edit = {
        "type": "message",
        "subtype": "message_changed",
        "channel": CHANNEL,
        "ts": "1763690004.000900",
    }
    ears.hear({**edit, "message": changed})
    kept = ears.conversations.get(f"{CHANNEL}:{ts}")
    assert kept is not None
    assert kept.text == "who is affected?"
    gone = {
        "type": "message",
        "subtype": "message_deleted",
        "channel": CHANNEL,
        "ts": "1763690005.1",
        "deleted_ts": ts,
    }
    ears.hear(gone)
    kept = ears.conversations.get(f"{CHANNEL}:{ts}")
    assert kept is not None
    assert kept.status == "withdrawn"


def test_a_direct_message_is_for_us(ears: Ears) -> None:
    direct = {"type": "message", "user": "U1", "channel": "D7", "channel_type": "im"}
    found = ears.hear({**direct, "text": "status", "ts": "1763690006.000100"})
    assert found is not None
    assert (found.kind, found.surface) == ("status", "dm")
    before = ears.senders.store.count()
    assert (
        ears.hear({**direct, "text": "investigate checkout 5xx", "ts": "1763690006.000200"}) is None
    )
    assert ears.senders.store.count() == before + 1


def test_a_mention_that_asks_nothing_we_know_gets_help(ears: Ears) -> None:
    found = ears.hear(mention("hello there friend", ts="1763690007.000100"))
    assert found is not None
    assert found.kind == "help"


@pytest.mark.parametrize(
    ("fields", "is_persons"),
    [
        ({}, True),
        ({"user": ""}, False),
        ({"bot_id": "B1"}, False),
        ({"app_id": "A1"}, False),
        ({"bot_profile": {"app_id": "A1"}}, False),
        ({"subtype": "bot_message"}, False),
        ({"subtype": "file_share"}, True),
    ],
)
def test_each_mark_of_a_bot_alone_makes_a_message_a_bots(
    fields: dict[str, Any], *, is_persons: bool
) -> None:
    assert _is_persons(Message.model_validate({"user": "U1", **fields})) is is_persons


@pytest.mark.parametrize(
    ("channel", "ts", "thread", "is_addressed"),
    [
        ("C123", "1.000100", "1.000100", True),
        ("", "1.000100", "1.000100", False),
        ("C1/../2", "1.000100", "1.000100", False),
        ("C123", "now", "1.000100", False),
        ("C123", "1.000100", "then", False),
    ],
)
def test_an_address_has_the_form_of_slacks(
    channel: str, ts: str, thread: str, *, is_addressed: bool
) -> None:
    message = Message.model_validate({"ts": ts, "thread_ts": thread})
    assert _addressed(channel, message) is is_addressed


@pytest.mark.parametrize(
    ("event", "may_be"),
    [
        ({"channel": "C1", "ts": "2.0", "thread_ts": "1.0"}, True),
        ({"channel": "C1", "ts": "2.0"}, False),
        ({"channel": "D1", "ts": "2.0"}, True),
        ({"channel": "G1", "channel_type": "im", "ts": "2.0"}, True),
        ({"channel": "", "channel_type": "im", "ts": "2.0"}, False),
        ({"channel": "C1", "ts": "2.0", "subtype": "message_deleted"}, True),
        ({"channel": "C1", "ts": "2.0", "thread_ts": "1.0", "subtype": "channel_join"}, False),
        (
            {
                "channel": "C1",
                "subtype": "message_changed",
                "message": {"ts": "2.0", "thread_ts": "1.0"},
            },
            True,
        ),
        ({"channel": "C1", "subtype": "message_changed", "message": {"ts": "2.0"}}, False),
    ],
)
def test_which_messages_may_be_for_us(event: dict[str, Any], *, may_be: bool) -> None:
    envelope = Envelope.model_validate({"event": {"type": "message", **event}})
    assert may_be_for_us(envelope) is may_be
