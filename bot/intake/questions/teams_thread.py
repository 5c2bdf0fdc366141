"""A thread of Teams as questions are kept with it, beside those of Slack's channels.

The written channel is `msteams/19:...@thread.tacv2`, of a named bot `msteams eu/...`. A channel of
Slack holds no slash.
"""

from __future__ import annotations

from faultline.bot.intake.questions.slack_question import SlackQuestion
from faultline.bot.settings.reply_targets import THREAD
from faultline.bot.store.conversations import MAX_ID

_SLASH = "/"
_OPEN, _CLOSE = " (", ")"


def question_in_teams(
    text: str, target: str, conversation: str, message: str, *, who: str, person_id: str, about: str
) -> SlackQuestion | None:
    """The question; None where its id would be longer than one is kept. `target` is the reply
    target's name, `person_id` the person's in Entra, `about` the investigation."""
    channel, _, thread = conversation.partition(THREAD)
    slack_question = SlackQuestion(
        text=text,
        who=f"{who}{_OPEN}{person_id}{_CLOSE}",
        channel=f"{target}{_SLASH}{channel}",
        thread=thread,
        ts=message,
        surface="mention",
        investigation_id=about,
    )
    return slack_question if len(slack_question.id) <= MAX_ID else None


def target_in(written: str) -> str:
    """The reply target of a written channel; "" for one of Slack's."""
    return written.partition(_SLASH)[0] if _SLASH in written else ""


def channel_in(written: str) -> str:
    """The channel as Teams knows it."""
    return written.partition(_SLASH)[2]


def conversation_of(written: str, thread: str) -> str:
    """The conversation in which the thread goes on."""
    channel = channel_in(written)
    return f"{channel}{THREAD}{thread}" if thread else channel


def name_in(who: str) -> str:
    """The name of whoever asked."""
    return who.rpartition(_OPEN)[0]


def id_in(who: str) -> str:
    """Their id in Entra."""
    return who.rpartition(_OPEN)[2].removesuffix(_CLOSE)
