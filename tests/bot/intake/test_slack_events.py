"""Slack events over HTTP: real signatures, the real Bolt, a Slack on loopback."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from sqlalchemy import text

from faultline.analysis.vocabulary import Alert
from faultline.bot.intake.accepting import IntakeLimits, NotAccepted, store_accept
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations
from faultline.bot.store.passed_over import passed_over_messages
from faultline.bot.store.store import Accepted, Arrival, ReplyTo, Store
from faultline.bot.store.visibility import ALL
from tests.bot.intake.conftest import (
    PATIENT_S,
    SLACK_SECRETS,
    WATCHED,
    Senders,
    bot_message,
    mention,
    only,
    serving,
    slack_event,
    slack_headers,
)
from tests.bot.intake.slack_on_loopback import Slack, slack_on_loopback

Serve = Callable[..., Senders]
AT = datetime(2026, 11, 20, 10, 0, tzinfo=UTC)
SAMPLED = "T000000001"
"""The workspace of Slack's samples."""


@pytest.fixture
def slack() -> Iterator[Slack]:
    with slack_on_loopback() as slack:
        yield slack


@pytest.fixture
def connected(settings: Settings, slack: Slack) -> Settings:
    """Settings that point at the Slack on loopback."""
    return settings.model_copy(
        update={"slack": settings.slack.model_copy(update={"api_url": slack.api_url})}
    )


@pytest.fixture
def bot(serve: Serve, sqlite_store: Store, connected: Settings) -> Senders:
    return serve(sqlite_store, connected)


def eventually(condition: Callable[[], Any], seconds: float = PATIENT_S) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def test_a_mention_starts_an_investigation_that_answers_in_its_thread(bot: Senders) -> None:
    assert bot.slack(slack_event(mention("investigate basket &lt;5xx&gt;"))).status_code == 200
    found = only(bot.store)
    assert found.alert.title == "basket <5xx>"
    assert found.alert.service == "checkout"
    assert found.question == "basket <5xx>"
    assert (found.reply_to.slack_channel, found.reply_to.slack_thread) == (
        "C9",
        "1763690000.000100",
    )


def test_an_alert_that_alertmanager_posted_starts_an_investigation(
    bot: Senders, slack: Slack, shared: Path
) -> None:
    slack.team = SAMPLED
    sample = json.loads(
        (shared / "webhooks/slack/message.bot_message.alertmanager.json").read_text()
    )
    assert bot.slack(sample).status_code == 200
    found = only(bot.store)
    assert found.alert.title == "HighErrorRate checkout (local critical payments)"
    assert (found.reply_to.slack_channel, found.reply_to.slack_thread) == (
        WATCHED,
        "1763690000.000100",
    )


def test_an_alert_joins_its_repeat_and_ends_with_its_resolution(bot: Senders) -> None:
    ended = [{"title": "[RESOLVED] HighErrorRate checkout (critical)", "color": "good"}]
    bot.slack(slack_event(bot_message(), event_id="Ev1"))
    bot.slack(slack_event(bot_message(ts="1763690100.000100"), event_id="Ev2"))
    assert only(bot.store).repeats == 1
    bot.slack(slack_event(bot_message(ts="1763690200.000100", attachments=ended), event_id="Ev3"))
    assert only(bot.store).resolved_at is not None
    bot.slack(slack_event(bot_message(ts="1763690300.000100"), event_id="Ev4"))
    assert bot.store.count() == 2


def test_slacks_retries_change_nothing(bot: Senders) -> None:
    event = slack_event(mention("investigate checkout"))
    for attempt in range(4):
        headers = (
            {"x-slack-retry-num": str(attempt), "x-slack-retry-reason": "http_timeout"}
            if attempt
            else {}
        )
        assert bot.slack(event, headers=headers).status_code == 200
    assert bot.store.count() == 1


