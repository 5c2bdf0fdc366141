"""Relations in time. An onset lies at most its uncertainty before the time that is known of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from analysis.kinds.finding_details import ChangeDetails
from analysis.phrasing.clauses import statement
from analysis.phrasing.phrase import Phrase, clock, say
from analysis.vocabulary import Assertion, Finding
from analysis.wording.amounts import SECONDS, amount
from bot.answer.asserted.ground import ALERT, Ground, Refused
from bot.answer.asserted.measurements import own_finding
from bot.answer.writer.story import change_called

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
    uncertain = max(ground.onset(one)[1], ground.onset(other)[1])
    apart = abs(_apart(said, ground)) + uncertain
    if apart > TOGETHER:
        size = amount(apart.total_seconds(), SECONDS)
        raise Refused(f"{one} and {other} may be {size} apart")
    near = amount(max(1.0, apart.total_seconds()), SECONDS)
    return say(
        "{one} and {other}, within {near} of each other",
        one=_since(one, ground, short=True),
        other=_since(other, ground, short=True),
        near=near,
    )


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


def in_brackets(what: Phrase, more: Phrase) -> Phrase:
    """The clause with more in brackets: in those that it ends with, where it does."""
    last = what.parts[-1] if what.parts else None
    if last is None or not last.text.endswith(")"):
        return say("{what} ({more})", what=what, more=more)
    opened = Phrase((*what.parts[:-1], replace(last, text=last.text[:-1])))
    return say("{what}, {more})", what=opened, more=more)


def when(onset: datetime, ground: Ground, uncertain: timedelta = timedelta(0)) -> Phrase:
    """The time with its day, where that is another, and no more exactly than it is known."""
    day = ""
    if onset.date() != ground.alert.started_at.date():
        day = f" on {onset.day} {onset:%b}"
    if uncertain >= MINUTE:
        minute = onset.replace(second=0, microsecond=0)
        return say("about {time} UTC{day}", time=clock(minute), day=day)
    return say("{time} UTC{day}", time=clock(onset), day=day)
