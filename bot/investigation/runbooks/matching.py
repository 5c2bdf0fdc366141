"""Which runbooks an alert calls for, the most specific first; all of it is decided here and none of
it by a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from faultline.analysis.vocabulary import Alert, Scope
from faultline.bot.investigation.runbooks.library import RunbookLibrary
from faultline.bot.investigation.runbooks.runbook import (
    DAYS,
    Criterion,
    Hours,
    Runbook,
    RunbookMatch,
    zone_of,
)

MOST_APPLIED = 10
"""Runbooks of one alert, included ones counted: more guidance than that guides nobody."""
LONGEST_VALUE = 1000
ALERT_NAMES = ("alertname", "monitor", "monitor_name", "alarm_name", "rule")
"""Labels that hold the name of the rule behind an alert's title."""


@dataclass(frozen=True)
class Applying:
    """A runbook that applies, and why, in a few words."""

    runbook: Runbook
    why: str


def applying(library: RunbookLibrary, alert: Alert, scope: Scope) -> list[Applying]:
    """Those that match by specificity, then by name, each followed by what it includes and no other
    brought."""
    matched: list[tuple[int, Applying]] = []
    for runbook in library.runbooks.values():
        if not runbook.keys.match:
            continue
        match_result = _matched(runbook.keys.match, alert, scope)
        if match_result is not None:
            specific, why = match_result
            matched.append((specific, Applying(runbook, why)))
    matched.sort(key=_most_specific_first)
    chosen: dict[str, Applying] = {}
    for _, candidate in matched:
        chosen.setdefault(candidate.runbook.path, candidate)
    # A copy, because included runbooks are added on the way.
    for candidate in list(chosen.values()):
        for included in library.included_by(candidate.runbook):
            chosen.setdefault(
                included.path, Applying(included, f"included by {candidate.runbook.name}")
            )
    return list(chosen.values())[:MOST_APPLIED]


def _most_specific_first(matched: tuple[int, Applying]) -> tuple[int, str, str]:
    specific, candidate = matched
    return -specific, candidate.runbook.name.casefold(), candidate.runbook.path


def _matched(match: RunbookMatch, alert: Alert, scope: Scope) -> tuple[int, str] | None:
    """How specific the match is, and what matched; None where it does not."""
    specific, why = 0, []
    for criterion in match.criteria:
        values = _values(criterion, alert, scope)
        pattern = _first_match(criterion.patterns, values)
        if pattern is None:
            return None
        # An exact pattern says more than one with wildcards.
        specific += 1 if _wild(pattern) else 2
        why.append(f"{criterion.name} {pattern}")
    return (specific, ", ".join(why)) if why else None


def _first_match(patterns: Iterable[str], values: Sequence[str]) -> str | None:
    """The pattern that matches one of the values, one without wildcards before the others."""
    for pattern in sorted(patterns, key=_wild):
        if any(glob_matches(pattern, value) for value in values):
            return pattern
    return None


def _values(criterion: Criterion, alert: Alert, scope: Scope) -> Sequence[str]:
    if criterion.is_label:
        label = alert.labels.get(criterion.name)
        return () if label is None else (label,)
    alert_values: dict[str, Iterable[str | None]] = {
        # Only the first one: the others are called by it, or added by runbooks.
        "services": (alert.service, *scope.services[:1]),
        "alerts": (alert.title, *(alert.labels.get(label) for label in ALERT_NAMES)),
        "jobs": (alert.job, scope.job),
        "severity": (alert.severity,),
        "source": (alert.source,),
    }
    return tuple(value for value in alert_values[criterion.name] if value)


def _wild(pattern: str) -> bool:
    return "*" in pattern or "?" in pattern


def glob_matches(pattern: str, text: str) -> bool:
    """Whether the whole text is like the pattern, in any case; `*` stands for anything, `?` for one
    character.

    Greedy with one place to go back to, so its time is at most the product of the two lengths.
    """
    pattern, text = pattern.casefold(), " ".join(text[:LONGEST_VALUE].split()).casefold()
    at = here = 0
    star, resume = -1, 0
    while here < len(text):
        if at < len(pattern) and pattern[at] == "*":
            star, resume = at, here
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", text[here]):
            at, here = at + 1, here + 1
        elif star >= 0:
            resume += 1
            at, here = star + 1, resume
        else:
            return False
    return all(char == "*" for char in pattern[at:])


def holds(hours: Hours, at: datetime) -> bool:
    """Whether the moment is in the hours. Hours over midnight belong to the day they begin on."""
    start, end = hours.minutes
    try:
        local = at.astimezone(zone_of(hours.timezone))
        now = local.hour * 60 + local.minute
        over_midnight = end <= start
        began = local
        if over_midnight and now < start:
            began -= timedelta(days=1)
    # At the ends of the calendar there is no day before, or no such local time.
    except OverflowError:
        return False
    inside = now >= start or now < end if over_midnight else start <= now < end
    return inside and (not hours.days or DAYS[began.weekday()] in hours.days)


def in_words(hours: Hours) -> str:
    """`daily 02:00 to 02:30 UTC`, `mon, tue 23:00 to 01:00 Europe/Berlin`."""
    start, end = (f"{minute // 60:02d}:{minute % 60:02d}" for minute in hours.minutes)
    days = ", ".join(hours.days) if hours.days and len(hours.days) < len(DAYS) else "daily"
    return f"{days} {start} to {end} {hours.timezone}"
