"""The model investigates a case that code has diagnosed, then says what it found as claims, which
code checks and words.

Verdict, confidence and the order of the causes come from code: from the diagnosis as it was, or,
where the model asked for more evidence, from the same analysis of the case with it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from faultline.analysis.case.folder import json_bytes, read_diagnosis
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import (
    Assertion,
    Claim,
    DecisionPolicy,
    Diagnosis,
    ModelUse,
    ModelVerdict,
    Report,
)
from faultline.bot.answer.asserted.ground import Ground, ground_of
from faultline.bot.answer.asserted.relations import described
from faultline.bot.answer.deciding import judged
from faultline.bot.answer.finding_ids import claims_renamed, verdict_renamed
from faultline.bot.answer.model_record import policy_of, read_record
from faultline.bot.answer.view import NO_REPORT
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.guard import keep_supported
from faultline.bot.answer.writer.payload import FEW_FINDINGS, MAX_FINDINGS, payload
from faultline.bot.investigation.model.budget import Budget, DayBudget, ModelLimits
from faultline.bot.investigation.model.client import ModelClient
from faultline.bot.investigation.model.conversation import Conversation, Progress, silent
from faultline.bot.investigation.model.drafts import Draft, check_draft, read_draft, report_of
from faultline.bot.investigation.model.model_session import Keep, ModelSession, Run, in_a_thread
from faultline.bot.investigation.model.toolbox import toolbox_for
from faultline.bot.investigation.model.transcript import Records, open_records
from faultline.bot.settings import Settings
from faultline.connectors.shared.contract.base import Connector
from faultline.prompts import load_prompt

STORE = "model"
"""Folder of the case that holds what was sent, answered and collected."""
LAST = "Write the report now."
FINDINGS = "findings.json"


@dataclass(frozen=True)
class Investigated:
    """The guarded report, the diagnosis it rests on, and the files of the case that are to be
    replaced."""

    report: Report
    diagnosis: Diagnosis
    changed: Mapping[str, bytes] = field(default_factory=dict)
    refused: tuple[tuple[Assertion, ...], ...] = ()
    """Claims that did not stand, as data."""


async def investigate(
    folder: Path,
    settings: Settings,
    *,
    connectors: Sequence[Connector] = (),
    keep: Keep | None = None,
    run: Run = in_a_thread,
    progress: Progress = silent,
    day: DayBudget | None = None,
) -> Investigated:
    """Let the model that the settings name investigate the diagnosed case in `folder`.

    `keep` stores files of the case (its name inside the case, its content); what it stored before
    is taken up again. `day` is what all investigations of the day may take. Never raises for what
    the model, its server or a connector does: then the
    report is the built-in one and says why. Raises EvidenceError when the case cannot be read.
    """
    with tempfile.TemporaryDirectory(prefix="faultline-model-") as scratch:
        model_session = ModelSession(
            folder=folder,
            work=Path(scratch) / "case",
            diagnosis=read_diagnosis(folder),
            run=run,
            store=STORE,
            keep=keep or keeps_nothing,
            connectors=connectors,
            more_services=tuple(settings.services),
            queries=settings.model.queries,
        )
        records = await open_records(model_session)
        budget = Budget(settings.model, ModelLimits.of(settings.model), day=day)
        refused: list[tuple[Assertion, ...]] = []
        verdict: ModelVerdict | None = None
        policy = DecisionPolicy(decides=settings.model.decides)
        try:
            # Before anything is paid for: the file may be none.
            file = settings.model.record
            policy = policy_of(settings.model.decides, read_record(file) if file else None)
            draft, ended = await _draft(settings, records, budget, progress)
            use = budget.use(ended)
            ground = _ground(model_session)
            checked_draft = check_draft(draft, ground, records.redactor)
            drafted, refused = (
                report_of(draft, checked_draft, ground, use.name),
                checked_draft.refused_claims,
            )
            verdict = checked_draft.verdict.verdict if checked_draft.verdict else None
        except FaultlineError as error:
            drafted, use = None, budget.use(str(error))
        # A server may answer anything; the incident still gets its report.
        except Exception as error:  # noqa: BLE001
            why = f"answered something unexpected ({type(error).__name__})"
            drafted, use = None, budget.use(why)
        investigated = await _settled(model_session, drafted, use, verdict, policy)
        await records.close()
        return replace(investigated, refused=tuple(refused))


async def _draft(
    settings: Settings, records: Records, budget: Budget, progress: Progress
) -> tuple[Draft, str]:
    model, model_session = settings.model, records.model_session
    toolbox = (
        toolbox_for(model_session, records.redactor, resumed=records.resumed)
        if model.investigates
        else None
    )
    async with ModelClient(model) as client:
        conversation = Conversation(
            client=client,
            prompt=load_prompt("investigate", described()),
            first=_first(records),
            shorter=_first(records, FEW_FINDINGS),
            last=LAST,
            schema=Draft,
            read=read_draft,
            review=lambda draft: check_draft(draft, _ground(model_session), records.redactor),
            toolbox=toolbox,
            budget=budget,
            transcript=records.transcript,
            save=records.save,
            progress=progress,
        )
        return await conversation.final_draft()


def _first(records: Records, most: int = MAX_FINDINGS) -> str:
    case = records.model_session.case
    # The shorter data leaves out the runbooks, too.
    runbooks = case.runbooks.runbooks if most == MAX_FINDINGS else ()
    return payload(
        records.model_session.diagnosis, case.alert, case.gaps, records.redactor, runbooks, most
    )


def _ground(model_session: ModelSession) -> Ground:
    """What claims are held against now, observations included."""
    return ground_of(model_session.case, model_session.whole)


async def _settled(
    model_session: ModelSession,
    drafted: Report | None,
    use: ModelUse,
    verdict: ModelVerdict | None,
    policy: DecisionPolicy,
) -> Investigated:
    """The report on the final diagnosis: what was asked for counts even where the model gave no
    answer."""
    claims: tuple[Claim, ...] = (*drafted.claims, *drafted.next_steps) if drafted else ()
    cited = [i for c in claims for i in c.findings]
    cited += [i for ground in verdict.grounds for i in ground.findings] if verdict else []
    alert, gaps = model_session.case.alert, model_session.case.gaps
    try:
        settled = await model_session.settled(cited)
    except (
        FaultlineError
    ) as error:  # the case with the new evidence cannot be analysed: it stays as it was
        model_session.start_over()
        settled, drafted, use = None, None, use.model_copy(update={"ended": str(error)})
    diagnosis, changed = settled if settled else (model_session.diagnosis, {})
    if drafted is None:
        report = keep_supported(word(diagnosis, alert, gaps), diagnosis, alert, gaps=gaps)
        dropped = (*report.dropped, f"{NO_REPORT}{use.ended}")
        return Investigated(
            report.model_copy(update={"dropped": dropped, "model_use": use}), diagnosis, changed
        )
    names = model_session.names if settled else {}
    renamed = drafted.model_copy(update={"claims": claims_renamed(drafted.claims, names)})
    # Check again: new evidence may have changed the diagnosis since the draft was checked.
    ground = ground_of(model_session.case, diagnosis)
    if verdict is not None and policy.decides != "never":
        diagnosis = judged(verdict_renamed(verdict, names), ground, policy, use.name)
        ground = ground_of(model_session.case, diagnosis)
        changed = {**changed, FINDINGS: json_bytes(diagnosis)}
    report = keep_supported(renamed, diagnosis, alert, gaps=gaps, ground=ground)
    return Investigated(report.model_copy(update={"model_use": use}), diagnosis, changed)


def keeps_nothing(name: str, content: bytes) -> None:
    """For whoever does not store the conversation."""
