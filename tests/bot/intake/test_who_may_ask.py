"""Who may ask the bot in Slack, through the real Bolt with signed requests: full members of its own
workspace, and whom the settings name."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import store_accept
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.settings import Settings
from faultline.bot.settings.people import LoginSettings, PeopleSettings
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.store import ReplyTo, Store
from faultline.bot.store.visibility import SlackChannelFacts
from tests.bot.intake.conftest import PATIENT_S, Senders, bot_message, mention, serving, slack_event
from tests.bot.intake.slack_on_loopback import Slack, slack_on_loopback

Open = Callable[..., Senders]
GUEST = {"is_restricted": True}
ELSEWHERE = {"team_id": "T9", "is_stranger": True}


@pytest.fixture
def slack() -> Iterator[Slack]:
    with slack_on_loopback() as slack:
        yield slack


@pytest.fixture
def opened(settings: Settings, sqlite_store: Store, slack: Slack) -> Iterator[Open]:
    with ExitStack() as stack:

        def start(**sections: Any) -> Senders:
            own = settings.slack.model_copy(update={"api_url": slack.api_url})
            given = settings.model_copy(update={"slack": own, **sections})
            router = MessageRouter(given, Conversations(sqlite_store.engine))
            base = stack.enter_context(
                serving(given, store_accept(sqlite_store), message_router=router)
            )
            senders = Senders(base, sqlite_store)
            stack.callback(senders.client.close)
            return senders

        yield start


def shared(event: dict[str, Any], *, event_id: str = "Ev1", **envelope: Any) -> dict[str, Any]:
    """An event of a channel that another company's workspace shares with ours."""
    return {**slack_event(event, event_id=event_id), "is_ext_shared_channel": True, **envelope}


def told(slack: Slack) -> str:
    """The first line that one person alone was shown."""
    deadline = time.monotonic() + PATIENT_S
    while not slack.calls["chat.postEphemeral"]:
        assert time.monotonic() < deadline, "nobody was notified"
        time.sleep(0.01)
    return str(slack.calls["chat.postEphemeral"][0]["text"])


def test_a_member_may_begin_an_investigation(opened: Open) -> None:
    bot = opened()
    bot.slack(slack_event(mention("investigate checkout", team="T1")))
    assert bot.store.count() == 1


@pytest.mark.parametrize("teams", [{"user_team": "T9"}, {"team": "T9"}, {"source_team": "T9"}])
def test_somebody_of_another_company_begins_nothing_and_is_told_why(
    opened: Open, slack: Slack, teams: dict[str, str]
) -> None:
    bot = opened()
    bot.slack(shared(mention("investigate checkout", **teams)))
    assert told(slack) == "Only members of this workspace may do this."
    (line,) = slack.calls["chat.postEphemeral"]
    assert (line["user"], line["channel"]) == ("U1", "C9")
    assert bot.store.count() == 0


def test_a_stranger_is_known_by_users_info_where_the_event_names_no_workspace(
    opened: Open, slack: Slack
) -> None:
    slack.users["U1"] = ELSEWHERE
    bot = opened()
    bot.slack(shared(mention("investigate checkout")))
    assert told(slack) == "Only members of this workspace may do this."
    assert bot.store.count() == 0


def test_thirty_one_investigations_of_a_stranger_are_none(opened: Open) -> None:
    bot = opened()
    for n in range(31):
        event = mention("investigate checkout", ts=f"17636900{n:02d}.000100", user_team="T9")
        bot.slack(shared(event, event_id=f"Ev{n}"))
    assert bot.store.count() == 0


def test_a_member_in_a_shared_channel_may_though_the_event_is_of_the_other_workspace(
    opened: Open,
) -> None:
    bot = opened()
    event = mention("investigate checkout", team="T1", user_team="T1")
    bot.slack(shared(event, team_id="T9", context_team_id="T1"))
    assert bot.store.count() == 1


