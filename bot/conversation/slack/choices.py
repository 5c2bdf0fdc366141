"""What each button under an answer does. Anybody in the channel may click; who did is noted and
shown."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from analysis.errors import ConnectorError, FaultlineError
from analysis.vocabulary import Window
from bot.answer.lines import at, span_of
from bot.answer.targets.pagerduty.replies import PagerDutyReplies
from bot.answer.targets.slack.buttons import Choice, read_choice
from bot.conversation.slack.click_context import AT_ONCE_S, OVER, OWNER, ClickContext
from bot.conversation.slack.evidence_modal import (
    EvidenceShown,
    evidence_modal,
    no_evidence_modal,
    read_page,
    reading_modal,
)
from bot.conversation.slack.forms import FormFor, mute_modal, suspects_of, wrong_modal
from bot.conversation.slack.payloads import Interaction
from bot.intake.questions.follow_up_scope import AskedSpan, window_of
from bot.runtime.threads import in_store
from bot.store.follow_ups import FollowUpScope
from bot.store.store import ReplyTo, StoredInvestigation

Handler = Callable[[Interaction, StoredInvestigation], Awaitable[None]]

DOUBLE_CLICK_S = 60
"""Further investigations of one kind asked for within the same so many seconds are one: people
click twice."""
TOO_MANY = (
    "This thread has asked for as many further investigations as it may in an hour "
    "(slack.further_per_hour)."
)
GONE = "This investigation is no longer known; ask again with a mention: `investigate ...`."


class Choices:
    """The handlers, by choice."""

    def __init__(self, context: ClickContext) -> None:
        self._context = context
        self._notes = PagerDutyReplies(context.settings, context.store, owner=OWNER)
        self._handlers: Mapping[Choice, Handler] = {
            "evidence": self._evidence,
            "right": self._right,
            "wrong": self._wrong,
            "wider": self._wider,
            "again": self._again,
            "mute": self._mute,
            "unmute": self._unmute,
            "pagerduty": self._pagerduty,
        }

    async def chosen(self, click: Interaction) -> bool:
        """Do what was clicked under an answer; False when it was something else. Raises
        NotAccepted."""
        choice = read_choice(click.action.action_id, click.action.chosen)
        if choice is None:
            return False
        name, investigation_id = choice
        investigation = await self._context.stored(self._context.store.get, investigation_id)
        if investigation is None:
            self._context.later(self._context.ephemeral(click, GONE))
            return True
        await self._handlers[name](click, investigation)
        return True

    async def turn_page(self, click: Interaction) -> None:
        """Another page of the evidence."""
        wanted = read_page(click.action.chosen)
        found = await self._context.stored(self._context.store.get, wanted[1]) if wanted else None
        if wanted is not None and found is not None:
            self._context.later(self._show_page(click, found, wanted[0]))

    async def _evidence(self, click: Interaction, investigation: StoredInvestigation) -> None:
        await self._did(click, investigation, "looked at the evidence")
        self._context.later(self._show_evidence(click, investigation))

    async def _right(self, click: Interaction, investigation: StoredInvestigation) -> None:
        who = click.user.said_by
        await self._context.stored(
            self._context.labels.write, investigation.id, right=True, who=who
        )
        await self._did(click, investigation, "said that the answer is right")
        self._context.later(self._context.refresh(investigation))

    async def _wrong(self, click: Interaction, investigation: StoredInvestigation) -> None:
        self._context.later(self._ask_for_cause(click, investigation))

    async def _wider(self, click: Interaction, investigation: StoredInvestigation) -> None:
        window = window_of(
            AskedSpan(), await self._incident(investigation), investigation.accepted_at
        )
        said = (
            f"a wider window: {at(window.start)} to {at(window.end)}, "
            f"{span_of(window.end - window.start)}"
        )
        await self._follow_up(click, investigation, "wider", said, FollowUpScope(window=window))

    async def _again(self, click: Interaction, investigation: StoredInvestigation) -> None:
        held = await self._context.stored(self._context.follow_ups.scope, investigation.id)
        await self._follow_up(
            click, investigation, "again", "the same once more", held or FollowUpScope()
        )

    async def _follow_up(
        self,
        click: Interaction,
        investigation: StoredInvestigation,
        kind: str,
        said: str,
        scope: FollowUpScope,
    ) -> None:
        channel, thread = click.place
        who = click.user.said_by
        key = f"{kind}:{investigation.id}:{_moment(click.action.action_ts)}"
        if await self._context.stored(self._too_many, key, channel, thread):
            self._context.later(self._context.ephemeral(click, TOO_MANY))
            return
        fresh, is_new = await self._context.stored(
            self._context.follow_ups.start,
            investigation,
            scope,
            key=key,
            question=f"{who} asked for {said}",
            who=who,
            reply_to=ReplyTo(channel or None, thread or None),
        )
        await self._did(click, investigation, f"asked for {said}: {fresh}")
        if not is_new:
            self._context.later(
                self._context.ephemeral(
                    click, "That was asked for a moment ago; the answer comes in this thread."
                )
            )

    def _too_many(self, key: str, channel: str, thread: str) -> bool:
        """Whether this thread has asked for as many as it may; what was started is never too
        many."""
        since = datetime.now(UTC) - timedelta(hours=1)
        follow_ups, most = self._context.follow_ups, self._context.settings.slack.further_per_hour
        return follow_ups.count_since(channel, thread, since) >= most and not follow_ups.known(key)

    async def _mute(self, click: Interaction, investigation: StoredInvestigation) -> None:
        self._context.later(self._ask_how_long(click, investigation))

    async def _unmute(self, click: Interaction, investigation: StoredInvestigation) -> None:
        ended = await self._context.stored(
            self._context.mutes.unmute, investigation.alert.fingerprint
        )
        if ended:
            await self._did(click, investigation, "ended the mute of this alert")
        else:
            self._context.later(self._context.ephemeral(click, "This alert is not muted any more."))
        self._context.later(self._context.refresh(investigation))

    async def _pagerduty(self, click: Interaction, investigation: StoredInvestigation) -> None:
        await self._did(click, investigation, "sent the answer to PagerDuty")
        self._context.later(self._send_note(click, investigation))

    async def _did(self, click: Interaction, investigation: StoredInvestigation, what: str) -> None:
        key = f"{click.user.id}:{click.action.action_ts}:{click.action.action_id}"
        await self._context.did(investigation.id, f"{click.user.said_by} {what}", key=key)

    async def _show_evidence(self, click: Interaction, investigation: StoredInvestigation) -> None:
        context, url = self._context, self._context.replies.page_url(investigation)
        reading = asyncio.ensure_future(self._evidence_view(investigation, 0))
        await asyncio.wait({reading}, timeout=AT_ONCE_S)
        if reading.done():
            await context.open(click, reading.result())
            return
        opened = await context.open(click, reading_modal(investigation, url))
        view = await reading
        if opened is not None:
            await context.update(opened, view)

    async def _show_page(
        self, click: Interaction, investigation: StoredInvestigation, page: int
    ) -> None:
        view = await self._evidence_view(investigation, page)
        await self._context.update(click.view.id, view, hash_=click.view.hash)

    async def _evidence_view(
        self, investigation: StoredInvestigation, page: int
    ) -> dict[str, object]:
        url = self._context.replies.page_url(investigation)
        try:
            answer = await self._context.answer(investigation)
        except FaultlineError as error:
            return no_evidence_modal(investigation, str(error), url)
        return evidence_modal(
            investigation, EvidenceShown(answer.diagnosis, answer.evidence, answer.gaps), url, page
        )

    async def _ask_for_cause(self, click: Interaction, investigation: StoredInvestigation) -> None:
        try:
            async with asyncio.timeout(AT_ONCE_S):
                suspects = suspects_of((await self._context.answer(investigation)).diagnosis)
        except (FaultlineError, TimeoutError):
            suspects = []  # the form has a field for words, too
        held = await self._context.stored(self._context.labels.get, investigation.id)
        given = held.cause if held is not None and not held.right else ""
        await self._context.open(
            click, wrong_modal(_about(click, investigation), investigation, suspects, given)
        )

    async def _ask_how_long(self, click: Interaction, investigation: StoredInvestigation) -> None:
        await self._context.open(click, mute_modal(_about(click, investigation), investigation))

    async def _send_note(self, click: Interaction, investigation: StoredInvestigation) -> None:
        context = self._context
        if investigation.status not in OVER:
            await context.ephemeral(
                click, "It is still being investigated; send it when the answer is there."
            )
            return
        first = await self._first(investigation)
        incident = investigation.reply_to.pagerduty_incident or first.reply_to.pagerduty_incident
        if incident is None:
            source = investigation.alert.source
            await context.ephemeral(
                click, f"There is no PagerDuty incident for this alert: it came from {source}."
            )
            return
        try:
            outcome = await context.outcome(investigation)
            # one note per incident: a further answer amends that of the first
            target = replace(investigation, id=first.id, reply_to=first.reply_to)
            await self._notes.answer(replace(outcome, investigation=target))
        except ConnectorError as error:
            await context.ephemeral(click, f"PagerDuty did not take the note: {error}.")
            return
        except FaultlineError as error:
            await context.ephemeral(click, f"There is nothing to send: {error}.")
            return
        await context.ephemeral(click, f"The note on incident {incident} holds this answer.")
        await context.refresh(investigation)

    async def _first(self, investigation: StoredInvestigation) -> StoredInvestigation:
        """The investigation that its chain of further ones began with."""
        first = await in_store(self._context.follow_ups.first, investigation.id)
        return await in_store(self._context.store.get, first) or investigation

    async def _incident(self, investigation: StoredInvestigation) -> Window:
        """The window that the investigation looked at, from its case; else from the settings."""
        try:
            async with asyncio.timeout(AT_ONCE_S):
                return (await self._context.scope(investigation)).incident
        except (FaultlineError, TimeoutError):
            from bot.investigation.scoping import scope_for

            now = investigation.finished_at or investigation.accepted_at
            return scope_for(investigation.alert, self._context.settings, now=now).incident


def _about(click: Interaction, investigation: StoredInvestigation) -> FormFor:
    channel, thread = click.place
    return FormFor(investigation.id, channel, thread)


def _moment(action_ts: str) -> str:
    """The minute of a click; the click itself where its time is not one."""
    seconds = action_ts.partition(".")[0]
    return (
        str(int(seconds) // DOUBLE_CLICK_S)
        if seconds.isascii() and seconds.isdigit()
        else action_ts
    )
