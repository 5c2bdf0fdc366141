"""Which services run on a node: by kube-state-metrics' pods, else by what is scraped at the node's
address."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime

from faultline.analysis.errors import FaultlineError
from faultline.connectors.vendors.prometheus.exporter_facts import service_in
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.node_names import without_port
from faultline.connectors.vendors.prometheus.promql import SERVICE_LABELS, one_of
from faultline.connectors.vendors.prometheus.series import InstantSeries

PODS = "kube_pod_info"
MOST_NODES = 20


async def running_services(
    api: PrometheusApi,
    names: Collection[str],
    nodes: Mapping[str, str],
    services: Collection[str],
    service_label: str,
    at: datetime,
) -> Mapping[str, Collection[str]]:
    """The known services on each of these nodes, given with their addresses; none where the server
    cannot say."""
    wanted = dict(sorted(nodes.items())[:MOST_NODES])
    if not wanted or not services:
        return {}
    try:
        if PODS in names:
            there = f'node=~"{one_of(wanted)}"'
            found = await api.instant(f"count by (node, pod) ({PODS}{{{there}}})", at)
            return _by_node(found, {name: name for name in wanted}, ("pod",), services)
        labels = tuple(dict.fromkeys((service_label, *SERVICE_LABELS)))
        there = rf'instance=~"(?:{one_of(wanted.values())})(?::\\d+)?"'
        found = await api.instant(f"count by (instance, {', '.join(labels)}) (up{{{there}}})", at)
    except FaultlineError:
        return {}
    by_address = {address: name for name, address in wanted.items()}
    return _by_node(found, by_address, labels, services)


def _by_node(
    found: Iterable[InstantSeries],
    nodes: Mapping[str, str],
    labels: Sequence[str],
    services: Collection[str],
) -> Mapping[str, Collection[str]]:
    """`nodes` are the names by what the series call them, `labels` name what runs there."""
    running: dict[str, set[str]] = defaultdict(set)
    for series in found:
        called = series.metric.get("node") or without_port(series.metric.get("instance", ""))
        own = service_in(_first(series.metric, labels), services)
        if own is not None and called in nodes:
            running[nodes[called]].add(own)
    return running


def _first(metric: Mapping[str, str], labels: Iterable[str]) -> str:
    for label in labels:
        if metric.get(label):
            return metric[label]
    return ""