@pytest.mark.parametrize(
    "envelope",
    [
        {"authorizations": [{"team_id": "T9", "user_id": "U9", "is_bot": True}]},
        {"authorizations": []},
    ],
)
def test_an_event_that_was_sent_for_another_workspace_is_nothing(
    opened: Open, envelope: dict[str, Any]
) -> None:
    bot = opened()
    event = {**slack_event(mention("investigate checkout")), "team_id": "T9", **envelope}
    assert bot.slack(event).status_code == 200
    alert = {**slack_event(bot_message(), event_id="Ev2"), "team_id": "T9", **envelope}
    assert bot.slack(alert).status_code == 200
    assert bot.store.count() == 0


@pytest.mark.parametrize("kind", [GUEST, {"is_ultra_restricted": True, **GUEST}])
def test_a_guest_begins_nothing_unless_the_settings_let_guests(
    opened: Open, slack: Slack, kind: dict[str, Any]
) -> None:
    slack.users["U1"] = kind
    bot = opened()
    bot.slack(slack_event(mention("investigate checkout")))
    assert told(slack) == "Guests of this workspace may not do this. Ask a full member."
    assert bot.store.count() == 0
    allowed = opened(people=PeopleSettings(guests="responder"))
    allowed.slack(slack_event(mention("investigate checkout"), event_id="Ev2"))
    assert allowed.store.count() == 1


def test_a_closed_account_may_nothing(opened: Open, slack: Slack) -> None:
    slack.users["U1"] = {"deleted": True, "is_admin": True}
    bot = opened()
    bot.slack(slack_event(mention("investigate checkout")))
    assert told(slack)
    assert bot.store.count() == 0


def test_somebody_who_is_named_may_whatever_their_account_is(opened: Open, slack: Slack) -> None:
    slack.users["U1"] = GUEST
    bot = opened(login=LoginSettings(responders=("U1",)))
    bot.slack(slack_event(mention("investigate checkout")))
    assert bot.store.count() == 1


def test_a_bot_begins_nothing_unless_it_is_named(opened: Open) -> None:
    bot = opened()
    asked = mention("investigate checkout", bot_id="B7")
    bot.slack(slack_event(asked))
    assert bot.store.count() == 0
    named = opened(login=LoginSettings(responders=("B7",)))
    named.slack(slack_event(asked, event_id="Ev2"))
    assert named.store.count() == 1


def test_a_viewer_may_ask_for_status_and_begin_nothing(opened: Open, slack: Slack) -> None:
    bot = opened(login=LoginSettings(viewers=("U1",)))
    bot.slack(slack_event(mention("investigate checkout")))
    assert told(slack) == "This takes the role responder; yours is viewer."
    assert bot.store.count() == 0
    bot.slack(slack_event(mention("status", ts="1763690009.000100"), event_id="Ev2"))
    kept = Conversations(bot.store.engine).get("C9:1763690009.000100")
    assert kept is not None
    assert kept.kind == "status"


@pytest.mark.parametrize(
    ("account", "more", "heard"),
    [
        ({}, {}, True),
        (GUEST, {}, False),
        (ELSEWHERE, {}, False),
        ({}, {"user_team": "T9"}, False),
        ({"deleted": True}, {}, False),
        ({}, {"bot_id": "B7"}, False),
    ],
    ids=["viewer", "guest", "stranger", "of another company", "closed account", "bot"],
)
def test_the_hand_over_is_for_viewers_and_for_nobody_without_a_role(
    opened: Open, slack: Slack, account: dict[str, Any], more: dict[str, Any], *, heard: bool
) -> None:
    slack.users["U1"] = account
    bot = opened(people=PeopleSettings(members="viewer"))
    bot.slack(shared(mention("handover 24h", **more)))
    kept = Conversations(bot.store.engine).get(f"C9:{mention('x')['ts']}")
    assert (kept is not None) == heard
    assert kept is None or kept.kind == "handover"


def test_in_a_thread_only_those_who_may_ask_are_heard_and_the_others_see_no_line(
    opened: Open, slack: Slack
) -> None:
    slack.users["U2"] = GUEST
    bot = opened()
    thread, channel = "1763690000.000100", "C9"
    alert = Alert(source="slack", title="checkout is slow", started_at="2026-11-20T03:00:00Z")
    bot.store.accept(alert, reply_to=ReplyTo(channel, thread))
    conversations = Conversations(bot.store.engine)

    def asked(user: str, ts: str, **more: Any) -> bool:
        written = {"type": "message", "text": "what changed?", "channel": channel, **more}
        event = {**written, "user": user, "ts": ts, "thread_ts": thread}
        bot.slack(slack_event(event, event_id=f"Ev{ts}"))
        return conversations.get(f"{channel}:{ts}") is not None

    assert asked("U1", "1763690001.000100")
    assert not asked("U2", "1763690002.000100")
    assert not asked("U3", "1763690003.000100", user_team="T9", team="T9")
    time.sleep(0.1)
    assert slack.calls["chat.postEphemeral"] == []


