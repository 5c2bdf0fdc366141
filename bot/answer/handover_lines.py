"""The hand-over in words: a first sentence for each team, and short lines under labels. Pure.

The texts of alerts in it are foreign: one line, without secrets. Who shows them escapes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from faultline.analysis.analyzers import phrase_of
from faultline.analysis.case.earlier import HostRecord
from faultline.analysis.secrets.redaction import masked
from faultline.analysis.vocabulary import Verdict
from faultline.analysis.wording.phrases import counted
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.handover import Recurring, TeamDigest
from faultline.bot.policy.people import person
from faultline.bot.store.reports import HandoverIncident
from faultline.bot.store.suppressed_alerts import Mute

TITLE, HEADLINE, NAME = 90, 160, 60
OPEN, RECURRING, NOISE, RESOLVED, MUTED, MACHINES = (
    "Open",
    "Recurring",
    "Noise",
    "Resolved",
    "Muted",
    "Machines",
)
"""The labels, in the order of what the next shift needs first."""
NO_TEAM = "no team"
MACHINE_DAYS = 90
"""How far back machines of training jobs are looked at: `faultline fleet`."""
MOST_NAMED = 3


@dataclass(frozen=True)
class HandoverLine:
    """One line under its label; `incident` is the investigation whose page shows more, or ""."""

    label: str
    text: str
    incident: str = ""


def team_name(team: str) -> str:
    """Also of what belongs to none."""
    return foreign(team, NAME) or NO_TEAM


def summary(digest: TeamDigest, length: timedelta) -> str:
    """`34 alerts in the last 7 days: 12 with a cause, 15 with nothing wrong, 7 without an answer; 3
    are open.`"""
    lately, count = len(digest.lately), digest.count(Verdict.CAUSE_FOUND)
    quiet = digest.count(Verdict.NO_ACTIVE_INCIDENT, Verdict.RECOVERED)
    phrase = f"{counted(lately, 'alert')} in the last {_length(length)}"
    if lately:
        parts = ((count, "with a cause"), (quiet, "with nothing wrong or over by themselves"))
        named = [f"{count} {words}" for count, words in parts if count]
        if rest := lately - count - quiet:
            named.append(f"{rest} without an answer")
        phrase += f": {', '.join(named)}"
    right, judged = digest.judged
    if judged:
        phrase += f"; people called {right} of {counted(judged, 'answer')} right"
    return (
        f"{phrase}. {len(digest.open) or 'None'} {'is' if len(digest.open) == 1 else 'are'} open."
    )


def team_lines(digest: TeamDigest, now: datetime) -> Iterator[HandoverLine]:
    """Everything, label by label."""
    for incident in digest.open:
        yield HandoverLine(OPEN, _open(incident, now), incident.id)
    for often in digest.recurring:
        yield HandoverLine(RECURRING, _recurring(often), often.incidents[0].id)
    for noise in digest.noise:
        length = f", median length {_length(noise.length)}" if noise.length is not None else ""
        fired = f"fired {len(noise.fired)} times, {noise.quiet} with nothing wrong"
        yield HandoverLine(NOISE, f"{_title(noise.fired[0])}: {fired}{length}", noise.fired[0].id)
    for incident in digest.resolved:
        yield HandoverLine(
            RESOLVED, f"{_moment(incident.at)} {_title(incident)}{_headline(incident)}", incident.id
        )
    for mute in digest.muted:
        yield HandoverLine(MUTED, _muted(mute))


def machine_lines(machines: Sequence[HostRecord]) -> Iterator[HandoverLine]:
    """One line on the machines that were to blame again and again; none where there are none."""
    if not machines:
        return
    named = [
        f"{foreign(machine.host, NAME)} ({machine.blamed} of {machine.took_part} incidents)"
        for machine in machines[:MOST_NAMED]
    ]
    more = f" and {len(machines) - MOST_NAMED} more" if len(machines) > MOST_NAMED else ""
    newest = max((i for machine in machines[:1] for i in machine.incidents), key=lambda i: i.at)
    verb = "was" if len(machines) == 1 else "were"
    phrase = f"{', '.join(named)}{more} {verb} to blame more often than by chance, "
    yield HandoverLine(MACHINES, f"{phrase}in {MACHINE_DAYS} days", newest.id)


def shortened(
    lines: Iterable[HandoverLine], most: int | dict[str, int]
) -> tuple[list[HandoverLine], dict[str, int]]:
    """At most that many lines of each label, and how many were left out of each."""
    handover_lines: list[HandoverLine] = []
    totals: dict[str, int] = {}
    for line in lines:
        totals[line.label] = totals.get(line.label, 0) + 1
        if totals[line.label] <= (most if isinstance(most, int) else most.get(line.label, 0)):
            handover_lines.append(line)
    shown = {label: sum(line.label == label for line in handover_lines) for label in totals}
    return handover_lines, {
        label: n - shown[label] for label, n in totals.items() if n > shown[label]
    }


def of_team(line: HandoverLine, team: str) -> HandoverLine:
    """The line where those of several teams stand together."""
    return replace(line, text=f"{team_name(team)}: {line.text}")


def foreign(text: str, limit: int) -> str:
    """Foreign text on one line, its secrets masked."""
    return single_line(masked(text), limit)


def _open(incident: HandoverIncident, now: datetime) -> str:
    phrase = f", {counted(incident.open, 'alert')} of it" if incident.open > 1 else ""
    answer = {"accepted": ": waits", "running": ": is being investigated"}.get(incident.status)
    return (
        f"{_title(incident)}, for "
        f"{_length(now - incident.at)}{phrase}{answer or _headline(incident)}"
    )


def _recurring(often: Recurring) -> str:
    cause, last = often.cause, often.incidents[0]
    fault = cause.troubles[0] if cause.troubles else cause.kind
    phrase = f"{foreign(cause.subject, NAME)} {phrase_of(fault).split(',')[0]}"
    of = f" of {foreign(often.service, NAME)}" if often.service else ""
    return f"{phrase}: {len(often.incidents)} incidents{of}, last {_moment(last.at)}"


def _muted(mute: Mute) -> str:
    by = f" by {foreign(person(mute.by), NAME)}" if mute.by else ""
    why = f": {foreign(mute.reason, HEADLINE)}" if mute.reason else ""
    phrase = f", {counted(mute.alert_count, 'alert')} held" if mute.alert_count else ""
    return (
        f"{foreign(mute.title, TITLE) or 'An alert'}, until {_moment(mute.until)}{by}{phrase}{why}"
    )


def _title(incident: HandoverIncident) -> str:
    title, service = foreign(incident.title, TITLE), foreign(incident.service, NAME)
    # Many titles name the service already.
    return title if not service or service in title else f"{title} ({service})"


def _headline(incident: HandoverIncident) -> str:
    return f": {foreign(incident.headline, HEADLINE)}" if incident.headline else ""


def _moment(time: datetime) -> str:
    return f"{time.day} {time:%b %H:%M} UTC"


def _length(length: timedelta) -> str:
    """In one unit: `7 days`, `5 hours`, `3 min`, `40 s`."""
    # Clocks of two machines differ, so a length may come out negative.
    seconds = max(0, round(length.total_seconds()))
    # "47 hours" says more than "1 day".
    if seconds >= 2 * 86_400:
        return counted(seconds // 86_400, "day")
    if seconds >= 2 * 3_600:
        return counted(seconds // 3_600, "hour")
    return f"{seconds // 60} min" if seconds >= 120 else f"{seconds} s"
