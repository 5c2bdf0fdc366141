"""The hand-over between shifts as figures, team by team: what happened, what is open, what recurs,
which alerts were noise. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from statistics import median

from faultline.analysis.case.earlier import EarlierCause
from faultline.analysis.vocabulary import Verdict
from faultline.bot.store.reports import HandoverIncident
from faultline.bot.store.suppressed_alerts import Mute

QUIET = (Verdict.NO_ACTIVE_INCIDENT, Verdict.RECOVERED)
"""Verdicts of an alert that needed nobody."""
BLAMES = (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
"""Verdicts with which a cause may be named."""
AT_LEAST = 2
"""Once is no noise, and does not recur."""


@dataclass(frozen=True)
class Recurring:
    """The same cause on the same service in several incidents, the newest first."""

    service: str
    cause: EarlierCause
    incidents: tuple[HandoverIncident, ...]


@dataclass(frozen=True)
class Noise:
    """An alert that fired several times, mostly with nothing wrong. `length` is the median time
    until it resolved, of the `quiet` ones that did."""

    fired: tuple[HandoverIncident, ...]
    """The newest first."""
    quiet: int
    length: timedelta | None


@dataclass(frozen=True)
class TeamDigest:
    """One team's; "" is what belongs to none."""

    team: str
    lately: tuple[HandoverIncident, ...]
    """All that were accepted in the time, the newest first."""
    open: tuple[HandoverIncident, ...]
    """The newest first; some may be from before."""
    resolved: tuple[HandoverIncident, ...]
    """Those with a cause whose alerts are over."""
    recurring: tuple[Recurring, ...]
    noise: tuple[Noise, ...]
    muted: tuple[Mute, ...]
    """Mutes that hold, of alerts that this team had in the time."""

    def count(self, *verdicts: Verdict) -> int:
        """How many of the time ended so."""
        return sum(incident.verdict in verdicts for incident in self.lately)

    @property
    def judged(self) -> tuple[int, int]:
        """Answers that people called right, of those that they judged."""
        judgements = [incident.judged for incident in self.lately if incident.judged is not None]
        return sum(judgements), len(judgements)


def team_digests(
    incidents: Iterable[HandoverIncident], mutes: Sequence[Mute], since: datetime
) -> tuple[TeamDigest, ...]:
    """One for each team with an alert, by name; what belongs to none comes last."""
    of_team = defaultdict[str, list[HandoverIncident]](list)
    for incident in incidents:
        of_team[incident.team].append(incident)
    teams = sorted(of_team, key=lambda team: (not team, team))
    return tuple(_digest(team, of_team[team], mutes, since) for team in teams)


def _digest(
    team: str, incidents: Sequence[HandoverIncident], mutes: Sequence[Mute], since: datetime
) -> TeamDigest:
    lately = tuple(incident for incident in incidents if incident.at >= since)
    prints = frozenset[str]().union(*(incident.prints for incident in incidents))
    return TeamDigest(
        team=team,
        lately=lately,
        open=tuple(incident for incident in incidents if incident.open),
        resolved=tuple(
            incident
            for incident in lately
            if not incident.open and incident.verdict == Verdict.CAUSE_FOUND
        ),
        recurring=_recurring(lately),
        noise=_noise(lately),
        muted=tuple(mute for mute in mutes if mute.fingerprint in prints),
    )


def _recurring(lately: Sequence[HandoverIncident]) -> tuple[Recurring, ...]:
    by_fault = defaultdict[tuple[str, str, str], list[HandoverIncident]](list)
    for incident in lately:
        # A cause that people called wrong does not recur.
        if (
            incident.cause is not None
            and incident.verdict in BLAMES
            and incident.judged is not False
        ):
            fault = incident.cause.troubles[0] if incident.cause.troubles else incident.cause.kind
            by_fault[incident.service, incident.cause.subject, fault].append(incident)
    often = [
        Recurring(service, some[0].cause, tuple(some))
        for (service, _, _), some in by_fault.items()
        if len(some) >= AT_LEAST and some[0].cause is not None
    ]
    return tuple(sorted(often, key=lambda recurrence: -len(recurrence.incidents)))


def _noise(lately: Sequence[HandoverIncident]) -> tuple[Noise, ...]:
    fired = defaultdict[tuple[str, ...], list[HandoverIncident]](list)
    for incident in lately:
        fired[incident.words].append(incident)
    noises = []
    for some in fired.values():
        # Nothing was wrong, or it was over by itself, and nobody said that this is not so.
        quiet = [
            incident
            for incident in some
            if incident.verdict in QUIET and incident.judged is not False
        ]
        # An alert that was real even once is no noise.
        somebody_confirmed = [i.judged is True and i.verdict in BLAMES for i in some]
        if len(quiet) < AT_LEAST or 2 * len(quiet) <= len(some) or any(somebody_confirmed):
            continue
        noises.append(Noise(tuple(some), len(quiet), _median_length(quiet)))
    return tuple(sorted(noises, key=lambda noise: -noise.quiet))


def _median_length(some: Sequence[HandoverIncident]) -> timedelta | None:
    ends = (
        (incident.at, incident.resolved_at) for incident in some if incident.resolved_at is not None
    )
    lengths = [(resolved_at - at).total_seconds() for at, resolved_at in ends]
    return timedelta(seconds=median(lengths)) if lengths else None
