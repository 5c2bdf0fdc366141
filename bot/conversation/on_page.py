"""Questions asked on an investigation's page, answered from its stored case alone.

The server has neither connectors nor a model, and a page starts nothing and records nothing by a
question: what would take that is left to the page's own buttons, and the answer says so.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from faultline.bot.conversation import about_time
from faultline.bot.conversation.answered_case import AnsweredCase, load_case
from faultline.bot.conversation.answering import Reply, answer_from_case
from faultline.bot.conversation.measured import CaseSeries, finding_on
from faultline.bot.intake.questions.commands import command_in
from faultline.bot.intake.questions.request_kind import RequestKind
from faultline.bot.intake.questions.slack_question import AnswerText
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.store import StoredInvestigation

HELP = AnswerText(
    lead="I answer questions from what this investigation stored.",
    more=(
        "why · what contradicts it · what changed · who is affected · since when · what was "
        "p99 before · show logs of a service · other suspects · what next · explain F3",
    ),
)
NOT_COLLECTED = AnswerText(
    lead="This investigation did not collect that, and a question here starts nothing.",
    more=("“Wider window” under “Go on from here” investigates a longer time",),
)
NOT_STORED = AnswerText(
    lead="The stored case does not hold that time, and a question here asks no source.",
    more=("What was before the incident it holds: ask what p99 latency was before",),
)
NOT_RECORDED = AnswerText(
    lead="Nothing was recorded. Say on the investigation's page under “Was this right?” what the "
    "cause was."
)


class PageAnswers:
    """Answers questions of the pages."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    async def __call__(
        self, investigation: StoredInvestigation, folder: Path, question: str
    ) -> AnswerText:
        """The answer to a question about an answered investigation. Raises EvidenceError where its
        case cannot be read."""
        command = command_in(question)
        if command is not None and command.kind == "help":
            return HELP
        answered, reply = await in_thread(self._read, investigation, folder, question)
        if reply.kind is RequestKind.OWNERSHIP and reply.look is not None:
            # Without sources it tells who was on call when the alert fired.
            return (await reply.look(())).text
        return _page_answer(answered, reply)

    def _read(
        self, investigation: StoredInvestigation, folder: Path, question: str
    ) -> tuple[AnsweredCase, Reply]:
        now = datetime.now(UTC)
        answered = load_case(investigation, folder, self._settings, now=now)
        catalogue = tuple(self._settings.services)
        return answered, answer_from_case(answered, question, catalogue)


def _page_answer(answered: AnsweredCase, reply: Reply) -> AnswerText:
    """The part of the reply that a page can give."""
    if reply.kind is RequestKind.HELP:
        return HELP
    if reply.follow_up is not None:
        return NOT_COLLECTED
    if reply.correction is not None:
        return NOT_RECORDED
    if reply.kind is RequestKind.COMPARE and reply.look is not None:
        return NOT_STORED
    if reply.look is not None:
        # What is now only its source knows: the end of the data is the newest that is stored.
        return about_time.still(answered).model_copy(update={"more": ()})
    text = reply.text
    if text.picture is None:
        return text
    # The page draws charts of findings.
    drawn = finding_on(answered, CaseSeries(*text.picture))
    return text.model_copy(update={"chart": drawn.id if drawn else None, "picture": None})
