"""On which node and in which zone pods run, as kube-state-metrics shows it: a bad zone is one thing
that the bad pods of several services share."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.node_names import without_port
from faultline.connectors.vendors.prometheus.promql import (
    LONGEST_MATCHER,
    duration,
    names_pattern,
)
from faultline.connectors.vendors.prometheus.series import PrometheusSelection, PrometheusSeries

PODS, NODES = "kube_pod_info", "kube_node_labels"
ZONE = "label_topology_kubernetes_io_zone"
"""The label of Kubernetes' well-known labels, as kube-state-metrics spells it."""


async def place_parts(
    api: PrometheusApi,
    names: Collection[str],
    selections: Iterable[PrometheusSelection],
    window: Window,
) -> None:
    """Give the series of pods, or of what is scraped at a pod's address, the node and the zone."""
    by_part: dict[str, list[PrometheusSeries]] = defaultdict(list)
    label = "pod_ip"
    for selection in selections:
        for series in selection.series:
            pod = series.metric.get("pod")
            label = "pod" if pod else label
            by_part[pod or without_port(series.metric.get("instance", ""))].append(series)
    pattern = names_pattern(sorted(by_part))
    if PODS not in names or not by_part or len(pattern) > LONGEST_MATCHER:
        return
    pods = f'last_over_time({PODS}{{{label}=~"{pattern}"}}[{duration(round(window.seconds))}])'
    zones = f'group by (node, {ZONE}) ({NODES}{{{ZONE}!=""}})'
    try:
        placed = await api.instant(f"group by ({label}, node) ({pods})", window.end)
        zoned = await api.instant(zones, window.end) if NODES in names else []
    except FaultlineError:
        # Without a place a pod is still a part.
        return
    zone_by_node = {node.metric.get("node"): node.metric.get(ZONE) for node in zoned}
    for pod_info in placed:
        node = pod_info.metric.get("node", "")
        places = {"node": node, "zone": zone_by_node.get(node)}
        for series in by_part.get(pod_info.metric.get(label, ""), ()):
            series.metric.update({name: place for name, place in places.items() if place})