def test_a_message_that_a_stranger_edits_asks_and_changes_nothing(
    opened: Open, slack: Slack
) -> None:
    bot = opened()
    edited = mention("investigate checkout", user_team="T9", edited={"user": "U1", "ts": "2.0"})
    bot.slack(shared(edited))
    assert told(slack)
    conversations = Conversations(bot.store.engine)
    thread = "1763690000.000100"
    alert = Alert(source="slack", title="checkout is slow", started_at="2026-11-20T03:00:00Z")
    bot.store.accept(alert, reply_to=ReplyTo("C9", thread))
    question = {"type": "message", "channel": "C9", "thread_ts": thread, "ts": "1763690001.000100"}
    own = {**question, "user": "U1", "text": "what changed?"}
    bot.slack(slack_event(own, event_id="Ev2"))
    changed = {**question, "user": "U9", "user_team": "T9", "text": "investigate payments"}
    edit = {"type": "message", "subtype": "message_changed", "channel": "C9", "message": changed}
    bot.slack(shared({**edit, "ts": "1763690005.000100"}, event_id="Ev3"))
    kept = conversations.get("C9:1763690001.000100")
    assert kept is not None
    assert kept.text == "what changed?"


def test_while_slack_says_nothing_of_people_members_may_and_strangers_may_not(
    opened: Open, slack: Slack
) -> None:
    slack.errors["users.info"] = "missing_scope"
    bot = opened()
    bot.slack(slack_event(mention("investigate checkout")))
    assert bot.store.count() == 1
    bot.slack(shared(mention("investigate payments", ts="1763690002.000100"), event_id="Ev2"))
    bot.slack(
        shared(mention("investigate x", ts="1763690003.000100", user_team="T9"), event_id="Ev3")
    )
    assert bot.store.count() == 1


def test_one_person_begins_so_many_in_an_hour_and_another_one_more(
    opened: Open, slack: Slack
) -> None:
    bot = opened(people=PeopleSettings(investigations_per_hour=2))

    def begin(n: int, user: str = "U1", event: str = "") -> None:
        asked = mention("investigate checkout", ts=f"176369000{n}.000100", user=user)
        bot.slack(slack_event(asked, event_id=event or f"Ev{n}"))

    begin(0)
    begin(0, event="Ev0 again")
    begin(1)
    begin(2)
    assert bot.store.count() == 2
    assert told(slack) == "You have reached your limit of 2 investigations per hour. " + (
        "Ask again later."
    )
    begin(3, user="U2")
    assert bot.store.count() == 3


def test_people_are_looked_up_once_for_many_messages(opened: Open, slack: Slack) -> None:
    bot = opened()
    for n in range(5):
        asked = mention("investigate checkout", ts=f"176369000{n}.000100")
        bot.slack(slack_event(asked, event_id=f"Ev{n}"))
    assert len(slack.calls["users.info"]) == 1
    assert len(slack.calls["auth.test"]) == 1


def test_who_reads_a_private_channel_is_known_once_an_investigation_begins_there(
    opened: Open, slack: Slack
) -> None:
    slack.given["conversations.info"] = {"channel": {"id": "C9", "is_private": True}}
    slack.given["conversations.members"] = {"members": ["U1", "U2"]}
    bot = opened()
    bot.slack(slack_event(mention("investigate checkout")))
    facts, deadline = SlackChannelFacts(bot.store.engine), time.monotonic() + PATIENT_S
    while facts.read()["C9"] is None:
        assert time.monotonic() < deadline, "Slack was not asked"
        time.sleep(0.01)
    readers = facts.read()["C9"]
    assert readers is not None
    assert readers.members == frozenset({"U1", "U2"})
