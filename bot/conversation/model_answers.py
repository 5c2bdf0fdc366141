"""A question that no command answers exactly, put to the model: its claims as our answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from faultline.analysis.vocabulary import Claim, Section
from faultline.analysis.wording.phrases import counted
from faultline.bot.answer.foreign_text import safe_url, single_line
from faultline.bot.answer.lines import INFERRED
from faultline.bot.conversation.answered_case import page_url
from faultline.bot.intake.questions.slack_question import AnswerLine, AnswerText
from faultline.bot.investigation.model.answering import Exchange, GuardedAnswer, answer_question
from faultline.bot.investigation.model.budget import day_budget
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.store.conversations import Question

REMEMBERED = 5
MOST = 8
REASONS = 3


@dataclass(frozen=True)
class AnsweredByModel:
    """What the model's answer comes to."""

    text: AnswerText
    stands: bool
    """Whether anything of it may be said; else the text tells why not."""
    was_called: bool = True
    """Whether it was asked at all."""
    follow_up: tuple[str, ...] = ()
    """Services that it would investigate next."""


async def answer_by_model(
    question: Question,
    earlier: Sequence[Question],
    folder: Path,
    investigation_id: str,
    context: WorkerContext,
) -> AnsweredByModel:
    """The model's answer, or why there is none. Raises EvidenceError."""
    history = [
        Exchange(q.text, _answer_text(q)) for q in reversed(earlier[:REMEMBERED]) if q.answer
    ]
    name = "".join(c if c.isalnum() else "-" for c in question.id)[:80]

    day = day_budget(context.settings.model, context.store.engine, question.channel)

    def keep(file: str, data: bytes) -> None:
        context.cases.put(investigation_id, file, data)

    answered = await answer_question(
        question.text,
        folder,
        context.settings,
        connectors=context.connectors,
        history=history,
        keep=keep,
        name=name,
        run=context.pool.run,
        day=day,
    )
    url = page_url(context.settings, investigation_id)
    text = _answer(answered, url) if answered.claims else _nothing(answered)
    return AnsweredByModel(
        text.model_copy(
            update={"investigation_id": investigation_id, "written_by": answered.use.name}
        ),
        stands=bool(answered.claims),
        follow_up=answered.follow_up,
    )


def _answer(answered: GuardedAnswer, url: str) -> AnswerText:
    fresh = set(answered.new_findings)
    lines = [_line(claim, fresh, url) for claim in answered.claims[:MOST]]
    new = [f for f in answered.diagnosis.findings if f.id in fresh]
    lines += [AnswerLine(text=single_line(f.sentence, 400), bold=f"New {f.id}") for f in new[:MOST]]
    more = [f"Chosen by {single_line(answered.use.name, 60)}; checked and worded by code"]
    if answered.dropped:
        refused = counted(len(answered.dropped), "claim")
        more.append(f"{refused} refused: not borne out by findings")
    return AnswerText(
        lead="From the case and what I looked up:", lines=tuple(lines), more=tuple(more)
    )


def _line(claim: Claim, fresh: set[str], url: str) -> AnswerLine:
    # The page does not have findings that were made just now.
    findings = [finding for finding in claim.findings if finding not in fresh]
    links = tuple((finding, u) for finding in findings[:3] if (u := safe_url(f"{url}#{finding}")))
    label = INFERRED if claim.section is Section.INFERRED else ""
    text = single_line(claim.text, 600)
    return AnswerLine(text=text, bold=label, findings=claim.findings, links=links)


def _nothing(answered: GuardedAnswer) -> AnswerText:
    """Say so, rather than stay silent: the model failed, or no claim of its answer holds."""
    name = single_line(answered.use.name, 60)
    if not answered.dropped:
        why = single_line(answered.use.ended, 200)
        sentence = f"{name} gave no answer ({why})."
    else:
        sentence = f"{name} answered, but the findings bear out none of it."
    reasons = tuple(AnswerLine(text=single_line(why, 200)) for why in answered.dropped[:REASONS])
    more = ("Ask about a service, a metric, a time or a change by name",)
    return AnswerText(lead=sentence, lines=reasons, more=more)


async def budget_refusal(question: Question, context: WorkerContext) -> AnsweredByModel | None:
    """Which of the day's budgets is used up, as the answer tells it; None while there is something
    left."""
    day = day_budget(context.settings.model, context.store.engine, question.channel)
    if day is None:
        return None
    await day.look()
    if not day.reached:
        return None
    return AnsweredByModel(
        AnswerText(lead=f"Not asked: {day.reached}"), stands=False, was_called=False
    )


def _answer_text(question: Question) -> str:
    answer = AnswerText.model_validate(question.answer)
    return "\n".join([answer.lead, *(line.text for line in answer.lines)])[:2_000]
