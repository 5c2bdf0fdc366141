"""Relations about what was measured: what a finding says, its direction, who is affected."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from faultline.analysis.case.observations import KIND as OBSERVATION
from faultline.analysis.kinds.finding_details import (
    ChangeDetails,
    LineDetails,
    ObservationDetails,
    SignatureDetails,
)
from faultline.analysis.kinds.finding_kinds import ALERT_IN_RANGE, LOG_NEW, LOG_SURGE, LOG_VANISHED
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.log_forms import message_of
from faultline.analysis.phrasing.statement import (
    Phrase,
    Tense,
    dated,
    in_brackets,
    listed,
    name,
    quote,
    say,
)
from faultline.analysis.vocabulary import Assertion, Finding, Verdict
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.bot.answer.asserted.ground import ALERT, Ground, Refused
from faultline.bot.answer.writer.headline import continued
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.answer.writer.story import change_called

UP, DOWN, STEADY = "up", "down", "unaffected"
_DIRECTIONS = {UP: UP, DOWN: DOWN, STEADY: STEADY, "rose": UP, "fell": DOWN}
_CLAUSE = re.compile(r": |(?<=\w)\. ")
_MOVED = re.compile(r" (rose|fell) from ")
_QUOTED = re.compile(r'"[^"]*"|“[^”]*”')
STEADY_SHARE = 0.02
"""A smaller move between two levels has no direction."""


def shows(assertion: Assertion, ground: Ground) -> Phrase:
    """What the finding says of its subject; of a known failure with the line that shows it."""
    finding = cited_finding(assertion, ground)
    what = statement(finding).clause(ground.tense_of(finding))
    line = SignatureDetails.of(finding)
    # The statement may quote the line already.
    if line is None or not line.example or "“" in str(what):
        return what
    return say("{what}: {line}", what=what, line=quote(message_of(line.example), finding))


def rose(assertion: Assertion, ground: Ground) -> Phrase:
    """The same, of what went up."""
    return _moved(assertion, ground, UP, "rise")


def fell(assertion: Assertion, ground: Ground) -> Phrase:
    """The same, of what went down."""
    return _moved(assertion, ground, DOWN, "fall")


def affected(assertion: Assertion, ground: Ground) -> Phrase:
    """Who feels it, or felt it."""
    if ground.diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        raise Refused("nobody is affected: there is no active incident")
    names = [ground.subject(subject) for subject in assertion.subjects]
    for service in names:
        if service not in ground.diagnosis.impact.services:
            raise Refused(f"{neutral(service, 60)} is not among the affected")
    now, single = ground.tense is Tense.NOW, len(names) == 1
    verb = ("is" if single else "are") if now else ("was" if single else "were")
    return say(
        "{names} {verb} affected", names=listed([name(service) for service in names], 6), verb=verb
    )


def unaffected(assertion: Assertion, ground: Ground) -> Phrase:
    """A signal that did not move, or services whose requests did as before."""
    if assertion.findings:
        finding = cited_finding(assertion, ground)
        row = ObservationDetails.of(finding)
        inside = row is not None and row.departed is False
        steady = finding.kind == OBSERVATION and (inside or direction(finding) == STEADY)
        if not steady and finding.kind != ALERT_IN_RANGE.name:
            raise Refused(f"{finding.id} does not say that something stayed as usual")
        return statement(finding).clause(ground.tense_of(finding))
    if not assertion.subjects:
        raise Refused("unaffected takes subjects, or a finding")
    names = [ground.subject(subject) for subject in assertion.subjects]
    for service in names:
        if moved := ground.moved(service):
            raise Refused(f"{moved} says that something of {neutral(service, 60)} moved")
        if service in ground.involved:
            raise Refused(f"{neutral(service, 60)} has a part in this")
        if service not in ground.measured:
            raise Refused(f"neither errors nor latency of {neutral(service, 60)} were measured")
    shown = listed([name(service) for service in names], 6)
    return say("errors and latency of {names} stayed as usual", names=shown)


def missing(assertion: Assertion, ground: Ground) -> Phrase:
    """What could not be looked at."""
    requested_quote = assertion.quote.strip("[]() ")
    for number, sentence in enumerate(ground.diagnosis.missing, start=1):
        if requested_quote == f"M{number}":
            # What follows the first clause is advice.
            clause = _CLAUSE.split(neutral(sentence), maxsplit=1)[0]
            return say("{it}", it=continued(clause.rstrip(".")))
    for gap in ground.gaps:
        if requested_quote == gap.id:
            return say(
                "what is missing from {source}'s {kind}: “{why}”",
                source=neutral(gap.source, 60),
                kind=neutral(gap.kind, 40),
                # A vendor's words, as often as not: nothing in them may end the quotation.
                why=re.sub("[“”]", '"', neutral(gap.reason, 200)).rstrip("."),
            )
    raise Refused(f"nothing missing has the id {neutral(requested_quote, 40)}")


def cited_finding(assertion: Assertion, ground: Ground) -> Finding:
    """The one finding, which is about the subjects that are named beside it. Raises Refused."""
    finding = ground.finding(assertion.findings[0])
    for subject in assertion.subjects:
        if ground.subject(subject) != finding.subject:
            raise Refused(
                f"{finding.id} is about {neutral(finding.subject, 60)}, not {neutral(subject, 60)}"
            )
    return finding


def direction(finding: Finding) -> str | None:
    """`up`, `down` or `unaffected`; None where the finding tells no direction."""
    stated_direction = finding.details.direction
    if stated_direction is not None:
        return _DIRECTIONS.get(stated_direction)
    if finding.kind in (LOG_NEW.name, LOG_SURGE.name, LOG_VANISHED.name):
        return DOWN if finding.kind == LOG_VANISHED.name else UP
    if LineDetails.of(finding) is not None:
        # Two windows of other lengths hold other counts.
        return None
    before, after = _levels(finding)
    if before is None or after is None:
        # What others wrote stands in quotation marks.
        moved = _MOVED.search(_QUOTED.sub("", finding.sentence))
        return _DIRECTIONS[moved[1]] if moved else None
    if abs(after - before) <= STEADY_SHARE * max(abs(before), abs(after)):
        return None
    return UP if after > before else DOWN


def _levels(finding: Finding) -> tuple[float | None, float | None]:
    """Before and in the incident, by the names that analyzers give them."""
    numbers = finding.numbers
    for key, before in numbers.items():
        unit = key.removeprefix("baseline")
        if unit != key and f"incident{unit}" in numbers:
            return before, numbers[f"incident{unit}"]
    return None, None


def _moved(assertion: Assertion, ground: Ground, way: str, verb: str) -> Phrase:
    finding = cited_finding(assertion, ground)
    actual_direction = direction(finding)
    if actual_direction is None:
        raise Refused(f"{finding.id} does not say which way it moved: use `shows`")
    if actual_direction != way:
        raise Refused(f"{finding.id} did not {verb}")
    return statement(finding).clause(ground.tense_of(finding))


# Relations in time. An onset lies at most its uncertainty before the time that is known of it.

SECOND = timedelta(seconds=1)
"""Less is the order in which a request's spans begin, and no order of faults."""
MINUTE = timedelta(minutes=1)
TOGETHER = timedelta(minutes=2)
"""Two scrapes of a minute: what is further apart did not begin together."""


