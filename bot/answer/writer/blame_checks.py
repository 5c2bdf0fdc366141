"""Whether a sentence blames what code ranked first, and says of the incident what the verdict
says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property

from analysis.kinds.finding_details import changes_named
from analysis.vocabulary import Cause, Diagnosis, Verdict
from bot.answer.writer.guarded_words import STEM, guarded, listed, reporting_stems
from bot.answer.writer.names import without_names
from bot.answer.writer.support import (
    Support,
    folded,
    leading_cause,
    named_in,
    position_of,
    quotable,
)

_INSTEAD = re.compile(r"\b(?:rather than|instead of|and not|, not)\b")
_NOTHING = re.compile(r"\b(?:nothing|none|no)\b[^,;:]*$")
_LABEL = re.compile(
    r"^\W*(?:less likely|unlikely|alternatively|otherwise|if (?:that|it) is not (?:it|that)"
    r"|ruled out|against it)\b"
)
_PART = re.compile(
    r";|(?<=[a-z0-9)%])\. |,? (?:but|while|whereas|although|though)\b|:(?=\s)"
    r"|, and\b(?! (?:so|hence|thus|therefore|consequently|as a result))"
)
_OF = re.compile(r"\b(?:of|on|in|at|for|to)\s+(?:the\s+|its\s+)?$")
NEAR = 60
"""Letters between a service and its change where both are one name."""
_CULPRITS = (
    "traffic upstream downstream dependency load config flag deploy release rollout caller node "
    "host region version"
    " endpoint operation worker change user"
)
_BLAMABLE = frozenset(word[:STEM] for word in _CULPRITS.split())
"""Words of a report that are also culprits: they may be blamed only where code's own words hold
them."""
_ALL_CLEAR = re.compile(
    r"\ball (?:is|are|looks?|systems?|services?)(?: are| look)? "
    r"(?:fine|well|good|ok(?:ay)?|healthy|normal|green|nominal|operational)\b"
    r"|\beverything (?:is|looks|seems) \w+|\ball clear\b"
    r"|\bno (?:further )?(?:action|intervention) (?:is )?(?:needed|required|necessary)"
    r"|\bnothing (?:is )?(?:wrong|broken|to (?:do|see|worry about|fix))"
    r"|\bno (?:active |real |ongoing )?(?:incident|problem|issue|impact|outage)s?\b"
    r"|\bfalse (?:alarm|positive)\b"
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
    Verdict.RECOVERED: re.compile(
        r"recover|back (?:to|at|in)|resolved|is over|\bended\b|\bwas\b|\bwere\b"
    ),
    Verdict.NO_ACTIVE_INCIDENT: re.compile(
        r"\bno (?:active )?(?:incident|signal|sign)|not? .{0,40}\bincident|\bnormal\b"
        r"|at its baseline"
    ),
    Verdict.INSUFFICIENT_EVIDENCE: re.compile(
        r"not enough|insufficient|unknown|not (?:known|clear|identified|determined)|\bunclear\b"
        r"|no cause|too little|cannot|could not"
    ),
}


def wrong_blame(text: str, diagnosis: Diagnosis, *, may_hedge: bool) -> str | None:
    """Blames something other than the first cause, clears that one, or blames where the verdict
    names no cause.

    `text` is what remains after the findings' own sentences were taken out. Claims may speak of
    less likely causes when they say so; a headline may not.
    """
    own = folded(text)
    blame = _Blame(diagnosis)
    labelled = may_hedge and _LABEL.search(own) is not None
    for part in _PART.split(own):
        blaming, *cleared = _INSTEAD.split(part)
        hedged = guarded("cleared").search(part) is not None
        for said in [*cleared, *([part] if hedged else [])]:
            if blame.clears_the_first(said):
                return "clears what code ranked first"
        if (hedged and may_hedge) or labelled:
            continue
        fault = blame.fault(blaming)
        if fault:
            return fault
    return None


@dataclass(frozen=True)
class _Blame:
    """What may be blamed in one diagnosis."""

    diagnosis: Diagnosis

    @cached_property
    def cause(self) -> Cause | None:
        """The first cause, where the verdict names one."""
        return leading_cause(self.diagnosis) if self.diagnosis.verdict in _NAMES_A_CAUSE else None

    @cached_property
    def text(self) -> str:
        """All that code says for the first cause."""
        if self.cause is None:
            return ""
        own = [f for f in self.diagnosis.findings if f.id in self.cause.findings]
        said = [
            f.sentence
            for f in own
            if self.cause.subject in f.subject or f.sentence.rstrip(".") in self.cause.summary
        ]
        parts = [
            self.cause.subject,
            self.cause.kind.replace("_", " "),
            self.cause.change or "",
            self.cause.summary,
            *said,
        ]
        return folded(" ".join(parts))

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Subjects and changes of the diagnosis, longest first; of `job/rank 2` also `rank 2`."""
        names = {f.subject for f in self.diagnosis.findings} | {
            c.subject for c in self.diagnosis.causes
        }
        names |= {n.rpartition("/")[2] for n in names if " " in n.rpartition("/")[2]}
        names |= changes_named(self.diagnosis.findings)
        return tuple(sorted({folded(n) for n in names}, key=len, reverse=True))

    def fault(self, own: str) -> str | None:
        """What is wrong with what a part of a sentence blames."""
        targets = [(m.group(1), False) for m in _after().finditer(own)]
        targets += [
            (m.group(1), True) for m in _before().finditer(own) if not _NOTHING.search(m.group(1))
        ]
        if not targets:
            return None
        if self.cause is None:
            return "blames something, and the verdict names no cause"
        for target, last in targets:
            name = self._nearest(target, last=last)
            if name and not self._is_first(name):
                return f"blames {name}, which code did not rank first"
            strange = None if name else self._unknown(target)
            if strange:
                return f'blames "{strange}", of which code says nothing'
        return None

    def clears_the_first(self, own: str) -> bool:
        """Whether all that a part of a sentence names is the first cause."""
        named = [name for _, name in self._named(own)]
        return (
            self.cause is not None
            and bool(named)
            and all(self._is_the_cause(n) for n in named)
            and ("against" not in own)
        )

    def _is_the_cause(self, name: str) -> bool:
        cause = self.cause
        return cause is not None and name in (
            folded(cause.subject),
            folded(cause.change or cause.subject),
        )

    def _is_first(self, name: str) -> bool:
        return self._is_the_cause(name) or (
            named_in(name, self.text) and not self._is_other_change(name)
        )

    def _is_other_change(self, name: str) -> bool:
        cause = self.cause
        changes = {folded(change) for change in changes_named(self.diagnosis.findings)}
        return cause is not None and name in changes - {folded(cause.change or "")}

    def _nearest(self, text: str, *, last: bool) -> str | None:
        """The name next to the verb: of `change of service` the change, of `service change` the
        change too."""
        named = sorted(self._named(text, last=last))
        if not named:
            return None
        place = len(named) - 1 if last else 0
        while last and place and _OF.search(text[: named[place][0]]):
            place -= 1
        if (
            not last
            and len(named) > 1
            and self._is_other_change(named[1][1])
            and named[1][0] - named[0][0] < NEAR
        ):
            place = 1
        return named[place][1]

    def _named(self, text: str, *, last: bool = False) -> Iterator[tuple[int, str]]:
        taken: list[tuple[int, int]] = []
        for name in self.names:
            place = position_of(name, text, last=last)
            if place >= 0 and not any(a <= place < b for a, b in taken):
                taken.append((place, place + len(name)))
                yield place, name
        for found in re.finditer(r"(?<![a-z0-9])[0-9a-f]{7,40}(?![a-z0-9])", text):
            for name in self.names:
                if name.startswith(found.group()) and name != found.group():
                    yield found.start(), name

    def _unknown(self, target: str) -> str | None:
        """A word of a culprit without a name that code's own words do not hold."""
        known = {w[:STEM] for w in re.findall(r"[a-z]{3,}", self.text)}
        generic = reporting_stems() - _BLAMABLE
        words = re.findall(r"[a-z]{4,}", without_names(target.split(",")[0]).lower())[:8]
        return next((w for w in words if w[:STEM] not in known and w[:STEM] not in generic), None)


@cache
def _after() -> re.Pattern[str]:
    """What is blamed follows."""
    return re.compile(rf"(?<![\w-])(?:{listed('blames_what_follows')})\s+(.*)")


@cache
def _before() -> re.Pattern[str]:
    """What is blamed stands before."""
    return re.compile(rf"(.*?)(?<![\w-])(?:{listed('blames_what_precedes')})(?![\w-])")


_NAMES_A_CAUSE = (Verdict.CAUSE_FOUND, Verdict.RECOVERED)


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
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        return None
    seen = (
        any(f.details.recovered for f in support.findings) or diagnosis.verdict is Verdict.RECOVERED
    )
    patterns = [_ALL_CLEAR] if seen else [_ALL_CLEAR, _OVER, guarded("over")]
    for pattern in patterns:
        found = pattern.search(own)
        if found:
            return f'says "{found.group()}"; the verdict is {diagnosis.verdict.value}'
    return None


def states_verdict(headline: str, verdict: Verdict) -> bool:
    """Whether a headline says what the verdict says; a cause that was found is said by naming
    it."""
    pattern = _SAYS_VERDICT.get(verdict)
    return pattern is None or pattern.search(folded(headline)) is not None
