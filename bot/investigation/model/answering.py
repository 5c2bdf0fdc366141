"""A question about an investigation that was answered, put to the model: the same tools, limits and
checks."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from faultline.analysis.case.folder import read_diagnosis
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Claim, Diagnosis, ModelUse
from faultline.bot.answer.asserted.ground import Ground, ground_of
from faultline.bot.answer.asserted.relations import described
from faultline.bot.answer.writer.payload import Redactor, as_data, clean, payload
from faultline.bot.investigation.model.budget import Budget, DayBudget, ModelLimits
from faultline.bot.investigation.model.client import ModelClient
from faultline.bot.investigation.model.conversation import Conversation, Progress, silent
from faultline.bot.investigation.model.drafts import AnswerDraft, check_draft, read_answer
from faultline.bot.investigation.model.investigating import keeps_nothing
from faultline.bot.investigation.model.model_session import Keep, ModelSession, Run, in_a_thread
from faultline.bot.investigation.model.toolbox import toolbox_for
from faultline.bot.investigation.model.transcript import Records, open_records
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Connector
from faultline.prompts import load_prompt

STORE = "questions"
SHARE = 0.5
"""Of the seconds of an investigation: somebody waits."""
MAX_HISTORY = 6
MAX_CLAIMS = 5
MOST_SERVICES = 5
"""Of a follow-up."""
LAST = "Answer the question now."


@dataclass(frozen=True)
class Exchange:
    """A question asked before in the same conversation, and what was answered. Both are foreign
    text."""

    question: str
    answer: str


@dataclass(frozen=True)
class GuardedAnswer:
    """What may be said to a question. Without claims nothing may: `use.ended` and `dropped` tell
    why."""

    claims: tuple[Claim, ...]
    """In order: what evidence shows, worded by code, then what the model infers."""
    diagnosis: Diagnosis
    """The case's own, followed by the findings that new evidence brought: those that `new_findings`
    names."""
    new_findings: tuple[str, ...]
    """Of those that are cited. They are in no page and no findings.json: quote them, do not link to
    them."""
    dropped: tuple[str, ...]
    """What was refused, and why."""
    use: ModelUse
    follow_up: tuple[str, ...] = ()
    """Services that the question asks to investigate further, as the case or the catalogue spells
    them."""


async def answer_question(
    question: str,
    folder: Path,
    settings: Settings,
    *,
    connectors: Sequence[Connector] = (),
    history: Sequence[Exchange] = (),
    keep: Keep | None = None,
    name: str = "1",
    run: Run = in_a_thread,
    progress: Progress = silent,
    day: DayBudget | None = None,
) -> GuardedAnswer:
    """Answer from the case in `folder` (alert.json ... findings.json), which stays as it is, and
    from new queries.

    `question` and `history` are what people wrote: data, never instructions. `connectors` are those
    that may be asked for more evidence; none: only the case is read. What was sent, answered and
    collected is stored through `keep` as `questions/<name>/...`, and taken up there again. `run` is
    `ProcessPool.run` where there is a pool. Verdict, confidence and the order of causes stay those
    of the case. Takes `settings.model`'s budgets (half of `investigate_s`, since somebody waits)
    and never raises for what the model or a server does. Call it only where `settings.model.name`
    is set. Raises EvidenceError when the case cannot be read.
    """
    diagnosis = read_diagnosis(folder)
    with tempfile.TemporaryDirectory(prefix="faultline-question-") as scratch:
        model_session = ModelSession(
            folder=folder,
            work=Path(scratch) / "case",
            diagnosis=diagnosis,
            run=run,
            store=f"{STORE}/{name}",
            keep=keep or keeps_nothing,
            connectors=connectors,
            more_services=tuple(settings.services),
            queries=settings.model.queries,
        )
        records = await open_records(model_session)
        budget = Budget(settings.model, ModelLimits.of(settings.model, share=SHARE), day=day)
        claims: tuple[Claim, ...] = ()
        refused: tuple[str, ...] = ()
        follow_up: tuple[str, ...] = ()
        try:
            draft, ended = await _draft(question, history, settings, records, budget, progress)
            checked_draft = check_draft(draft, _ground(model_session, question), records.redactor)
            claims, refused = tuple(checked_draft.claims[:MAX_CLAIMS]), tuple(checked_draft.refused)
            follow_up = _case_services(draft.follow_up, model_session, records.redactor)
        except FaultlineError as error:
            ended = str(error)
        # A server may answer anything; the question still gets an answer.
        except Exception as error:  # noqa: BLE001
            ended = f"answered something unexpected ({type(error).__name__})"
        await records.close()
        answered = _guarded(claims, refused, model_session, budget.use(ended))
        return replace(answered, follow_up=follow_up)


async def _draft(
    question: str,
    history: Sequence[Exchange],
    settings: Settings,
    records: Records,
    budget: Budget,
    progress: Progress,
) -> tuple[AnswerDraft, str]:
    toolbox = None
    if settings.model.investigates:
        toolbox = toolbox_for(records.model_session, records.redactor, resumed=records.resumed)
    async with ModelClient(settings.model) as client:
        conversation = Conversation(
            client=client,
            prompt=load_prompt("question", described()),
            # A resumed transcript begins with it already.
            first="" if records.resumed else _first(question, history, records),
            last=LAST,
            schema=AnswerDraft,
            read=read_answer,
            review=lambda draft: check_draft(
                draft, _ground(records.model_session, question), records.redactor
            ),
            toolbox=toolbox,
            budget=budget,
            transcript=records.transcript,
            save=records.save,
            progress=progress,
        )
        return await conversation.final_draft()


def _first(question: str, history: Sequence[Exchange], records: Records) -> str:
    case, redactor = records.model_session.case, records.redactor
    data = payload(
        records.model_session.diagnosis, case.alert, case.gaps, redactor, case.runbooks.runbooks
    )
    before = [{"question": e.question, "answer": e.answer} for e in history[-MAX_HISTORY:]]
    # Questions are foreign text as well: they are masked, and say where they come from.
    request = clean(
        {"asked_before": before, "question": question, "provenance": "a person in the channel"},
        redactor,
    )
    return f"{data}\n{as_data([json.dumps(request, ensure_ascii=False)])}"


def _ground(model_session: ModelSession, question: str) -> Ground:
    """The case's own decision, and the findings that new evidence added to it."""
    return ground_of(model_session.case, _decided(model_session), question)


