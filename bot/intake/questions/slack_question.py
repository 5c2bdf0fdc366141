"""What a person asks us in Slack, before anything is done about it.

Every way of asking becomes a `SlackQuestion`: messages in threads, mentions, direct messages, the
assistant pane, a modal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Frozen
from faultline.bot.settings.reply_targets import THREAD
from faultline.bot.store.conversations import MAX_ID

Surface = Literal["thread", "mention", "dm", "pane"]
"""Where it was asked: in a thread without a mention, with a mention, in a direct message, in the
assistant pane."""
Kind = Literal[
    "question",
    "status",
    "handover",
    "explain",
    "trace",
    "help",
    "quiet",
    "listen",
    "investigate",
    "limited",
]
"""What it is: a question about an investigation, one of the commands, or the first one over the
limit."""

MAX_TEXT = 2_000


@dataclass(frozen=True)
class SlackQuestion:
    """One message to us. `text` is plain: without Slack's markup and without the mention of us."""

    text: str
    who: str
    """The Slack user's id."""
    channel: str
    thread: str
    """The ts under which the answer is posted."""
    ts: str
    """The message's own ts; with the channel it names the question."""
    surface: Surface
    event_id: str = ""
    about_channel: str | None = None
    """In the assistant pane: the channel that the person is looking at."""
    investigation_id: str | None = None
    """The investigation it is about, where the sender knows that."""

    @property
    def id(self) -> str:
        """The same for every event about this message."""
        return f"{self.channel}:{self.ts}"


@dataclass(frozen=True)
class Taken:
    """Result of taking a question. `stored`: a worker will answer; else `why` says what was done
    instead."""

    stored: bool
    why: str


Ask = Callable[[SlackQuestion], Awaitable[Taken]]
"""Take one question into the store; before the event is acknowledged. May raise NotAccepted: Slack
shall send again."""


MaskedText = Annotated[str, AfterValidator(masked)]
"""What an answer says, with the secrets in it masked, whoever worded it."""


class AnswerLine(Frozen):
    """One line of an answer, the findings it rests on, and links under which a reader can check
    it."""

    text: MaskedText
    findings: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    """(title, url)."""
    bold: MaskedText = ""
    """A label in front."""


class AnswerText(Frozen):
    """An answer before any layout: a first sentence, lines, and what the reader may ask next."""

    lead: MaskedText
    lines: tuple[AnswerLine, ...] = ()
    more: tuple[MaskedText, ...] = ()
    """Last lines in small print: what it does not say, what could be asked."""
    code: tuple[MaskedText, ...] = ()
    """Log lines and the like, shown as they are."""
    investigation_id: str | None = None
    chart: str | None = None
    """The id of the finding whose chart is shown."""
    picture: tuple[str, str] | None = None
    """Service and signal of a series that is drawn."""
    export: str | None = None
    """The name of an export that is attached: `faultline.bot.answer.exports.formats`."""
    written_by: str = "built-in"


# A thread of Teams as questions are kept with it, beside those of Slack's channels.
#
# The written channel is `msteams/19:...@thread.tacv2`, of a named bot `msteams eu/...`. A channel
# of Slack holds no slash.

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
