"""`faultline digest`: the hand-over between shifts, from the store."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from faultline.analysis.case.earlier import HostRecord
from faultline.analysis.errors import SettingsError
from faultline.bot.answer.handover import TeamDigest, team_digests
from faultline.bot.answer.handover_lines import (
    MACHINE_DAYS,
    HandoverLine,
    foreign,
    machine_lines,
    shortened,
    summary,
    team_lines,
    team_name,
)
from faultline.bot.intake.incident_requests import since_of
from faultline.bot.settings import Settings
from faultline.bot.store.databases import open_store
from faultline.bot.store.fleet import FleetMemory
from faultline.bot.store.reports import HandoverIncident, handover_incidents
from faultline.bot.store.suppressed_alerts import Mutes

MOST_LINES = 10
"""Of one label of one team."""
TITLE = 200


def print_digest(settings: Settings, since: str, team: str | None, *, json_: bool) -> None:
    """Print it, team by team. Raises SettingsError."""
    now = datetime.now(UTC)
    begin = since_of(since, now).astimezone(UTC)
    if begin >= now:
        raise SettingsError("--since", "lies in the future")
    store = open_store(settings)
    try:
        incidents = handover_incidents(store.engine, begin, now)
        mutes = Mutes(store.engine).active(now)
        machines: Sequence[HostRecord] = ()
        if team is None:
            # Machines belong to jobs, not to teams.
            fleet_since = now - timedelta(days=MACHINE_DAYS)
            machines = FleetMemory(store.engine).suspicious(since=fleet_since, before=now)
    finally:
        store.engine.dispose()
    digests = team_digests(incidents, mutes, begin)
    if team is not None:
        digests = tuple(digest for digest in digests if digest.team.casefold() == team.casefold())
        # A team without alerts is fine; a name that nobody knows is a mistake.
        if not digests and team.casefold() not in map(str.casefold, settings.teams):
            raise SettingsError("--team", "is no team of the settings, and had no alert")
    if json_:
        json.dump(_document(digests, machines, settings, begin, now), sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    for line in _lines(digests, machines, settings, begin, now):
        sys.stdout.write(f"{line}\n")


def _lines(
    digests: Sequence[TeamDigest],
    machines: Sequence[HostRecord],
    settings: Settings,
    since: datetime,
    now: datetime,
) -> Iterator[str]:
    if not digests:
        yield "No alert was investigated in that time, and none is open."
    for number, digest in enumerate(digests):
        if number:
            yield ""
        # With a single part of no team, the label would say nothing.
        alone = len(digests) == 1 and not digest.team
        yield ("" if alone else f"{team_name(digest.team)}: ") + summary(digest, now - since)
        yield from _labelled(team_lines(digest, now), settings)
    if machines:
        yield from _labelled(machine_lines(machines), settings)


def _labelled(lines: Iterable[HandoverLine], settings: Settings) -> Iterator[str]:
    shown_lines, left = shortened(lines, MOST_LINES)
    for label in dict.fromkeys(line.label for line in shown_lines):
        yield f"\n{label}"
        for line in shown_lines:
            if line.label == label:
                yield f"  {line.text}"
                if line.incident:
                    yield f"    {_page(settings, line.incident)}"
        if label in left:
            yield f"  and {left[label]} more: --json prints all"


def _document(
    digests: Sequence[TeamDigest],
    machines: Sequence[HostRecord],
    settings: Settings,
    since: datetime,
    now: datetime,
) -> dict[str, Any]:
    return {
        "since": since.isoformat(),
        "until": now.isoformat(),
        "teams": [_team(digest, settings) for digest in digests],
        "machines": [machine.model_dump(mode="json") for machine in machines],
    }


def _team(digest: TeamDigest, settings: Settings) -> dict[str, Any]:
    right, judged = digest.judged
    verdicts = [incident.verdict or incident.status for incident in digest.lately]
    return {
        "team": digest.team,
        "alerts": len(digest.lately),
        "by_verdict": {name: verdicts.count(name) for name in dict.fromkeys(verdicts)},
        "judged": judged,
        "right": right,
        "open": [_incident(incident, settings) for incident in digest.open],
        "recurring": [
            {
                "service": foreign(recurrence.service, TITLE),
                "subject": foreign(recurrence.cause.subject, TITLE),
                "fault": recurrence.cause.troubles[0]
                if recurrence.cause.troubles
                else recurrence.cause.kind,
                "incidents": [_incident(i, settings) for i in recurrence.incidents],
            }
            for recurrence in digest.recurring
        ],
        "noise": [
            {
                "title": foreign(noise.fired[0].title, TITLE),
                "service": foreign(noise.fired[0].service, TITLE),
                "fired": len(noise.fired),
                "nothing_wrong": noise.quiet,
                "median_length_s": noise.length.total_seconds()
                if noise.length is not None
                else None,
                "incidents": [_incident(i, settings) for i in noise.fired],
            }
            for noise in digest.noise
        ],
        "resolved": [_incident(incident, settings) for incident in digest.resolved],
        "muted": [
            {
                "title": foreign(mute.title, TITLE),
                "until": mute.until.isoformat(),
                "by": mute.by,
                "reason": foreign(mute.reason, TITLE),
                "held": mute.alert_count,
            }
            for mute in digest.muted
        ],
    }


def _incident(incident: HandoverIncident, settings: Settings) -> dict[str, Any]:
    return {
        "id": incident.id,
        "at": incident.at.isoformat(),
        "title": foreign(incident.title, TITLE),
        "service": foreign(incident.service, TITLE),
        "status": incident.status,
        "verdict": incident.verdict,
        "headline": foreign(incident.headline, TITLE),
        "resolved_at": incident.resolved_at.isoformat() if incident.resolved_at else None,
        "open": incident.open,
        "page": _page(settings, incident.id),
    }


def _page(settings: Settings, investigation_id: str) -> str:
    return f"{settings.server.public_url}/investigations/{investigation_id}"
