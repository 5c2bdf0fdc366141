"""Calls between services as an investigation knows them, calls.json: what the pages draw and what
is remembered for later investigations.

It is written with the findings; replaying a case writes it again.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from faultline.analysis.vocabulary import Frozen, UtcTime

CALLS_FILE = "calls.json"
MOST_WRITTEN = 5_000
"""Calls of one case: as many as Jaeger's dependencies may bring."""

CATALOGUE = "catalogue"
SPANS = "spans"
CLIENT_SPANS = "client_spans"
METRIC_LABELS = "metric_labels"
NOT_RECORDED = "not recorded"
"""Of a table that was written without sources."""
SOURCE_WORDS = {
    CATALOGUE: "service catalogue",
    SPANS: "spans",
    CLIENT_SPANS: "addresses in client spans",
    METRIC_LABELS: "labels of metrics",
    "service_graph": "service graph metrics",
    "mesh": "service mesh metrics",
    "proxy": "proxy metrics",
    "ingress": "ingress",
    "jaeger": "Jaeger's dependencies",
    "datadog": "Datadog's software catalog",
    "xray": "X-Ray's service graph",
    "kubernetes": "Kubernetes objects",
}
"""What a source is called in a sentence."""


class ServiceCall(Frozen):
    """Caller and callee, and who tells of it.

    `learned_in` is the investigation that learned it, where nothing collected now tells of it.
    """

    caller: str
    callee: str
    sources: tuple[str, ...]
    last_seen: UtcTime | None = None
    learned_in: str | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Caller and callee."""
        return self.caller, self.callee

    @property
    def source_words(self) -> str:
        """Its sources, as a person reads them."""
        return ", ".join(SOURCE_WORDS.get(source, source) for source in self.sources)


class CallList(Frozen):
    """The content of calls.json. `place` is the environment, cluster and region that the alert
    names."""

    place: Mapping[str, str] = Field(default_factory=dict)
    calls: tuple[ServiceCall, ...] = ()
