"""What a chat does for its questions: bring an answer into their thread, and say who asked and what
was investigated there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from faultline.bot.answer.outcome import Outcome
from faultline.bot.intake.questions.slack_question import AnswerText
from faultline.bot.policy.values import ReplyTo
from faultline.bot.store.conversations import Question


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
