"""The metrics that name both sides of a call, under the names and labels of meshes, proxies,
service graphs and clients.

Meshes, proxies and service graphs have fixed names. Clients do not: any counter or histogram of
calls counts that has a label for the other side, whatever its prefix and suffix.

Names and labels are those of each project's documentation: Tempo's service graphs and the
Collector's servicegraphconnector; Istio's standard metrics; Linkerd's proxy metrics; Envoy's
statistics of clusters, with the tags that Consul adds; Hubble's `httpV2`; Beyla's network metrics;
ingress-nginx's and Traefik's pages on metrics; OpenTelemetry's semantic conventions of HTTP, RPC
and database clients, former and stable, and of messaging; Micrometer's binders, that of Kafka's
clients among them; kafka_exporter; go-grpc-prometheus; gRPC's A66.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.promql import SERVICE_LABELS, selector, spelt
from faultline.connectors.vendors.prometheus.request_metrics import (
    MS,
    SECONDS,
    RequestSource,
)
from faultline.connectors.vendors.prometheus.templates import Matcher, is_plain

CLIENT_METRICS = "client_metrics"


@dataclass(frozen=True)
class CallMetric:
    """A metric of calls. Of the labels that name a side the first that is filled counts; `caller`
    is who calls where no label says it."""

    metric: str
    source: str
    callers: tuple[str, ...]
    callees: tuple[str, ...]
    where: tuple[Matcher, ...] = ()
    caller: str = ""
    callee_is: Literal["service", "cluster", "route"] = "service"
    """Or a longer name in which a known service is: of Envoy's cluster, of Traefik's route."""
    caller_namespaces: tuple[str, ...] = ("namespace", "k8s_namespace_name")
    callee_namespaces: tuple[str, ...] = ()
    is_gauge: bool = False
    is_native: bool = False
    """Whether it is a native histogram."""
    figures: RequestSource | None = None
    """Rate, failures and durations of the calls, as the caller measures them."""
    marked_by: str = ""
    """The label without which it is another metric of the same name."""
    queue: Literal["", "caller", "callee"] = ""
    """The side that is a queue or a topic: its name is no address. Messages flow from the producer
    through the queue to the consumer, as calls do."""


CLIENTS = ("service_name", "exported_job", *SERVICE_LABELS)
"""Labels of a client: those of OpenTelemetry come first."""
_ISTIO_CALLERS = ("source_canonical_service", "source_app", "source_workload")
_ISTIO_CALLEES = (
    "destination_service_name",
    "destination_canonical_service",
    "destination_app",
    "destination_workload",
)
_ISTIO_NAMESPACES = (
    ("source_workload_namespace",),
    (
        "destination_service_namespace",
        "destination_workload_namespace",
    ),
)
_LINKERD = ("deployment", "statefulset", "daemonset")
_LINKERD_CALLEES = ("dst_service", *(f"dst_{kind}" for kind in _LINKERD))
_QUEUES = ("messaging_destination_name", "topic")
_FROM_THE_CALLER: Matcher = ("reporter", "source")
_OF_CLIENT: Matcher = ("span_kind", "SPAN_KIND_CLIENT")
_OUTBOUND: Matcher = ("direction", "outbound")

FIXED = (
    CallMetric(
        "traces_service_graph_request_total",
        "service_graph",
        ("client",),
        ("server",),
        figures=RequestSource(
            "traces_service_graph_request_total",
            failed_counter="traces_service_graph_request_failed_total",
            histogram="traces_service_graph_request_client_seconds",
        ),
    ),
    CallMetric(
        "istio_requests_total",
        "mesh",
        _ISTIO_CALLERS,
        _ISTIO_CALLEES,
        caller_namespaces=_ISTIO_NAMESPACES[0],
        callee_namespaces=_ISTIO_NAMESPACES[1],
        figures=RequestSource(
            "istio_requests_total",
            histogram="istio_request_duration_milliseconds",
            to_ms=MS,
            matchers=(_FROM_THE_CALLER,),
            marked_by="reporter",
        ),
    ),
    CallMetric(
        "istio_tcp_connections_opened_total",
        "mesh",
        _ISTIO_CALLERS,
        _ISTIO_CALLEES,
        caller_namespaces=_ISTIO_NAMESPACES[0],
        callee_namespaces=_ISTIO_NAMESPACES[1],
    ),
    CallMetric(
        "response_total",
        "mesh",
        _LINKERD,
        _LINKERD_CALLEES,
        where=(_OUTBOUND,),
        marked_by="direction",
        callee_namespaces=("dst_namespace",),
        figures=RequestSource(
            "response_total",
            'classification="failure"',
            "response_latency_ms",
            MS,
            matchers=(_OUTBOUND,),
            marked_by="direction",
        ),
    ),
    # Linkerd's own name for it where responses are not scraped.
    CallMetric(
        "request_total",
        "mesh",
        _LINKERD,
        _LINKERD_CALLEES,
        where=(_OUTBOUND,),
        marked_by="direction",
        callee_namespaces=("dst_namespace",),
    ),
    CallMetric(
        "outbound_http_route_backend_response_statuses_total",
        "mesh",
        _LINKERD,
        ("backend_name", "parent_name"),
        callee_namespaces=("backend_namespace", "parent_namespace"),
    ),
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
        figures=RequestSource(
            "envoy_cluster_upstream_rq_xx",
            'envoy_response_code_class="5"',
            "envoy_cluster_upstream_rq_time",
            MS,
        ),
    ),
    CallMetric(
        "hubble_http_requests_total",
        "network",
        ("source_workload", "source_app", "source"),
        ("destination_workload", "destination_app", "destination"),
        caller_namespaces=("source_namespace",),
        callee_namespaces=("destination_namespace",),
        figures=RequestSource(
            "hubble_http_requests_total", histogram="hubble_http_request_duration_seconds"
        ),
    ),
    # Without the direction a response is a flow like a request.
    CallMetric(
        "beyla_network_flow_bytes_total",
        "network",
        ("k8s_src_owner_name",),
        ("k8s_dst_owner_name",),
        where=(("direction", "request"),),
        marked_by="direction",
        caller_namespaces=("k8s_src_namespace",),
        callee_namespaces=("k8s_dst_namespace",),
    ),
    CallMetric(
        "nginx_ingress_controller_requests",
        "ingress",
        (),
        # Prometheus itself names what it scrapes `service`, and sets the metric's own label aside.
        ("exported_service", "service"),
        caller="ingress-nginx",
        callee_namespaces=("exported_namespace",),
    ),
    CallMetric(
        "traefik_service_requests_total",
        "ingress",
        (),
        ("exported_service", "service"),
        caller="traefik",
        callee_is="route",
    ),
    # The pool is named for what it connects to, unless the application names it.
    CallMetric(
        "db_client_connection_count",
        CLIENT_METRICS,
        CLIENTS,
        ("server_address", "db_client_connection_pool_name"),
        is_gauge=True,
    ),
    CallMetric(
        "db_client_connections_usage",
        CLIENT_METRICS,
        CLIENTS,
        ("server_address", "pool_name"),
        is_gauge=True,
    ),
    CallMetric(
        "go_sql_open_connections", CLIENT_METRICS, SERVICE_LABELS, ("db_name",), is_gauge=True
    ),
    CallMetric(
        "go_sql_in_use_connections", CLIENT_METRICS, SERVICE_LABELS, ("db_name",), is_gauge=True
    ),
    CallMetric(
        "kafka_consumergroup_current_offset",
        "broker",
        ("topic",),
        ("consumergroup",),
        queue="caller",
    ),
    *(
        CallMetric(metric, CLIENT_METRICS, CLIENTS, _QUEUES, queue="callee")
        for metric in (
            "messaging_client_sent_messages_total",
            "messaging_publish_messages_total",
            "kafka_producer_topic_record_send_total",
        )
    ),
    *(
        CallMetric(metric, CLIENT_METRICS, _QUEUES, CLIENTS, queue="caller")
        for metric in (
            "messaging_client_consumed_messages_total",
            "messaging_process_messages_total",
            "kafka_consumer_fetch_manager_records_consumed_total",
        )
    ),
)
"""By their names."""

NAMES_THE_OTHER_SIDE = (
    "peer_service",
    "server_address",
    "net_peer_name",
    "destination_service_name",
    "destination_service",
    "target_service",
    "upstream_service",
    "remote_service",
    "callee",
    "upstream",
    "target_host",
)
"""Labels that name the callee wherever a client's metric has them, the most telling first:
OpenTelemetry's conventions, and what services call it that name it themselves."""
MAY_NAME_THE_OTHER_SIDE = (
    *("client_name", "clientName", "remote", "target", "grpc_target"),
    *("host", "url", "uri", "db_name", "db_namespace", "db_client_connection_pool_name"),
    "pool_name",
)
"""Labels that name the callee only where their value is an address of a known service, or a host
name: `host` may be the caller's own, and `uri` a path."""
INTERFACES = ("rpc_service", "grpc_service", "rpc_method")
"""Labels that name the interface that is called."""
_IS_SERVER = re.compile(r"(^|_)(server|inbound|receiver)(_|$)")
_IS_CLIENT = re.compile(
    r"(^|_)(clients?|outbound|outgoing|egress|okhttp|httpclient|feign|webclient|downstream|upstream"
    r"|dependency|external|driver|lettuce|jedis)(_|$)"
)
_COUNTS_CALLS = re.compile(
    r"(^|_)(requests?|calls?|handled|completed|operations?|commands?|rpcs?)_"
)
_NO_CALLS = re.compile(
    r"(^|_)(started|retr\w+|bytes|size|msg|messages?|pool|connections?|errors?|failed|failures?"
    r"|timeouts?|exceptions?|blocked|in_flight|active|wait|created|flow|rcvd|sent)(_|$)"
)
_TAKES_TIME = re.compile(
    r"(^|_)(duration|latency|elapsed|time|handling|completion|seconds|milliseconds|ms)(_|$)"
)
_IN_MS = re.compile(r"_(milliseconds|ms|millis)$|(^|_)(http|rpc|db)_client_duration$")
"""OpenTelemetry's former conventions measure in milliseconds, and name the unit only where the
exporter adds it."""
_SUFFIX = re.compile(r"_(total|count|sum|bucket)$")
_IS_OTEL = re.compile(r"(^|_)(http|rpc|db|messaging)_client_")
_FAILED = (
    # gRPC's own numbers of the codes below.
    ("rpc_grpc_status_code", 'rpc_grpc_status_code=~"2|4|8|13|14|15"'),
    # Stable conventions set it for whatever failed, on clients also for statuses of 4xx.
    ("error_type", 'error_type=~"5..|[^0-9].*"'),
)
_CLIENT_FAILED = (
    '{status}=~"5..|CLIENT_ERROR|IO_ERROR|ERROR|UNKNOWN|DEADLINE_EXCEEDED|RESOURCE_EXHAUSTED'
    "|INTERNAL|UNAVAILABLE|DATA_LOSS|Unknown|DeadlineExceeded|ResourceExhausted|Internal"
    '|Unavailable|DataLoss"'
)
"""HTTP statuses, Micrometer's words for calls without an answer, gRPC's codes in both
spellings."""
MOST_LABELS = 3
"""A metric that names a callee in more ways says it best in the first ones."""
MOST_FAMILIES = 24
"""Of metrics whose names merely look like those of clients."""


