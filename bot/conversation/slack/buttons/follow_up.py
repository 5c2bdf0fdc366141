"""Wider window and Run again: further investigations of the same alert."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.bot.answer.lines import at, span_of
from faultline.bot.answer.targets.slack.buttons import Offer
from faultline.bot.conversation.slack.click_context import AT_ONCE_S, ClickableButton, ClickContext
from faultline.bot.conversation.slack.evidence_modal import (
    EvidenceShown,
    evidence_modal,
    no_evidence_modal,
    read_page,
    reading_modal,
)
from faultline.bot.conversation.slack.forms import (
    CAUSE,
    WRONG_FORM,
    form_for,
    stated_cause,
    suspects_of,
    wrong_modal,
)
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.intake.questions.subjects import QuestionSpan, window_of
from faultline.bot.policy.people import HOUR, too_many_investigations, without_mentions
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


# Right and Wrong: what a person says of the answer, with the cause in their words.


class RightButton(ClickableButton):
    """The answer is right."""

    name = "right"

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer."""
        return "Right" if offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep who said so, and show it."""
        who = click.user.display_name
        await context.stored(context.labels.write, investigation.id, right=True, who=who)
        await context.did_by_click(click, investigation, "said that the answer is right")
        context.later(context.refresh(investigation))


class WrongButton(ClickableButton):
    """The answer is wrong; a form asks for the cause."""

    name = "wrong"
    form = WRONG_FORM
    first_field = CAUSE

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer."""
        return "Wrong" if offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Ask for the cause."""
        context.later(_ask_for_cause(context, click, investigation))

    async def sent(
        self, context: ClickContext, form: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Keep the cause."""
        who, cause = form.user.display_name, stated_cause(form.view)
        await context.stored(
            context.labels.write, investigation.id, right=False, cause=cause, who=who
        )
        phrase = f"{who} said that the answer is wrong"
        if cause:
            phrase += f": the cause was {without_mentions(cause)}"
        await context.did(investigation.id, phrase, key=f"{form.user.id}:{form.view.id}")


RIGHT, WRONG = RightButton(), WrongButton()


async def _ask_for_cause(
    context: ClickContext, click: Interaction, investigation: StoredInvestigation
) -> None:
    try:
        async with asyncio.timeout(AT_ONCE_S):
            suspects = suspects_of((await context.answer(investigation)).diagnosis)
    except (FaultlineError, TimeoutError):
        # The form has a field for words, too, so it can do without the menu.
        suspects = []
    answer_label = await context.stored(context.labels.get, investigation.id)
    cause = answer_label.cause if answer_label is not None and not answer_label.right else ""
    modal = wrong_modal(form_for(click, investigation), investigation, suspects, cause)
    await context.open(click, modal)


# Evidence: the findings for and against each cause, in a modal of several pages.


class EvidenceButton(ClickableButton):
    """Opens the evidence."""

    name = "evidence"
    act = "read"

    def label(self, offer: Offer) -> str | None:
        """Only where there is an answer."""
        return "Evidence" if offer.answered else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Open the first page."""
        await context.did_by_click(click, investigation, "looked at the evidence")
        context.later(_open(context, click, investigation))


EVIDENCE = EvidenceButton()


async def turn_page(context: ClickContext, click: Interaction) -> None:
    """Another page of the evidence."""
    requested_page = read_page(click.action.chosen)
    if requested_page is None:
        return
    page, investigation_id = requested_page
    investigation = await context.stored(context.store.get, investigation_id)
    if investigation is not None:
        context.later(_show_page(context, click, investigation, page))


async def _open(
    context: ClickContext, click: Interaction, investigation: StoredInvestigation
) -> None:
    reading = asyncio.ensure_future(_view(context, investigation, 0))
    await asyncio.wait({reading}, timeout=AT_ONCE_S)
    if reading.done():
        await context.open(click, reading.result())
        return
    # The trigger of a click lives for 3 s, so a slow case is shown in a modal that is open already.
    url = context.replies.page_url(investigation)
    opened = await context.open(click, reading_modal(investigation, url))
    view = await reading
    if opened is not None:
        await context.update(opened, view)


async def _show_page(
    context: ClickContext, click: Interaction, investigation: StoredInvestigation, page: int
) -> None:
    view = await _view(context, investigation, page)
    await context.update(click.view.id, view, hash_=click.view.hash)


async def _view(
    context: ClickContext, investigation: StoredInvestigation, page: int
) -> dict[str, Any]:
    url = context.replies.page_url(investigation)
    try:
        answer = await context.answer(investigation)
    except FaultlineError as error:
        return no_evidence_modal(investigation, str(error), url)
    answered = EvidenceShown(answer.diagnosis, answer.evidence, answer.gaps)
    return evidence_modal(investigation, answered, url, page)