def _case_services(
    names: Sequence[str], model_session: ModelSession, redactor: Redactor
) -> tuple[str, ...]:
    services = {name.casefold(): name for name in model_session.services()}
    # The model sees placeholders, so reveal the names before they are compared.
    reveals = [redactor.reveal(name).strip().casefold() for name in names]
    return tuple(dict.fromkeys(services[name] for name in reveals if name in services))[
        :MOST_SERVICES
    ]


def _decided(model_session: ModelSession) -> Diagnosis:
    diagnosis = model_session.initial_diagnosis
    ids = {f.id for f in diagnosis.findings}
    added = tuple(f for f in model_session.findings if f.id not in ids)
    return diagnosis.model_copy(update={"findings": (*diagnosis.findings, *added)})


def _guarded(
    claims: Sequence[Claim], refused: Sequence[str], model_session: ModelSession, use: ModelUse
) -> GuardedAnswer:
    cited, findings = (
        {i for claim in claims for i in claim.findings},
        model_session.initial_diagnosis.findings,
    )
    fresh = {f.id for f in model_session.findings} - {f.id for f in findings}
    new = tuple(f.id for f in model_session.findings if f.id in fresh & cited)
    return GuardedAnswer(tuple(claims), _decided(model_session), new, tuple(refused), use)
