"""What the bot hears from Slack beside messages: clicks, forms, the Home tab, the assistant's pane.

`SlackFace.register` adds the listeners to Bolt's app, for HTTP and Socket Mode alike. Each answers
Slack once what must not be forgotten is stored.
"""

from __future__ import annotations

import re
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp

from bot.conversation.slack.assistant import AssistantBody, offer_prompts
from bot.conversation.slack.buttons.evidence import turn_page
from bot.conversation.slack.click_context import CasePath, ClickContext
from bot.conversation.slack.clickable_button import button_of_form, clicked_button
from bot.conversation.slack.evidence_modal import PAGE_ACTIONS
from bot.conversation.slack.forms import FormFor
from bot.conversation.slack.home import AllChecks, HomeTab
from bot.conversation.slack.home_view import REFRESH, UNMUTE
from bot.conversation.slack.payloads import Interaction
from bot.settings import Settings
from bot.store.store import Store

Answer = dict[str, Any]
EVENTS = ("app_home_opened", "assistant_thread_started", "assistant_thread_context_changed")
GONE = "This investigation is no longer known: nothing was kept."
ASK_AGAIN = "This investigation is no longer known; ask again with a mention: `investigate ...`."


class SlackFace:
    """All of it, for one process. `case_path` gives the folder of an investigation's case,
    `all_checks` asks whether each configured part works."""

    def __init__(
        self, settings: Settings, store: Store, case_path: CasePath, all_checks: AllChecks
    ) -> None:
        self.context = ClickContext(settings, store, case_path)
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
            await turn_page(self.context, click)
        elif action.action_id == UNMUTE:
            await self.context.stored(self.context.mutes.unmute, action.chosen)
            self.context.later(self.home.show(click.user.id))
        elif action.action_id == REFRESH:
            self.context.later(self.home.show(click.user.id))
        else:
            await self._clicked_button(click)

    async def sent(self, form: Interaction) -> Answer:
        """A form that was filled in; the answer closes it or says what is wrong. Raises
        NotAccepted."""
        about = FormFor.read(form.view.private_metadata)
        button = button_of_form(form.view.callback_id)
        if button is None:
            return {}
        context = self.context
        investigation = await context.stored(context.store.get, about.investigation_id)
        if investigation is None:
            return {"response_action": "errors", "errors": {button.first_field: GONE}}
        await button.sent(context, form, investigation)
        context.later(context.refresh(investigation))
        return {}

    async def _clicked_button(self, click: Interaction) -> None:
        clicked = clicked_button(click.action.action_id, click.action.chosen)
        if clicked is None:
            return
        button, investigation_id = clicked
        context = self.context
        investigation = await context.stored(context.store.get, investigation_id)
        if investigation is None:
            context.later(context.ephemeral(click, ASK_AGAIN))
            return
        await button.clicked(context, click, investigation)
