"""A question that the table does not understand, put to the model: its guarded sentences as our
answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bot.answer.foreign_text import one_line, safe_url
from bot.conversation.answered_case import page_url
from bot.intake.questions.slack_question import AnswerLine, AnswerText
from bot.investigation.model.answering import Exchange, answer_question
from bot.investigation.model.day_budget import day_budget
from bot.investigation.worker_context import WorkerContext
from bot.store.conversations import Question

REMEMBERED = 5
MOST = 8


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
    if not answered.claims:
        return None
    url, fresh = page_url(context.settings, investigation_id), set(answered.new_findings)
    lines = []
    for claim in answered.claims[:MOST]:
        known = [f for f in claim.findings if f not in fresh]
        links = tuple((f, u) for f in known[:3] if (u := safe_url(f"{url}#{f}")))
        lines.append(
            AnswerLine(text=one_line(claim.text, 600), findings=claim.findings, links=links)
        )
    new = [f for f in answered.diagnosis.findings if f.id in fresh]
    lines += [AnswerLine(text=one_line(f.sentence, 400), bold=f"New {f.id}") for f in new[:MOST]]
    use = answered.use
    more = [f"Worded by {one_line(use.name, 60)}; every sentence rests on findings"]
    if answered.dropped:
        more.append(f"{len(answered.dropped)} sentences removed: not covered by findings")
    return AnswerText(
        lead="From the case and what I looked up:",
        lines=tuple(lines),
        more=tuple(more),
        investigation_id=investigation_id,
        written_by=use.name,
    )


async def budget_used_up(question: Question, context: WorkerContext) -> str | None:
    """Which of the day's budgets is used up, as the answer tells it; None while there is something
    left."""
    day = day_budget(context.settings.model, context.store.engine, question.channel)
    if day is None:
        return None
    await day.look()
    return f"Not asked: {day.reached}" if day.reached else None


def _said(question: Question) -> str:
    answer = AnswerText.model_validate(question.answer)
    return "\n".join([answer.lead, *(line.text for line in answer.lines)])[:2_000]
