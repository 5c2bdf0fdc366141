"""Where services answer, by the metrics of a server: addresses of Services and pods, hosts of
Ingresses, and in which namespaces a service of one name runs.

The metrics are those of kube-state-metrics (its pages on services, pods and ingresses), and
Prometheus' own `up`, which carries the labels of every target.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from faultline.analysis.case.addresses import AddressBook
from faultline.analysis.case.alert_place import namespace_of
from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.place_names import NAMESPACE_LABELS
from faultline.analysis.vocabulary import Alert, Window
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.promql import SERVICE_LABELS, names_pattern
from faultline.connectors.vendors.prometheus.service_calls import CallAnswer

_NAMESPACE_LABELS = tuple(label for label in NAMESPACE_LABELS if "." not in label)
"""Those that PromQL can name."""
MOST_ADDRESSES = 200
_HOST = re.compile(
    r"^(?:[a-z][a-z0-9+.-]*:///?)?(?:\[?([0-9a-f:.]+)\]?|([\w-]+(?:\.[\w-]+)+))(?::\d+)?(?:/.*)?$"
)
_REPLICA_SET = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{6,10}$")
"""What Kubernetes adds to the name of a Deployment (apimachinery, util/rand: no vowels)."""


async def address_book(
    api: PrometheusApi,
    names: Collection[str],
    alert: Alert,
    services: Collection[str],
    answers: Iterable[CallAnswer],
    span: Window,
    aliases: Mapping[str, str],
) -> AddressBook:
    """The services that are known, and where they answer; `aliases` are the catalogue's, in small
    letters."""
    namespace = namespace_of(alert)
    matches = [_HOST.match(callee.lower()) for answer in answers for callee in answer.callees]
    addresses = sorted({match[1] or match[2] for match in matches if match})[:MOST_ADDRESSES]
    hosts, namespaces = await asyncio.gather(
        services_by_host(api, names, addresses, span),
        namespaces_of(api, names, namespace, span),
    )
    return AddressBook(frozenset(services), {**hosts, **aliases}, namespace, namespaces)


async def services_by_host(
    api: PrometheusApi, names: Collection[str], addresses: Sequence[str], span: Window
) -> dict[str, str]:
    """The services behind addresses and hosts, as far as kube-state-metrics tells."""
    if not addresses:
        return {}
    pattern = names_pattern(addresses)
    hosts: dict[str, str] = {}
    for metric, label in (
        # In order of preference: an address of a load balancer may be shared by Services.
        ("kube_pod_info", "pod_ip"),
        ("kube_service_info", "cluster_ip"),
        ("kube_ingress_path", "host"),
        ("kube_service_status_load_balancer_ingress", "ip"),
        ("kube_service_status_load_balancer_ingress", "hostname"),
    ):
        if metric not in names:
            continue
        services: dict[str, set[str]] = {}
        for labels in await _series(api, f'{metric}{{{label}=~"{pattern}"}}', span):
            # Prometheus sets labels aside that its target has as well.
            names_of = ("service_name", "exported_service", "service")
            service = next((labels[name] for name in names_of if labels.get(name)), "")
            if metric == "kube_pod_info":
                service = _REPLICA_SET.sub("", labels.get("created_by_name", ""))
            services.setdefault(labels[label].lower(), set()).add(service)
        for address, there in services.items():
            # Two Ingresses of one host, or pods in the host's network: nobody's alone.
            if len(there) == 1:
                hosts.setdefault(address, there.pop())
    hosts.pop("", None)
    return {host: service for host, service in hosts.items() if service}


async def namespaces_of(
    api: PrometheusApi, names: Collection[str], namespace: str, span: Window
) -> dict[str, set[str]]:
    """By service, the namespaces in which it is scraped. Nobody asks where the alert names none."""
    if not namespace:
        return {}
    by = ", ".join((*_NAMESPACE_LABELS, *SERVICE_LABELS))
    namespaces: dict[str, set[str]] = {}
    for metric in ("up", "target_info"):
        if metric not in names:
            continue
        for labels in await _series(api, f"group by ({by}) ({metric})", span):
            space = next((labels[name] for name in _NAMESPACE_LABELS if labels.get(name)), "")
            for label in SERVICE_LABELS:
                name = labels.get(label, "")
                in_job, _, name = name.rpartition("/")
                if name and (space or in_job):
                    namespaces.setdefault(name, set()).add(in_job or space)
    return namespaces


async def _series(api: PrometheusApi, promql: str, span: Window) -> list[Mapping[str, str]]:
    """The labels of a query's series; none where it fails: names then stay as they are."""
    try:
        return [series.metric for series in await api.instant(promql, span.end)]
    except FaultlineError:
        return []
