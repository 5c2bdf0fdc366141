"""Slack events over Socket Mode: we call Slack, so that no address of ours need be reachable."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence

from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_sdk.socket_mode.aiohttp import SocketModeClient

from faultline.analysis.errors import SettingsError
from faultline.bot.intake.accepting import Accept, IntakeLimits
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.slack_events import Register, SlackEvents
from faultline.bot.settings import Settings, secret_variable
from faultline.connectors.shared.transport.environment_trust import proxy_of_environment

PING_S = 5.0
"""Between pings, and between attempts to connect; slack_sdk's own default."""
FRESH_URL_AFTER_S = 30.0
"""The address from `apps.connections.open` is a ticket for seconds; by itself the client tries an
old one forever."""

log = logging.getLogger("faultline.intake")


class _SocketClient(SocketModeClient):
    """The SDK's, through the proxy that the environment names for each address of Slack's."""

    async def issue_new_wss_url(self) -> str:
        """A fresh address."""
        url = await super().issue_new_wss_url()
        # Which proxy the environment names depends on the host, and that is known only now.
        self.proxy = proxy_of_environment(url)
        return url


class SlackSocket(AsyncSocketModeHandler):
    """Bolt's handler, which connects in the background and asks for a fresh address while it is
    disconnected."""

    def __init__(self, events: SlackEvents, app_token: str) -> None:
        # Bolt's own `__init__` would make a client of the SDK's class, with its proxy.
        self.app = events.app
        self.app_token = app_token
        client = self.app.client
        self.client = _SocketClient(
            app_token, self.app.logger, web_client=client, ping_interval=PING_S
        )
        self.client.socket_mode_request_listeners.append(self.handle)  # type: ignore[arg-type]
        self._tasks = [asyncio.create_task(self._connect()), asyncio.create_task(self._refresh())]

    async def connected(self) -> bool:
        """Whether events can arrive now."""
        return bool(await self.client.is_connected())

    async def close_async(self) -> None:
        """Disconnect and stop trying."""
        self.client.closed = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.client.close()  # type: ignore[no-untyped-call]

    async def _connect(self) -> None:
        await self.client.connect()  # type: ignore[no-untyped-call]

    async def _refresh(self) -> None:
        while True:
            await asyncio.sleep(FRESH_URL_AFTER_S)
            if not await self.connected():
                log.warning("slack socket mode is not connected; requesting a new address")
                self.client.wss_uri = None


async def start_socket_mode(
    settings: Settings,
    accept: Accept,
    *,
    limits: IntakeLimits | None = None,
    more: Sequence[Register] = (),
    message_router: MessageRouter | None = None,
) -> SlackSocket:
    """Begin to receive events; returns at once, connected or not. `close_async` ends it.

    Raises SettingsError without the two tokens it takes.
    """
    app_token = socket_mode_tokens(settings)
    return SlackSocket(SlackEvents(settings, accept, limits, more, message_router), app_token)


def socket_mode_tokens(settings: Settings) -> str:
    """The app token, where the bot token is there too. Raises SettingsError without one of them."""
    if settings.slack.app_token is None:
        raise _needed(settings, "app_token")
    if settings.slack.bot_token is None:
        raise _needed(settings, "bot_token")
    return settings.slack.app_token.get_secret_value()


def _needed(settings: Settings, key: str) -> SettingsError:
    workspace = settings.slack.instance.name
    section = f"slack.{workspace}" if workspace else "slack"
    variable = secret_variable("slack", key, workspace or None)
    return SettingsError(f"{section}.{key}", f"is needed for Socket Mode: set {variable}")
