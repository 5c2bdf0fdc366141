"""What the bot hears from Slack beside messages: clicks, forms, the Home tab, the assistant's pane.

`SlackFace.register` adds the listeners to Bolt's app, for HTTP and Socket Mode alike. Each answers
Slack once what must not be forgotten is stored.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any

from pydantic import Field
from slack_bolt.async_app import AsyncAck, AsyncApp

from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.targets.slack.posts import slack_error
from faultline.bot.conversation.slack.buttons.follow_up import turn_page
from faultline.bot.conversation.slack.click_context import (
    FAILURES,
    CasePath,
    ClickableButton,
    ClickContext,
    TooMuch,
    button_of_form,
    claimed_by,
    clicked_button,
)
from faultline.bot.conversation.slack.evidence_modal import PAGE_ACTIONS
from faultline.bot.conversation.slack.forms import FormFor
from faultline.bot.conversation.slack.home import REFRESH, UNMUTE, AllChecks, HomeTab
from faultline.bot.conversation.slack.payloads import Interaction
from faultline.bot.intake.payload_fields import Line, Payload, Table
from faultline.bot.intake.slack_payload import Envelope
from faultline.bot.intake.slack_people import Claimed
from faultline.bot.policy.people import may, refusal
from faultline.bot.settings import Settings
from faultline.bot.store.store import Store, StoredInvestigation

# The assistant's pane: what it offers when it is opened. What is written there is a question like
# any other.

MAX_PROMPTS = 4
TITLE = "I answer from what was measured. Ask, or begin with:"
READ = 20
"""Investigations looked through for one whose service a prompt can name."""

log = logging.getLogger("faultline.slack")


class Context(Payload):
    """What the person looks at beside the pane."""

    channel_id: Line = ""


class AssistantThread(Payload):
    """https://docs.slack.dev/reference/events/assistant_thread_started"""

    user_id: Line = ""
    channel_id: Line = ""
    thread_ts: Line = ""
    context: Table[Context] = Field(default_factory=Context)


class AssistantEvent(Payload):
    """The event's own part."""

    assistant_thread: Table[AssistantThread] = Field(default_factory=AssistantThread)


class AssistantBody(Payload):
    """The envelope."""

    event: Table[AssistantEvent] = Field(default_factory=AssistantEvent)


def prompts(latest: Sequence[StoredInvestigation]) -> list[dict[str, str]]:
    """What can be asked at once: each with a title and the message that it sends."""
    offered = [{"title": "What is going on?", "message": "status"}]
    service = next((i.alert.service for i in latest if i.alert.service), None)
    if service:
        named = single_line(service, 60)
        offered.append(
            {
                "title": f"Investigate {named}",
                "message": f"investigate errors and latency of {named} in the last hour",
            }
        )
    offered.append({"title": "What can I ask?", "message": "help"})
    return offered[:MAX_PROMPTS]


async def offer_prompts(context: ClickContext, thread: AssistantThread, claimed: Claimed) -> None:
    """Offer them in a pane that was opened by somebody who may ask."""
    if not thread.channel_id or not thread.thread_ts:
        return
    person, role = await context.people.role(claimed)
    if not may(role, "ask"):
        return
    # A prompt names a service: only one that this person may hear of.
    latest = await context.stored(context.latest, READ, await context.visible_to(person))
    try:
        await context.client.assistant_threads_setSuggestedPrompts(
            channel_id=thread.channel_id,
            thread_ts=thread.thread_ts,
            title=TITLE,
            prompts=prompts(latest),
        )
    except FAILURES as error:
        log.warning(
            "slack: no prompts (%s)", slack_error("assistant.threads.setSuggestedPrompts", error)
        )


Answer = dict[str, Any]
EVENTS = ("app_home_opened", "assistant_thread_started", "assistant_thread_context_changed")
MAX_ERROR = 140
"""Characters of an error in a form that Slack shows without cutting."""
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

        # One listener for all of them: `clicked` knows what each click means.
        @app.action(re.compile(""))
        async def on_click(ack: AsyncAck, body: dict[str, Any]) -> None:
            # Store first: without an acknowledgement Slack shows that the click failed.
            await self.clicked(Interaction.model_validate(body))
            await ack()

        @app.view(re.compile(""))
        async def on_form(ack: AsyncAck, body: dict[str, Any]) -> None:
            await ack(**await self.sent(Interaction.model_validate(body)))

        @app.event("app_home_opened")
        async def on_home(body: dict[str, Any]) -> None:
            envelope = Envelope.model_validate(body)
            if body["event"].get("tab") == "home" and await self._is_ours(envelope):
                self.context.later(self.home.show(Claimed.by(envelope, envelope.event)))

        @app.event("assistant_thread_started")
        async def on_pane(body: dict[str, Any]) -> None:
            envelope = Envelope.model_validate(body)
            thread = AssistantBody.model_validate(body).event.assistant_thread
            # The pane is one person's own, and names nobody else's workspace.
            claimed = Claimed(thread.user_id, installed_in=envelope.installed_in, shared=False)
            if await self._is_ours(envelope):
                self.context.later(offer_prompts(self.context, thread, claimed))

        @app.event("assistant_thread_context_changed")
        async def on_pane_beside_another_channel() -> None:
            """Acknowledged: what is offered does not depend on the channel."""

    async def clicked(self, click: Interaction) -> None:
        """A button or menu. Raises NotAccepted: then Slack shows that it was not taken."""
        context, action = self.context, click.action
        if not await context.is_ours(click):
            log.warning("slack click ignored: it was sent for another workspace")
        elif action.action_id in PAGE_ACTIONS:
            if await context.may(click, "read"):
                await turn_page(context, click)
        elif action.action_id == UNMUTE:
            if await context.may(click, "mute"):
                await context.stored(context.mutes.unmute, action.chosen)
            context.later(self.home.show(claimed_by(click)))
        elif action.action_id == REFRESH:
            context.later(self.home.show(claimed_by(click)))
        else:
            await self._clicked_button(click)

    async def sent(self, form: Interaction) -> Answer:
        """A form that was filled in; the answer closes it or says what is wrong. Raises
        NotAccepted."""
        about = FormFor.read(form.view.private_metadata)
        button = button_of_form(form.view.callback_id)
        context = self.context
        if button is None or not await context.is_ours(form):
            return {}
        investigation = await context.stored(context.store.get, about.investigation_id)
        if investigation is None:
            return _not_taken(button, GONE)
        person, role = await context.role(form)
        act = button.act_of(form, investigation)
        if not may(role, act):
            return _not_taken(button, refusal(person, role, act))
        try:
            await button.sent(context, form, investigation)
        except TooMuch as limit:
            return _not_taken(button, str(limit))
        context.later(context.refresh(investigation))
        return {}

    async def _clicked_button(self, click: Interaction) -> None:
        clicked = clicked_button(click.action.action_id, click.action.chosen)
        if clicked is None:
            return
        button, investigation_id = clicked
        context = self.context
        if not await context.may(click, button.act):
            return
        investigation = await context.stored(context.store.get, investigation_id)
        if investigation is None:
            context.later(context.ephemeral(click, ASK_AGAIN))
            return
        await button.clicked(context, click, investigation)

    async def _is_ours(self, envelope: Envelope) -> bool:
        return await self.context.people.is_ours(envelope.installed_in)


def _not_taken(button: ClickableButton, why: str) -> Answer:
    """The form stays open, and says why."""
    return {"response_action": "errors", "errors": {button.first_field: why[:MAX_ERROR]}}
