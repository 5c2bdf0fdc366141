"""Who calls whom, from metrics that name both sides: service graphs of Tempo and the OpenTelemetry
Collector, Istio, Linkerd, Consul and Envoy, and the ingresses nginx and Traefik.

Each metric that exists is asked once, for the calls that there were over the nearest baseline and
the incident.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

from faultline.analysis.case.alert_place import place_labels
from faultline.analysis.errors import FaultlineError
from faultline.analysis.requests.error_origin import peer_name
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.rows.collection_builder import (
    CallRow,
    CollectionBuilder,
    nanoseconds,
    sampled_windows,
)
from faultline.connectors.shared.vendor_text import first_of, short
from faultline.connectors.vendors.prometheus.promql import SERVICE_LABELS, duration, quoted

MOST_CALLS = 5_000
LONGEST = timedelta(hours=6)
"""A longer range than that costs the server more than it tells."""
LONGEST_NAME = 253
"""Of a host name (RFC 1035)."""
NOBODY = frozenset({"", "unknown", "user", "PassthroughCluster", "BlackHoleCluster"})
"""What stands for a side that is not known: Istio's `unknown` and clusters, Tempo's client
`user`."""
_FQDN = re.compile(r"^([a-z0-9-]+)\.[a-z0-9-]+\.svc\b")
_PROVIDER = re.compile(r"@[a-z]+$")

Ask = Callable[[str, Window], Awaitable[Iterable[Mapping[str, str]]]]
"""The labels of each series that an expression has at the end of a window."""
LabelsOf = Callable[[str], Awaitable[Collection[str]]]
LinkTo = Callable[[str], str]


@dataclass(frozen=True)
class CallMetric:
    """A counter of calls. Of the labels that name a side the first that is filled counts; `caller`
    is who calls where no label says it."""

    metric: str
    source: str
    callers: tuple[str, ...]
    callees: tuple[str, ...]
    where: tuple[str, ...] = ()
    caller: str = ""
    callee_is: str = "service"
    """Or `cluster` of Envoy, or `route` of Traefik: a longer name, in which a known service is."""


_ISTIO_CALLERS = ("source_canonical_service", "source_app", "source_workload")
_ISTIO_CALLEES = (
    "destination_service_name",
    "destination_canonical_service",
    "destination_app",
    "destination_workload",
)
_LINKERD = ("deployment", "statefulset", "daemonset")
_LINKERD_CALLEES = ("dst_service", *(f"dst_{kind}" for kind in _LINKERD))

METRICS = (
    CallMetric("traces_service_graph_request_total", "service_graph", ("client",), ("server",)),
    CallMetric("istio_requests_total", "mesh", _ISTIO_CALLERS, _ISTIO_CALLEES),
    CallMetric("istio_tcp_connections_opened_total", "mesh", _ISTIO_CALLERS, _ISTIO_CALLEES),
    CallMetric("response_total", "mesh", _LINKERD, _LINKERD_CALLEES, ('direction="outbound"',)),
    CallMetric(
        "envoy_cluster_upstream_rq_total",
        "mesh",
        ("consul_source_service",),
        ("consul_destination_service",),
    ),
    CallMetric(
        "envoy_cluster_upstream_rq_total",
        "proxy",
        SERVICE_LABELS,
        ("envoy_cluster_name",),
        callee_is="cluster",
    ),
    CallMetric(
        "nginx_ingress_controller_requests",
        "ingress",
        (),
        # Prometheus itself names what it scrapes `service`, and sets the metric's own label aside.
        ("exported_service", "service"),
        caller="ingress-nginx",
    ),
    CallMetric(
        "traefik_service_requests_total",
        "ingress",
        (),
        ("exported_service", "service"),
        caller="traefik",
        callee_is="route",
    ),
)
"""Grafana's page on Tempo's service graphs and the Collector's servicegraphconnector, which has its
names; Istio's standard metrics; Linkerd's proxy metrics; Envoy's statistics of clusters, with the
tags that Consul adds; ingress-nginx's and Traefik's pages on metrics."""


@dataclass(frozen=True)
class CallQuery:
    """What is asked of one metric."""

    of: CallMetric
    promql: str


async def service_calls(
    names: Collection[str],
    scope: Scope,
    place: Mapping[str, str],
    services: Collection[str],
    ask: Ask,
    labels_of: LabelsOf,
    link_to: LinkTo,
) -> CollectionBuilder:
    """The calls that the server's metrics name, in the alert's place. `services` are those that are
    known by their own metrics."""
    builder = CollectionBuilder()
    # From the nearest baseline's start to the incident's end.
    windows = sampled_windows(scope)
    end = scope.incident.end
    start = min(window.start for window in windows)
    window = Window(start=max(start, end - LONGEST), end=end)
    metrics = [metric for metric in METRICS if metric.metric in names]
    service_names = {*services, *scope.services}

    async def collect_calls(metric: CallMetric) -> None:
        labels = await labels_of(metric.metric)
        query = query_of(metric, labels, place, window)
        if query is None:
            return
        try:
            series = await ask(query.promql, window)
        except FaultlineError as error:
            builder.missing.append(Missing("topology", query.promql, str(error)))
            return
        calls = list(dict.fromkeys(calls_of(metric, series, service_names)))
        link = link_to(query.promql)
        observed_nanoseconds = nanoseconds(window.end)
        rows = [
            CallRow(*pair, query.of.source, observed_nanoseconds) for pair in calls[:MOST_CALLS]
        ]
        cut = None
        if len(calls) > MOST_CALLS:
            cut = f"{len(calls) - MOST_CALLS} of {len(calls)} left out"
        count = builder.add("topology", rows)
        builder.items.append(Item("topology", query.promql, window, link, rows=count, cut=cut))

    await asyncio.gather(*(collect_calls(metric) for metric in metrics))
    return builder


def query_of(
    metric: CallMetric, labels: Collection[str], place: Mapping[str, str], window: Window
) -> CallQuery | None:
    """The query for a metric that carries these labels; None where they do not name both sides."""
    callers = [label for label in metric.callers if label in labels]
    callees = [label for label in metric.callees if label in labels]
    if not callees or not (callers or metric.caller):
        return None
    matchers = [*metric.where]
    for label, value in place_labels(place, labels).items():
        matchers.append(f'{label}="{quoted(value)}"')
    where = f"{{{','.join(matchers)}}}" if matchers else ""
    sides = ", ".join((*callers, *callees))
    over = duration(round(window.seconds))
    # A counter of a call that nobody made any more is still there.
    promql = f"sum by ({sides}) (increase({metric.metric}{where}[{over}])) > 0"
    return CallQuery(metric, promql)


def calls_of(
    metric: CallMetric, series: Iterable[Mapping[str, str]], service_names: Collection[str]
) -> Iterator[tuple[str, str]]:
    """Caller and callee of each series that names two services."""
    for labels in series:
        caller = metric.caller or _side(labels, metric.callers, service_names)
        callee = _side(labels, metric.callees, service_names, metric.callee_is)
        if caller and callee and caller != callee:
            yield caller, callee


def _side(
    labels: Mapping[str, str],
    names: Sequence[str],
    service_names: Collection[str],
    named: str = "service",
) -> str | None:
    peer_labels = {name: labels[name] for name in names if labels.get(name, "") not in NOBODY}
    name = first_of(peer_labels, names)
    if name is None:
        return None
    name = short(name[: 2 * LONGEST_NAME], LONGEST_NAME)
    if named == "cluster":
        # The service of Envoy's cluster: Istio's `outbound|9080||reviews.shop.svc.cluster.local`,
        # or a known service's name. Others are the proxy's own, such as `xds_cluster`.
        if name in service_names:
            return name
        # Inbound clusters lead to the service beside the proxy.
        host = name.rpartition("|")[2] if name.startswith("outbound|") else name
        inside = _FQDN.match(host)
        return inside[1] if inside else None
    if named == "route":
        return _of_route(name, service_names)
    return peer_name(name, service_names)


def _of_route(name: str, service_names: Collection[str]) -> str | None:
    """The service of Traefik's `shop-cart-7070@kubernetes` or `cart@docker`: a known one, since
    namespaces and services may have hyphens."""
    route = _PROVIDER.sub("", name)
    if route in service_names:
        return route
    inside = [service_name for service_name in service_names if f"-{service_name}-" in f"-{route}-"]
    longest = sorted(inside, key=lambda service_name: (-len(service_name), service_name))
    return longest[0] if longest else None
