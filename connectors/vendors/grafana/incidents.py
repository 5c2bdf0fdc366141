"""Incidents that people declared in Grafana IRM: those that overlap with ours, as details of the
alert.

`IncidentsService.QueryIncidentPreviews` of the Incident API, in place of `QueryIncidents`, which is
deprecated. Names and shapes: grafana.com/docs/grafana-cloud, "Incident API reference", and
Grafana's own client (grafana/gcx, internal/providers/irm). The API takes no times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Scope
from faultline.connectors.shared.rows.collection_builder import nanoseconds, time_of
from faultline.connectors.shared.vendor_text import short

INCIDENTS = "/api/plugins/grafana-irm-app/resources/api/v1/IncidentsService.QueryIncidentPreviews"
MOST_INCIDENTS, MOST_SHOWN, MOST_LABELS = 100, 20, 6
"""100 is the most that the API gives at once."""
QUERY: Mapping[str, Any] = {
    "limit": MOST_INCIDENTS,
    "orderField": "createdTime",
    "orderDirection": "DESC",
}
"""The newest."""


class _IncidentLabel(msgspec.Struct):
    key: str = ""
    label: str = ""


class IrmIncident(msgspec.Struct):
    """One incident; times are texts, empty where there is none."""

    incidentID: str = ""
    title: str = ""
    status: str = ""
    severityLabel: str = ""
    isDrill: bool = False
    createdTime: str = ""
    closedTime: str = ""
    incidentStart: str = ""
    incidentEnd: str = ""
    labels: list[_IncidentLabel] | None = None

    @property
    def began(self) -> int | None:
        """When it began, in ns since 1970, as people entered it, else when it was declared."""
        return time_of(self.incidentStart) or time_of(self.createdTime)

    @property
    def ended(self) -> int | None:
        """When it ended; None while it is open."""
        if self.status == "active":
            return None
        return time_of(self.incidentEnd) or time_of(self.closedTime)


class IncidentsAnswer(msgspec.Struct):
    """What the call answers."""

    incidentPreviews: list[IrmIncident] | None = None
    error: str = ""


def beside(incidents: Iterable[IrmIncident], scope: Scope) -> list[IrmIncident]:
    """Those that overlap with our incident, without drills."""
    start, end = nanoseconds(scope.incident.start), nanoseconds(scope.incident.end)
    besides = []
    for incident in incidents:
        began, ended = incident.began, incident.ended
        if incident.isDrill or began is None or began > end:
            continue
        # An incident that is over and does not say since when may have ended long ago.
        if incident.status != "active" and ended is None:
            continue
        if ended is None or ended >= start:
            besides.append(incident)
    return besides


def details_of(incidents: Iterable[IrmIncident]) -> dict[str, str]:
    """Each as one line, by its id."""
    details: dict[str, str] = {}
    for incident in list(incidents)[:MOST_SHOWN]:
        notes = [short(incident.severityLabel, 40), short(incident.status, 40)]
        for label in (incident.labels or ())[:MOST_LABELS]:
            notes.append(short(f"{label.key}:{label.label}" if label.key else label.label, 80))
        began, ended = incident.began, incident.ended
        notes += [f"since {_clock(began)}"] if began else []
        notes += [f"until {_clock(ended)}"] if ended else []
        text = "; ".join(note for note in notes if note)
        details[f"incident {short(incident.incidentID, 40)}"] = (
            f"{short(incident.title, 160)} ({text})"
        )
    return details


def incident_link(page: str, incidents: Iterable[IrmIncident]) -> str:
    """The page of the incident, of several the list."""
    ids = [incident.incidentID for incident in incidents]
    base = f"{page}/a/grafana-irm-app/incidents"
    # Foreign id: quote it whole, so that it stays one part of the path.
    return f"{base}/{quote(ids[0][:100], safe='')}" if len(ids) == 1 else base


def _clock(at: int) -> str:
    return f"{datetime.fromtimestamp(at // 1_000_000_000, UTC):%d %b %H:%M} UTC"
