"""Wider window and Run again: further investigations of the same alert."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.bot.answer.lines import at, span_of
from faultline.bot.answer.targets.slack.button_type import Offer
from faultline.bot.conversation.slack.click_context import AT_ONCE_S, ClickContext
from faultline.bot.conversation.slack.clickable_button import ClickableButton
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.intake.questions.follow_up_scope import QuestionSpan, window_of
from faultline.bot.policy.people import HOUR, too_many_investigations
from faultline.bot.store.follow_ups import FollowUpScope
from faultline.bot.store.store import ReplyTo, StoredInvestigation

DOUBLE_CLICK_S = 60
"""Follow-ups of one kind that are asked for within this time are one: people click twice."""
TOO_MANY = (
    "This thread has asked for as many further investigations as it may in an hour "
    "(slack.further_per_hour)."
)
ALREADY = "That was asked for a moment ago; the answer comes in this thread."


class WiderButton(ClickableButton):
    """The same over a wider window."""

    name = "wider"
    act = "investigate"

    def label(self, offer: Offer) -> str | None:
        """Always."""
        return "Wider window"

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Start the follow-up."""
        incident = await _incident(context, investigation)
        window = window_of(QuestionSpan(), incident, investigation.accepted_at)
        length = span_of(window.end - window.start)
        phrase = f"a wider window: {at(window.start)} to {at(window.end)}, {length}"
        await _follow_up(
            context, click, investigation, "wider", phrase, FollowUpScope(window=window)
        )


class AgainButton(ClickableButton):
    """The same once more."""

    name = "again"
    act = "investigate"

    def label(self, offer: Offer) -> str | None:
        """Always."""
        return "Run again"

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Start the follow-up with the scope that this investigation had."""
        stored_scope = await context.stored(context.follow_ups.scope, investigation.id)
        scope = stored_scope or FollowUpScope()
        await _follow_up(context, click, investigation, "again", "the same once more", scope)


WIDER, AGAIN = WiderButton(), AgainButton()


async def _follow_up(
    context: ClickContext,
    click: Interaction,
    investigation: StoredInvestigation,
    kind: str,
    request_text: str,
    scope: FollowUpScope,
) -> None:
    channel, thread = context.place(click)
    who = click.user.display_name
    # The minute of a click; the click itself where its time is not one.
    seconds = click.action.action_ts.partition(".")[0]
    if seconds.isascii() and seconds.isdigit():
        moment = str(int(seconds) // DOUBLE_CLICK_S)
    else:
        moment = click.action.action_ts
    key = f"{kind}:{investigation.id}:{moment}"
    if await context.stored(_too_many, context, key, channel, thread):
        context.later(context.ephemeral(click, TOO_MANY))
        return
    people = context.settings.people
    if not await context.within_rate(
        click, "investigate", key, people.investigations_per_hour, HOUR
    ):
        context.later(
            context.ephemeral(click, too_many_investigations(people.investigations_per_hour))
        )
        return
    fresh, is_new = await context.stored(
        context.follow_ups.start,
        investigation,
        scope,
        key=key,
        question=f"{who} asked for {request_text}",
        who=who,
        reply_to=ReplyTo(channel or None, thread or None),
    )
    await context.did_by_click(click, investigation, f"asked for {request_text}: {fresh}")
    if not is_new:
        context.later(context.ephemeral(click, ALREADY))


def _too_many(context: ClickContext, key: str, channel: str, thread: str) -> bool:
    """Whether this thread has asked for as many as it may; what was started is never too many."""
    since = datetime.now(UTC) - HOUR
    most = context.settings.slack.further_per_hour
    count = context.follow_ups.count_since(channel, thread, since)
    return count >= most and not context.follow_ups.has_key(key)


async def _incident(context: ClickContext, investigation: StoredInvestigation) -> Window:
    """The window that the investigation looked at, from its case; else from the settings."""
    try:
        # Slack waits 3 s, so do not wait long for a slow case.
        async with asyncio.timeout(AT_ONCE_S):
            return (await context.scope(investigation)).incident
    except (FaultlineError, TimeoutError):
        from faultline.bot.investigation.scoping import scope_for

        now = investigation.finished_at or investigation.accepted_at
        return scope_for(investigation.alert, context.settings, now=now).incident
