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
from faultline.connectors.vendors.prometheus.promql import SERVICE_LABELS, names_pattern
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
    requested_nodes = dict(sorted(nodes.items())[:MOST_NODES])
    if not requested_nodes or not services:
        return {}
    try:
        if PODS in names:
            there = f'node=~"{names_pattern(requested_nodes)}"'
            instant = await api.instant(f"count by (node, pod) ({PODS}{{{there}}})", at)
            return _by_node(instant, {name: name for name in requested_nodes}, ("pod",), services)
        labels = tuple(dict.fromkeys((service_label, *SERVICE_LABELS)))
        # With any port: exporter and service of one machine have different ones.
        there = rf'instance=~"(?:{names_pattern(requested_nodes.values())})(?::\\d+)?"'
        instant = await api.instant(f"count by (instance, {', '.join(labels)}) (up{{{there}}})", at)
    except FaultlineError:
        return {}
    by_address = {address: name for name, address in requested_nodes.items()}
    return _by_node(instant, by_address, labels, services)


def _by_node(
    instant_series: Iterable[InstantSeries],
    nodes: Mapping[str, str],
    labels: Sequence[str],
    services: Collection[str],
) -> Mapping[str, Collection[str]]:
    """`nodes` are the names by what the series call them, `labels` name what runs there."""
    running: dict[str, set[str]] = defaultdict(set)
    for series in instant_series:
        called = series.metric.get("node") or without_port(series.metric.get("instance", ""))
        service = service_in(_first(series.metric, labels), services)
        if service is not None and called in nodes:
            running[nodes[called]].add(service)
    return running


def _first(metric: Mapping[str, str], labels: Iterable[str]) -> str:
    for label in labels:
        if metric.get(label):
            return metric[label]
    return ""