def began(assertion: Assertion, ground: Ground) -> Phrase:
    """What, and since when."""
    cited_finding(assertion, ground)
    return _since(assertion.findings[0], ground)


def began_before(assertion: Assertion, ground: Ground) -> Phrase:
    """Two beginnings in their order."""
    (earlier, other), apart = assertion.findings, _apart(assertion, ground)
    # Only the later onset matters: it may lie that much earlier.
    uncertain = max(ground.onset(other)[1], SECOND)
    if apart <= uncertain:
        if apart <= timedelta(0):
            raise Refused(f"{earlier} did not begin before {other}")
        within = amount(uncertain.total_seconds(), SECONDS)
        raise Refused(f"{other} is known to within {within} only: leave the order out")
    size = amount(apart.total_seconds(), SECONDS)
    if other == ALERT:
        return say("{one}, {size} before the alert", one=_since(earlier, ground), size=size)
    return say(
        "{one}; {other}, {size} later",
        one=_since(earlier, ground, short=True),
        other=_since(other, ground, short=True),
        size=size,
    )


def began_with(assertion: Assertion, ground: Ground) -> Phrase:
    """Two beginnings, as near to each other as they are."""
    earlier, other = assertion.findings
    apart = abs(_apart(assertion, ground)) + max(ground.onset(earlier)[1], ground.onset(other)[1])
    size = amount(max(1.0, apart.total_seconds()), SECONDS)
    if apart > TOGETHER:
        raise Refused(f"{earlier} and {other} may be {size} apart")
    first, second = (_since(it, ground, short=True) for it in assertion.findings)
    return say("{one} and {other}, within {near} of each other", one=first, other=second, near=size)


def is_change(finding: Finding) -> bool:
    """Whether it is about a change that went live."""
    details = ChangeDetails.of(finding)
    return details is not None and bool(details.change)


def _apart(assertion: Assertion, ground: Ground) -> timedelta:
    earlier, other = assertion.findings
    if earlier == other:
        raise Refused("two different findings are needed")
    return ground.onset(other)[0] - ground.onset(earlier)[0]


def _since(finding_id: str, ground: Ground, *, short: bool = False) -> Phrase:
    onset, uncertain = ground.onset(finding_id)
    time = when(onset, ground, uncertain)
    if finding_id == ALERT:
        return say("the alert fired at {time}", time=time)
    finding = ground.finding(finding_id)
    if is_change(finding):
        if not ground.is_blamed_change(finding):
            raise Refused(
                f"{finding_id} is not the change that code blames: use `changed` or `ruled_out`"
            )
        called = change_called(finding, with_service=True, with_time=False)
        return say("{change} went live at {time}", change=called, time=time)
    wording, tense = statement(finding), ground.tense_of(finding)
    what = wording.short(tense) if short else wording.clause(tense)
    return in_brackets(what, say("since {time}", time=time))


def when(onset: datetime, ground: Ground, uncertain: timedelta = timedelta(0)) -> Phrase:
    """The time, no more exactly than it is known."""
    if uncertain < MINUTE:
        return dated(onset, ground.alert.started_at)
    # A time that is known to the minute has no seconds.
    minute = onset.replace(second=0, microsecond=0)
    return say("about {time}", time=dated(minute, ground.alert.started_at))
