"""Relations about what was measured: what a finding says, its direction, who is affected."""

from __future__ import annotations

import re

from analysis.case.observations import KIND as OBSERVATION
from analysis.kinds.finding_details import LineDetails
from analysis.phrasing.clauses import statement
from analysis.phrasing.metric_forms import signal_said
from analysis.phrasing.phrase import Phrase, figure, listed, name, say
from analysis.phrasing.statement import possessive
from analysis.vocabulary import Assertion, Finding
from analysis.wording.amounts import times
from analysis.wording.names import subject_name
from bot.answer.asserted.ground import Ground, Refused
from bot.answer.writer.plain_text import neutral

UP, DOWN, STEADY = "up", "down", "unaffected"
STEADY_SHARE = 0.02
"""A smaller move between two levels has no direction."""


def shows(said: Assertion, ground: Ground) -> Phrase:
    """What the finding says of its subject."""
    return statement(own_finding(said, ground)).clause(ground.tense)


def rose(said: Assertion, ground: Ground) -> Phrase:
    """The same, of what went up."""
    return _moved(said, ground, UP, "rise")


def fell(said: Assertion, ground: Ground) -> Phrase:
    """The same, of what went down."""
    return _moved(said, ground, DOWN, "fall")


def rose_more(said: Assertion, ground: Ground) -> Phrase:
    """Two rises beside each other, the larger first."""
    more, less = (ground.finding(one) for one in said.findings)
    for one in (more, less):
        if direction(one) != UP or "ratio" not in one.numbers:
            raise Refused(f"{one.id} has no rise that can be compared as a multiple")
    if more.numbers["ratio"] <= less.numbers["ratio"]:
        raise Refused(f"{more.id} grew by no more than {less.id}")
    return say("{more}, {less} {times}", more=_growth(more), less=_whose(less), times=_times(less))


def affected(said: Assertion, ground: Ground) -> Phrase:
    """Who feels it."""
    names = [ground.subject(one) for one in said.subjects]
    for one in names:
        if one not in ground.diagnosis.impact.services:
            raise Refused(f"{neutral(one, 60)} is not among the affected")
    verb = "is" if len(names) == 1 else "are"
    return say("{names} {verb} affected", names=listed([name(one) for one in names], 6), verb=verb)


def unaffected(said: Assertion, ground: Ground) -> Phrase:
    """A signal that did not move, or services of which nothing moved."""
    if said.findings:
        finding = own_finding(said, ground)
        if finding.kind != OBSERVATION or direction(finding) != STEADY:
            raise Refused(f"{finding.id} does not say that something stayed as usual")
        return statement(finding).clause(ground.tense)
    if not said.subjects:
        raise Refused("unaffected takes subjects, or a finding")
    names = [ground.subject(one) for one in said.subjects]
    for one in names:
        if ground.is_in_trouble(one):
            raise Refused(f"{neutral(one, 60)} is in trouble")
        if one not in ground.measured:
            raise Refused(f"nothing was measured of {neutral(one, 60)}")
    return say(
        "nothing of {names} left its usual range", names=listed([name(one) for one in names], 6)
    )


def missing(said: Assertion, ground: Ground) -> Phrase:
    """What could not be looked at."""
    asked = said.quote.strip("[]() ")
    for number, sentence in enumerate(ground.diagnosis.missing, start=1):
        if asked == f"M{number}":
            return say("{it}", it=neutral(sentence).rstrip("."))
    for gap in ground.gaps:
        if asked == gap.id:
            return say(
                "{source} could not give {kind}: “{why}”",
                source=neutral(gap.source, 60),
                kind=neutral(gap.kind, 40),
                # A vendor's words, as often as not: nothing in them may end the quotation.
                why=re.sub("[“”]", '"', neutral(gap.reason, 200)).rstrip("."),
            )
    raise Refused(f"nothing missing has the id {neutral(asked, 40)}")


def own_finding(said: Assertion, ground: Ground) -> Finding:
    """The one finding, which is about the subjects that are named beside it. Raises Refused."""
    finding = ground.finding(said.findings[0])
    for one in said.subjects:
        if ground.subject(one) != finding.subject:
            raise Refused(
                f"{finding.id} is about {neutral(finding.subject, 60)}, not {neutral(one, 60)}"
            )
    return finding


def direction(finding: Finding) -> str | None:
    """`up`, `down` or `unaffected`; None where the finding tells no direction."""
    given = finding.details.direction
    if given in (UP, DOWN, STEADY):
        return given
    numbers = finding.numbers
    before, after = numbers.get("baseline"), numbers.get("incident")
    if LineDetails.of(finding) is not None and "lines" in numbers:
        before, after = numbers.get("baseline_lines", 0.0), numbers["lines"]
    if before is None or after is None:
        return None
    if abs(after - before) <= STEADY_SHARE * max(abs(before), abs(after)):
        return None
    return UP if after > before else DOWN


def _moved(said: Assertion, ground: Ground, way: str, verb: str) -> Phrase:
    finding = own_finding(said, ground)
    found = direction(finding)
    if found is None:
        raise Refused(f"{finding.id} does not say which way it moved: use `shows`")
    if found != way:
        raise Refused(f"{finding.id} did not {verb}")
    return statement(finding).clause(ground.tense)


def _growth(finding: Finding) -> Phrase:
    return say("{whose} rose {times}", whose=_whose(finding), times=_times(finding))


def _whose(finding: Finding) -> Phrase:
    who = possessive(subject_name(finding.subject))
    return say("{who} {signal}", who=who, signal=signal_said(finding))


def _times(finding: Finding) -> Phrase:
    return Phrase((figure(finding, "ratio", times(finding.numbers["ratio"])),))
