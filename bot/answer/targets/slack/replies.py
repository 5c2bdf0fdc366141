"""Slack as a reply target: one message in the alert's thread, posted once, edited in place.

What the message shows is read from the store each time it is edited, so that it does not matter who
edits it last.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING

import aiohttp
from slack_sdk.errors import SlackClientError

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.targets.posting import LEASE, post_once
from faultline.bot.answer.targets.slack.buttons import AnswerStatus, answer_status
from faultline.bot.answer.targets.slack.message import (
    SlackMessage,
    digest_message,
    final_message,
    first_message,
    joined_message,
    slack_alert_failed_message,
)
from faultline.bot.answer.targets.slack.posts import (
    NOT_UNDERSTOOD,
    VENDOR,
    MessageRef,
    SlackPlace,
    bears,
    error_code,
    find_since,
    send_with_key,
    slack_answer,
    slack_client,
    slack_error,
)
from faultline.bot.answer.targets.slack.target import TARGET
from faultline.bot.policy.services import catalogue_name
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.messages import DueDigest
from faultline.bot.store.store import NO_POST, Store, StoredInvestigation

if TYPE_CHECKING:
    from faultline.bot.answer.outcome import Answer, Outcome

EVENT_TYPE = "faultline_post"
"""Type of the message metadata by which a post is found again."""
CHART = "-chart"
"""Behind the key of the message: the store keeps the id of the uploaded chart."""
PREVIEW = "-preview"
"""Behind the key of the message, with the number of the run: the preview was shown, or can be no
more, for the answer comes."""
DIGEST = "digest"
"""Under this key the store keeps the digest of quiet hours."""
EDITS_AT_ONCE = 3
"""Somebody may click while we edit. The message is then edited again, at most this often."""
IMAGE_WAITS_S = (0.5, 1.0, 2.0, 4.0)
"""Slack works on an uploaded file for about a second before a block may show it
(slackapi/python-slack-sdk#1521)."""


def place_for(investigation: StoredInvestigation, settings: Settings) -> SlackPlace | None:
    """The alert's own thread; else the service's channel; else the configured one; else none.

    Of several workspaces the one that these settings were made for.
    """
    to, alert = investigation.reply_to, investigation.alert
    service = catalogue_name(alert.service, settings)
    channel = TARGET.scoped_to(settings).address_for(alert, service, to, settings)
    if channel is None:
        return None
    # A thread belongs to the channel that the alert itself came with.
    return SlackPlace.of(channel, to.slack_thread if to.slack_channel else None)


class SlackReplies:
    """Posts, edits and illustrates. Every failure is one ConnectorError that says whether to try
    again. Of several workspaces it speaks to the one that its settings were made for."""

    posts_digests = True

    def __init__(
        self, settings: Settings, store: Store, *, owner: str, lease: timedelta = LEASE
    ) -> None:
        self._settings = settings
        self._store = store
        self._owner = owner
        self._lease = lease
        self._post_once = partial(post_once, store, owner=owner, lease=lease)
        self._client = slack_client(settings.slack)
        self._target = TARGET.scoped_to(settings)

    @property
    def name(self) -> str:
        """`slack`, with the workspace where there are several."""
        return self._target.target_name

    def expects_answer(self, investigation: StoredInvestigation) -> bool:
        """Whether there is a token and a channel for it, and the channel is not left alone for
        now."""
        if not self._target.configured(self._settings) or investigation.quiet_until is not None:
            return False
        return place_for(investigation, self._settings) is not None

    def page_url(self, investigation: StoredInvestigation) -> str:
        """The investigation's web page."""
        return f"{self._settings.server.public_url}/investigations/{investigation.id}"

    async def announce(self, investigation: StoredInvestigation) -> None:
        """`Investigating ...`; nothing when it stands there already."""
        await self.post(investigation, first_message(investigation, self.page_url(investigation)))

    async def answer(self, outcome: Outcome) -> None:
        """Edit the announcement into the answer, or post the answer where no announcement could be
        made."""
        investigation = outcome.investigation
        await self._no_preview_after(investigation)
        status = await self._show(outcome)
        # Show the answer first: the upload takes time, and somebody may click meanwhile.
        if (
            await self._chart(investigation, outcome.answer) is not None
            or await self._status(investigation, outcome.answer) != status
        ):
            await self.refresh(outcome)

    async def preview(self, outcome: Outcome) -> None:
        """Edit the announcement into the answer so far, without its chart; nothing once the answer
        is on its way."""

        async def show() -> str:
            await self._show(outcome)
            return NO_POST

        await self._preview_once(outcome.investigation, show)

    async def _show(self, outcome: Outcome) -> AnswerStatus:
        """Post the message, or edit the one that stands; gives the standing that it shows."""
        investigation = outcome.investigation
        status = await self._status(investigation, outcome.answer)
        message = self._worded(investigation, outcome.answer, None, status)
        ref, posted_now = await self.post(investigation, message)
        if not posted_now:
            await self.edit(ref, message)
        return status

    async def _no_preview_after(self, investigation: StoredInvestigation) -> None:
        """Wait for a preview that is on its way, and take the right to one that has not begun."""

        async def passed() -> str:
            return NO_POST

        if self._settings.model.name is not None:
            await self._preview_once(investigation, passed)

    async def _preview_once(
        self, investigation: StoredInvestigation, send: Callable[[], Awaitable[str]]
    ) -> None:
        async def find() -> None:
            return None

        key = f"{self._target.post_key(investigation.id)}{PREVIEW}:{investigation.runs}"
        await self._post_once(key, investigation.id, find=find, send=send)

    async def refresh(self, outcome: Outcome) -> MessageRef | None:
        """Bring the message up to date with the store; None when none was posted yet."""
        investigation = outcome.investigation
        posts = await in_store(self._store.posts, investigation.id)
        ref = posts.get(self._target.post_key(investigation.id))
        if ref is None:
            return None
        chart = posts.get(f"{self._target.post_key(investigation.id)}{CHART}")
        status = await self._status(investigation, outcome.answer)
        for _ in range(EDITS_AT_ONCE):
            shown = status
            await self.edit(
                MessageRef.parse(ref), self._worded(investigation, outcome.answer, chart, shown)
            )
            status = await self._status(investigation, outcome.answer)
            if status == shown:
                break
        return MessageRef.parse(ref)

    async def post(
        self, investigation: StoredInvestigation, message: SlackMessage
    ) -> tuple[MessageRef, bool]:
        """The investigation's one message: where it stands, and whether it was this call that
        posted it."""
        place = place_for(investigation, self._settings)
        if place is None:
            raise ConnectorError(VENDOR, "chat.postMessage", "no channel: set slack.channel")
        key = self._target.post_key(investigation.id)
        sent: list[str] = []

        async def find() -> str | None:
            return await self._find(place, key, investigation)

        async def send() -> str:
            sent.append(await self._send(place, key, message))
            return sent[-1]

        ref = await self._post_once(key, investigation.id, find=find, send=send)
        return MessageRef.parse(ref), bool(sent) and sent[-1] == ref

    async def post_digest(
        self, digest: DueDigest, investigations: Sequence[StoredInvestigation]
    ) -> None:
        """Post it once, in the channel and in no thread. Raises ConnectorError."""
        if not digest.channel or not investigations:
            return
        if self._target.instance is None:
            if place_for(investigations[0], self._settings) is not None:
                key = f"{investigations[0].id}:{DIGEST}"
                await self._digest(SlackPlace(digest.channel), key, investigations)
            # Else its channel is one of another target, by which its quiet hours went.
            return
        # Quiet hours follow one workspace's channel; this workspace has its own channels.
        channels: defaultdict[SlackPlace, list[StoredInvestigation]] = defaultdict(list)
        for investigation in investigations:
            place = place_for(investigation, self._settings)
            if place is not None:
                channels[replace(place, thread=None)].append(investigation)
        for place, channel in channels.items():
            key = f"{self._target.post_key(channel[0].id)}-{DIGEST}"
            await self._digest(place, key, channel)

    async def _digest(
        self, place: SlackPlace, key: str, investigations: Sequence[StoredInvestigation]
    ) -> None:
        first = investigations[0]
        message = digest_message(investigations, self._settings.server.public_url)

        async def find() -> str | None:
            return await self._find(place, key, first)

        async def send() -> str:
            return await self._send(place, key, message)

        await self._post_once(key, first.id, find=find, send=send)

    async def edit(self, ref: MessageRef, message: SlackMessage) -> None:
        """Replace the message. Without its image, at last without blocks, where Slack does not take
        them."""
        # None: no wait follows the last try, after which the image is left out.
        for wait in (*IMAGE_WAITS_S, None) if message.has_image else ():
            try:
                return await self._update(ref, message)
            except SlackClientError as error:
                # `invalid_blocks` may mean that Slack still works on the file.
                if error_code(error) != "invalid_blocks":
                    raise slack_error("chat.update", error, ref.channel) from error
            if wait is not None:
                await asyncio.sleep(wait)
        try:
            await self._update(ref, message.without_image())
        except SlackClientError as error:
            if error_code(error) not in {"invalid_blocks", "msg_blocks_too_long"}:
                raise slack_error("chat.update", error, ref.channel) from error
            await slack_answer(
                "chat.update", self._update(ref, SlackMessage(message.text, ())), ref.channel
            )

    async def upload_chart(self, png: bytes, investigation: StoredInvestigation) -> str:
        """The file's id. It is shared nowhere: the message's image block shows it."""
        uploaded = await slack_answer(
            "files.completeUploadExternal",
            self._client.files_upload_v2(
                filename=f"{investigation.id}.png", file=png, title="Decisive signal"
            ),
        )
        return str(uploaded["file"]["id"])

    async def _status(
        self, investigation: StoredInvestigation, answer: Answer | None
    ) -> AnswerStatus:
        return await in_store(answer_status, investigation, self._store, self._settings, answer)

    def _worded(
        self,
        investigation: StoredInvestigation,
        answer: Answer | None,
        chart: str | None,
        status: AnswerStatus,
    ) -> SlackMessage:
        url = self.page_url(investigation)
        if investigation.status == "joined":
            return joined_message(investigation, url)
        if answer is None:
            reason = (investigation.headline or "").removeprefix("The investigation failed: ")
            return slack_alert_failed_message(investigation, reason, url, status=status)
        view = answer.view(investigation.alert)
        return final_message(investigation, view, url, chart, status=status)

    async def _chart(self, investigation: StoredInvestigation, answer: Answer | None) -> str | None:
        """The chart's file id. The answer stands without its picture, so a refusal costs the
        picture only."""
        if answer is None or answer.chart is None:
            return None
        key = f"{self._target.post_key(investigation.id)}{CHART}"
        post = (await in_store(self._store.posts, investigation.id)).get(key)
        if post is not None:
            return post
        try:
            uploaded = await self.upload_chart(answer.chart, investigation)
        except ConnectorError:
            return None

        # Claim late: a chart that is uploaded twice is shown once and does no harm.
        def remember() -> None:
            self._store.claim_post(key, investigation.id, owner=self._owner, lease=self._lease)
            self._store.record_post(key, uploaded)

        await in_store(remember)
        return uploaded

    async def _update(self, ref: MessageRef, message: SlackMessage) -> None:
        """Raises SlackClientError as it is, because `invalid_blocks` has a remedy; the rest as
        ConnectorError."""
        try:
            await self._client.chat_update(
                channel=ref.channel,
                ts=ref.ts,
                text=message.text,
                blocks=list(message.blocks),
                parse="none",
                link_names=False,
            )
        except (aiohttp.ClientError, TimeoutError, *NOT_UNDERSTOOD) as error:
            raise slack_error("chat.update", error, ref.channel) from error

    async def _send(self, place: SlackPlace, key: str, message: SlackMessage) -> str:
        return str(
            await send_with_key(self._client, place, message, event_type=EVENT_TYPE, key=key)
        )

    async def _find(
        self, place: SlackPlace, key: str, investigation: StoredInvestigation
    ) -> str | None:
        message_ref = await find_since(self._client, place, investigation.accepted_at, bears(key))
        return str(message_ref) if message_ref else None
