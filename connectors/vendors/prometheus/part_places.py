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
    """Give the series of pods, or of what is scraped at a pod's name or address, the node and the
    zone."""
    by_part: dict[str, list[PrometheusSeries]] = defaultdict(list)
    for selection in selections:
        for series in selection.series:
            part = series.metric.get("pod") or without_port(series.metric.get("instance", ""))
            by_part[part].append(series)
    pattern = names_pattern(sorted(by_part))
    if PODS not in names or not by_part or len(pattern) > LONGEST_MATCHER:
        return
    # Where its target has such labels too, Prometheus renames the exporter's (`honor_labels`).
    by = "pod, exported_pod, pod_ip, node, exported_node"
    over = duration(round(window.seconds))
    pods = " or ".join(
        f'last_over_time({PODS}{{{label}=~"{pattern}"}}[{over}])'
        for label in ("pod", "exported_pod", "pod_ip")
    )
    zones = (
        f'group by (node, exported_node, {ZONE}) (last_over_time({NODES}{{{ZONE}!=""}}[{over}]))'
    )
    try:
        placed = await api.instant(f"group by ({by}) ({pods})", window.end)
        zoned = await api.instant(zones, window.end) if NODES in names else []
    except FaultlineError:
        # Without a place a pod is still a part.
        return
    zone_by_node = {
        node.metric.get("exported_node", node.metric.get("node", "")): node.metric[ZONE]
        for node in zoned
    }
    for labels in (pod_info.metric for pod_info in placed):
        name = labels.get("exported_node", labels.get("node", ""))
        places = {"node": name}
        if name in zone_by_node:
            places["zone"] = zone_by_node[name]
        pod = labels.get("exported_pod", labels.get("pod", ""))
        for series in (*by_part.get(pod, ()), *by_part.get(labels.get("pod_ip", ""), ())):
            series.metric.update(places)
