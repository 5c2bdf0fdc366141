"""The built-in writer: words a diagnosis without a model, deterministically, from the findings' own
sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.analyzers import finding_kind
from analysis.changes.nearby import RULED_OUT
from analysis.kinds.finding_details import change_named
from analysis.vocabulary import Alert, Cause, Claim, Diagnosis, Finding, Gap, Report, Verdict
from analysis.wording.phrases import capitalised
from bot.answer.writer.earlier import is_memory, memory_claims
from bot.answer.writer.plain_text import clipped
from bot.answer.writer.support import leading_cause, quotable, quoted_by

HEADLINE_LIMIT = 200
MAX_CLAIMS = 10
"""What a person reads at night."""
SUPPORTING = 3
CONTRADICTING = 2
TITLE = re.compile(r', "[^"]*",')
"""A change's own title in its finding's sentence: it does not fit into a headline."""
CITED = 6
"""Findings cited by one sentence at most: more links than that nobody follows at night."""
SURE = 0.75
LIKELY = 0.4
"""From here on a cause is called "cause", "likely cause"; below, "possible cause"."""


def word(diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap]) -> Report:
    """The report of any diagnosis. Every sentence cites findings; what is missing is told by the
    diagnosis itself."""
    return Report(
        headline=headline(diagnosis, alert, gaps),
        claims=tuple(_claims(diagnosis)),
        next_steps=tuple(_next_steps(diagnosis)),
    )


def headline(diagnosis: Diagnosis, alert: Alert, gaps: Sequence[Gap]) -> str:
    """What is wrong, because of what, in at most 200 characters."""
    about = quotable(alert.title)
    cause = leading_cause(diagnosis)
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return clipped(f"No active incident was found for: {about}", HEADLINE_LIMIT)
    if diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE or cause is None:
        lack = next((quotable(m) for m in [*diagnosis.missing, *(g.reason for g in gaps)]), "")
        return _two_parts(f"Not enough evidence for a cause: {clipped(about, 100)}", lack)
    blamed = f"{_how_sure(cause)}: {_blamed(cause, diagnosis)}"
    felt = _felt(diagnosis) or about
    if quotable(cause.summary).startswith(felt):  # the cause is told next
        impact = quotable(diagnosis.impact.sentence).rstrip(".")
        felt = about if impact.startswith(felt) else impact
    recovered = "Recovered: " if diagnosis.verdict is Verdict.RECOVERED else ""
    return _two_parts(recovered + felt, blamed, keep_second=True)


def _claims(diagnosis: Diagnosis) -> list[Claim]:
    known = {f.id: f for f in diagnosis.findings}
    cause = leading_cause(diagnosis)
    beside = "Seen beside it: " if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT else ""
    claims = [_impact(diagnosis, known, beside)]
    if diagnosis.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED) and cause is not None:
        claims += _case_for(cause, diagnosis, known)
        claims += [_said(known[i], _against(known[i])) for i in cause.contradicting if i in known][
            :CONTRADICTING
        ]
        claims.append(_runner_up(diagnosis, cause))
    elif not (claims[0] and diagnosis.impact.findings):
        seen = [f for f in diagnosis.findings if not is_memory(f)]
        strongest = sorted(seen, key=lambda f: (-f.strength, f.id))[:SUPPORTING]
        claims += [_said(f, beside) for f in strongest]
    return [c for c in (*claims, *memory_claims(diagnosis)) if c is not None][:MAX_CLAIMS]


def _impact(diagnosis: Diagnosis, known: dict[str, Finding], beside: str) -> Claim | None:
    cited = tuple(i for i in diagnosis.impact.findings if i in known)[:CITED]
    text = f"{beside}{_sentence(diagnosis.impact.sentence)}"
    return Claim(text=text, findings=cited) if cited else None


def _case_for(cause: Cause, diagnosis: Diagnosis, known: dict[str, Finding]) -> list[Claim]:
    """The cause in one sentence, then the strongest of its findings that were not told yet."""
    cited = _cited(cause, diagnosis)
    if not cited:
        return []
    claims = [Claim(text=_sentence(cause.summary), findings=cited)]
    told = diagnosis.impact.sentence + cause.summary
    fresh = [
        known[i] for i in cause.findings if i in known and known[i].sentence.rstrip(".") not in told
    ]
    fresh.sort(key=lambda f: (-f.strength, f.id))
    return claims + [_said(f) for f in fresh[:SUPPORTING]]


def _runner_up(diagnosis: Diagnosis, cause: Cause) -> Claim | None:
    """The second explanation, where the first is not sure."""
    others = sorted((c for c in diagnosis.causes if c is not cause), key=lambda c: c.rank)
    if cause.confidence >= SURE or not others or not _cited(others[0], diagnosis):
        return None
    return Claim(
        text=f"Less likely: {_sentence(others[0].summary)}", findings=_cited(others[0], diagnosis)
    )


def _next_steps(diagnosis: Diagnosis) -> list[Claim]:
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        steps = []
        for finding in diagnosis.findings:
            fix = finding.details.fix
            if fix and finding_kind(finding.kind).explains_alert:
                steps.append(Claim(text=_sentence(fix), findings=(finding.id,)))
        return steps[:2]
    if diagnosis.verdict not in (Verdict.CAUSE_FOUND, Verdict.RECOVERED):
        return []
    steps = []
    for cause in sorted(diagnosis.causes, key=lambda c: c.rank)[:2]:
        sure = steps and diagnosis.confidence >= SURE
        text = _sentence(cause.next_step or "")
        if text and not sure and _cited(cause, diagnosis) and text not in {s.text for s in steps}:
            steps.append(
                Claim(
                    text=f"If that is not it: {text}" if steps else text,
                    findings=_cited(cause, diagnosis),
                )
            )
    return steps


def _cited(cause: Cause, diagnosis: Diagnosis) -> tuple[str, ...]:
    """The findings that the cause's summary quotes, then its others, up to the limit."""
    known = {f.id for f in diagnosis.findings}
    quoted = quoted_by(cause, diagnosis)
    others = [i for i in cause.findings if i in known and i not in quoted]
    return (*quoted, *others[: max(0, CITED - len(quoted))])


