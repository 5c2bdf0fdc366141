"""Relations about what was measured: what a finding says, its direction, who is affected."""

from __future__ import annotations

import re
from collections.abc import Mapping

from analysis.analyzers import fault_of
from analysis.case.observations import KIND as OBSERVATION
from analysis.kinds.finding_details import LineDetails, SignatureDetails
from analysis.kinds.finding_kinds import ALERT_IN_RANGE
from analysis.phrasing.clauses import statement
from analysis.phrasing.log_message import message_of
from analysis.phrasing.metric_forms import signal_said
from analysis.phrasing.phrase import Phrase, figure, listed, name, quote, say
from analysis.phrasing.statement import possessive
from analysis.vocabulary import Assertion, Finding, Verdict
from analysis.wording.amounts import times
from analysis.wording.names import subject_name
from bot.answer.asserted.ground import Ground, Refused
from bot.answer.writer.claims import continued
from bot.answer.writer.plain_text import neutral

_VERDICTS: Mapping[Verdict, str] = {
    Verdict.NO_ACTIVE_INCIDENT: "there is no active incident",
    Verdict.RECOVERED: "it is over",
    Verdict.INSUFFICIENT_EVIDENCE: "the evidence does not tell the cause",
}
UP, DOWN, STEADY = "up", "down", "unaffected"
_CLAUSE = re.compile(r": |(?<=\w)\. ")
STEADY_SHARE = 0.02
"""A smaller move between two levels has no direction."""


def shows(said: Assertion, ground: Ground) -> Phrase:
    """What the finding says of its subject; of a known failure with the line that shows it."""
    finding = own_finding(said, ground)
    what, line = statement(finding).clause(ground.tense), SignatureDetails.of(finding)
    if line is None or not line.example or "“" in str(what):
        return what
    return say("{what}: {line}", what=what, line=quote(message_of(line.example), finding))


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
        steady = finding.kind == OBSERVATION and direction(finding) == STEADY
        if not steady and finding.kind != ALERT_IN_RANGE.name:
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


def only(said: Assertion, ground: Ground) -> Phrase:
    """That no other service is in trouble."""
    subject = ground.subject(said.subjects[0])
    if not ground.is_in_trouble(subject):
        raise Refused(f"{neutral(subject, 60)} is not in trouble")
    others = {one.subject for one in ground.findings.values() if fault_of(one)}
    others = (others | set(ground.diagnosis.impact.services)) - {subject}
    if others:
        raise Refused(f"{neutral(min(others), 60)} is in trouble too")
    return say("nothing but {who} shows trouble", who=name(subject))


def decided(said: Assertion, ground: Ground) -> Phrase:
    """The verdict, where it is not that there is a cause."""
    del said
    verdict = ground.diagnosis.verdict
    if verdict not in _VERDICTS:
        raise Refused("the headline names the cause already")
    return say(_VERDICTS[verdict])


def missing(said: Assertion, ground: Ground) -> Phrase:
    """What could not be looked at."""
    asked = said.quote.strip("[]() ")
    for number, sentence in enumerate(ground.diagnosis.missing, start=1):
        if asked == f"M{number}":
            # What follows the first clause is advice.
            return say("{it}", it=_continued(_CLAUSE.split(neutral(sentence), maxsplit=1)[0]))
    for gap in ground.gaps:
        if asked == gap.id:
            return say(
                "{source} could not give {kind}: {why}",
                source=neutral(gap.source, 60),
                kind=neutral(gap.kind, 40),
                why=neutral(gap.reason, 200).rstrip("."),
            )
    raise Refused(f"nothing missing has the id {neutral(asked, 40)}")


def _continued(text: str) -> str:
    return continued(text.rstrip("."))


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
    before, after = _levels(finding)
    if before is None or after is None:
        return None
    if abs(after - before) <= STEADY_SHARE * max(abs(before), abs(after)):
        return None
    return UP if after > before else DOWN


def _levels(finding: Finding) -> tuple[float | None, float | None]:
    """Before and in the incident, by the names that analyzers give them."""
    numbers = finding.numbers
    if LineDetails.of(finding) is not None and "lines" in numbers:
        return numbers.get("baseline_lines", 0.0), numbers["lines"]
    for key, before in numbers.items():
        unit = key.removeprefix("baseline")
        if unit != key and f"incident{unit}" in numbers:
            return before, numbers[f"incident{unit}"]
    return None, None


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
