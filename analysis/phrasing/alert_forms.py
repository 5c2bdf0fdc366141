"""Statements about the alert itself: why it fired although nothing is wrong, and where its signal
stands."""

from __future__ import annotations

from faultline.analysis.phrasing.metric_forms import finding_unit, signal_text
from faultline.analysis.phrasing.phrase import NOTHING, Phrase, figure, measured, say
from faultline.analysis.phrasing.statement import ARE, IS, Statement, Verb, Voice
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.amounts import PERCENT, Unit, amount
from faultline.analysis.wording.names import is_plural
from faultline.analysis.wording.phrases import counted

MINUTES = Unit("time", 60.0)
HOURS = Unit("time", 3600.0)


def usual_level(finding: Finding, voice: Voice) -> Statement | None:
    """The alerting signal's level, which is a usual one."""
    # A finding that an earlier version stored may lack some of the numbers.
    if not {"now", "low", "high"} <= finding.numbers.keys():
        return None
    unit = finding_unit(finding)
    inside = say(
        "{now}, inside its usual range ({low} to {high})",
        now=measured(finding, "now", unit),
        low=measured(finding, "low", unit),
        high=measured(finding, "high", unit),
    )
    is_or_are = ARE if is_plural(signal_text(finding)) else IS
    return Statement(_signal(finding, voice), is_or_are, inside)


def threshold(finding: Finding, voice: Voice) -> Statement | None:
    """A threshold that the signal crosses while all is well."""
    limit, percent = finding.numbers.get("threshold"), finding.numbers.get("percent_of_baseline")
    proposed = finding.numbers.get("proposed")
    if limit is None or percent is None or proposed is None:
        return None
    # The proposal lies beyond the threshold, on the side that the alert fires on.
    side = "above" if proposed >= limit else "below"
    usual = say(
        "{side} the alert's threshold of {limit} for {percent} of the time in normal operation",
        side=side,
        limit=measured(finding, "threshold", finding_unit(finding)),
        percent=measured(finding, "percent_of_baseline", PERCENT),
    )
    return Statement(_signal(finding, voice), Verb("was", "was", ""), usual)


def usual_move(finding: Finding, voice: Voice) -> Statement | None:
    """A move that the signal makes all the time."""
    if not {"times", "hours", "minutes"} <= finding.numbers.keys():
        return None
    often = figure(finding, "times", counted(int(finding.numbers["times"]), "time"))
    moved = say(
        "{often} in the {hours} before, for at most {minutes}",
        often=often,
        hours=measured(finding, "hours", HOURS),
        minutes=measured(finding, "minutes", MINUTES),
    )
    return Statement(_signal(finding, voice), Verb("moved as far", "moved as far", ""), moved)


def flapping(finding: Finding, voice: Voice) -> Statement | None:
    """A monitor that fires and clears by itself."""
    numbers = finding.numbers
    if not {"times", "times_back", "hours", "minutes"} <= numbers.keys():
        return None
    back = numbers["times_back"]
    phrase = "each time" if back == numbers["times"] else counted(int(back), "time")
    fired = say(
        "{often} in {hours} and cleared by itself {each}, within {minutes}",
        often=figure(finding, "times", counted(int(numbers["times"]), "time")),
        hours=measured(finding, "hours", HOURS),
        each=figure(finding, "times_back", phrase),
        minutes=measured(finding, "minutes", MINUTES),
    )
    return Statement(say("this monitor"), Verb("fired", "fired", ""), fired)


def stopped(finding: Finding, voice: Voice) -> Statement | None:
    """A signal that is no longer collected."""
    if "minutes" not in finding.numbers:
        return None
    other_series = finding.numbers.get("other_series")
    rest = "and the service sends nothing else either"
    if other_series:
        verb = "comes" if other_series == 1 else "come"
        rest = f"while {amount(other_series)} other series of the service still {verb} in"
    silent = say(
        "no data for {minutes}, {rest}", minutes=measured(finding, "minutes", MINUTES), rest=rest
    )
    return Statement(_signal(finding, voice), Verb("has had", "had", ""), silent)


def back_again(finding: Finding, voice: Voice) -> Statement | None:
    """A signal that left its usual range and came back."""
    if "lasted_min" not in finding.numbers:
        return None
    lasted = measured(finding, "lasted_min", MINUTES)
    back = say("back to normal after about {lasted}", lasted=lasted)
    return Statement(_signal(finding, voice), Verb("was", "was", ""), back)


def _signal(finding: Finding, voice: Voice) -> Phrase:
    if not finding.signal:
        return say("{who}", who=voice.who) if finding.subject else NOTHING
    return say("{whose} {signal}", whose=voice.whose, signal=signal_text(finding))