def _against(finding: Finding) -> str:
    return "Ruled out: " if finding.kind == RULED_OUT else "Against it: "


def _said(finding: Finding, lead_in: str = "") -> Claim:
    return Claim(text=lead_in + _sentence(finding.sentence), findings=(finding.id,))


def _blamed(cause: Cause, diagnosis: Diagnosis) -> str:
    """The change to blame, after what it did where that is another subject; or else the trouble
    without its numbers."""
    if cause.change:
        for finding in diagnosis.findings:
            if finding.id in cause.findings and change_named(finding) == cause.change:
                sentence = quotable(TITLE.sub("", finding.sentence)).rstrip(".")
                changed = sentence[:1].lower() + sentence[1:]
                return (
                    changed if finding.subject == cause.subject else f"{_trouble(cause)}; {changed}"
                )
    return f"{_trouble(cause)} ({cause.change[:12]})" if cause.change else _trouble(cause)


def _trouble(cause: Cause) -> str:
    """What is wrong with the cause's subject, without the numbers and without what explains it or
    not."""
    return quotable(cause.summary.split(": ", 1)[0].split(", and ", 1)[0]).rstrip(".")


def _felt(diagnosis: Diagnosis) -> str:
    """What users feel, in the words of the impact's first finding."""
    first = next(
        (f for i in diagnosis.impact.findings for f in diagnosis.findings if f.id == i), None
    )
    return quotable(first.sentence).rstrip(".") if first else ""


def _how_sure(cause: Cause) -> str:
    return (
        "Cause"
        if cause.confidence >= SURE
        else "Likely cause"
        if cause.confidence >= LIKELY
        else "Possible cause"
    )


def _two_parts(first: str, second: str, *, keep_second: bool = False) -> str:
    """Both parts as sentences; the part that matters less is cut to fit."""
    if not second:
        return clipped(first, HEADLINE_LIMIT)
    if keep_second:
        second = clipped(second, HEADLINE_LIMIT - 40)
        first = clipped(first, HEADLINE_LIMIT - len(second) - 3)
        return f"{_sentence(first)} {_sentence(second)}"
    return clipped(f"{first}. {capitalised(second)}", HEADLINE_LIMIT)


def _sentence(text: str) -> str:
    """Quotable text that ends like a sentence."""
    shown = quotable(text)
    return shown if not shown or shown.endswith((".", "!", "?", "…")) else shown + "."
