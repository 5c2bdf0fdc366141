"""Which way something went: up or down, from what to what, before or after, or not at all."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime

from analysis.kinds.finding_details import change_named
from analysis.vocabulary import Finding
from bot.answer.writer.guarded_words import guarded
from bot.answer.writer.names import without_names
from bot.answer.writer.quantities import Quantity, canonical, moments, quantities
from bot.answer.writer.support import Support, folded, position_of, values_of

CLAUSE = re.compile(r";|, (?:and|but|while|whereas)\b|\bwhile\b|\bwhereas\b|(?<=[a-z)%])\. ")
_RISE = re.compile(
    r"\b(?:rose|rises?|risen|rising|increas\w+|climb\w+|jump(?:s|ed|ing)|grew|grown|grows|higher"
    r"|surg(?:ed|es|ing)|spik(?:ed|es|ing)"
    r"|up from|slower|slowed|worse(?:ned)?|soar\w+|balloon\w+|doubled|tripled|quadrupled)\b"
)
_FALL = re.compile(
    r"\b(?:fell|falls?|fallen|falling|decreas\w+|dropp?e?d|dropping|declin\w+|lower|shrank"
    r"|down from|reduced|halved"
    r"|plummet\w+|plung\w+|faster|improv\w+|sank|dwindl\w+)\b"
)
_GOOD = re.compile(r"\b(?:succeed\w*|success\w*|working|works|healthy|served)\b")
_ALIKE = (
    ("latency", "duration", "slow", "delay", "lat9", "time", "p99", "p95"),
    ("request", "traffic", "load", "throughput", "volume"),
    ("error", "fail", "availability"),
)
_OTHERS = re.compile(
    r"\bothers? (?:ranks? )?(?:takes?|took|needs?|spends?|have|has|at|with"
    r"|in)? ?((?:about )?\d.{0,20})"
)
_BASELINE = re.compile(r"\bbaseline(?:'s| of| was| is|:| at)? ((?:about )?\d.{0,20})")
_FROM_TO = re.compile(r"\bfrom\s+(.{1,40}?)\s+to\s+(.{1,40})")
_AFTER_ONSET = re.compile(
    r"\bafter (?:the |its )?(?:onset|trouble|incident|alert|start|beginning)\b"
)
_SEQUENCE = re.compile(
    r"\b(before|after|preceded|followed|earlier than|later than|ahead of|then)\b"
)


def wrong_way(rest: str, support: Support) -> str | None:
    """Says that something moved, or happened, the other way than the cited findings say."""
    for clause in CLAUSE.split(canonical(rest)):
        own = folded(clause)
        about = _about(own, support)
        fault = _reversed(own, about) or _swapped(own, about) or _denied(own, about)
        if fault:
            return fault
    own = folded(rest)
    return _wrong_part(own, support) or _good_for_bad(own, support) or _wrong_order(own, support)


def _about(clause: str, support: Support) -> Sequence[Finding]:
    """The cited findings that a clause is about: by subject and by the family of its signal, where
    it names any."""
    found: Sequence[Finding] = support.findings
    found = [f for f in found if position_of(folded(f.subject), clause) >= 0] or found
    families = [words for words in _ALIKE if any(word in clause for word in words)]
    if len(families) == 1:
        found = [f for f in found if _is_of_family(f, families[0])] or found
    return found


def _is_of_family(finding: Finding, words: Sequence[str]) -> bool:
    text = folded(f"{finding.signal or ''} {finding.sentence}")
    return any(word in text for word in words)


def _reversed(own: str, about: Sequence[Finding]) -> str | None:
    known = " ".join(folded(f.sentence) for f in about)
    if _only_rises(own) and _only_falls(known):
        return "says it rose; the cited findings say the opposite"
    if _only_falls(own) and _only_rises(known):
        return "says it fell; the cited findings say the opposite"
    return None


def _only_rises(text: str) -> bool:
    return _RISE.search(text) is not None and _FALL.search(text) is None


def _only_falls(text: str) -> bool:
    return _FALL.search(text) is not None and _RISE.search(text) is None


def _swapped(own: str, about: Sequence[Finding]) -> str | None:
    """`from B to A` where every finding that has both went from A to B."""
    found = _FROM_TO.search(own)
    if not found:
        return None
    ends = quantities(moments(without_names(found.group()))[1])[:2]
    if len(ends) < 2:
        return None
    before, after = ends
    shifts = [f for f in about if "baseline" in f.numbers and "incident" in f.numbers]
    forward = any(_is(before, f, "baseline") and _is(after, f, "incident") for f in shifts)
    backward = any(_is(before, f, "incident") and _is(after, f, "baseline") for f in shifts)
    return "says from and to the wrong way round" if backward and not forward else None


def _is(quoted: Quantity, finding: Finding, name: str) -> bool:
    """Whether the quoted quantity is this number of the finding, as written or in its unit."""
    if abs(quoted.raw - abs(finding.numbers[name])) <= quoted.raw_tolerance + 1e-9:
        return True
    only = finding.model_copy(update={"numbers": {name: finding.numbers[name]}, "effect": None})
    return any(abs(quoted.value - v.value) <= quoted.tolerance + 1e-12 for v in values_of(only))


def _denied(own: str, about: Sequence[Finding]) -> str | None:
    found = guarded("denied").search(own)
    if not found:
        return None
    sentences = [folded(f.sentence) for f in about]
    if any(found.group() in sentence for sentence in sentences):
        return None
    if not any(_says_it_changed(sentence) for sentence in sentences):
        return None
    return f'says "{found.group()}"; the cited findings say that it did'


def _says_it_changed(sentence: str) -> bool:
    moved = _RISE.search(sentence) or _FALL.search(sentence)
    return moved is not None or "fail" in sentence


def _wrong_part(own: str, support: Support) -> str | None:
    """One's own value given as the others', or the incident's as the baseline's."""
    for pattern, theirs in ((_OTHERS, "others_"), (_BASELINE, "baseline")):
        for found in pattern.finditer(own):
            said = quantities(without_names(found.group(1)))
            if said and any(_is_another_part(said[0], f, theirs) for f in support.findings):
                return "tells one value as the other"
    return None


def _is_another_part(said: Quantity, finding: Finding, theirs: str) -> bool:
    """Whether the value is one of the finding's, but none of those that begin with `theirs`."""
    if not said.raw:
        return False
    names = [k for k, v in finding.numbers.items() if abs(said.raw - abs(v)) <= 0.005 * v]
    if not names or any(name.startswith(theirs) for name in names):
        return False
    return any(name.startswith(theirs) for name in finding.numbers)


