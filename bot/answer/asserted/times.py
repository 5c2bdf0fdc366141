"""Relations in time. An onset lies at most its uncertainty before the time that is known of it."""

from __future__ import annotations

from datetime import datetime, timedelta

from faultline.analysis.kinds.finding_details import ChangeDetails
from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.phrase import Phrase, dated, in_brackets, say
from faultline.analysis.vocabulary import Assertion, Finding
from faultline.analysis.wording.amounts import SECONDS, amount
from faultline.bot.answer.asserted.ground import ALERT, Ground, Refused
from faultline.bot.answer.asserted.measurements import cited_finding
from faultline.bot.answer.writer.story import change_called

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
