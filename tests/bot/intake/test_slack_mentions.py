"""People ask for an investigation in their own words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from faultline.bot.intake.service_names import catalogued, mentioned
from faultline.bot.intake.slack_listener import mention_arrival, question_in
from faultline.bot.intake.slack_payload import Envelope, Message
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival
from faultline.connectors.shared.settings.shared_settings import ServiceSettings
from tests.bot.intake.conftest import bot_message, mention, slack_event

NOW = datetime(2026, 11, 20, 10, 1, tzinfo=UTC)
SETTINGS = Settings(
    services={
        "checkout": ServiceSettings(aliases=("basket", "Shopping Cart")),
        "checkout-worker": ServiceSettings(),
        "payments": ServiceSettings(pagerduty_service="PF9KMXH"),
    }
)


def ask(text: str, parent: dict[str, Any] | None = None, **more: Any) -> Arrival | None:
    envelope = Envelope.model_validate(slack_event(mention(text, **more)))
    question = question_in(envelope.event)
    assert question is not None
    began = Message.model_validate(parent) if parent else None
    return mention_arrival(envelope, question, began, SETTINGS, now=NOW)


def answered(text: str, parent: dict[str, Any] | None = None, **more: Any) -> Arrival:
    found = ask(text, parent, **more)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "question"),
    [
        ("<@U0BOT> investigate checkout 5xx", "checkout 5xx"),
        ("<@U0BOT>: Investigate: checkout\n5xx", "checkout\n5xx"),
        ("<@U0BOT> please investigate &lt;b&gt;", "<b>"),
        ("hey <@U0BOT> investigate", ""),
        ("hey <@U0BOT> investgate checkout", "checkout"),
        ("<@U0BOT> investigate", ""),
        ("<@U0BOT> investigated that", None),
        ("<@U0BOT> help", None),
        ("<@U0BOT>", None),
        ("", None),
    ],
)
def test_the_question_is_what_follows_investigate(text: str, question: str | None) -> None:
    assert question_in(Message(text=text)) == question


def test_the_answer_goes_to_the_thread_of_the_question() -> None:
    found = answered("investigate basket is slow since 10:05")
    assert found.alert.title == "basket is slow since 10:05"
    assert found.question == "basket is slow since 10:05"
    assert found.alert.service == "checkout"
    assert (found.reply_to.slack_channel, found.reply_to.slack_thread) == (
        "C9",
        "1763690000.000100",
    )
    assert found.delivery.id == "Ev1"
    inside = answered("investigate basket", thread_ts="1763680000.000100")
    assert inside.reply_to.slack_thread == "1763680000.000100"


def test_since_when_is_what_the_question_says() -> None:
    sent = datetime.fromtimestamp(1763690000, UTC)
    told = answered("investigate basket is slow since 01:05").alert.started_at
    assert told == sent.replace(hour=1, minute=5, second=0)
    last = answered("investigate basket errors in the last 2 hours").alert.started_at
    assert sent - last == pytest.approx(timedelta(hours=2), abs=timedelta(seconds=1))
    inside = answered("investigate since 01:05", bot_message(), thread_ts="1763690000.000100")
    assert inside.alert.started_at == told
    assert answered("investigate basket").alert.started_at == sent.replace(microsecond=100)


def test_who_asks_the_same_again_gets_another_answer() -> None:
    first, second = (
        answered("investigate basket"),
        answered("investigate basket", ts="1763690777.000100"),
    )
    assert first.alert.fingerprint != second.alert.fingerprint


def test_in_an_alerts_thread_investigate_alone_is_enough() -> None:
    found = answered(
        "investigate", bot_message(), ts="1763690500.000100", thread_ts="1763690000.000100"
    )
    assert found.alert.title == "HighErrorRate checkout (critical)"
    assert (found.alert.service, found.alert.severity) == ("checkout", "critical")
    assert found.alert.started_at == datetime(2025, 11, 21, 1, 53, 20, 100, tzinfo=UTC)
    assert found.question is None


def test_in_a_conversations_thread_its_first_message_is_the_context() -> None:
    parent = {
        "user": "U1",
        "text": "payments fail for <https://x.example|some>",
        "ts": "1763680000.000100",
    }
    found = answered("investigate why", parent, thread_ts="1763680000.000100")
    assert found.alert.title == "why"
    assert found.alert.service == "payments"
    assert found.alert.summary == "payments fail for some"


def test_a_question_about_nothing_is_no_alert() -> None:
    assert ask("investigate") is None


@pytest.mark.parametrize(
    ("text", "service"),
    [
        ("errors in Basket and payments", "checkout"),
        ("payments, then checkout", "payments"),
        ("checkout-worker lags", "checkout-worker"),
        ("the shopping cart is empty", "checkout"),
        ("precheckout is fine", None),
        ("service: ledger.prod is down", "ledger.prod"),
        ("5xx on ledger-api since noon", "ledger-api"),
        ("see https://x.example/ledger-api", None),
        ("ledger", "ledger"),
        ("it is slow", None),
        ("", None),
    ],
)
def test_the_service_is_guessed_from_the_text(text: str, service: str | None) -> None:
    assert mentioned(SETTINGS, text) == service


def test_a_vendors_names_are_looked_up_in_the_catalogue() -> None:
    assert catalogued(SETTINGS, "API Service", "PF9KMXH") == "payments"
    assert catalogued(SETTINGS, "", "BASKET") == "checkout"
    assert catalogued(SETTINGS, "API Service", "P0") == "API Service"
    assert catalogued(SETTINGS, "", "") is None
