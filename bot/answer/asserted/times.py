"""Relations in time. An onset lies at most its uncertainty before the time that is known of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultline.analysis.kinds.finding_details import ChangeDetails
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.phrase import Phrase, dated, in_brackets, say
from faultline.analysis.vocabulary import Assertion, Finding
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.bot.answer.asserted.ground import ALERT, Ground, Refused
from faultline.bot.answer.asserted.measurements import own_finding
from faultline.bot.answer.writer.story import change_called

SECOND = timedelta(seconds=1)
"""Less is the order in which a request's spans begin, and no order of faults."""
MINUTE = timedelta(minutes=1)
TOGETHER = timedelta(minutes=2)
"""Two scrapes of a minute: what is further apart did not begin together."""


def began(said: Assertion, ground: Ground) -> Phrase:
    """What, and since when."""
    own_finding(said, ground)
    return _since(said.findings[0], ground)


def began_before(said: Assertion, ground: Ground) -> Phrase:
    """Two beginnings in their order."""
    (one, other), apart = said.findings, _apart(said, ground)
    uncertain = max(ground.onset(other)[1], SECOND)
    if apart <= uncertain:
        if apart <= timedelta(0):
            raise Refused(f"{one} did not begin before {other}")
        within = amount(uncertain.total_seconds(), SECONDS)
        raise Refused(f"{other} is known to within {within} only: leave the order out")
    size = amount(apart.total_seconds(), SECONDS)
    if other == ALERT:
        return say("{one}, {size} before the alert", one=_since(one, ground), size=size)
    return say(
        "{one}; {other}, {size} later",
        one=_since(one, ground, short=True),
        other=_since(other, ground, short=True),
        size=size,
    )


def began_with(said: Assertion, ground: Ground) -> Phrase:
    """Two beginnings, as near to each other as they are."""
    one, other = said.findings
    apart = abs(_apart(said, ground)) + max(ground.onset(one)[1], ground.onset(other)[1])
    size = amount(max(1.0, apart.total_seconds()), SECONDS)
    if apart > TOGETHER:
        raise Refused(f"{one} and {other} may be {size} apart")
    first, second = (_since(it, ground, short=True) for it in said.findings)
    return say("{one} and {other}, within {near} of each other", one=first, other=second, near=size)


def is_change(finding: Finding) -> bool:
    """Whether it is about a change that went live."""
    details = ChangeDetails.of(finding)
    return details is not None and bool(details.change)


def _apart(said: Assertion, ground: Ground) -> timedelta:
    one, other = said.findings
    if one == other:
        raise Refused("two different findings are needed")
    return ground.onset(other)[0] - ground.onset(one)[0]


def _since(one: str, ground: Ground, *, short: bool = False) -> Phrase:
    onset, uncertain = ground.onset(one)
    time = when(onset, ground, uncertain)
    if one == ALERT:
        return say("the alert fired at {time}", time=time)
    finding = ground.finding(one)
    if is_change(finding):
        if not ground.is_blamed_change(finding):
            raise Refused(f"{one} is not the change that code blames: use `changed` or `ruled_out`")
        called = change_called(finding, with_service=True, with_time=False)
        return say("{change} went live at {time}", change=called, time=time)
    said, tense = statement(finding), ground.tense_of(finding)
    what = said.short(tense) if short else said.clause(tense)
    return in_brackets(what, say("since {time}", time=time))


def when(onset: datetime, ground: Ground, uncertain: timedelta = timedelta(0)) -> Phrase:
    """The time, no more exactly than it is known."""
    if uncertain < MINUTE:
        return dated(onset, ground.alert.started_at)
    minute = onset.replace(second=0, microsecond=0)
    return say("about {time}", time=dated(minute, ground.alert.started_at))
