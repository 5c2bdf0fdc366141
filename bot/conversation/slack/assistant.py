"""The assistant's pane: what it offers when it is opened. What is written there is a question like
any other."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pydantic import Field

from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.targets.slack.errors import slack_error
from faultline.bot.conversation.slack.click_context import FAILURES, ClickContext
from faultline.bot.intake.payload_fields import Line, Payload, Table
from faultline.bot.intake.slack_people import Claimed
from faultline.bot.policy.people import may
from faultline.bot.store.store import StoredInvestigation

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
