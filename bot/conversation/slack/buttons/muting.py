"""Mute this alert and Unmute: no investigations of an alert for a while."""

from __future__ import annotations

from datetime import UTC, datetime

from bot.answer.targets.slack.button_type import Offer
from bot.conversation.slack.click_context import ClickContext
from bot.conversation.slack.clickable_button import ClickableButton
from bot.conversation.slack.forms import (
    ALL,
    FOR,
    MUTE_FORM,
    REASON,
    UNTIL_RESOLVED,
    WHICH,
    form_for,
    mute_modal,
    mute_until,
)
from bot.conversation.slack.payloads import Interaction
from bot.store.store import StoredInvestigation

MAX_MUTED = 200
"""Alerts of one storm that one form mutes."""


class MuteButton(ClickableButton):
    """Mutes the alert; a form asks for how long."""

    name = "mute"
    form = MUTE_FORM
    first_field = FOR

    def label(self, offer: Offer) -> str | None:
        """Only for an alert that is not muted."""
        may = offer.status.mute is None and offer.status.may_mute
        return "Mute this alert" if may else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Ask for how long."""
        modal = mute_modal(form_for(click, investigation), investigation)
        context.later(_opened(context, click, modal))

    async def sent(
        self, context: ClickContext, form: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Mute this alert, or all that belong to the investigation."""
        view, who, now = form.view, form.user.said_by, datetime.now(UTC)
        chosen = view.given(FOR)
        until, until_resolved = mute_until(chosen, now), chosen == UNTIL_RESOLVED
        alerts = {investigation.alert.fingerprint: investigation.alert.title}
        if view.given(WHICH) == ALL:
            alerts |= {one.fingerprint: one.alert.title for one in investigation.related}

        def mute() -> None:
            for fingerprint, title in list(alerts.items())[:MAX_MUTED]:
                context.mutes.mute(
                    fingerprint,
                    until,
                    who,
                    view.given(REASON),
                    title=title,
                    until_resolved=until_resolved,
                    now=now,
                )

        await context.stored(mute)
        count = f"{len(alerts)} alerts" if len(alerts) > 1 else "this alert"
        end = "until it is resolved" if until_resolved else f"until {until:%Y-%m-%d %H:%M} UTC"
        said = f"{who} muted {count} {end}"
        await context.did(investigation.id, said, key=f"{form.user.id}:{form.view.id}")


class UnmuteButton(ClickableButton):
    """Ends the mute."""

    name = "unmute"

    def label(self, offer: Offer) -> str | None:
        """Only for an alert that is muted."""
        return "Unmute" if offer.status.mute is not None else None

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """End it, and show that it has ended."""
        if await context.stored(context.mutes.unmute, investigation.alert.fingerprint):
            await context.did_by_click(click, investigation, "ended the mute of this alert")
        else:
            context.later(context.ephemeral(click, "This alert is not muted any more."))
        context.later(context.refresh(investigation))


MUTE, UNMUTE = MuteButton(), UnmuteButton()


async def _opened(context: ClickContext, click: Interaction, modal: dict[str, object]) -> None:
    await context.open(click, modal)