def _good_for_bad(own: str, support: Support) -> str | None:
    """A share of failures given as a share of successes, or the reverse."""
    found = _GOOD.search(own)
    if found is None or found.group() in support.own:
        return None
    return f'says "{found.group()}", which no cited finding says'


def _wrong_order(own: str, support: Support) -> str | None:
    """One subject before another where the onsets say the reverse; a change after the onset it came
    before."""
    if _AFTER_ONSET.search(own) and "before the onset" in support.own and "before" not in own:
        return "says after the onset what came before it"
    onsets = _onsets(support)
    named = []
    for subject in onsets:
        position = position_of(subject, own)
        if position >= 0:
            named.append((position, subject))
    # The order of three subjects cannot be read from one word between two of them.
    if len(named) != 2:
        return None
    (start, one), (end, other) = sorted(named)
    one_is_later = _is_told_later(own[start:end])
    if one_is_later is None:
        return None
    earlier, later = (other, one) if one_is_later else (one, other)
    if onsets[earlier] > onsets[later]:
        return f"puts {one} and {other} in the wrong order"
    return None


def _is_told_later(between: str) -> bool | None:
    """Whether the words between two subjects put the first named later; None where they tell no
    order."""
    if re.search(r"\bfirst\b", between) is not None:
        return False
    found = _SEQUENCE.search(between)
    if found is None:
        return None
    return found.group() in ("after", "followed", "later than")


def _onsets(support: Support) -> dict[str, datetime]:
    """The first onset of each cited subject; changes are named by what they changed and do not
    count."""
    onsets: dict[str, datetime] = {}
    for f in support.findings:
        if f.onset is not None and not change_named(f):
            subject = folded(f.subject)
            onsets[subject] = min(onsets.get(subject, f.onset), f.onset)
    return onsets
