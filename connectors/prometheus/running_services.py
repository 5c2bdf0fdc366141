"""Which services run on a node: by kube-state-metrics' pods, else by what is scraped at the node's
address."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

from analysis.errors import FaultlineError
from connectors.prometheus.exporter_facts import service_in
from connectors.prometheus.http_api import PrometheusApi
from connectors.prometheus.promql import SERVICE_LABELS, one_of

PODS = "kube_pod_info"
MOST_NODES = 20


async def running_services(
    api: PrometheusApi,
    names: Collection[str],
    nodes: Iterable[str],
    services: Collection[str],
    service_label: str,
    at: datetime,
) -> Mapping[str, Collection[str]]:
    """The known services on each of these nodes; none where the server cannot say."""
    wanted = sorted(set(nodes))[:MOST_NODES]
    if not wanted or not services:
        return {}
    labels = list(dict.fromkeys((service_label, *SERVICE_LABELS)))
    if PODS in names:
        query = f'count by (node, pod) ({PODS}{{node=~"{one_of(wanted)}"}})'
        labels = ["pod"]
    else:
        there = rf'instance=~"(?:{one_of(wanted)})(?::\\d+)?"'
        query = f"count by (instance, {', '.join(labels)}) (up{{{there}}})"
    try:
        found = await api.instant(query, at)
    except FaultlineError:
        return {}
    running: dict[str, set[str]] = defaultdict(set)
    for series in found:
        node = series.metric.get("node") or re.sub(r":\d+$", "", series.metric.get("instance", ""))
        name = next((series.metric[label] for label in labels if series.metric.get(label)), "")
        own = service_in(name, services)
        if own is not None:
            running[node].add(own)
    return running
