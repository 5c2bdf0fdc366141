"""A question that the table does not understand, put to the model: its claims as our
answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from analysis.vocabulary import Section
from analysis.wording.phrases import counted
from bot.answer.foreign_text import one_line, safe_url
from bot.answer.lines import INFERRED
from bot.conversation.answered_case import page_url
from bot.intake.questions.slack_question import AnswerLine, AnswerText
from bot.investigation.model.answering import Exchange, GuardedAnswer, answer_question
from bot.investigation.worker_context import WorkerContext
from bot.store.conversations import Question

REMEMBERED = 5
MOST = 8
REASONS = 3


async def answer_by_model(
    question: Question,
    earlier: Sequence[Question],
    folder: Path,
    investigation_id: str,
    context: WorkerContext,
) -> AnswerText | None:
    """The model's answer, or None when nothing of it may be said. Raises EvidenceError."""
    history = [Exchange(q.text, _said(q)) for q in reversed(earlier[:REMEMBERED]) if q.answer]
    name = "".join(c if c.isalnum() else "-" for c in question.id)[:80]

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
    )
    if not answered.claims:
        return _nothing_stands(answered, investigation_id) if answered.dropped else None
    url, fresh = page_url(context.settings, investigation_id), set(answered.new_findings)
    lines = []
    for claim in answered.claims[:MOST]:
        known = [f for f in claim.findings if f not in fresh]
        links = tuple((f, u) for f in known[:3] if (u := safe_url(f"{url}#{f}")))
        label = INFERRED if claim.section is Section.INFERRED else ""
        text = one_line(claim.text, 600)
        lines.append(AnswerLine(text=text, bold=label, findings=claim.findings, links=links))
    new = [f for f in answered.diagnosis.findings if f.id in fresh]
    lines += [AnswerLine(text=one_line(f.sentence, 400), bold=f"New {f.id}") for f in new[:MOST]]
    use = answered.use
    more = [f"Chosen by {one_line(use.name, 60)}; checked and worded by code"]
    if answered.dropped:
        more.append(
            f"{counted(len(answered.dropped), 'claim')} refused: the findings do not bear it out"
        )
    return AnswerText(
        lead="From the case and what I looked up:",
        lines=tuple(lines),
        more=tuple(more),
        investigation_id=investigation_id,
        written_by=use.name,
    )


def _nothing_stands(answered: GuardedAnswer, investigation_id: str) -> AnswerText:
    """The model answered, and nothing of it holds: said, and not passed over."""
    reasons = tuple(AnswerLine(text=one_line(why, 200)) for why in answered.dropped[:REASONS])
    name = one_line(answered.use.name, 60)
    return AnswerText(
        lead=f"{name} gave an answer, but the findings bear out none of it:",
        lines=reasons,
        more=("Ask about a service, a metric, a time or a change by name",),
        investigation_id=investigation_id,
        written_by=answered.use.name,
    )


def _said(question: Question) -> str:
    answer = AnswerText.model_validate(question.answer)
    return "\n".join([answer.lead, *(line.text for line in answer.lines)])[:2_000]