def test_the_same_event_twenty_times_at_once_is_one_investigation(bot: Senders) -> None:
    event = slack_event(mention("investigate checkout"))
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: bot.slack(event).status_code, range(20)))
    assert set(answers) == {200}
    assert bot.store.count() == 1


@pytest.mark.parametrize("secret", SLACK_SECRETS)
def test_the_address_is_verified_with_either_secret(bot: Senders, secret: str) -> None:
    answer = bot.slack(
        {"type": "url_verification", "token": "x", "challenge": "3eZbrw1a"}, secret=secret
    )
    assert answer.status_code == 200
    assert answer.json() == {"challenge": "3eZbrw1a"}


def test_unsigned_old_or_changed_requests_are_refused_in_one_word(bot: Senders) -> None:
    event = slack_event(mention("investigate checkout"))
    body = json.dumps(event).encode()
    refused = [
        bot.post("/slack/events", body, {}),
        bot.slack(event, secret="guess"),
        bot.slack(event, at=time.time() - 301),
        bot.post(
            "/slack/events",
            body.replace(b"checkout", b"payments"),
            slack_headers(body, SLACK_SECRETS[0]),
        ),
        bot.post("/slack/events", b"{}", {}),
    ]
    assert {(answer.status_code, answer.text) for answer in refused} == {(401, "signature\n")}
    assert bot.store.count() == 0


@pytest.mark.parametrize(
    "payload",
    [
        slack_event({"type": "reaction_added", "user": "U1", "reaction": "eyes", "item": {}}),
        slack_event(
            {"type": "message", "channel": "C0OTHER", "user": "U1", "text": "hi", "ts": "1.0"}
        ),
        slack_event({"type": "app_mention", "text": "<@U0BOT> hello", "user": "U1"}),
        slack_event({"type": "message"}),
        slack_event({"type": "message"}) | {"authorizations": [1]},
        slack_event(
            {"type": "message", "channel": WATCHED, "text": 5, "attachments": [1], "ts": {}}
        ),
        {"type": "app_rate_limited", "team_id": "T1", "minute_rate_limited": 1518467820},
        {"type": "event_callback", "event": []},
        {
            "type": "block_actions",
            "actions": [{"action_id": "open", "type": "button"}],
            "user": {"id": "U1"},
        },
        {"type": "something new"},
        [],
        b"payload=%7B%7D",
        b"\xff",
    ],
)
def test_what_we_do_not_handle_is_still_answered_200(bot: Senders, payload: Any) -> None:
    assert bot.slack(payload).status_code == 200
    assert bot.store.count() == 0


def test_slacks_samples_are_all_answered_200(bot: Senders, slack: Slack, shared: Path) -> None:
    slack.team = SAMPLED
    files = sorted((shared / "webhooks/slack").glob("*.json"))
    assert len(files) > 8
    assert {bot.slack(file.read_bytes()).status_code for file in files} == {200}
    assert bot.store.count() == 1


def test_help_is_answered_in_the_thread_once(bot: Senders, slack: Slack) -> None:
    event = slack_event(mention("help"))
    bot.slack(event)
    bot.slack(event, headers={"x-slack-retry-num": "1"})
    eventually(lambda: slack.calls["chat.postMessage"])
    time.sleep(0.1)
    (posted,) = slack.calls["chat.postMessage"]
    assert "`investigate`" in posted["text"]
    assert (posted["channel"], posted["thread_ts"]) == ("C9", "1763690000.000100")
    assert posted["token"] == "Bearer xoxb-1"
    assert bot.store.count() == 0


def test_bots_that_mention_us_get_no_help(bot: Senders, slack: Slack) -> None:
    bot.slack(slack_event(mention("hello", bot_id="B7")))
    time.sleep(0.1)
    assert not slack.calls["chat.postMessage"]


def test_our_own_messages_are_known_by_auth_test(bot: Senders, slack: Slack) -> None:
    event = slack_event(bot_message(bot_id="B0US")) | {"authorizations": [], "api_app_id": ""}
    bot.slack(event)
    bot.slack({**event, "event_id": "Ev2"})
    assert bot.store.count() == 0
    assert len(slack.calls["auth.test"]) == 1, "asked once, then remembered"


