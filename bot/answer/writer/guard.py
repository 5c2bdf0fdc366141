"""The guard: what a report says is what code worded, from findings that bear it out.

A report of the built-in writer is only seen to: data in it must neither render nor notify. Of a
model's report each claim is worded again from what it asserts, and what does not hold is listed in
`Report.dropped` with its reason. Headline and steps are code's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert, Claim, Diagnosis, Gap, Report, Section, Verdict
from faultline.bot.answer.asserted.ground import Ground, Refused, offered_steps
from faultline.bot.answer.asserted.quotations import CLAIM_LIMIT, harmless, stored_inference
from faultline.bot.answer.asserted.relations import worded
from faultline.bot.answer.writer.built_in import HEADLINE_LIMIT, MAX_CLAIMS, memory_claims, word
from faultline.bot.answer.writer.plain_text import clipped, neutral

MODEL_CLAIMS = 10
MAX_NEXT_STEPS = 5
BY_A_MODEL = (Section.INFERRED, Section.SECOND_OPINION)


def keep_supported(
    report: Report,
    diagnosis: Diagnosis,
    alert: Alert,
    *,
    gaps: Sequence[Gap] = (),
    links: Collection[str] = (),
    ground: Ground | None = None,
) -> Report:
    """The report without what does not hold; the built-in report when no claim of a model's is
    left.

    `ground` is that of the case, where it is at hand: without one, claims about calls and quiet
    services are refused.
    """
    built_in = word(diagnosis, alert, gaps)
    dropped = list(report.dropped)
    case_ground = ground or Ground(diagnosis, alert, gaps)
    if report.written_by == built_in.written_by:
        return _harmless(report, built_in, links, dropped)
    claims = _passing_claims(
        report.claims, lambda claim: _again(claim, case_ground), dropped, MODEL_CLAIMS
    )
    if not claims and report.second_opinion is None:
        return built_in.model_copy(update={"dropped": tuple(dropped)})
    # Steps are code's own: one that is no longer offered is dropped.
    offered = {step.text: step.claim for step in offered_steps(diagnosis, alert)}
    steps = [
        offered[next_step.text] for next_step in report.next_steps if next_step.text in offered
    ]
    # Its reasons are those of its sentence, and without that it falls.
    rather = next((claim for claim in claims if claim.section is Section.SECOND_OPINION), None)
    opinion = None
    if rather and report.second_opinion:
        opinion = report.second_opinion.model_copy(update={"findings": rather.findings})
    return report.model_copy(
        update={
            "headline": built_in.headline,
            "claims": _with_code_evidence(claims, built_in, diagnosis),
            "next_steps": tuple(steps[:MAX_NEXT_STEPS]) or built_in.next_steps,
            "dropped": tuple(dropped),
            "second_opinion": opinion,
        }
    )


def _again(claim: Claim, ground: Ground) -> Claim:
    """The claim in today's words. Raises Refused."""
    if claim.section in BY_A_MODEL:
        return stored_inference(claim, ground)
    return worded(claim.asserted, ground, claim.section)


def _with_code_evidence(
    claims: Sequence[Claim], built_in: Report, diagnosis: Diagnosis
) -> tuple[Claim, ...]:
    """The claims, with code's own evidence where none of them is about the first cause, and what
    memory knows."""
    shown = [claim for claim in claims if claim.section not in BY_A_MODEL]
    cause = diagnosis.first_cause if diagnosis.verdict is Verdict.CAUSE_FOUND else None
    findings = {finding for claim in shown for finding in claim.findings}
    matching_claims: list[Claim] = []
    if not shown or (cause is not None and findings.isdisjoint(cause.findings)):
        matching_claims = [claim for claim in built_in.claims if claim.section is Section.WHY]
    remembered = [
        memory_claim
        for memory_claim in memory_claims(diagnosis)
        if memory_claim.findings[0] not in findings
    ]
    other_claims = [claim for claim in claims if claim.section in BY_A_MODEL]
    return (*matching_claims, *shown, *other_claims, *remembered)[:MAX_CLAIMS]


def _harmless(
    report: Report, built_in: Report, links: Collection[str], dropped: list[str]
) -> Report:
    """A built-in report without what data in it could do."""

    def harmless_claim(claim: Claim) -> Claim:
        harmless(claim.text, HEADLINE_LIMIT if claim is headline else CLAIM_LIMIT, links)
        return claim

    headline = Claim(text=report.headline, findings=())
    stands = _passing_claims([headline], harmless_claim, dropped, 1)
    claims = _passing_claims(report.claims, harmless_claim, dropped, MAX_CLAIMS)
    return report.model_copy(
        update={
            "headline": report.headline if stands else built_in.headline,
            "claims": claims or built_in.claims,
            "next_steps": _passing_claims(
                report.next_steps, harmless_claim, dropped, MAX_NEXT_STEPS
            ),
            "dropped": tuple(dropped),
        }
    )


def _passing_claims(
    claims: Sequence[Claim], check: Callable[[Claim], Claim], dropped: list[str], limit: int
) -> tuple[Claim, ...]:
    remaining_claims: list[Claim] = []
    for claim in claims:
        try:
            if len(remaining_claims) >= limit:
                raise Refused(f"it is one too many (limit {limit})")
            remaining_claims.append(check(claim))
        except Refused as why:
            dropped.append(_drop_note(claim.text, str(why)))
    return tuple(remaining_claims)


def _drop_note(text: str, fault: str) -> str:
    """One entry of `dropped`; the removed text is shown harmless."""
    return f'claim "{clipped(neutral(masked(text)), 120)}": {neutral(masked(fault), 200)}'