async def client_metrics(
    api: PrometheusApi, names: Collection[str], spans: Sequence[Window]
) -> list[CallMetric]:
    """The metrics of clients on a server: those whose labels name the other side."""
    fixed = {metric.metric for metric in FIXED}
    candidates = {}
    for stem, spelling in _stems(names).items():
        if _IS_CLIENT.search(stem) and not stem.startswith("envoy_") and spelling not in fixed:
            candidates[stem] = spelling
    matches = [f'{{{label}!=""}}' for label in NAMES_THE_OTHER_SIDE[:3]]
    try:
        labelled = await api.values_of("__name__", spans, matches)
    # The names that look like those of clients are asked all the same.
    except FaultlineError:
        labelled = []
    for name in labelled:
        stem = _SUFFIX.sub("", _plain(name))
        if stem in (stems := _stems([name])) and name not in fixed:
            candidates.setdefault(stem, stems[stem])
    chosen = dict(sorted(candidates.items())[:MOST_FAMILIES])

    async def labels_of(spelling: str) -> list[str]:
        try:
            return await api.labels_of([selector(spelling)], spans)
        # Without labels this metric is left out. The others stand.
        except FaultlineError:
            return []

    label_lists = await asyncio.gather(*(labels_of(spelling) for spelling in chosen.values()))
    metrics = []
    for (stem, spelling), labels in zip(chosen.items(), label_lists, strict=True):
        metric = client_metric(stem, spelling, names, spelt(labels))
        if metric is not None:
            metrics.append(metric)
    return metrics


