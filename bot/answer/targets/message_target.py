"""A reply target with one message for each investigation: posted once, then edited in place.

A target without buttons and pictures says how its vendor finds, sends and edits a text. When that
happens, and that it happens once whatever crashes, is decided here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

import httpx

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.plain_message import answer_text, digest_text, first_text
from faultline.bot.answer.targets.posting import LEASE, NOT_DONE, REQUEST_TIMEOUT_S, post_once
from faultline.bot.policy.reply_targets import ReplyTargetDeclaration
from faultline.bot.policy.services import catalogue_name
from faultline.bot.settings import Settings
from faultline.bot.store.messages import DueDigest
from faultline.bot.store.store import NO_POST, Store, StoredInvestigation
from faultline.connectors.shared.settings.settings_types import Section

T = TypeVar("T")

NOT_UNDERSTOOD = (AttributeError, KeyError, IndexError, TypeError, ValueError)
"""How reading an answer of another shape fails."""
SEARCH_BACK = timedelta(minutes=10)
"""A post is looked for from this long before its reason: the vendor's clock and ours differ."""
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
"""How a request fails for which no connection was made."""
WORTH_ANOTHER = (408, 425, 429)
"""Statuses below 500 after which the same request may be accepted later (RFC 9110, RFC 6585)."""


class MessageTarget(ABC):
    """Posts and edits. Every failure is one ConnectorError that says whether to try again."""

    def __init__(
        self,
        declared: ReplyTargetDeclaration[Any],
        settings: Settings,
        store: Store,
        *,
        owner: str,
        lease: timedelta = LEASE,
    ) -> None:
        self._declared = declared
        self._settings = settings
        self._store = store
        self._post_once = partial(post_once, owner=owner, lease=lease)

    @abstractmethod
    async def find(self, address: str, key: str, since: datetime) -> str | None:
        """The ref of our message that bears `key`, sent after `since`; None when there is none."""

    @abstractmethod
    async def send(self, address: str, key: str, text: str) -> str:
        """Send a new message that bears `key`, and give the ref by which it can be edited."""

    @abstractmethod
    async def edit(self, address: str, ref: str, text: str) -> None:
        """Replace the text of a message."""

    @property
    def name(self) -> str:
        """As it is declared."""
        return self._declared.name

    @property
    def posts_digests(self) -> bool:
        """Whether its addresses are channels."""
        return self._declared.has_channels

    def expects_answer(self, investigation: StoredInvestigation) -> bool:
        """Whether it has an address for it, and its channel is not to be left alone for now."""
        if self._declared.has_channels and investigation.quiet_until is not None:
            return False
        return self._declared.configured(self._settings) and bool(self._address(investigation))

    async def announce(self, investigation: StoredInvestigation) -> None:
        """Say that it has begun; nothing where the message stands already."""
        if self._declared.announces:
            await self._post(investigation, first_text(investigation, self._page(investigation)))

    async def preview(self, outcome: Outcome) -> None:
        """Edit the message into the answer so far; nothing once the answer is on its way."""
        if not self._declared.announces:
            return

        async def show() -> str:
            await self._show(outcome)
            return NO_POST

        await self._preview_once(outcome.investigation, show)

    async def answer(self, outcome: Outcome) -> None:
        """Edit the message into the answer, or post the answer where there is no message yet."""
        # Without a model there are no previews.
        if self._settings.model.name is not None:
            await self._no_preview_after(outcome.investigation)
        await self._show(outcome)

    async def post_digest(
        self, digest: DueDigest, investigations: Sequence[StoredInvestigation]
    ) -> None:
        """One message in each of its channels, once. Raises ConnectorError."""
        channels: defaultdict[str, list[StoredInvestigation]] = defaultdict(list)
        for investigation in investigations:
            channels[self._address(investigation)].append(investigation)
        for channel, channel_group in channels.items():
            if channel:
                text = digest_text(channel_group, self._settings.server.public_url)
                await self._once(
                    channel_group[0], f"{self._key(channel_group[0])}-digest", channel, text
                )

    async def _show(self, outcome: Outcome) -> None:
        investigation = outcome.investigation
        text = answer_text(outcome, self._page(investigation))
        ref, sent_now = await self._post(investigation, text)
        if not sent_now:
            await self._vendor_answer("edit", self.edit(self._address(investigation), ref, text))

    async def _post(self, investigation: StoredInvestigation, text: str) -> tuple[str, bool]:
        key = self._key(investigation)
        return await self._once(investigation, key, self._address(investigation), text)

    async def _once(
        self, investigation: StoredInvestigation, key: str, address: str, text: str
    ) -> tuple[str, bool]:
        """The ref of the one message under a key, and whether this call has sent it."""
        sent: list[str] = []

        async def find() -> str | None:
            since = investigation.accepted_at - SEARCH_BACK
            return await self._vendor_answer("find", self.find(address, key, since))

        async def send() -> str:
            sent.append(await self._vendor_answer("send", self.send(address, key, text)))
            return sent[-1]

        ref = await self._post_once(self._store, key, investigation.id, find=find, send=send)
        # Another attempt's message may be the one that counts: then this call has to edit it.
        return ref, bool(sent) and sent[-1] == ref

    async def _no_preview_after(self, investigation: StoredInvestigation) -> None:
        """Wait for a preview that is on its way, and take the right to one that has not begun."""

        async def passed() -> str:
            return NO_POST

        await self._preview_once(investigation, passed)

    async def _preview_once(
        self, investigation: StoredInvestigation, send: Callable[[], Awaitable[str]]
    ) -> None:
        async def find() -> None:
            return None

        key = f"{self._key(investigation)}-preview:{investigation.runs}"
        # Previews are claimed like posts, so that none overwrites the answer.
        await self._post_once(self._store, key, investigation.id, find=find, send=send)

    def _key(self, investigation: StoredInvestigation) -> str:
        return self._declared.post_key(investigation.id)

    def _address(self, investigation: StoredInvestigation) -> str:
        service = catalogue_name(investigation.alert.service, self._settings)
        address = self._declared.address_for(
            investigation.alert, service, investigation.reply_to, self._settings
        )
        return address or ""

    def _page(self, investigation: StoredInvestigation) -> str:
        return f"{self._settings.server.public_url}/investigations/{investigation.id}"

    async def _vendor_answer(self, call: str, answer: Awaitable[T]) -> T:
        """The vendor's answer. Raises ConnectorError."""
        try:
            return await answer
        except httpx.HTTPStatusError as error:
            status = error.response.status_code
            again = status >= 500 or status in WORTH_ANOTHER
            phrase = "the request was refused"
            raise ConnectorError(
                self.name,
                call,
                phrase,
                status=status,
                retryable=again,
                unchanged=status in NOT_DONE,
            ) from error
        except (httpx.TransportError, TimeoutError) as error:
            phrase = "cannot be reached, or gave no answer in time"
            unsent = isinstance(error, NEVER_SENT)
            raise ConnectorError(
                self.name, call, phrase, retryable=True, unchanged=unsent
            ) from error
        except NOT_UNDERSTOOD as error:
            phrase = f"unexpected response ({type(error).__name__})"
            raise ConnectorError(self.name, call, phrase, retryable=True) from error


