"""The guard: what a report says is what code worded, from findings that bear it out.

A report of the built-in writer is only seen to: data in it must neither render nor notify. Of a
model's report each claim is worded again from what it asserts, and what does not hold is listed in
`Report.dropped` with its reason. Headline and steps are code's own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Alert, Claim, Diagnosis, Gap, Report, Section
from faultline.bot.answer.asserted.ground import Ground, Refused, offered_steps
from faultline.bot.answer.asserted.quotations import CLAIM_LIMIT, harmless, stored_inference
from faultline.bot.answer.asserted.relations import PLAIN, worded
from faultline.bot.answer.asserted.verdicts import is_about
from faultline.bot.answer.writer.built_in import (
    HEADLINE_LIMIT,
    MAX_CLAIMS,
    MOST_REMEMBERED,
    memory_claims,
    word,
)
from faultline.bot.answer.writer.decision_words import dissent_claim
from faultline.bot.answer.writer.plain_text import clipped, neutral

MODEL_CLAIMS = 10
MAX_NEXT_STEPS = 5
BY_A_MODEL = (Section.INFERRED, Section.SECOND_OPINION)
LEAST_ADDED = 3
"""Claims of a model that are shown beside code's evidence, however much else there is."""
GROUNDS_SHOWN = 3
"""Of a dissent; the page has no room for more reasons that lead nowhere."""


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

    def in_todays_words(claim: Claim) -> Claim:
        if claim.section in BY_A_MODEL:
            return stored_inference(claim, case_ground)
        return worded(claim.asserted, case_ground, claim.section)

    claims = _passing_claims(report.claims, in_todays_words, dropped, MODEL_CLAIMS)
    if not claims and diagnosis.decision is None:
        return built_in.model_copy(update={"dropped": tuple(dropped)})
    # Steps are code's own: one that is no longer offered is dropped.
    offered = {step.text: step.claim for step in offered_steps(diagnosis, alert)}
    steps = [
        offered[next_step.text] for next_step in report.next_steps if next_step.text in offered
    ]
    return report.model_copy(
        update={
            "headline": built_in.headline,
            "claims": _beside_code_evidence(claims, built_in, case_ground),
            "next_steps": tuple(steps[:MAX_NEXT_STEPS]) or built_in.next_steps,
            "dropped": tuple(dropped),
        }
    )


def _beside_code_evidence(
    claims: Sequence[Claim], built_in: Report, ground: Ground
) -> tuple[Claim, ...]:
    """Code's own evidence as it is, then what the model adds to it, then what it would rather say
    and concludes, then what memory knows. Nothing of a model's takes code's place."""
    by_code = [claim for claim in built_in.claims if claim.section is Section.WHY]
    of_model = [claim for claim in claims if claim.section not in BY_A_MODEL]
    # A report of an earlier version holds its second opinion as a claim.
    concluded, rather = (
        [claim for claim in claims if claim.section is section] for section in BY_A_MODEL
    )
    grounds = _grounds(ground)
    dissent = dissent_claim(ground.diagnosis)
    if dissent is None:
        of_model = [*grounds, *of_model]
    else:
        # What speaks for the model's own answer is no reason for code's.
        speaks = {c.text: c for c in (*grounds, *of_model) if _speaks_for(c, ground)}
        of_model = [claim for claim in of_model if claim.text not in speaks]
        of_dissent = {"section": Section.SECOND_OPINION}
        shown = list({**{c.text: c for c in grounds}, **speaks}.values())[:GROUNDS_SHOWN]
        rather = [dissent, *(claim.model_copy(update=of_dissent) for claim in shown)]
    room = max(MAX_CLAIMS - len(by_code) - len(rather) - len(concluded), LEAST_ADDED)
    added = _adding(of_model, by_code)[:room]
    remembered = memory_claims(ground.diagnosis)[:MOST_REMEMBERED]
    return (*by_code, *added, *rather, *concluded, *remembered)


def _grounds(ground: Ground) -> list[Claim]:
    """The grounds of the model's verdict in today's words."""
    decision = ground.diagnosis.decision
    claims = []
    for assertion in decision.verdict.grounds if decision is not None else ():
        try:
            claims.append(worded([assertion], ground))
        except Refused:
            # What leads now may be said in another way below the headline.
            continue
    return claims


def _speaks_for(claim: Claim, ground: Ground) -> bool:
    """Whether all that a claim cites is of what the dissenting model names, and not of code's
    cause."""
    decision, cause = ground.diagnosis.decision, ground.cause
    named = decision.verdict.subject if decision is not None else None
    of_code = set(cause.findings) if cause is not None else set()
    findings = [ground.findings[f] for f in claim.findings if f in ground.findings]
    about = [f for f in findings if named and is_about(f, named) and f.id not in of_code]
    return bool(findings) and len(about) == len(findings)


def _adding(claims: Sequence[Claim], by_code: Sequence[Claim]) -> list[Claim]:
    """The claims that say more than code's own evidence."""
    added: list[Claim] = []
    cited = {finding for claim in by_code for finding in claim.findings}
    for claim in claims:
        plain = all(assertion.relation in PLAIN for assertion in claim.asserted)
        repeats = plain and bool(claim.findings) and cited.issuperset(claim.findings)
        if not repeats and all(claim.text != other.text for other in (*by_code, *added)):
            added.append(claim)
    return added


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
            # What is removed is shown harmless.
            text = clipped(neutral(masked(claim.text)), 120)
            dropped.append(f'claim "{text}": {neutral(masked(str(why)), 200)}')
    return tuple(remaining_claims)
