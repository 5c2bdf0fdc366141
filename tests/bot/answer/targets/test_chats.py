"""An answer is one message in a chat's channel, edited in place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest

from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.targets.chats.target import ChatTarget
from faultline.bot.answer.targets.message_target import VendorMessage
from faultline.bot.answer.targets.plain_message import TextParts
from faultline.bot.policy.reply_targets import declared_targets, targets_of
from faultline.bot.policy.values import ReplyTo
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.store import Store, StoredInvestigation
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.targets.answers import (
    a_diagnosis,
    a_gap,
    a_report,
    an_alert,
    an_hour_later,
    settings,
    some_evidence,
)
from tests.bot.answer.targets.fake_chats import CHANNEL, SERVICE_CHANNEL, FakeChats

CHATS = ("msteams", "mattermost", "discord")
SECRETS = {"msteams": "client_secret", "mattermost": "token", "discord": "webhook_url"}
HOSTILE = "@everyone <at>Ann</at> <@U1> [x](http://evil) **b** `a` @channel <!here> ||s|| # h"


@pytest.fixture
def chats() -> Iterator[FakeChats]:
    fake = FakeChats()
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


def declared(name: str, given: Settings) -> ChatTarget[Any]:
    [found] = [one for one in declared_targets(given) if one.name == name]
    assert isinstance(found, ChatTarget)
    return found


def opened(
    name: str,
    chats: FakeChats,
    store: Store,
    **more: Any,
) -> VendorMessage:
    sections = chats.sections()
    sections[name] |= more
    given = settings(**sections)
    target = declared(name, given)
    return target._client()(target, given, store, owner="w")


def accepted(store: Store, **more: Any) -> StoredInvestigation:
    found = store.get(store.accept(an_alert(**more)).investigation_id or "")
    assert found is not None
    return found


def outcome(investigation: StoredInvestigation, headline: str = "payments breaks it") -> Outcome:
    report = a_report(headline=headline)
    return Outcome(investigation, Answer(a_diagnosis(), report, some_evidence(), [a_gap()], None))


def said(body: dict[str, Any]) -> str:
    return json.dumps(body, ensure_ascii=False)


@pytest.mark.parametrize("name", CHATS)
def test_one_message_says_that_it_has_begun_and_then_holds_each_answer(
    name: str, chats: FakeChats, store: Store
) -> None:
    target = opened(name, chats, store)
    investigation = accepted(store)

    async def story() -> None:
        await target.announce(investigation)
        await target.answer(outcome(investigation, "payments v2 breaks checkout"))
        await target.answer(outcome(investigation, "it was the database"))

    asyncio.run(story())
    [message] = chats.messages
    assert message.channel == CHANNEL
    first, second, third = (said(one) for one in message.versions)
    assert "Investigating: checkout error ratio" in first
    assert "payments v2 breaks checkout" in second
    assert "it was the database" in third
    for one in (first, second, third):
        assert f"https://faultline.example.com/investigations/{investigation.id}" in one


@pytest.mark.parametrize("name", ["msteams", "mattermost"])
def test_a_message_whose_sending_was_not_confirmed_is_found_and_not_sent_again(
    name: str, chats: FakeChats, store: Store
) -> None:
    target = opened(name, chats, store)
    investigation = accepted(store)
    chats.lose_answers = 1
    with pytest.raises(ConnectorError) as failed:
        asyncio.run(target.announce(investigation))
    assert failed.value.retryable
    an_hour_later(store)
    asyncio.run(target.answer(outcome(investigation)))
    [message] = chats.messages
    assert "payments breaks it" in said(message.versions[-1])


@pytest.mark.parametrize("name", CHATS)
def test_two_workers_send_one_message(name: str, chats: FakeChats, store: Store) -> None:
    investigation = accepted(store)
    one, other = (opened(name, chats, store) for _ in range(2))

    async def both() -> None:
        await asyncio.gather(*(each.announce(investigation) for each in (one, other)))

    asyncio.run(both())
    assert len(chats.messages) == 1


@pytest.mark.parametrize("name", CHATS)
@pytest.mark.parametrize(("status", "again"), [(403, False), (429, True), (503, True)])
def test_a_refusal_says_whether_to_try_again_and_has_no_secret_in_it(
    name: str, status: int, again: bool, chats: FakeChats, store: Store
) -> None:
    target = opened(name, chats, store)
    chats.refuse_with = status
    with pytest.raises(ConnectorError) as refused:
        asyncio.run(target.announce(accepted(store)))
    assert (refused.value.status, refused.value.retryable) == (status, again)
    assert chats.messages == []
    shown: BaseException | None = refused.value
    while shown is not None:
        # Discord's address is the secret, which an error of the client would quote.
        assert "secret" not in str(shown)
        shown = shown.__cause__ or (None if shown.__suppress_context__ else shown.__context__)


@pytest.mark.parametrize("name", CHATS)
def test_check_says_who_we_are_and_a_wrong_secret_is_refused(name: str, chats: FakeChats) -> None:
    given = settings(**chats.sections())
    assert asyncio.run(declared(name, given).check(given))
    sections = chats.sections()
    wrong = f"{chats.url}/hooks/1/wrong" if name == "discord" else "wrong"
    sections[name][SECRETS[name]] = wrong
    given = settings(**sections)
    with pytest.raises(FaultlineError, match="refused with 401"):
        asyncio.run(declared(name, given).check(given))


def test_a_services_own_channel_and_an_alerts_own_come_first(
    chats: FakeChats, store: Store
) -> None:
    given = settings(
        msteams=chats.sections()["msteams"] | {"channels": {"payments": SERVICE_CHANNEL}}
    )
    target = declared("msteams", given)
    assert target.address(ReplyTo(), "payments", given) == SERVICE_CHANNEL
    assert target.address(ReplyTo(), "checkout", given) == CHANNEL
    own = ReplyTo(other_addresses={"msteams": "19:x@thread.tacv2"})
    assert target.address(own, "payments", given) == "19:x@thread.tacv2"


def test_of_several_bots_each_posts_what_its_table_covers(chats: FakeChats) -> None:
    table = chats.sections()["msteams"]
    del table["client_secret"]
    tables = [
        {**table, "name": "eu", "covers": {"region": ["eu"]}},
        {**table, "name": "us", "covers": {"region": ["us"]}},
    ]
    server = settings_of({"msteams": tables}, {})
    worker = settings_of({"msteams": tables}, {"FAULTLINE_MSTEAMS__EU__CLIENT_SECRET": "s"})
    alert = an_alert(labels={"region": "eu"})
    posting = [one for one in declared_targets(worker) if one.configured(worker)]
    assert [one.target_name for one in posting] == ["msteams eu"]
    for given in (server, worker):
        told = {
            one.target_name
            for one in declared_targets(given)
            if one.name == "msteams" and one.address_for(alert, None, ReplyTo(), given)
        }
        assert told == {"msteams eu"}
        # The server keeps alerts of other bots' channels out of an investigation, too.
        assert targets_of(alert, None, ReplyTo(), given) == {"msteams eu"}


# Microsoft Teams


def test_foreign_text_is_text_in_a_card(chats: FakeChats, store: Store) -> None:
    target = opened("msteams", chats, store)
    investigation = accepted(store, title=HOSTILE)
    asyncio.run(target.announce(investigation))
    asyncio.run(target.answer(outcome(investigation, HOSTILE)))
    for activity in chats.messages[0].versions:
        assert set(activity) == {"type", "summary", "attachments"}, "no text, no mentions"
        card = activity["attachments"][0]["content"]
        assert {part["type"] for part in card["body"]} == {"RichTextBlock"}
        for part in card["body"]:
            assert {run["type"] for run in part["inlines"]} == {"TextRun"}
            assert all("selectAction" not in run for run in part["inlines"])
        [action] = card["actions"]
        assert action["url"].startswith("https://faultline.example.com/investigations/")
        assert "://evil" not in said(activity)


def test_a_token_is_used_until_it_ends_or_is_refused(chats: FakeChats, store: Store) -> None:
    target = opened("msteams", chats, store)
    investigation = accepted(store)
    asyncio.run(target.announce(investigation))
    asyncio.run(target.answer(outcome(investigation)))
    assert len(chats.tokens) == 1
    chats.valid.clear()
    with pytest.raises(ConnectorError):
        asyncio.run(target.answer(outcome(investigation)))
    asyncio.run(target.answer(outcome(investigation, "later")))
    assert len(chats.tokens) == 2
    assert "later" in said(chats.messages[0].versions[-1])


@pytest.mark.parametrize(
    "url",
    [
        "https://evil.example/teams",
        "https://smba.trafficmanager.net.evil.example",
        "https://x.trafficmanager.net/teams",
        "http://smba.trafficmanager.net/teams",
        "https://smba.trafficmanager.net:8443/teams",
    ],
)
def test_the_bots_token_goes_to_microsofts_hosts_alone(url: str) -> None:
    with pytest.raises(SettingsError, match="service_hosts"):
        settings_of({"msteams": {"service_url": url}}, {})


def test_another_host_is_named_in_the_settings() -> None:
    table = {"service_url": "https://teams.example/x", "service_hosts": ["teams.example"]}
    assert settings_of({"msteams": table}, {}).msteams.service_url == "https://teams.example/x"


def test_without_leave_to_read_the_channel_nothing_is_looked_for(
    chats: FakeChats, store: Store
) -> None:
    target = opened("msteams", chats, store, team=None)
    investigation = accepted(store)
    chats.lose_answers = 1
    with pytest.raises(ConnectorError):
        asyncio.run(target.announce(investigation))
    an_hour_later(store)
    asyncio.run(target.announce(investigation))
    assert len(chats.messages) == 2, "what the page says of bots without it"
    assert all("graph" not in path for _, path, _ in chats.requests)


# Chats with Markdown


@pytest.mark.parametrize("name", ["mattermost", "discord"])
def test_foreign_text_is_no_markdown_and_mentions_nobody(
    name: str, chats: FakeChats, store: Store
) -> None:
    target = opened(name, chats, store)
    investigation = accepted(store, title=HOSTILE)
    asyncio.run(target.announce(investigation))
    asyncio.run(target.answer(outcome(investigation, HOSTILE)))
    for body in chats.messages[0].versions:
        text = said(body)
        for wrong in ("@everyone", "@channel", "<at>", "<@U1>", "<!here>", "[x](", "**b**", "`a`"):
            assert wrong not in text
        assert "://evil" not in text


def test_markdown_is_cut_at_a_line_and_keeps_the_link() -> None:
    lines = "\n".join(
        ["a title", *(f"- {n} {'long ' * 50}" for n in range(99)), "Details: http://x"]
    )
    text = TextParts.of(lines).markdown_within(4000)
    assert len(text) <= 4000
    assert text.splitlines()[-3] == "…"
    assert text.endswith("(http://x)")


def test_discord_cannot_be_searched_and_gets_a_lost_message_again(
    chats: FakeChats, store: Store
) -> None:
    target = opened("discord", chats, store)
    investigation = accepted(store, title=HOSTILE * 9)
    chats.lose_answers = 1
    with pytest.raises(ConnectorError):
        asyncio.run(target.announce(investigation))
    an_hour_later(store)
    asyncio.run(target.announce(investigation))
    asyncio.run(target.answer(outcome(investigation)))
    assert [len(one.versions) for one in chats.messages] == [1, 2], "what the page says"
