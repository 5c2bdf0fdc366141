"""What is said where nothing, or nothing but the past, tells whom the alerting service calls."""

from __future__ import annotations

from analysis.case.folder import Case
from analysis.requests.known_calls import known_calls
from analysis.requests.topology import Topology
from analysis.wording.phrases import plain

DAY_S = 86_400
HOUR_S = 3_600


def unknown_calls(case: Case, service: str | None, graph: Topology) -> str | None:
    """One sentence with what to do about it; None where calls of the service are known, or nobody
    asks for them. `graph` holds besides the known calls those that metrics and failing lines
    name."""
    if service is None or case.trace_files or case.scope.job or case.alert.job:
        return None
    # The gap says it already, and why.
    if any(gap.kind == "topology" for gap in case.gaps):
        return None
    name = plain(service)
    own = [edge for edge in graph.edges if service in edge]
    if not own:
        return (
            f"Who calls {name} and whom it calls is not known: set its depends_on in the settings, "
            "or connect traces or the metrics of a service graph."
        )
    calls = [call for call in known_calls(case) if service in call.pair]
    learned = {call.pair for call in calls if call.learned_in is not None}
    if not set(own) <= learned:
        return None
    seen = [call.last_seen for call in calls if call.last_seen is not None]
    age = ""
    if seen:
        age = f", last {_ago((case.scope.incident.end - max(seen)).total_seconds())} ago"
    return (
        f"Who calls {name} and whom it calls is known from earlier investigations alone{age}: it "
        "may have changed since."
    )


def _ago(seconds: float) -> str:
    count, unit = round(seconds / DAY_S), "day"
    if seconds < DAY_S:
        count, unit = max(1, round(seconds / HOUR_S)), "hour"
    return f"{count} {unit}{'' if count == 1 else 's'}"