def _plain(name: str) -> str:
    return name if is_plain(name) else re.sub(r"[^a-zA-Z0-9_:]", "_", name)


def _stems(names: Collection[str]) -> dict[str, str]:
    """Families of calls by the name without its suffix, with the name that counts the calls."""
    stems: dict[str, str] = {}
    # `..._count` sorts after `..._bucket`: of a histogram it is what counts.
    for name in sorted(names):
        plain = _plain(name)
        stem = _SUFFIX.sub("", plain)
        if plain.endswith(("_sum", "_bucket")) or _IS_SERVER.search(stem) or _NO_CALLS.search(stem):
            continue
        is_timed = bool(_TAKES_TIME.search(stem))
        if (plain.endswith("_count") and is_timed) or (
            plain.endswith("_total") and _COUNTS_CALLS.search(f"{stem}_")
        ):
            stems[stem] = name
        # A native histogram has no suffix; a summary's quantiles stand beside its count.
        elif plain == stem and is_timed and not plain.endswith("_max"):
            stems.setdefault(stem, name)
    return stems


def client_metric(
    stem: str, counter: str, names: Collection[str], labels: Mapping[str, str]
) -> CallMetric | None:
    """The metric of a family, `stem`, whose calls `counter` counts and which carries these labels
    (as they are spelt, by their plain names); None where none of them names a callee."""
    names_callee = (*NAMES_THE_OTHER_SIDE, *MAY_NAME_THE_OTHER_SIDE, *INTERFACES)
    # Only the stable convention has the interface in `rpc_method`.
    left_out = () if stem.startswith("rpc_client_call") else ("rpc_method",)
    callees = [label for label in names_callee if label in labels and label not in left_out]
    if not callees:
        return None
    where: tuple[Matcher, ...] = (_OF_CLIENT,) if "span_kind" in labels else ()
    failed = next((text for label, text in _FAILED if label in labels), _CLIENT_FAILED)
    plain = _plain(counter)
    is_native = _SUFFIX.search(plain) is None
    is_timed = is_native or plain.endswith("_count")
    return CallMetric(
        counter,
        CLIENT_METRICS,
        CLIENTS,
        tuple(callees[:MOST_LABELS]),
        where,
        figures=RequestSource(
            counter="" if is_native else plain,
            failed=failed,
            histogram=stem if is_timed else "",
            to_ms=MS if _IN_MS.search(stem) else SECONDS,
            matchers=where,
            named_by=CLIENTS[:2] if _IS_OTEL.search(stem) else CLIENTS[:1],
            # Without the label `service_name` the service is in `job`, after its namespace.
            name_pattern=r"(?:.*/)?(.+)",
            has_buckets=is_native or _SUFFIX.sub("_bucket", counter) in names,
        ),
        is_native=is_native,
    )
