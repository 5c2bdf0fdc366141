"""Which runbooks an alert calls for, the most specific first; all of it is decided here and none of
it by a model.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from urllib.parse import urlsplit

from faultline.analysis.case.runbooks import AppliedRunbook, AppliedRunbooks, ExpectedAlert
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import AddedQuery, Alert, Link, LogWords, Scope
from faultline.bot.investigation.runbooks.library import RunbookLibrary
from faultline.bot.investigation.runbooks.runbook import (
    DAYS,
    Criterion,
    ExpectedWhen,
    Hours,
    Runbook,
    RunbookMatch,
    usable_queries,
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


# What the runbooks that apply give to an investigation: more to look at, and guidance for the case
# folder.

MOST_SERVICES, MOST_QUERIES, MOST_WORDS = 10, 20, 20
"""Added by all runbooks of an alert together: what is asked must come back while the incident
lasts."""
LONGEST_TEXT = 6000
"""Characters of a runbook's Markdown that the case keeps."""
MOST_TROUBLES = 20
NOT_IN_LINKS = ' \\<>"|`'
"""Characters that end a link, or begin something else, in Slack's or Markdown's text."""


@dataclass(frozen=True)
class ScopeHints:
    """What runbooks add to the scope of an investigation. Times in minutes; None keeps those of the
    settings."""

    services: tuple[str, ...] = ()
    queries: tuple[AddedQuery, ...] = ()
    log_words: LogWords | None = None
    before_alert: float | None = None
    baseline: float | None = None


NOTHING_MORE = ScopeHints()


@dataclass(frozen=True)
class RunbookGuidance:
    """Both halves of what runbooks give."""

    hints: ScopeHints
    applied: AppliedRunbooks


def guided(
    library: RunbookLibrary, alert: Alert, scope: Scope, hosts: Collection[str]
) -> RunbookGuidance:
    """What the library says about this alert. `hosts` are those that a link may lead to."""
    chosen = applying(library, alert, scope)
    applied = AppliedRunbooks(
        runbooks=tuple(_applied(candidate, alert, hosts) for candidate in chosen),
        troubles=tuple(str(problem) for problem in library.problems[:MOST_TROUBLES]),
    )
    return RunbookGuidance(_scope_hints([candidate.runbook for candidate in chosen]), applied)


def _scope_hints(runbooks: Sequence[Runbook]) -> ScopeHints:
    """All of them together: the longest windows; of two queries for one signal that of the more
    specific runbook."""
    services: list[str] = []
    for runbook in runbooks:
        services += runbook.keys.look_at.services
    return ScopeHints(
        services=tuple(dict.fromkeys(services))[:MOST_SERVICES],
        queries=_queries(runbooks)[:MOST_QUERIES],
        log_words=_log_words(runbooks),
        before_alert=_longest(runbook.keys.look_at.before_alert for runbook in runbooks),
        baseline=_longest(runbook.keys.look_at.baseline for runbook in runbooks),
    )


def _queries(runbooks: Sequence[Runbook]) -> tuple[AddedQuery, ...]:
    added: dict[tuple[str, str], AddedQuery] = {}
    for runbook in runbooks:
        by = f"runbook {runbook.name}"
        for connector, signal, query in usable_queries(runbook.keys):
            # The most specific runbook comes first, and its query for a signal stays.
            if (connector, signal) not in added:
                added[connector, signal] = AddedQuery(
                    connector=connector, signal=signal, query=query, by=by
                )
    return tuple(added.values())


def _log_words(runbooks: Sequence[Runbook]) -> LogWords | None:
    words: list[str] = []
    by: list[str] = []
    for runbook in runbooks:
        if runbook.keys.look_at.log_words:
            words += runbook.keys.look_at.log_words
            by.append(f"runbook {runbook.name}")
    if not words:
        return None
    return LogWords(words=tuple(dict.fromkeys(words))[:MOST_WORDS], by=", ".join(by))


def _longest(lengths: Iterable[float | None]) -> float | None:
    return max((length for length in lengths if length is not None), default=None)


def _applied(candidate: Applying, alert: Alert, hosts: Collection[str]) -> AppliedRunbook:
    keys, text = candidate.runbook.keys, masked(candidate.runbook.text)
    if len(text) > LONGEST_TEXT:
        text = f"{text[:LONGEST_TEXT].rstrip()}…"
    now = [e for e in keys.expected if e.between is None or holds(e.between, alert.started_at)]
    return AppliedRunbook(
        name=masked(candidate.runbook.name),
        path=candidate.runbook.path,
        digest=candidate.runbook.digest,
        why=candidate.why,
        owner=masked(keys.owner),
        expected=tuple(_expected(e) for e in now),
        next_steps=tuple(masked(step) for step in keys.next_steps),
        links=tuple(Link(title=d.title, url=d.url) for d in keys.links if may_link(d.url, hosts)),
        text=text,
    )


def _expected(expected: ExpectedWhen) -> ExpectedAlert:
    when = in_words(expected.between) if expected.between else ""
    return ExpectedAlert(text=masked(expected.because), when=when)


def may_link(url: str, hosts: Collection[str]) -> bool:
    """Whether a link leads to one of these hosts, plainly."""
    if not url.isprintable() or any(character in NOT_IN_LINKS for character in url):
        return False
    try:
        parts = urlsplit(url)
        # Reading the port checks it.
        _ = parts.port
    except ValueError:
        return False
    # A user's name in front of the host can look like a host.
    if "@" in parts.netloc:
        return False
    return parts.scheme in ("http", "https") and parts.hostname in hosts
