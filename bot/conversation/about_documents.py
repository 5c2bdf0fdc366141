"""Drafts in the thread: a status update for three readers, a postmortem as a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.exports.status_update import status_update
from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.intake.questions.words import listed

POSTMORTEM, STATUS_UPDATE = "postmortem", "status"
LONGEST = 600
READERS: Mapping[str, frozenset[str]] = {
    "Status page": listed("page customers customer public announcement notice"),
    "Executives": listed(
        "boss manager exec execs executives management stakeholders cto ceo vp leadership"
    ),
    "Next shift": listed("shift handover handoff hand-over hand-off"),
}
"""The words that name a reader."""


def update(answered: AnsweredCase, tokens: Sequence[str]) -> AnswerText:
    """The status update, to be checked and copied; for one reader, where one is named."""
    view = answered.view
    drafted = status_update(view, since=view.impact.since)
    texts = {
        "Status page": (drafted.status_page,),
        "Executives": (drafted.executives,),
        "Next shift": drafted.next_shift,
    }
    readers = [reader for reader, words in READERS.items() if words & set(tokens)] or list(texts)
    lines = []
    for reader in readers:
        for n, text in enumerate(texts[reader]):
            lines.append(AnswerLine(text=plain(text, LONGEST), bold="" if n else reader))
    phrase = "A draft from what was measured; check it before you send it:"
    return AnswerText(lead=phrase, lines=tuple(lines), export=STATUS_UPDATE)


def postmortem(answered: AnsweredCase) -> AnswerText:
    """The draft as a file; what only people know is left blank in it."""
    cause = answered.view.headline
    label = "Root cause" if answered.view.established else answered.view.verdict_label
    return AnswerText(
        lead="Here is a draft of the postmortem.",
        lines=(
            answered.statement(cause, bold=label),
            AnswerLine(
                text="summary, impact, timeline, root cause, action items", bold="Filled in"
            ),
            AnswerLine(text="what it cost, when it was over, what went well", bold="Left to you"),
        ),
        export=POSTMORTEM,
    )
