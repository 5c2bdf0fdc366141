"""Who decides: code's first cause, or the verdict of a model that has better grounds.

Pure: the same diagnosis, verdict and policy give the same answer, so that a stored case replays.
"""

from __future__ import annotations

from faultline.analysis.changes.nearby import NEAR
from faultline.analysis.kinds.finding_details import ChangeDetails, ObservationDetails
from faultline.analysis.ranking.ranking import cause_named
from faultline.analysis.vocabulary import (
    Cause,
    Decision,
    DecisionPolicy,
    Diagnosis,
    Finding,
    ModelVerdict,
    Verdict,
    VerdictKind,
)
from faultline.bot.answer.asserted.ground import Ground, Refused
from faultline.bot.answer.asserted.verdicts import (
    CheckedVerdict,
    blamed_finding,
    checked_verdict,
    cited_by,
    went_live,
)


def judged(verdict: ModelVerdict, ground: Ground, policy: DecisionPolicy, model: str) -> Diagnosis:
    """Code's diagnosis as a model's verdict leaves it, which is checked first; a verdict about
    nothing that the case knows leaves it as it is."""
    try:
        checked = checked_verdict(verdict, ground)
    except Refused:
        return ground.diagnosis
    return decided(checked, ground, policy, model)


def decided(
    checked: CheckedVerdict, ground: Ground, policy: DecisionPolicy, model: str
) -> Diagnosis:
    """Code's diagnosis, which `ground` holds, as the verdict leaves it."""
    diagnosis, verdict = ground.diagnosis, checked.verdict
    decision = Decision(
        outcome="dissented",
        verdict=verdict,
        model=model,
        policy=policy,
        code_verdict=diagnosis.verdict,
        code_confidence=diagnosis.confidence,
        code_subject=ground.cause.subject if ground.cause else None,
        code_change=ground.cause.change if ground.cause else None,
    )
    if verdict.kind is VerdictKind.AGREE:
        return _agreed(diagnosis, checked, decision)
    objection = checked.objection or _not_weighty(diagnosis, verdict, policy)
    if objection:
        return diagnosis.model_copy(
            update={
                "decision": decision.model_copy(
                    update={"objection": objection, "refuted": bool(checked.objection)}
                )
            }
        )
    led = decision.model_copy(update={"outcome": "led"})
    return _led(diagnosis, checked, ground, led)


def _not_weighty(diagnosis: Diagnosis, verdict: ModelVerdict, policy: DecisionPolicy) -> str:
    """What keeps a verdict with good grounds from leading."""
    if policy.decides != "below_bar":
        return "the settings let code decide"
    # Code's confidence is about the subject, and not about which of its changes is to blame.
    other_change = verdict.kind is VerdictKind.OTHER_CHANGE
    if diagnosis.confidence >= policy.bar and not other_change:
        return f"code is {diagnosis.confidence:.0%} sure".replace("%", " %")
    if verdict.confidence < policy.least_confidence:
        return f"it is only {verdict.confidence:.0%} sure".replace("%", " %")
    return ""


def _agreed(diagnosis: Diagnosis, checked: CheckedVerdict, decision: Decision) -> Diagnosis:
    """Agreement raises code's confidence, and gives a cause that was withheld."""
    verdict, policy = checked.verdict, decision.policy
    agreed = decision.model_copy(update={"outcome": "agreed"})
    counts = (
        policy.decides == "below_bar"
        and bool(checked.claims)
        and verdict.confidence >= policy.least_confidence
    )
    if not counts or not diagnosis.causes or diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return diagnosis.model_copy(update={"decision": agreed})
    confidence = max(diagnosis.confidence, policy.agreed)
    first, *alternatives = sorted(diagnosis.causes, key=lambda cause: cause.rank)
    withheld = diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE
    return diagnosis.model_copy(
        update={
            "verdict": Verdict.CAUSE_FOUND if withheld else diagnosis.verdict,
            "missing": () if withheld else diagnosis.missing,
            "confidence": confidence,
            "causes": (first.model_copy(update={"confidence": confidence}), *alternatives),
            "decision": agreed,
        }
    )


def _led(
    diagnosis: Diagnosis, checked: CheckedVerdict, ground: Ground, decision: Decision
) -> Diagnosis:
    verdict, sure = checked.verdict, decision.policy.overruled
    if verdict.kind is VerdictKind.NOTHING_WRONG:
        return diagnosis.model_copy(
            update={
                "verdict": Verdict.NO_ACTIVE_INCIDENT,
                "confidence": sure,
                "missing": (),
                "decision": decision,
            }
        )
    if verdict.subject is None:
        return diagnosis.model_copy(
            update={
                "verdict": Verdict.INSUFFICIENT_EVIDENCE,
                "confidence": 0.0,
                "decision": decision,
            }
        )
    findings, change = _with_the_blamed(verdict, ground)
    cited = cited_by(verdict.grounds, ground)
    if change is not None:
        cited = [*(finding for finding in cited if finding.id != change.id), change]
    # What is about the subject itself leads; code's finding says more than a row.
    cited.sort(key=lambda f: (f.subject != verdict.subject, ObservationDetails.of(f) is not None))
    ranked = next((c for c in diagnosis.causes if c.subject == verdict.subject), None)
    cause = cause_named(verdict.subject, cited, change, ranked)
    cause = cause.model_copy(update={"confidence": sure})
    alternatives: list[Cause] = []
    for other in sorted(diagnosis.causes, key=lambda other: other.rank):
        # Code's own of another change stays: it is the alternative.
        same_subject = other.subject == cause.subject
        if same_subject and (other.rank > 1 or other.change == cause.change):
            continue
        update = {
            "rank": len(alternatives) + 2,
            "confidence": min(other.confidence, round(1 - sure, 3)),
        }
        alternatives.append(other.model_copy(update=update))
    recovered = diagnosis.verdict is Verdict.RECOVERED
    return diagnosis.model_copy(
        update={
            "verdict": Verdict.RECOVERED if recovered else Verdict.CAUSE_FOUND,
            "confidence": sure,
            "causes": (cause, *alternatives),
            "findings": findings,
            "missing": (),
            # It would tell code's first two apart.
            "next_query": None,
            "decision": decision,
        }
    )


def _with_the_blamed(
    verdict: ModelVerdict, ground: Ground
) -> tuple[tuple[Finding, ...], Finding | None]:
    """The findings, and that about the blamed change among them: it no longer says that the change
    was ruled out, or only looked at."""
    findings = ground.diagnosis.findings
    change = blamed_finding(verdict.change, ground) if verdict.change else None
    if change is None or change.kind == NEAR:
        return findings, change
    details, row = ChangeDetails.of(change), ObservationDetails.of(change)
    if details is None and row is not None:
        details = ChangeDetails(change=row.change, change_kind=change.signal, title=row.quote)
    blamed = change.model_copy(
        update={
            "kind": NEAR,
            "onset": went_live(change),
            "details": (details or ChangeDetails()).model_copy(update={"reason": None}),
        }
    )
    return tuple(blamed if f.id == change.id else f for f in findings), blamed
