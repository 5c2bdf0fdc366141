"""Slack as a source: what was said in the alert's thread, and the deploys that are announced in
some channels.

Reading only, with GET; replies are posted elsewhere.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode

import msgspec
import polars as pl

from faultline.analysis.case.tables import CHANGES
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import ChangeRow, rows_table
from faultline.connectors.shared.rows.named_ids import bare_id, instance_in
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short, unexpected_response
from faultline.connectors.vendors.slack import CHANNEL_LABEL, THREAD_LABEL, SlackSettings
from faultline.connectors.vendors.slack.messages import (
    ServiceWords,
    SlackHistoryMessage,
    announced,
    moment_of,
    thread_details,
)

T = TypeVar("T")

VENDOR = "slack"
LIMITS = Limits(deadline_s=15, max_bytes=16 * 1024 * 1024, requests_per_s=0.8, concurrency=2)
"""Slack allows 50 calls a minute of a method of tier 3 (docs.slack.dev, "Rate limits")."""
PAGE, MOST_PAGES = 200, 5
"""Slack recommends no more than 200 a page (docs.slack.dev, "Pagination")."""
MOST_CHANNELS, MOST_MESSAGES = 5, 40
LOOKBACK = timedelta(hours=24)
_CHANNEL = re.compile(r"[CDG][A-Z0-9]{1,20}")
_WORDS = {
    "missing_scope": "the token lacks the scope for it",
    "not_in_channel": "the bot is not in the channel: invite it",
    "channel_not_found": "the channel is not there, or the bot is not in it",
    "thread_not_found": "the thread is gone",
    "ratelimited": "the rate limit is used up",
    "invalid_auth": "authentication failed",
    "not_authed": "authentication failed",
    "token_revoked": "the token was revoked",
    "token_expired": "the token has expired",
    "account_inactive": "the bot's account is not active",
}
"""Errors that Slack answers with status 200 (docs.slack.dev, each method's "Errors")."""
_NO_TOKEN = frozenset(
    {"invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive"}
)


def build(slack_settings: SlackSettings, settings: SharedSettings) -> SlackConnector | None:
    """The configured connector, or None without a token."""
    if slack_settings.bot_token is None:
        return None
    services = {name: entry.aliases for name, entry in settings.services.items()}
    return SlackConnector(
        slack_settings.bot_token.get_secret_value(),
        slack_settings.api_url,
        channels=slack_settings.deploy_channels,
        services=services,
        workspace=slack_settings.instance.name,
        limits=slack_settings.limits(LIMITS),
    )


class Who(msgspec.Struct):
    """auth.test: who we are, and where links lead."""

    url: str | None = None
    user_id: str | None = None
    bot_id: str | None = None

    def wrote(self, message: SlackHistoryMessage) -> bool:
        """Whether a message is our own: by its author, or by the metadata that all our messages
        carry."""
        event = None
        if isinstance(message.metadata, dict):
            event = message.metadata.get("event_type")
        has_our_event = isinstance(event, str) and event.startswith("faultline")
        return (
            has_our_event
            # `-` is no id: if we do not know ours, no message without an author is ours.
            or message.user in (self.user_id or "-",)
            or message.bot_id in (self.bot_id or "-",)
        )

    def page(self, channel: str, ts: str, thread: str | None = None) -> str | None:
        """A message's page (docs.slack.dev, chat.getPermalink)."""
        # It becomes the base of links, so take nothing but an address.
        if not self.url or not re.fullmatch(r"https://[a-z0-9.-]{1,100}/", self.url):
            return None
        page = f"{self.url}archives/{channel}/p{ts.replace('.', '')}"
        if not thread or thread == ts:
            return page
        return f"{page}?{urlencode({'thread_ts': thread, 'cid': channel})}"


class SlackConnector:
    """`services`: aliases by our name. `channels`: ids of the channels where deploys are
    announced. `workspace`: its name, where there are several."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("alert", "changes")

    def __init__(
        self,
        token: str,
        api_url: str = "https://slack.com/api",
        *,
        channels: Sequence[str] = (),
        services: Mapping[str, Sequence[str]] | None = None,
        workspace: str = "",
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(
            VENDOR, api_url, headers={"Authorization": f"Bearer {token}"}, limits=limits
        )
        self._channels = tuple(channels)
        self._words = ServiceWords(services or {})
        self._workspace = workspace
        self._who: Who | None = None
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The alert's thread and the announcements around the incident; nothing where neither is
        there to be read."""
        thread = thread_of(request.alert, self._workspace)
        if thread is None and not self._channels:
            return Collected()
        async with self._http.open() as session:
            who = await self._ourselves(session)
            calls = []
            for channel in self._channels[:MOST_CHANNELS]:
                calls.append(self._announcements(session, who, channel, request))
            if thread is not None:
                calls.append(self._thread(session, who, *thread))
            parts = await asyncio.gather(*calls)
        items: list[Item] = []
        missing: list[Missing] = []
        for part in parts:
            items += part.items
            missing += part.missing
        left_out = len(self._channels) - MOST_CHANNELS
        if left_out > 0:
            reason = f"{left_out} of {len(self._channels)} channels left out"
            missing.append(Missing("changes", "slack.deploy_channels", reason))
        changes = pl.concat([part.tables["changes"] for part in parts])
        return Collected({"changes": changes}, tuple(items), tuple(missing))

    def is_of(self, alert: Alert) -> bool:
        """Whether the alert is in a thread of this workspace."""
        return thread_of(alert, self._workspace) is not None

    async def check(self) -> Check:
        """Can each channel be read?"""
        try:
            async with self._http.open() as session:
                await _ask(session, "auth.test", [], Who)
                refused = [
                    await _refusal(session, channel) for channel in self._channels[:MOST_CHANNELS]
                ]
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        parts = ReadableParts(dict(zip(self._channels, refused, strict=False)))
        notes = []
        if parts.readable:
            notes.append(f"deploys announced in {', '.join(parts.readable)} can be read")
        notes += parts.unread
        if not self._channels:
            notes.append("no slack.deploy_channels: only threads of alerts are read")
        line = (
            f"Slack at {self._http.base_url}: {'; '.join(notes)}; only GET is "
            "sent; the token can also post, for replies"
        )
        return Check(self.name, bool(parts.readable) or not self._channels, line, parts.unread)

    async def _ourselves(self, session: HttpSession) -> Who:
        """Who we are, asked once; nobody where Slack does not say, unless the token itself is
        refused."""
        if self._who is None:
            try:
                self._who = await _ask(session, "auth.test", [], Who)
            except ConnectorError as error:
                if error.status in (401, 403):
                    raise
                # Not kept: the next collection asks again.
                return Who()
        return self._who

    async def _thread(self, session: HttpSession, who: Who, channel: str, ts: str) -> Collected:
        params = [("channel", channel), ("ts", ts)]
        query = _query("conversations.replies", params)
        try:
            messages, cut = await _messages(session, "conversations.replies", params)
        except FaultlineError as error:
            return Collected(_none(), missing=(Missing("alert", query, str(error)),))
        other_messages = [m for m in messages if not who.wrote(m)]
        if len(other_messages) > MOST_MESSAGES:
            cut = (
                f"{len(other_messages) - MOST_MESSAGES} of {len(other_messages)} messages left out"
            )
            # The first message opened the thread: keep it, and the latest ones.
            other_messages = [*other_messages[:1], *other_messages[1 - MOST_MESSAGES :]]
        times = [message.time for message in messages if message.time is not None]
        item = Item(
            "alert",
            query,
            Window(start=min(times), end=max(times)) if times else None,
            who.page(channel, ts),
            rows=len(messages),
            cut=cut,
            details=thread_details(other_messages),
        )
        return Collected(_none(), (item,))

    async def _announcements(
        self, session: HttpSession, who: Who, channel: str, request: Request
    ) -> Collected:
        window = Window(start=request.scope.events_from - LOOKBACK, end=request.scope.incident.end)
        bounds = [
            ("oldest", f"{window.start.timestamp():.6f}"),
            ("latest", f"{window.end.timestamp():.6f}"),
        ]
        params = [("channel", channel), *bounds, ("inclusive", "true")]
        query = _query("conversations.history", params)
        try:
            messages, cut = await _messages(session, "conversations.history", params)
        except FaultlineError as error:
            return Collected(_none(), missing=(Missing("changes", query, str(error)),))
        # Up to 1,000 long texts are searched: keep the event loop free.
        rows = await asyncio.to_thread(self._rows, who, channel, messages)
        table = rows_table(dict.fromkeys(rows), CHANGES.columns)
        link = who.page(channel, messages[-1].ts) if messages else None
        item = Item("changes", query, window, link, rows=table.height, cut=cut)
        return Collected({"changes": table}, (item.holding(table),))

    def _rows(
        self, who: Who, channel: str, messages: Sequence[SlackHistoryMessage]
    ) -> list[ChangeRow]:
        rows = []
        for message in messages:
            # Our own answers speak of deploys too.
            if who.wrote(message):
                continue
            link = who.page(channel, message.ts)
            for announcement in announced(message, self._words):
                row = ChangeRow(
                    announcement.time,
                    announcement.service,
                    "deploy",
                    announcement.id,
                    announcement.title,
                    announcement.author,
                    link,
                )
                rows.append(row)
        return rows


def thread_of(alert: Alert, workspace: str = "") -> tuple[str, str] | None:
    """Channel and thread in which an alert stands, if it came from this workspace."""
    written, ts = alert.labels.get(CHANNEL_LABEL, ""), alert.labels.get(THREAD_LABEL, "")
    # Another workspace's token cannot read it.
    if instance_in(written) != workspace:
        return None
    channel = bare_id(written)
    if alert.source != VENDOR or not _CHANNEL.fullmatch(channel) or not moment_of(ts):
        return None
    return channel, ts


class _Meta(msgspec.Struct):
    next_cursor: str | None = None


class _Page(msgspec.Struct):
    messages: list[SlackHistoryMessage]
    has_more: bool = False
    response_metadata: _Meta | None = None


async def _messages(
    session: HttpSession, method: str, params: list[tuple[str, str]]
) -> tuple[list[SlackHistoryMessage], str | None]:
    """The messages, and what of them was left out."""
    history_messages: list[SlackHistoryMessage] = []
    cursor = ""
    for _ in range(MOST_PAGES):
        requested_params = [*params, ("limit", str(PAGE))]
        if cursor:
            requested_params.append(("cursor", cursor))
        try:
            page = await _ask(session, method, requested_params, _Page)
        except FaultlineError as error:
            if not history_messages:
                raise
            return history_messages, f"the rest was not read: {error}"
        history_messages += [message for message in page.messages if message.time is not None]
        meta = page.response_metadata
        cursor = (meta.next_cursor if meta else None) or ""
        if not cursor:
            return history_messages, None
    return history_messages, f"more than {len(history_messages)} messages are there"


async def _ask(
    session: HttpSession, method: str, params: list[tuple[str, str]], type: type[T]
) -> T:
    """A method's answer. Slack says what is wrong inside an answer with status 200. Raises
    ConnectorError."""
    answer = await session.get(f"/{method}", params, type=dict[str, Any])
    if answer.get("ok") is not True:
        slack_error = str(answer.get("error", "no reason given"))
        # As HTTP would say it, so that a refused token differs from a refused channel.
        status = 401 if slack_error in _NO_TOKEN else None
        problem = _WORDS.get(slack_error, f"refused: {short(slack_error, 60)}")
        raise ConnectorError(VENDOR, method, problem, status=status)
    try:
        return msgspec.convert(answer, type)
    except msgspec.ValidationError as error:
        raise unexpected_response(VENDOR, method, error) from error


async def _refusal(session: HttpSession, channel: str) -> str | None:
    try:
        await _ask(session, "conversations.history", [("channel", channel), ("limit", "1")], _Page)
    except ConnectorError as error:
        if error.status == 401:
            raise
        return error.problem
    return None


def _query(method: str, params: list[tuple[str, str]]) -> str:
    return f"GET /{method}?{urlencode(params)}"


def _none() -> dict[str, pl.DataFrame]:
    return {"changes": pl.DataFrame(schema=CHANGES.columns)}
