"""Who decided, in words: the line below the headline where a model gave a verdict."""

from __future__ import annotations

from faultline.analysis.kinds.finding_details import change_finding
from faultline.analysis.phrasing.statement import Phrase, name, say
from faultline.analysis.vocabulary import (
    Claim,
    Decision,
    Diagnosis,
    Section,
    Verdict,
    VerdictKind,
)
from faultline.bot.answer.writer.headline import closed, continued
from faultline.bot.answer.writer.plain_text import quotable
from faultline.bot.answer.writer.story import change_by_title, change_called

_CODE_VERDICTS = {
    Verdict.NO_ACTIVE_INCIDENT: "no active incident",
    Verdict.INSUFFICIENT_EVIDENCE: "not enough evidence",
}


def decision_line(diagnosis: Diagnosis) -> str:
    """One or two sentences; empty where no model gave a verdict."""
    decision = diagnosis.decision
    if decision is None:
        return ""
    match decision.outcome:
        case "agreed":
            if decision.code_verdict is Verdict.INSUFFICIENT_EVIDENCE:
                return "The model agrees with code's first suspect. Code would not have named it."
            if diagnosis.confidence > decision.code_confidence:
                return f"The model agrees. Code alone is {_percent(decision.code_confidence)} sure."
            return "The model agrees."
        case "led":
            by_code = _by_code(decision, diagnosis)
            return f"The model's choice. Code alone would have said {by_code}."
        case _:
            dissent = f"The model disagrees: {_dissent(decision, diagnosis)}."
            if not decision.objection or decision.verdict.kind is VerdictKind.UNDECIDABLE:
                return dissent
            return f"{dissent} It does not lead: {closed(decision.objection)}"


def dissent_claim(diagnosis: Diagnosis) -> Claim | None:
    """What a dissenting model would rather say, with its reasons."""
    decision = diagnosis.decision
    if decision is None or decision.outcome != "dissented":
        return None
    verdict = decision.verdict
    words = [closed(_dissent(decision, diagnosis)), closed(verdict.text)]
    if verdict.would_decide:
        words.append(f"What would tell: {continued(closed(verdict.would_decide))}")
    text = " ".join(filter(None, words))
    ids = dict.fromkeys(f for ground in verdict.grounds for f in ground.findings)
    text = f"{text[:1].upper()}{text[1:]}"
    return Claim(text=quotable(text), findings=tuple(ids), section=Section.SECOND_OPINION)


def _by_code(decision: Decision, diagnosis: Diagnosis) -> str:
    """`deploy 4f2a of cart (39 %)`, `no active incident`."""
    verdict = _CODE_VERDICTS.get(decision.code_verdict)
    if verdict is not None and decision.code_verdict is Verdict.NO_ACTIVE_INCIDENT:
        return verdict
    named = str(_cause_phrase(decision.code_subject, decision.code_change, diagnosis))
    if verdict is not None:
        return f"{verdict}; its first suspect was {named}" if named else verdict
    return f"{named} ({_percent(decision.code_confidence)})"


def _dissent(decision: Decision, diagnosis: Diagnosis) -> str:
    verdict = decision.verdict
    sure = f"({_percent(verdict.confidence)} sure)"
    match verdict.kind:
        case VerdictKind.NOTHING_WRONG:
            return f"it finds nothing wrong {sure}"
        case VerdictKind.SOMETHING_WRONG if verdict.subject is None:
            return f"it finds that something is wrong {sure}"
        case VerdictKind.UNDECIDABLE:
            return "it cannot tell the cause from what there is"
        case VerdictKind.OTHER_CHANGE if verdict.change is None:
            return f"it blames no change {sure}"
    return f"it names {_cause_phrase(verdict.subject, verdict.change, diagnosis)} {sure}"


def _cause_phrase(subject: str | None, change: str | None, diagnosis: Diagnosis) -> Phrase:
    finding = change_finding(diagnosis.findings, change) if change else None
    if finding is not None:
        return change_by_title(finding) or change_called(
            finding, with_service=True, with_time=False
        )
    if change:
        return say("change {change}", change=change)
    return say("{who}", who=name(subject) if subject else "")


def _percent(share: float) -> str:
    return f"{min(99, max(0, round(100 * share)))} %"
