"""The sentence for a case where nothing, or only the past, shows the alerting service's calls."""

from __future__ import annotations

from collections.abc import Sequence

from faultline.analysis.case.calls import ServiceCall
from faultline.analysis.case.folder import Case
from faultline.analysis.requests.case_calls import case_calls
from faultline.analysis.requests.topology import Topology
from faultline.analysis.wording.phrases import plain

DAY_S = 86_400
HOUR_S = 3_600


def unknown_calls(case: Case, service: str | None, graph: Topology) -> str | None:
    """One sentence; None where calls of the service are known, or nobody
    asks for them. `graph` holds besides the known calls those that metrics and failing lines
    name."""
    if service is None or not _matter(case):
        return None
    name = plain(service)
    edges = {edge for edge in graph.edges if service in edge}
    if not edges:
        return f"Who calls {name}, and whom it calls, is not known."
    learned = [call for call in case_calls(case) if call.learned_in and service in call.pair]
    if edges - {call.pair for call in learned}:
        return None
    return (
        f"Who calls {name} and whom it calls is known from earlier investigations alone"
        f"{_age(case, learned)}: it may have changed since."
    )


def _matter(case: Case) -> bool:
    """Whether calls matter, and no gap says already why they are missing."""
    is_training = case.trace_files or case.scope.job or case.alert.job
    return not is_training and not any(gap.kind == "topology" for gap in case.gaps)


def _age(case: Case, calls: Sequence[ServiceCall]) -> str:
    times = [call.last_seen for call in calls if call.last_seen is not None]
    if not times:
        return ""
    return f", last {_ago((case.scope.incident.end - max(times)).total_seconds())} ago"


def _ago(seconds: float) -> str:
    count, unit = round(seconds / DAY_S), "day"
    if seconds < DAY_S:
        count, unit = max(1, round(seconds / HOUR_S)), "hour"
    return f"{count} {unit}{'' if count == 1 else 's'}"