# One message or ticket at a vendor whose API takes JSON over HTTP, with a token that writes.


class VendorMessage(MessageTarget):
    """The part that is the same for every such vendor."""

    @classmethod
    @abstractmethod
    async def who(cls, settings: Any) -> str:
        """The owner of the token. Raises FaultlineError."""

    @property
    def vendor_settings(self) -> Any:
        """The section."""
        section = self._declared.section(self._settings)
        assert section is not None, "only configured targets are used"
        return section


async def call(
    url: str, headers: Mapping[str, str], method: str, path: str, **more: Any
) -> httpx.Response:
    """One request. Raises what httpx raises."""
    async with httpx.AsyncClient(headers=headers, timeout=REQUEST_TIMEOUT_S) as http:
        return (await http.request(method, f"{url}{path}", **more)).raise_for_status()


async def identity_of(label: str, request: Any) -> Any:
    """The JSON of the question who we are. Raises FaultlineError."""
    try:
        return (await request).json()
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise FaultlineError(f"{label}: the token was refused with {status}") from error
    except (httpx.HTTPError, ValueError) as error:
        raise FaultlineError(f"{label}: no usable answer ({type(error).__name__})") from error


def token_of(section: Section) -> str:
    """The token of a configured section."""
    token: str = section.token.get_secret_value()  # type: ignore[attr-defined]
    return token
