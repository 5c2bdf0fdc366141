"""The answer in Microsoft Teams: one card for each question, in its thread, posted once.

A card shows no picture and holds no file, so it says where they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from faultline.bot.answer.exports.formats import FORMATS
from faultline.bot.answer.foreign_text import safe_url, single_line
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.targets.chats.target import MSTEAMS
from faultline.bot.answer.targets.chats.teams_card import CardExtras, Part, block, run, whole_card
from faultline.bot.answer.targets.message_target import SEARCH_BACK
from faultline.bot.conversation.messages import IMAGE_ALT, LINE, MAX_LINES, OPENING, code_box
from faultline.bot.conversation.visibility import ConversationVisibility
from faultline.bot.intake.questions.slack_question import (
    AnswerLine,
    AnswerText,
    channel_in,
    conversation_of,
    id_in,
    name_in,
)
from faultline.bot.policy.values import ReplyTo
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.conversations import Conversations, Question
from faultline.bot.store.follow_ups import FollowUps, TicketRequests
from faultline.bot.store.messages import investigations_in
from faultline.bot.store.reports import Place
from faultline.bot.store.store import Store

if TYPE_CHECKING:
    from faultline.bot.answer.targets.chats.msteams import TeamsCards

CODE = 2_400
"""Characters of log lines."""
LINKS, LINK_TITLE, LABEL = 4, 40, 120


class TeamsPosts:
    """Posts the answers of one bot."""

    source = "msteams"

    def __init__(
        self, settings: Settings, store: Store, conversations: Conversations, *, owner: str
    ) -> None:
        declared = MSTEAMS.scoped_to(settings)
        self.questions_per_hour = settings.msteams.questions_per_hour
        self.further_per_hour = settings.msteams.further_per_hour
        self.target = declared.target_name
        self._store, self._conversations = store, conversations
        self._cards: TeamsCards = declared.build(settings, store, owner=owner)  # type: ignore[assignment]

    async def post(self, question: Question, answer: AnswerText, page_url: str | None) -> None:
        """The answer to the question, posted now or before. Raises ConnectorError."""
        key = f"{question.id}:answer"
        await self._cards.say_once(
            self._conversations,
            question.id,
            _conversation(question),
            key,
            card_of_answer(answer, key, page_url),
            question.requested_at - SEARCH_BACK,
        )

    async def refresh(self, outcome: Outcome) -> None:
        """A worker edits the card, as after a click."""
        tickets = TicketRequests(self._store.engine)
        await in_store(tickets.made, outcome.investigation.id)

    def investigations_in(self, question: Question) -> Sequence[str]:
        """Those that are answered in the question's thread, the newest first. Blocks."""
        engine, address = self._store.engine, _conversation(question)
        return investigations_in(engine, self.target, address, question.thread)

    def further_since(self, question: Question, since: datetime) -> int:
        """Follow-ups that this thread has asked for since then. Blocks."""
        counted = FollowUps(self._store.engine).count_at
        return counted(self.target, _conversation(question), since)

    def reply_to(self, question: Question) -> ReplyTo:
        """In this thread."""
        return ReplyTo(other_addresses={self.target: _conversation(question)})

    def asker(self, question: Question) -> str:
        """As clicks count them."""
        return f"{self.source}:{id_in(question.who)}"

    def name_of(self, question: Question) -> str:
        """Their name."""
        return name_in(question.who)


class TeamsVisibility(ConversationVisibility):
    """In a thread: what is answered in it, and nothing else. Teams tells nobody's channels."""

    def __init__(self, store: Store, posts: TeamsPosts, settings: Settings) -> None:
        super().__init__(store, None, settings)
        self._here = posts.investigations_in

    async def _may_tell(self, question: Question, place: Place) -> bool:
        # With isolation, other teams' investigations stay unmentioned.
        if self._teams is not None and place.team not in ("", *self._teams_of(question)):
            return False
        return place.id in await in_store(self._here, question)

    def _question_channels(self, question: Question) -> tuple[str, ...]:
        return (channel_in(question.channel),)


def card_of_answer(answer: AnswerText, key: str, page_url: str | None) -> Part:
    """The card that bears `key` as the id of its first line."""
    opening = single_line(answer.lead, OPENING)
    shown = answer.lines[:MAX_LINES]
    left = len(answer.lines) - len(shown)
    more = [*([f"{left} more lines on the page"] if left else []), *answer.more]
    body = [block(run(opening or "-"), id=key), *(_line(line) for line in shown)]
    for line in code_box(answer.code, CODE).splitlines():
        body.append(block(run(line, fontType="Monospace", size="Small"), spacing="Small"))
    body += _elsewhere(answer, page_url)
    fine = [single_line(line, IMAGE_ALT) for line in more]
    return whole_card(opening or "-", body, page_url, CardExtras(fine))


def _line(line: AnswerLine) -> Part:
    label = [run(f"{single_line(line.bold, LABEL)} ", weight="Bolder")] if line.bold else []
    text = run(single_line(line.text, LINE))
    links = [link for title, url in line.links[:LINKS] for link in _link(title, url)]
    return block(run("•  "), *label, text, *links, spacing="Small")


def _link(title: str, address: str | None) -> Iterator[Part]:
    url = safe_url(address)
    if url:
        yield run(" ")
        yield run(
            single_line(title, LINK_TITLE), selectAction={"type": "Action.OpenUrl", "url": url}
        )


def _elsewhere(answer: AnswerText, page_url: str | None) -> Iterator[Part]:
    """Where the picture and the file of an answer are."""
    if answer.export is not None and page_url:
        export = FORMATS[answer.export]
        yield block(*_link(export.title, f"{page_url}/export/{export.file}"))
    if answer.chart is not None and page_url:
        yield block(*_link("Chart", f"{page_url}#{answer.chart}"))
    elif answer.picture is not None:
        yield block(run("Ask on the page to see the chart.", isSubtle=True))


def _conversation(question: Question) -> str:
    return conversation_of(question.channel, question.thread)


# What a chat does for its questions: bring an answer into their thread, and say who asked and what
# was investigated there.


class ChatPosts(Protocol):
    """One workspace of Slack, or one bot in Teams."""

    source: str
    """Of investigations that are asked for there."""
    questions_per_hour: int
    further_per_hour: int

    async def post(self, question: Question, answer: AnswerText, page_url: str | None) -> object:
        """The answer to the question, posted now or before. Raises ConnectorError."""

    async def refresh(self, outcome: Outcome) -> None:
        """Bring the investigation's own message up to date, with what people said of it."""

    def investigations_in(self, question: Question) -> Sequence[str]:
        """Those that are answered in the question's thread, the newest first. Blocks."""

    def further_since(self, question: Question, since: datetime) -> int:
        """Follow-ups that this thread has asked for since then. Blocks."""

    def reply_to(self, question: Question) -> ReplyTo:
        """Where an investigation that is asked for in this thread is answered."""

    def asker(self, question: Question) -> str:
        """The name under which the asker is counted."""

    def name_of(self, question: Question) -> str:
        """Who asked, as it is kept with what they said."""
