"""What the bot hears from Slack beside messages: clicks, forms, the Home tab, the assistant's pane.

`SlackFace.register` adds the listeners to Bolt's app, for HTTP and Socket Mode alike. Each answers
Slack once what must not be forgotten is stored.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.conversation.slack.assistant import AssistantBody, offer_prompts
from bot.conversation.slack.choices import Choices
from bot.conversation.slack.click_context import CasePath, ClickContext
from bot.conversation.slack.evidence_modal import PAGE_ACTIONS
from bot.conversation.slack.forms import (
    ALL,
    CAUSE,
    FOR,
    MUTE,
    REASON,
    UNTIL_RESOLVED,
    WHICH,
    WRONG,
    FormFor,
    cause_given,
    mute_until,
)
from bot.conversation.slack.home import AllChecks, HomeTab
from bot.conversation.slack.home_view import REFRESH, UNMUTE
from bot.conversation.slack.payloads import Interaction
from bot.settings import Settings
from bot.store.store import Store, StoredInvestigation

Answer = dict[str, Any]
EVENTS = ("app_home_opened", "assistant_thread_started", "assistant_thread_context_changed")
MAX_MUTED = 200
"""Alerts of one storm that one form mutes."""
GONE = "This investigation is no longer known: nothing was kept."


class SlackFace:
    """All of it, for one process. `case_path` gives the folder of an investigation's case,
    `all_checks` asks whether each configured part works."""

    def __init__(
        self, settings: Settings, store: Store, case_path: CasePath, all_checks: AllChecks
    ) -> None:
        self.context = ClickContext(settings, store, case_path)
        self.choices = Choices(self.context)
        self.home = HomeTab(self.context, all_checks)

    def register(self, app: AsyncApp) -> None:
        """Add the listeners."""

        @app.action(re.compile(""))
        async def on_click(ack: AsyncAck, body: dict[str, Any]) -> None:
            await self.clicked(Interaction.model_validate(body))
            await ack()

        @app.view(re.compile(""))
        async def on_form(ack: AsyncAck, body: dict[str, Any]) -> None:
            await ack(**await self.sent(Interaction.model_validate(body)))

        @app.event("app_home_opened")
        async def on_home(event: dict[str, Any]) -> None:
            if event.get("tab") == "home":
                self.context.later(self.home.show(str(event.get("user") or "")))

        @app.event("assistant_thread_started")
        async def on_pane(body: dict[str, Any]) -> None:
            self.context.later(
                offer_prompts(
                    self.context, AssistantBody.model_validate(body).event.assistant_thread
                )
            )

        @app.event("assistant_thread_context_changed")
        async def on_pane_beside_another_channel() -> None:
            """Acknowledged: what is offered does not depend on the channel."""

    async def clicked(self, click: Interaction) -> None:
        """A button or menu. Raises NotAccepted: then Slack shows that it was not taken."""
        action = click.action
        if action.action_id in PAGE_ACTIONS:
            await self.choices.turn_page(click)
        elif action.action_id == UNMUTE:
            await self.context.stored(self.context.mutes.unmute, action.chosen)
            self.context.later(self.home.show(click.user.id))
        elif action.action_id == REFRESH:
            self.context.later(self.home.show(click.user.id))
        else:
            await self.choices.chosen(click)

    async def sent(self, form: Interaction) -> Answer:
        """A form that was filled in; the answer closes it or says what is wrong. Raises
        NotAccepted."""
        about = FormFor.read(form.view.private_metadata)
        keep = {WRONG: self._keep_cause, MUTE: self._keep_mute}.get(form.view.callback_id)
        if keep is None:
            return {}
        investigation = await self.context.stored(self.context.store.get, about.investigation_id)
        if investigation is None:
            return {
                "response_action": "errors",
                "errors": {CAUSE if keep == self._keep_cause else FOR: GONE},
            }
        await keep(form, investigation)
        self.context.later(self.context.refresh(investigation))
        return {}

    async def _keep_cause(self, form: Interaction, investigation: StoredInvestigation) -> None:
        context, who, cause = self.context, form.user.said_by, cause_given(form.view)
        await context.stored(
            context.labels.write, investigation.id, right=False, cause=cause, who=who
        )
        said = f"{who} said that the answer is wrong" + (
            f": the cause was {cause}" if cause else ""
        )
        await context.did(investigation.id, said, key=f"{form.user.id}:{form.view.id}")

    async def _keep_mute(self, form: Interaction, investigation: StoredInvestigation) -> None:
        context, view, who, now = self.context, form.view, form.user.said_by, datetime.now(UTC)
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
        await context.did(
            investigation.id, f"{who} muted {count} {end}", key=f"{form.user.id}:{form.view.id}"
        )
