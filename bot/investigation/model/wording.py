"""The model words a diagnosis and asks for nothing: one answer, of the report's form; the guard has
the last word."""

from __future__ import annotations

from collections.abc import Sequence

from analysis.errors import FaultlineError
from analysis.vocabulary import Alert, Diagnosis, Gap, ModelUse, Report
from bot.answer.writer.built_in import word
from bot.answer.writer.guard import keep_supported
from bot.answer.writer.payload import payload
from bot.answer.writer.redaction import Redactor
from bot.investigation.model.budget import Budget, ModelLimits
from bot.investigation.model.client import ModelClient
from bot.investigation.model.conversation import Conversation
from bot.investigation.model.drafts import Draft, claims_of, line_of, read_draft
from bot.investigation.model.transcript import Transcript
from bot.settings.model import ModelSettings
from prompts import load_prompt


async def word_by_model(
    diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap], settings: ModelSettings
) -> Report:
    """The guarded report. Never raises for what the model or its server does: then it is the
    built-in report."""
    redactor, budget = Redactor(), Budget(settings, ModelLimits.of(settings))
    try:
        async with ModelClient(settings) as client:
            conversation = Conversation(
                client=client,
                prompt=load_prompt("report"),
                first=payload(diagnosis, alert, gaps, redactor),
                last="",
                schema=Draft,
                read=read_draft,
                toolbox=None,
                budget=budget,
                transcript=Transcript(),
                save=_saves_nothing,
            )
            draft, ended = await conversation.held()
    except FaultlineError as error:
        return _built_in(diagnosis, alert, gaps, budget.use(str(error)))
    # A server may answer anything; the incident still gets its report.
    except Exception as error:  # noqa: BLE001
        why = f"answered something unexpected ({type(error).__name__})"
        return _built_in(diagnosis, alert, gaps, budget.use(why))
    report = Report(
        headline=line_of(draft.headline, redactor),
        claims=claims_of(draft.claims, redactor),
        next_steps=claims_of(draft.next_steps, redactor),
        written_by=settings.name or "model",
    )
    kept = keep_supported(report, diagnosis, alert, gaps=gaps)
    return kept.model_copy(update={"model_use": budget.use(ended)})


async def _saves_nothing() -> None:
    pass


def _built_in(diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap], use: ModelUse) -> Report:
    dropped = (f"the model's report: {use.ended}",)
    return word(diagnosis, alert, gaps).model_copy(update={"dropped": dropped, "model_use": use})
