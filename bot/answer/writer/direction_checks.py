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
    """The cited findings that a clause speaks of: by subject and by the family of its signal, where
    it names any."""
    found: Sequence[Finding] = support.findings
    named = [f for f in found if position_of(folded(f.subject), clause) >= 0]
    found = named or found
    families = [words for words in _ALIKE if any(w in clause for w in words)]
    if len(families) == 1:
        alike = [
            f
            for f in found
            if any(w in folded(f"{f.signal or ''} {f.sentence}") for w in families[0])
        ]
        found = alike or found
    return found


def _reversed(own: str, about: Sequence[Finding]) -> str | None:
    rises, falls = bool(_RISE.search(own)), bool(_FALL.search(own))
    said = " ".join(folded(f.sentence) for f in about)
    known_rise, known_fall = bool(_RISE.search(said)), bool(_FALL.search(said))
    if (rises and not falls and known_fall and not known_rise) or (
        falls and not rises and known_rise and not known_fall
    ):
        return f"says it {'rose' if rises else 'fell'}; the cited findings say the opposite"
    return None


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
    if not found or not any(
        _RISE.search(s) or _FALL.search(s) or "fail" in s
        for s in (folded(f.sentence) for f in about)
    ):
        return None
    if any(found.group() in folded(f.sentence) for f in about):
        return None
    return f'says "{found.group()}"; the cited findings say that it did'


def _wrong_part(own: str, support: Support) -> str | None:
    """One's own value told as the others', or the incident's as the baseline's."""
    for pattern, theirs in ((_OTHERS, "others_"), (_BASELINE, "baseline")):
        for found in pattern.finditer(own):
            said = quantities(without_names(found.group(1)))[:1]
            if not said:
                continue
            for f in support.findings:
                values = {
                    k: v
                    for k, v in f.numbers.items()
                    if said[0].raw and abs(said[0].raw - abs(v)) <= 0.005 * v
                }
                if (
                    values
                    and not any(k.startswith(theirs) for k in values)
                    and any(k.startswith(theirs) for k in f.numbers)
                ):
                    return "tells one value as the other"
    return None


def _good_for_bad(own: str, support: Support) -> str | None:
    """A share of failures told as a share of successes, or the reverse."""
    found = _GOOD.search(own)
    return (
        f'says "{found.group()}", which no cited finding says'
        if found and found.group() not in support.own
        else None
    )


def _wrong_order(own: str, support: Support) -> str | None:
    """One subject before another where the onsets say the reverse; a change after the onset it came
    before."""
    if _AFTER_ONSET.search(own) and "before the onset" in support.own and "before" not in own:
        return "says after the onset what came before it"
    onsets = _onsets(support)
    places = sorted((p, s) for s in onsets if (p := position_of(s, own)) >= 0)
    if len(places) != 2:
        return None
    (start, one), (end, other) = places
    between = own[start:end]
    found = _SEQUENCE.search(between)
    first_in_time = re.search(r"\bfirst\b", between) is not None
    if not found and not first_in_time:
        return None
    later = (
        found is not None
        and found.group() in ("after", "followed", "later than")
        and not first_in_time
    )
    wrong = onsets[one] < onsets[other] if later else onsets[one] > onsets[other]
    return f"puts {one} and {other} in the wrong order" if wrong else None


def _onsets(support: Support) -> dict[str, datetime]:
    """The first onset of each cited subject; changes are named by what they changed and do not
    count."""
    onsets: dict[str, datetime] = {}
    for f in support.findings:
        if f.onset is not None and not change_named(f):
            subject = folded(f.subject)
            onsets[subject] = min(onsets.get(subject, f.onset), f.onset)
    return onsets
