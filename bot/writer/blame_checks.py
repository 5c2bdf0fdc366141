"""Whether a sentence blames what code ranked first, and says of the incident what the verdict says."""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.vocabulary import Diagnosis, Verdict
from bot.writer.support import Support, folded, leading_cause, named_in, position_of, quotable

_AFTER = re.compile(
    r"\b(?:because(?: of)?|due to|caused by|triggered by|brought on by|blame[sd]?|result of|results? from|stems? from|"
    r"owing to|attributed to|traced to|"
    r"(?:root |likely |probable |possible )?(?<!no )(?:cause|culprit|origin)(?: is| was|:)(?! not\b| un))\s+(.*)"
)
_BEFORE = re.compile(
    r"(.*?)\b(?:is to blame|(?:causes|caused|is causing|has caused)\b(?! by)|broke|breaks|(?:is|was) behind|led to|"
    r"is (?:the )?(?:root |likely |most likely |probable )*(?:cause|culprit)|brought down|took down|"
    r"(?:made|makes|is making)(?: \S+){1,3} (?:slow|fail|time out|unavailable))\b"
)
_HEDGED = re.compile(
    r"\b(?:less likely|unlikely|ruled out|rules? out|not (?:the|caused|due|because)|rather than|does not|did not|"
    r"alternative|if (?:that|it)|against it|speaks? against)\b"
)
_ALL_CLEAR = re.compile(
    r"\ball (?:is|are|looks?|systems?|services?)(?: are| look)? "
    r"(?:fine|well|good|ok(?:ay)?|healthy|normal|green|nominal|operational)\b"
    r"|\beverything (?:is|looks|seems) \w+|\ball clear\b"
    r"|\bno (?:further )?(?:action|intervention) (?:is )?(?:needed|required|necessary)"
    r"|\bnothing (?:is )?(?:wrong|broken|to (?:do|see|worry about|fix))"
    r"|\bno (?:active |real |ongoing )?(?:incident|problem|issue|impact|outage)s?\b|\bfalse (?:alarm|positive)\b"
    r"|\b(?:can|should|may) be (?:safely )?(?:ignored|closed|resolved|silenced|muted|acknowledged)"
    r"|\bignore (?:this|the) (?:alert|incident|page)|\bsafe to ignore|\bgo back to (?:sleep|bed)"
)
_OVER = re.compile(
    r"\b(?:has|have|is|are|was|were)(?: now| since| fully| already)* "
    r"(?:recovered|resolved|healthy|stable|normal|fine)\b"
    r"|\bback (?:to|at|in|within) (?:its |their |the )?(?:normal|baseline|usual)"
    r"|^recovered\b|\bself-healed|\bresolved itself"
)
_SAYS_VERDICT = {
    Verdict.RECOVERED: re.compile(r"recover|back (?:to|at|in)|resolved|is over|\bended\b|\bwas\b|\bwere\b"),
    Verdict.NO_ACTIVE_INCIDENT: re.compile(
        r"\bno (?:active )?(?:incident|signal|sign)|not? .{0,40}\bincident|\bnormal\b|at its baseline"
    ),
    Verdict.INSUFFICIENT_EVIDENCE: re.compile(
        r"not enough|insufficient|unknown|not (?:known|clear|identified|determined)|\bunclear\b"
        r"|no cause|too little|cannot|could not"
    ),
}


def wrong_blame(text: str, diagnosis: Diagnosis, *, may_hedge: bool) -> str | None:
    """Blames something other than the first cause, or blames at all where the verdict names no cause.

    `text` is what remains after the findings' own sentences were taken out. Claims may speak of less likely causes
    when they say so; a headline may not.
    """
    own = folded(text)
    if may_hedge and _HEDGED.search(own):
        return None
    after = [m.group(1) for m in _AFTER.finditer(own)]
    before = [m.group(1) for m in _BEFORE.finditer(own)]
    if not after and not before:
        return None
    cause = leading_cause(diagnosis)
    if cause is None or diagnosis.verdict not in (Verdict.CAUSE_FOUND, Verdict.RECOVERED):
        return "blames something, and the verdict names no cause"
    allowed = _allowed_blame(diagnosis)
    names = _known_names(diagnosis)
    nearest = [_first_named(part, names) for part in after] + [_last_named(part, names) for part in before]
    for name in nearest:
        if name and not any(a == name or named_in(name, a) for a in allowed):
            return f"blames {name}, which code did not rank first"
    return None


def blames_first_cause(text: str, diagnosis: Diagnosis) -> bool:
    """Whether the text names the subject or the change of the cause that code ranked first."""
    cause = leading_cause(diagnosis)
    if cause is None:
        return True
    own = folded(text)
    change = (cause.change or "").lower()
    subject = {folded(cause.subject), folded(quotable(cause.subject))}
    return any(named_in(s, own) for s in subject) or (len(change) >= 7 and change[:7] in own)


def contradicts_verdict(text: str, diagnosis: Diagnosis, support: Support) -> str | None:
    """Sounds the all-clear where the verdict does not."""
    own = folded(text)
    clear, over = _ALL_CLEAR.search(own), _OVER.search(own)
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return None
    if clear and clear.group() not in support.own:
        return f'says "{clear.group()}"; the verdict is {diagnosis.verdict.value}'
    seen = any(f.details.get("recovered") for f in support.findings) or (over and over.group() in support.own)
    if over and not seen and diagnosis.verdict is not Verdict.RECOVERED:
        return f'says "{over.group()}"; the verdict is {diagnosis.verdict.value}'
    return None


def states_verdict(headline: str, verdict: Verdict) -> bool:
    """Whether a headline says what the verdict says; a cause that was found is said by naming it."""
    pattern = _SAYS_VERDICT.get(verdict)
    return pattern is None or pattern.search(folded(headline)) is not None


def _allowed_blame(diagnosis: Diagnosis) -> set[str]:
    cause = leading_cause(diagnosis)
    if cause is None:
        return set()
    names = {folded(cause.subject), folded(cause.summary), folded(cause.change or cause.subject)}
    return names | {folded(f.sentence) for f in diagnosis.findings if f.id in cause.findings}


def _first_named(text: str, names: Sequence[str]) -> str | None:
    found = [(p, -len(n), n) for n in names if (p := position_of(n, text)) >= 0]
    return min(found)[2] if found else None


def _last_named(text: str, names: Sequence[str]) -> str | None:
    found = [(p, len(n), n) for n in names if (p := position_of(n, text, last=True)) >= 0]
    return max(found)[2] if found else None


def _known_names(diagnosis: Diagnosis) -> list[str]:
    names = {f.subject for f in diagnosis.findings} | {c.subject for c in diagnosis.causes}
    changes = {str(f.details["change"])[:12] for f in diagnosis.findings if f.details.get("change")}
    return sorted({folded(n) for n in names | changes}, key=len, reverse=True)
