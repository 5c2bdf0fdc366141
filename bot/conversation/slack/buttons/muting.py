"""Mute this alert and Unmute: no investigations of an alert for a while."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from faultline.analysis.errors import ConnectorError
from faultline.analysis.vocabulary import Alert
from faultline.bot.answer.foreign_text import escape_mrkdwn, single_line
from faultline.bot.answer.targets.slack.blocks import rich, section, text
from faultline.bot.answer.targets.slack.buttons import Offer
from faultline.bot.answer.targets.slack.message import SlackMessage
from faultline.bot.answer.targets.slack.posts import SlackPlace, bears, find_since, send_with_key
from faultline.bot.conversation.slack.click_context import (
    RETRY_WAITS_S,
    ClickableButton,
    ClickContext,
    TooMuch,
)
from faultline.bot.conversation.slack.forms import (
    ALL,
    FOR,
    MUTE_FORM,
    REASON,
    UNTIL_RESOLVED,
    WHICH,
    FormFor,
    form_for,
    mute_modal,
    mute_until,
)
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.policy.people import DAY, Act, may, too_many_mutes
from faultline.bot.policy.priority import URGENT, priority_of
from faultline.bot.store.store import StoredInvestigation

MAX_MUTED = 200
"""Alerts of one storm that one form mutes."""
SHOWN = 3
"""Titles that an announcement names."""
EVENT = "faultline_mute"
"""Type of the metadata by which an announcement is found again, and known as our own."""

log = logging.getLogger("faultline.slack")


class MuteButton(ClickableButton):
    """Mutes the alert; a form asks for how long."""

    name = "mute"
    act = "mute"
    form = MUTE_FORM
    first_field = FOR

    def label(self, offer: Offer) -> str | None:
        """Only for an alert that is not muted."""
        may = offer.status.mute is None and offer.status.may_mute
        return "Mute this alert" if may else None

    def act_of(self, form: Interaction, investigation: StoredInvestigation) -> Act:
        """To mute an alert that is critical takes an admin."""
        chosen = _chosen(form, investigation)
        # What a person asked for is always urgent, which says nothing about the alert.
        words = investigation.question is None and investigation.priority == URGENT
        critical = words or any(priority_of(alert) == URGENT for alert in chosen.values())
        return "mute critical" if critical else "mute"

    async def clicked(
        self, context: ClickContext, click: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Ask for how long."""
        longest = context.mutes.longest
        modal = mute_modal(form_for(click, investigation), investigation, longest)
        context.later(_opened(context, click, modal))

    async def sent(
        self, context: ClickContext, form: Interaction, investigation: StoredInvestigation
    ) -> None:
        """Mute this alert, or all that belong to the investigation, and say so in the channel."""
        people, view, now = context.settings.people, form.view, datetime.now(UTC)
        if not await context.within_rate(form, "mute", view.id, people.mutes_per_day, DAY):
            raise TooMuch(too_many_mutes(people))
        who, until_resolved = form.user.display_name, view.field_text(FOR) == UNTIL_RESOLVED
        until = mute_until(view.field_text(FOR), now, context.mutes.longest)
        alerts = _chosen(form, investigation)
        _, role = await context.role(form)

        def mute() -> None:
            for fingerprint, alert in alerts.items():
                context.mutes.mute(
                    fingerprint,
                    until,
                    who,
                    view.field_text(REASON),
                    title=alert.title,
                    until_resolved=until_resolved,
                    # Only an admin's mute holds once the alert becomes critical.
                    covers_critical=may(role, "mute critical"),
                    now=now,
                )

        # All of them in one call, within the time that Slack waits.
        await context.stored(mute)
        count = f"{len(alerts)} alerts" if len(alerts) > 1 else "this alert"
        end = f"until {until:%Y-%m-%d %H:%M} UTC"
        if until_resolved:
            end = f"until it is resolved, {until:%Y-%m-%d %H:%M} UTC at the latest"
        phrase = f"{who} muted {count} {end}"
        key = f"{form.user.id}:{view.id}"
        await context.did(investigation.id, phrase, key=key)
        titles = [alert.title for alert in alerts.values()]
        about = FormFor.read(view.private_metadata)
        context.later(
            _announce(context, about, f"mute:{key}", phrase, titles, view.field_text(REASON))
        )


class UnmuteButton(ClickableButton):
    """Ends the mute."""

    name = "unmute"
    act = "mute"

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


def _chosen(form: Interaction, investigation: StoredInvestigation) -> Mapping[str, Alert]:
    """The alerts that a form is to mute, by fingerprint."""
    alerts = {investigation.alert.fingerprint: investigation.alert}
    if form.view.field_text(WHICH) == ALL:
        alerts |= {member.fingerprint: member.alert for member in investigation.related}
    return dict(list(alerts.items())[:MAX_MUTED])


async def _announce(
    context: ClickContext,
    about: FormFor,
    key: str,
    announcement: str,
    titles: Sequence[str],
    reason: str,
) -> None:
    """Say in the channel who muted what, and until when; once, though Slack fails for a while."""
    if not about.channel:
        return
    since = datetime.now(UTC)
    place = SlackPlace(about.channel, about.thread or None)
    titles = [single_line(title, 200) for title in titles]
    more = f" and {len(titles) - SHOWN} more" if len(titles) > SHOWN else ""
    lines = [f"{announcement}: {'; '.join(titles[:SHOWN])}{more}"]
    if reason.strip():
        lines.append(f"Reason: {single_line(reason, 300)}")
    blocks = [rich(section(text("\n".join(lines))))]
    message = SlackMessage(escape_mrkdwn(lines[0]), tuple(blocks))
    for wait in (*RETRY_WAITS_S, None):
        try:
            # After a failure it may stand there all the same.
            if not await find_since(context.client, place, since, bears(key)):
                await send_with_key(
                    context.client, place, message, event_type=EVENT, key=key, in_channel=True
                )
            return
        except ConnectorError as error:
            if not error.retryable or wait is None:
                log.warning("slack: a mute was not announced (%s)", error)
                return
        await asyncio.sleep(wait)
