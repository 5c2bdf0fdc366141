"""Calls between services as an investigation knows them, calls.json: what the pages draw and what
is remembered for later investigations.

It is written with the findings; replaying a case writes it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import Field

from faultline.analysis.vocabulary import Frozen, UtcTime

CALLS_FILE = "calls.json"
MOST_WRITTEN = 5_000
"""Calls of one case: as many as Jaeger's dependencies may bring."""

CATALOGUE = "catalogue"
SPANS = "spans"
CLIENT_SPANS = "client_spans"
LOG_LINES = "log_lines"
METRIC_LABELS = "metric_labels"
NETWORK_POLICIES = "network_policies"
NOT_RECORDED = "not recorded"
"""Of a table that was written without sources."""
SOURCES: Mapping[str, tuple[str, float]] = {
    SPANS: ("spans", 1.0),
    "service_graph": ("service graph metrics", 0.95),
    "mesh": ("service mesh metrics", 0.95),
    "network": ("network metrics", 0.95),
    "jaeger": ("Jaeger's dependencies", 0.95),
    "xray": ("X-Ray's service graph", 0.95),
    CATALOGUE: ("service catalogue", 0.9),
    NOT_RECORDED: (NOT_RECORDED, 0.9),
    "client_metrics": ("metrics of clients", 0.9),
    "broker": ("the broker's consumers", 0.9),
    "proxy": ("proxy metrics", 0.9),
    "ingress": ("ingress", 0.9),
    "database": ("connections to the database", 0.9),
    "datadog": ("Datadog's software catalog", 0.9),
    "database_users": ("users of the database", 0.8),
    CLIENT_SPANS: ("addresses in client spans", 0.8),
    "kubernetes": ("Kubernetes objects", 0.8),
    LOG_LINES: ("failing log lines", 0.6),
    METRIC_LABELS: ("labels of metrics", 0.5),
    NETWORK_POLICIES: ("network policies", 0.5),
}
"""What a source is called in a sentence, and how certain a call is that it alone reports: what was
seen to happen is certain, what is declared may have changed, what is allowed need not happen."""
UNKNOWN_SOURCE = 0.5


def certainty_of(sources: Iterable[str]) -> float:
    """How certain a call is that these sources report: as certain as the best of them."""
    return max(
        (SOURCES[source][1] for source in sources if source in SOURCES), default=UNKNOWN_SOURCE
    )


class ServiceCall(Frozen):
    """Caller and callee, and who tells of it.

    `learned_in` is the investigation that learned it, where nothing collected now tells of it.
    `certainty` is in [0, 1]: how sure it is that the one calls the other.
    """

    caller: str
    callee: str
    sources: tuple[str, ...]
    last_seen: UtcTime | None = None
    learned_in: str | None = None
    certainty: float = 1.0

    @property
    def pair(self) -> tuple[str, str]:
        """Caller and callee."""
        return self.caller, self.callee

    @property
    def source_words(self) -> str:
        """Its sources, as a person reads them."""
        return ", ".join(SOURCES[name][0] if name in SOURCES else name for name in self.sources)


class CallList(Frozen):
    """The content of calls.json. `place` is the environment, cluster and region that the alert
    names."""

    place: Mapping[str, str] = Field(default_factory=dict)
    calls: tuple[ServiceCall, ...] = ()
