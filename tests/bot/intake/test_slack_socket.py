"""Slack events over Socket Mode: the real client and Bolt against a Slack on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
from pydantic import SecretStr

from faultline.analysis.errors import SettingsError
from faultline.bot.intake import slack_socket
from faultline.bot.intake.accepting import NotAccepted, store_accept
from faultline.bot.intake.slack_socket import SlackSocket, start_socket_mode
from faultline.bot.settings import Settings
from faultline.bot.settings.loading import settings_of
from faultline.bot.store.store import Accepted, Arrival, Store
from tests.bot.intake.conftest import WATCHED, bot_message, mention, only, slack_event, until
from tests.bot.intake.slack_on_loopback import Slack, slack_on_loopback


@pytest.fixture
def slack() -> Iterator[Slack]:
    with slack_on_loopback() as slack:
        yield slack


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slack_socket, "PING_S", 0.3)


@pytest.fixture
def connected(settings: Settings, slack: Slack) -> Settings:
    tokens = {"api_url": slack.api_url, "app_token": SecretStr("xapp-1"), "signing_secrets": ()}
    return settings.model_copy(update={"slack": settings.slack.model_copy(update=tokens)})


@asynccontextmanager
async def socket_mode(
    settings: Settings, accept: Callable[..., Awaitable[Accepted]]
) -> AsyncIterator[SlackSocket]:
    handler = await start_socket_mode(settings, accept)
    try:
        yield handler
    finally:
        await handler.close_async()


def test_events_arrive_are_stored_and_then_acknowledged(
    connected: Settings, slack: Slack, sqlite_store: Store
) -> None:
    async def story() -> None:
        async with socket_mode(connected, store_accept(sqlite_store)):
            await until(lambda: bool(slack.sockets))
            slack.send(slack_event(mention("investigate basket"), event_id="Ev1"), envelope="N1")
            slack.send(slack_event(bot_message(), event_id="Ev2"), envelope="N2")
            slack.send(
                slack_event({"type": "reaction_added", "user": "U1"}, event_id="Ev3"), envelope="N3"
            )
            await until(lambda: len(slack.acknowledged) == 3)

    asyncio.run(story())
    assert set(slack.acknowledged) == {"N1", "N2", "N3"}
    assert {one.alert.title for one in sqlite_store.latest()} == {
        "basket",
        "HighErrorRate checkout (critical)",
    }
    assert slack.calls["apps.connections.open"][0]["token"] == "Bearer xapp-1"


def test_each_workspace_has_a_connection_of_its_own(slack: Slack, sqlite_store: Store) -> None:
    """Equal messages, with equal ids of channel and event, come from both."""
    with slack_on_loopback() as other:
        tables = [
            {"name": "eu", "api_url": slack.api_url, "alert_channels": [WATCHED]},
            {"name": "us", "api_url": other.api_url, "alert_channels": [WATCHED]},
        ]
        tokens = {}
        for name in ("EU", "US"):
            tokens[f"FAULTLINE_SLACK__{name}__BOT_TOKEN"] = f"xoxb-{name}"
            tokens[f"FAULTLINE_SLACK__{name}__APP_TOKEN"] = f"xapp-{name}"
        eu, us = settings_of({"slack": tables}, tokens).per_instance("slack")
        accept = store_accept(sqlite_store)

        async def story() -> None:
            async with socket_mode(eu, accept), socket_mode(us, accept):
                for workspace in (slack, other):
                    await until(lambda workspace=workspace: bool(workspace.sockets))  # type: ignore[misc]
                    workspace.send(slack_event(bot_message(), event_id="Ev1"), envelope="N1")
                    await until(lambda workspace=workspace: bool(workspace.acknowledged))  # type: ignore[misc]

        asyncio.run(story())
        assert slack.calls["apps.connections.open"][0]["token"] == "Bearer xapp-EU"
        assert other.calls["apps.connections.open"][0]["token"] == "Bearer xapp-US"
    stored = {one.reply_to.slack_channel for one in sqlite_store.latest()}
    assert stored == {f"eu:{WATCHED}", f"us:{WATCHED}"}


def test_an_event_that_could_not_be_stored_is_not_acknowledged_and_comes_again(
    connected: Settings, slack: Slack, sqlite_store: Store
) -> None:
    stored = store_accept(sqlite_store)
    failures = [NotAccepted("not now")]

    async def accept(arrival: Arrival) -> Accepted:
        if failures:
            raise failures.pop()
        return await stored(arrival)

    async def story() -> None:
        async with socket_mode(connected, accept):
            await until(lambda: bool(slack.sockets))
            event = slack_event(mention("investigate basket"))
            slack.send(event, envelope="N1")
            await until(lambda: not failures)
            slack.send(event, envelope="N2", attempt=1)
            await until(lambda: bool(slack.acknowledged))
            slack.send(event, envelope="N3", attempt=2)
            await until(lambda: len(slack.acknowledged) == 2)

    asyncio.run(story())
    assert slack.acknowledged == ["N2", "N3"]
    assert only(sqlite_store).alert.title == "basket"


def test_after_slack_hangs_up_the_next_event_arrives_over_a_new_socket(
    connected: Settings, slack: Slack, sqlite_store: Store
) -> None:
    async def story() -> None:
        async with socket_mode(connected, store_accept(sqlite_store)):
            await until(lambda: bool(slack.sockets))
            slack.hang_up()
            await until(lambda: len(slack.sockets) == 2, seconds=15)
            slack.send(slack_event(mention("investigate basket")))
            await until(lambda: bool(slack.acknowledged))

    asyncio.run(story())
    assert sqlite_store.count() == 1


def test_an_address_that_has_expired_is_replaced_by_a_fresh_one(
    connected: Settings, slack: Slack, sqlite_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slack_socket, "FRESH_URL_AFTER_S", 0.2)
    slack.stale_tickets = 1

    async def story() -> None:
        async with socket_mode(connected, store_accept(sqlite_store)) as handler:
            async with asyncio.timeout(15):
                while not await handler.connected():
                    await asyncio.sleep(0.02)

    asyncio.run(story())
    assert len(slack.calls["apps.connections.open"]) >= 2


def test_an_unreachable_slack_does_not_stop_the_start_and_closing_is_quick(
    connected: Settings, sqlite_store: Store
) -> None:
    nowhere = {"api_url": "http://127.0.0.1:9/api"}
    settings = connected.model_copy(update={"slack": connected.slack.model_copy(update=nowhere)})

    async def story() -> None:
        async with asyncio.timeout(3):
            async with socket_mode(settings, store_accept(sqlite_store)) as handler:
                await asyncio.sleep(0.2)
                assert not await handler.connected()

    asyncio.run(story())


@pytest.mark.parametrize("missing", ["app_token", "bot_token"])
def test_a_missing_token_is_named(connected: Settings, sqlite_store: Store, missing: str) -> None:
    settings = connected.model_copy(
        update={"slack": connected.slack.model_copy(update={missing: None})}
    )
    with pytest.raises(SettingsError, match=f"FAULTLINE_SLACK__{missing.upper()}"):
        asyncio.run(start_socket_mode(settings, store_accept(sqlite_store)))