def test_while_auth_test_fails_no_event_is_lost(bot: Senders, slack: Slack) -> None:
    slack.broken.add("auth.test")
    assert bot.slack(slack_event(bot_message())).status_code == 200
    assert bot.slack(slack_event(bot_message(user="U0BOT"), event_id="Ev2")).status_code == 200
    assert bot.store.count() == 1
    assert len(slack.calls["auth.test"]) == 1, "not asked again at once"


def test_in_an_alerts_thread_the_alert_is_the_context(bot: Senders, slack: Slack) -> None:
    slack.threads["1763690000.000100"] = bot_message()
    bot.slack(
        slack_event(mention("investigate", ts="1763690500.000100", thread_ts="1763690000.000100"))
    )
    found = only(bot.store)
    assert found.alert.title == "HighErrorRate checkout (critical)"
    assert found.reply_to.slack_thread == "1763690000.000100"


@pytest.fixture
def heard(sqlite_store: Store, connected: Settings) -> Iterator[Senders]:
    """With the conversation, as in a running bot."""
    router = MessageRouter(connected, Conversations(sqlite_store.engine))
    accept = store_accept(sqlite_store)
    with serving(connected, accept, message_router=router) as base:
        senders = Senders(base, sqlite_store)
        yield senders
        senders.client.close()


def test_a_message_without_an_alert_is_counted_once_for_the_health_page(
    heard: Senders,
) -> None:
    chat = bot_message(text="Who wants lunch?", attachments=[], username="Lunchbot")
    for event_id in ("Ev1", "Ev2"):
        assert heard.slack(slack_event(chat, event_id=event_id)).status_code == 200
    edit = {"subtype": "message_changed", "message": chat, "channel": WATCHED, "type": "message"}
    heard.slack(slack_event(edit, event_id="Ev3"))
    engine = heard.store.engine
    eventually(
        lambda: (
            passed_over_messages(engine, ALL) and passed_over_messages(engine, ALL)[0].count == 2
        )
    )
    (row,) = passed_over_messages(engine, ALL)
    assert (row.channel, row.app, row.example) == (WATCHED, "Lunchbot", "Who wants lunch?")
    assert heard.store.count() == 0


@pytest.mark.parametrize(
    ("text", "begins"),
    [
        ("why is checkout throwing 504s?", True),
        ("basket looks odd since lunch", True),
        ("everything is timing out", True),
        ("who is on call for checkout?", False),
        ("roll back checkout", False),
        ("what changed?", False),
        ("good morning", False),
        ("the errors are gone", False),
    ],
)
def test_a_mention_that_tells_of_trouble_begins_an_investigation(
    heard: Senders, text: str, begins: bool
) -> None:
    assert heard.slack(slack_event(mention(text))).status_code == 200
    assert heard.store.count() == int(begins)
    if begins:
        assert only(heard.store).question == text


def test_in_an_answers_thread_a_mention_is_about_the_alert_never_about_our_text(
    heard: Senders, slack: Slack
) -> None:
    thread = "1763690000.000100"
    slack.threads[thread] = bot_message(user="U0BOT", bot_id="B0US", ts=thread)
    alert = Alert(source="pagerduty", title="Basket is slow", started_at=AT, service="checkout")
    heard.store.accept(alert, reply_to=ReplyTo("C9", thread))
    asked = mention("investigate", ts="1763690500.000100", thread_ts=thread)
    heard.slack(slack_event(asked))
    newest = heard.store.latest(1)[0]
    assert heard.store.count() == 2
    assert (newest.alert.title, newest.alert.service) == ("Basket is slow", "checkout")
    assert newest.alert.started_at == AT
    question = mention("why is checkout down?", ts="1763690600.000100", thread_ts=thread)
    heard.slack(slack_event(question, event_id="Ev7"))
    assert heard.store.count() == 2, "there it is a question"


