"""The guard: code takes out of a report what the findings do not support.

A sentence stays when it cites findings that exist, quotes only their numbers, times and names, says
what the verdict says, and holds nothing that would notify or render. What is removed is listed in
`Report.dropped` with its reason. A report of which nothing remains becomes the built-in report.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from analysis.secrets.redaction import masked
from analysis.vocabulary import Alert, Claim, Diagnosis, Gap, Report, Verdict
from bot.answer.writer.blame_checks import (
    blames_first_cause,
    contradicts_verdict,
    states_verdict,
    wrong_blame,
)
from bot.answer.writer.built_in import HEADLINE_LIMIT, MAX_CLAIMS, word
from bot.answer.writer.claim_checks import spoken, unsupported_wording, without_sentences
from bot.answer.writer.earlier import memory_claims
from bot.answer.writer.plain_text import clipped, neutral, rendered_part
from bot.answer.writer.support import Support, leading_cause, quotable, support_of

CLAIM_LIMIT = 700
MODEL_CLAIMS = 10
MAX_NEXT_STEPS = 5


@dataclass(frozen=True)
class Guard:
    """The checks against one diagnosis. `links` are the addresses a report may hold."""

    diagnosis: Diagnosis
    alert: Alert
    links: Collection[str] = ()
    own: frozenset[str] = frozenset()
    """Texts of the built-in writer. They are made of the findings: what remains to be seen to is
    what data in them could do."""

    def fault_of_claim(self, claim: Claim) -> str | None:
        """Why this sentence may not stand; None when it may."""
        known = {f.id for f in self.diagnosis.findings}
        if not claim.findings:
            return "cites no finding"
        unknown = [i for i in claim.findings if i not in known]
        if unknown:
            return f"cites {neutral(unknown[0], 40)}, which does not exist"
        if claim.text in self.own:
            return self._harm_in(claim.text, CLAIM_LIMIT)
        support = support_of(self.diagnosis, self.alert, claim.findings)
        return self._fault_of_text(claim.text, support, limit=CLAIM_LIMIT, may_hedge=True)

    def fault_of_headline(self, headline: str) -> str | None:
        """Why this headline may not stand; None when it may."""
        if headline in self.own:
            return self._harm_in(headline, HEADLINE_LIMIT)
        cause = leading_cause(self.diagnosis)
        ids = {*self.diagnosis.impact.findings, *(cause.findings if cause else ())}
        support = support_of(
            self.diagnosis, self.alert, ids or {f.id for f in self.diagnosis.findings}
        )
        given = (quotable(t) for t in (self.alert.title, *self.diagnosis.missing))
        support = replace(support, sentences=(*given, *support.sentences))
        fault = self._fault_of_text(headline, support, limit=HEADLINE_LIMIT, may_hedge=False)
        if fault:
            return fault
        if not states_verdict(headline, self.diagnosis.verdict):
            return f"does not say the verdict ({self.diagnosis.verdict.value})"
        if self.diagnosis.verdict is Verdict.CAUSE_FOUND and not blames_first_cause(
            headline, self.diagnosis
        ):
            return "does not name the cause that code ranked first"
        return None

    def _fault_of_text(
        self, text: str, support: Support, *, limit: int, may_hedge: bool
    ) -> str | None:
        return (
            self._harm_in(text, limit)
            or contradicts_verdict(without_sentences(text, support), self.diagnosis, support)
            or unsupported_wording(text, support)
            or wrong_blame(spoken(text, support), self.diagnosis, may_hedge=may_hedge)
        )

    def _harm_in(self, text: str, limit: int) -> str | None:
        """What no text may do, whoever wrote it."""
        if not text.strip():
            return "is empty"
        if len(text) > limit:
            return f"is longer than {limit} characters"
        rendered = rendered_part(text, self.links)
        if rendered:
            return f"holds {rendered}"
        return "holds a secret" if masked(text) != text else None


def own_texts(built_in: Report) -> frozenset[str]:
    """The texts of a report of the built-in writer."""
    claims = (*built_in.claims, *built_in.next_steps)
    return frozenset({built_in.headline, *(claim.text for claim in claims)})


def keep_supported(
    report: Report,
    diagnosis: Diagnosis,
    alert: Alert,
    *,
    gaps: Sequence[Gap] = (),
    links: Collection[str] = (),
) -> Report:
    """The report without what the diagnosis does not support; the built-in report when nothing is
    left of it."""
    built_in = word(diagnosis, alert, gaps)
    guard = Guard(diagnosis, alert, links, own_texts(built_in))
    dropped = list(report.dropped)
    own = report.written_by == built_in.written_by
    most = MAX_CLAIMS if own else MODEL_CLAIMS
    claims = _kept(report.claims, "claim", most, guard.fault_of_claim, dropped)
    # The built-in writer's headline may hold all that there is to say of the cause.
    if not claims or not (own or _tells_the_cause(claims, diagnosis)):
        if claims:
            dropped.append(
                "the report: no claim that is left speaks of the cause that code ranked first"
            )
        return built_in.model_copy(update={"dropped": tuple(dropped)})
    told = {i for c in claims for i in c.findings}
    remembered = [claim for claim in memory_claims(diagnosis) if claim.findings[0] not in told]
    claims = (*claims, *remembered)[:MAX_CLAIMS]
    steps = _kept(report.next_steps, "next step", MAX_NEXT_STEPS, guard.fault_of_claim, dropped)
    return report.model_copy(
        update={
            "headline": _headline(report.headline, built_in.headline, guard, dropped),
            "claims": claims,
            "next_steps": steps or built_in.next_steps,
            "dropped": tuple(dropped),
        }
    )


def _kept(
    claims: Sequence[Claim],
    what: str,
    limit: int,
    fault_of: Callable[[Claim], str | None],
    dropped: list[str],
) -> tuple[Claim, ...]:
    kept: list[Claim] = []
    for claim in claims:
        fault = fault_of(claim) if len(kept) < limit else f"is one too many (limit {limit})"
        if fault:
            dropped.append(_told(what, claim.text, fault))
        else:
            kept.append(claim.model_copy(update={"findings": tuple(dict.fromkeys(claim.findings))}))
    return tuple(kept)


def _headline(headline: str, built_in: str, guard: Guard, dropped: list[str]) -> str:
    if headline == built_in:
        return headline
    fault = guard.fault_of_headline(headline)
    if fault:
        dropped.append(_told("headline", headline, fault))
    return built_in if fault else headline


def _tells_the_cause(claims: Sequence[Claim], diagnosis: Diagnosis) -> bool:
    cause = leading_cause(diagnosis)
    if cause is None or diagnosis.verdict is not Verdict.CAUSE_FOUND:
        return True
    return any(set(c.findings) & set(cause.findings) for c in claims)


def _told(what: str, text: str, fault: str) -> str:
    """One entry of `dropped`; the removed text is shown harmless."""
    return f'{what} "{clipped(neutral(masked(text)), 120)}": {neutral(masked(fault), 200)}'
