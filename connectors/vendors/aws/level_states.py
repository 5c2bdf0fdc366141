"""Facts that a level of a metric tells of: a table that has rejected requests all along has no
change point.

Thresholds are those of "Recommended alarms" in the CloudWatch user guide, unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from faultline.analysis.vocabulary import Window
from faultline.analysis.wording.phrases import number
from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.vendors.aws.resource import Resource
from faultline.connectors.vendors.aws.resource_states import resource_state

LEAST_POINTS = 2
"""One period beyond a threshold is a burst that retries take care of."""
STILL_PERIODS = 3
"""What was beyond within that many periods of the end is so still."""
BEYOND_SHARE = 0.5
"""What was beyond for half of the incident counts, though it is over. This and the two above are
those of the exporters' facts (connectors/vendors/prometheus/exporter_facts.py)."""
Points = Sequence[tuple[datetime, float]]


@dataclass(frozen=True)
class Level:
    """A signal above a threshold, and the fact that it is."""

    signal: str
    above: float
    fact: str
    says: str
    """What a value means; `{}` is the value."""
    is_growth: bool = False
    """Whether it is beyond only where it is also above all that it was before the incident."""


@dataclass(frozen=True)
class WatchedWindows:
    """The windows whose samples are known, the incident, and the period of the samples."""

    sample_window: Window
    incident: Window
    period_s: int


LEVELS = (
    Level("table_rejected_reads", 0, "requests_throttled", "{} reads rejected in one period"),
    Level("table_rejected_writes", 0, "requests_throttled", "{} writes rejected in one period"),
    Level("stream_rejected_writes", 0, "requests_throttled", "{} writes rejected in one period"),
    Level("stream_rejected_reads", 0, "requests_throttled", "{} reads rejected in one period"),
    Level(
        "rejected_executions", 0, "requests_throttled", "{} state transitions held in one period"
    ),
    Level("rejected_invocations", 0, "requests_throttled", "{} invocations rejected in one period"),
    Level("cache_engine_cpu_utilization", 90, "cpu_exhausted", "{} % of its engine's thread"),
    Level("failed_status_checks", 0, "machine_impaired", "{} status checks failed"),
    Level("port_allocation_errors", 0, "ports_exhausted", "{} connections got no port"),
    # Whoever redrives a dead-letter queue empties it; messages that lie there for months are known.
    Level("dead_letter_queue_depth", 0, "dead_letters", "{} messages", is_growth=True),
)


def level_states(
    resource: Resource,
    signals: Mapping[str, Sequence[tuple[Any, ...]]],
    watched: WatchedWindows,
    query: str,
    link: str,
) -> list[StateRow]:
    """A row for each level that a resource's signals are beyond in the incident."""
    rows = []
    for level in LEVELS:
        points = [(row[0], row[3]) for row in signals.get(level.signal, ())]
        beyond = _beyond(level, points, watched.incident)
        start, end = watched.incident.start, watched.incident.end
        times = [at for at, _ in beyond if at >= start]
        if len(times) < LEAST_POINTS:
            holds = False
        else:
            period = timedelta(seconds=watched.period_s)
            is_still = times[-1] >= end - STILL_PERIODS * period
            holds = (
                is_still or len(times) * watched.period_s >= BEYOND_SHARE * watched.incident.seconds
            )
        if not holds:
            continue
        value = max(value for at, value in beyond if at >= watched.incident.start)
        sentence = level.says.replace("{}", number(value, 3))
        since = _since(beyond, watched)
        row = resource_state(
            resource, level.fact, level.signal, sentence, query, since=since, link=link
        )
        rows.append(row)
    return rows


def _beyond(level: Level, points: Points, incident: Window) -> Points:
    threshold = level.above
    if level.is_growth:
        earlier = [value for at, value in points if at < incident.start]
        threshold = max([threshold, *earlier])
    return [(at, value) for at, value in points if value > threshold and at <= incident.end]


def _since(beyond: Points, watched: WatchedWindows) -> datetime | None:
    """When the last stretch beyond began; None where it was so when the samples begin."""
    gap = timedelta(seconds=STILL_PERIODS * watched.period_s)
    began = beyond[-1][0]
    for at, _ in reversed(beyond):
        # A pause of a few periods does not end a stretch.
        if began - at > gap:
            break
        began = at
    return None if began - watched.sample_window.start <= gap else began