def test_a_thread_that_cannot_be_read_in_time_does_not_hold_the_question_up(
    bot: Senders, slack: Slack
) -> None:
    slack.slow_s["conversations.replies"] = 2
    began = time.monotonic()
    bot.slack(
        slack_event(
            mention("investigate checkout", ts="1763690500.000100", thread_ts="1763690000.000100")
        )
    )
    assert time.monotonic() - began < 1.9
    assert only(bot.store).alert.title == "checkout"


def test_an_event_that_cannot_be_stored_is_answered_503_and_taken_at_slacks_retry(
    serve: Serve, sqlite_store: Store, connected: Settings
) -> None:
    bot = serve(sqlite_store, connected, IntakeLimits(accept_within_s=0.3))
    event = slack_event(mention("investigate checkout"))
    with sqlite_store.engine.connect() as connection:
        connection.execute(
            text("SELECT 1")
        )  # begins a write transaction, which keeps all others out
        refused = bot.slack(event)
        connection.rollback()
    assert (refused.status_code, refused.text) == (503, "try again")
    # On a busy machine one more of Slack's three retries may come too early.
    retry = {"x-slack-retry-num": "1"}
    eventually(lambda: bot.slack(event, headers=retry).status_code == 200)
    eventually(lambda: bot.store.count() == 1)


def test_over_http_a_missing_token_is_named(
    serve: Serve, sqlite_store: Store, settings: Settings
) -> None:
    without = settings.model_copy(
        update={"slack": settings.slack.model_copy(update={"bot_token": None})}
    )
    answer = serve(sqlite_store, without).slack(slack_event(mention("investigate checkout")))
    assert (answer.status_code, answer.text) == (
        404,
        "not configured: set FAULTLINE_SLACK__BOT_TOKEN\n",
    )


def test_a_request_that_nobody_listens_to_is_answered_and_not_quoted_in_the_log(
    bot: Senders, caplog: pytest.LogCaptureFixture
) -> None:
    unknown = {
        "type": "shortcut",
        "callback_id": "planted\nwords",
        "trigger_id": "1",
        "user": {"id": "U1"},
    }
    body = urlencode({"payload": json.dumps(unknown)}).encode()
    headers = slack_headers(body, SLACK_SECRETS[0]) | {
        "content-type": "application/x-www-form-urlencoded"
    }
    assert bot.post("/slack/interactivity", body, headers).status_code == 200
    assert "planted" not in caplog.text


@pytest.mark.parametrize(
    "action", ["text", {"type": "button", "action_id": 7, "block_id": "b"}, {}]
)
def test_a_signed_click_of_another_shape_is_answered_and_not_asked_for_again(
    settings: Settings, sqlite_store: Store, action: Any
) -> None:
    def listen(app: Any, _: Settings) -> None:
        @app.action(re.compile(""))
        async def on_click(ack: Any) -> None:
            await ack()

    body = urlencode(
        {"payload": json.dumps({"type": "block_actions", "actions": [action]})}
    ).encode()
    headers = slack_headers(body, SLACK_SECRETS[0]) | {
        "content-type": "application/x-www-form-urlencoded"
    }
    with serving(settings, store_accept(sqlite_store), slack_listeners=(listen,)) as base:
        assert (
            httpx.post(f"{base}/slack/interactivity", content=body, headers=headers).status_code
            == 200
        )


def test_a_listener_of_ours_that_fails_is_not_taken_for_a_wrong_shape(
    settings: Settings, sqlite_store: Store
) -> None:
    async def broken(arrival: Arrival) -> Accepted:
        raise NotAccepted("the store is away")

    body = json.dumps(slack_event(mention("investigate checkout"))).encode()
    with serving(settings, broken) as base:
        answer = httpx.post(
            f"{base}/slack/events", content=body, headers=slack_headers(body, SLACK_SECRETS[0])
        )
    assert answer.status_code == 503
