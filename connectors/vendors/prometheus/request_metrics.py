"""The request metrics that are known, under the names and labels that servers, meshes and proxies
give them.

Names and labels are those of each project's documentation: Prometheus client libraries,
OpenTelemetry (HTTP and RPC semantic conventions; the collector's spanmetrics connector), Tempo's
metrics generator, go-grpc-prometheus, Istio's standard metrics, Linkerd's proxy metrics, Envoy's
cluster statistics, Traefik and ingress-nginx.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from faultline.connectors.vendors.prometheus.templates import Matcher, PromTemplate

MS, SECONDS = 1, 1000
"""How many ms a bucket's unit is."""
_HTTP_FAILED = '{status}=~"5.."'
GRPC_FAILED = '{status}=~"Unknown|DeadlineExceeded|ResourceExhausted|Internal|Unavailable|DataLoss"'
_SERVER_SPANS: Matcher = ("span_kind", "SPAN_KIND_SERVER")
_SPAN_FAILED = 'status_code="STATUS_CODE_ERROR"'


@dataclass(frozen=True)
class RequestSource:
    """One kind of instrumentation: a counter of requests, a histogram of their durations, or both.

    A histogram is given by its name without `_bucket`.
    """

    counter: str = ""
    failed: str = _HTTP_FAILED
    histogram: str = ""
    to_ms: int = SECONDS
    matchers: tuple[Matcher, ...] = ()
    marked_by: str = ""
    named_by: tuple[str, ...] = ()
    name_pattern: str = ""
    failed_counter: str = ""
    """A counter of the requests that failed, where no label tells them."""
    has_buckets: bool = True
    """Or the histogram is a summary of Micrometer, with a sum and a count."""


_OTEL = RequestSource(
    named_by=("service_name", "exported_job"),
    # Without the label `service_name` the service is in `job`, after its namespace.
    name_pattern=r"(?:.*/)?(.+)",
)


def _otel(histogram: str, to_ms: int, failed: str = _HTTP_FAILED) -> RequestSource:
    return replace(
        _OTEL, counter=f"{histogram}_count", histogram=histogram, to_ms=to_ms, failed=failed
    )


def _span_metrics(counter: str, histogram: str, to_ms: int, marked_by: str = "") -> RequestSource:
    return RequestSource(
        counter,
        _SPAN_FAILED,
        histogram,
        to_ms,
        matchers=(_SERVER_SPANS,),
        marked_by=marked_by,
        named_by=("service_name", "service"),
    )


def _istio(reporter: str) -> RequestSource:
    # Both sides of a call count it.
    return RequestSource(
        counter="istio_requests_total",
        histogram="istio_request_duration_milliseconds",
        to_ms=MS,
        matchers=(("reporter", reporter),),
        marked_by="reporter",
        named_by=("destination_service_name",),
    )


SOURCES: tuple[RequestSource, ...] = (
    RequestSource("http_requests_total", histogram="http_request_duration_seconds"),
    _otel("http_server_request_duration_seconds", SECONDS),
    _otel("http_server_request_duration", SECONDS),
    RequestSource("http_server_requests_seconds_count", histogram="http_server_requests_seconds"),
    RequestSource("http_request_duration_seconds_count"),
    _otel("http_server_duration_milliseconds", MS),
    _otel("http_server_duration", MS),
    _istio("destination"),
    _istio("source|waypoint"),
    RequestSource(
        "grpc_server_handled_total", GRPC_FAILED, histogram="grpc_server_handling_seconds"
    ),
    # gRPC's own numbers of the same codes.
    _otel("rpc_server_duration_milliseconds", MS, 'rpc_grpc_status_code=~"2|4|8|13|14|15"'),
    RequestSource(
        "response_total",
        'classification="failure"',
        "response_latency_ms",
        MS,
        matchers=(("direction", "inbound"),),
        marked_by="direction",
        named_by=("deployment", "statefulset", "daemonset", "k8s_job"),
    ),
    _span_metrics(
        "traces_span_metrics_calls_total", "traces_span_metrics_duration_milliseconds", MS
    ),
    _span_metrics("", "traces_span_metrics_duration_seconds", SECONDS),
    _span_metrics("traces_spanmetrics_calls_total", "traces_spanmetrics_latency", SECONDS),
    # Earlier versions of the collector had no namespace by default.
    _span_metrics("calls_total", "duration_milliseconds", MS, marked_by="span_kind"),
    RequestSource(
        "nginx_ingress_controller_requests",
        histogram="nginx_ingress_controller_request_duration_seconds",
        named_by=("exported_service", "service"),
    ),
    RequestSource(
        "traefik_service_requests_total",
        histogram="traefik_service_request_duration_seconds",
        named_by=("exported_service", "service"),
        # payments-8080@kubernetes: the service, its port, who told Traefik of it.
        name_pattern=r"(.+?)(?:-(?:\d+|https?))?@.+",
    ),
    RequestSource(
        "envoy_cluster_upstream_rq_xx",
        'envoy_response_code_class="5"',
        "envoy_cluster_upstream_rq_time",
        MS,
        named_by=("envoy_cluster_name",),
        # Names that Istio, Envoy Gateway and Contour give to clusters.
        name_pattern=(
            r"(?:in|out)bound\|\d*\|[^|]*\|([^.|]+).*|httproute/[^/]+/([^/]+)/rule/\d+"
            r"|[^/]+/([^/]+)/[^/]+/[0-9a-f]+"
        ),
    ),
)
"""In order of preference: what a server measures itself, then meshes, spans and proxies."""


def request_templates(sources: Sequence[RequestSource] = SOURCES) -> Iterator[PromTemplate]:
    """Rate, share of failures, median and 99th percentile, each of every source."""
    for source in sources:
        if source.counter:
            yield _template(
                source, "request_rate", "1/s", source.counter, f"{_rate(source.counter)}"
            )
    for source in sources:
        if source.counter:
            every = _rate(source.counter)
            failed = _rate(source.counter, source.failed)
            if source.failed_counter:
                failed = _rate(source.failed_counter)
            text = f"({failed} or {every} * 0) / {every}"
            yield _template(source, "error_ratio", "ratio", source.counter, text)
    for source in sources:
        if source.histogram and source.has_buckets:
            yield from _native_counts(source)
    for signal, quantile in (("latency_p50", "0.5"), ("latency_p99", "0.99")):
        yield from _latencies(sources, signal, quantile)


def mean_latency(source: RequestSource) -> PromTemplate:
    """The mean of what has a sum and a count, and no buckets."""
    scale = f" * {source.to_ms}" if source.to_ms != 1 else ""
    total, count = f"{source.histogram}_sum", f"{source.histogram}_count"
    text = f"{_rate(total)} / {_rate(count)}{scale}"
    return _template(source, "latency_mean", "ms", total, text)


def _latencies(
    sources: Sequence[RequestSource], signal: str, quantile: str
) -> Iterator[PromTemplate]:
    for source in sources:
        if not source.histogram or not source.has_buckets:
            continue
        scale = f" * {source.to_ms}" if source.to_ms != 1 else ""
        metric = f"{source.histogram}_bucket"
        buckets = f"sum by (le, {{by}}) (rate({metric}{{where}}[{{range}}]))"
        text = f"histogram_quantile({quantile}, {buckets}){scale}"
        yield _template(source, signal, "ms", metric, text)
        text = f"histogram_quantile({quantile}, {_rate(source.histogram)}){scale}"
        yield _template(source, signal, "ms", source.histogram, text, is_native=True)


def _native_counts(source: RequestSource) -> Iterator[PromTemplate]:
    """A native histogram has its count inside, and no metric `_count`."""
    every = f"histogram_count({_rate(source.histogram)})"
    yield _template(source, "request_rate", "1/s", source.histogram, every, is_native=True)
    # The labels of span metrics, meshes and gRPC stand on their counters, which are asked.
    if source.failed == _HTTP_FAILED:
        failed = f"histogram_count({_rate(source.histogram, source.failed)})"
        text = f"({failed} or {every} * 0) / {every}"
        yield _template(source, "error_ratio", "ratio", source.histogram, text, is_native=True)


def _rate(metric: str, matcher: str = "") -> str:
    where = f"{{where:{matcher}}}" if matcher else "{where}"
    return f"sum by ({{by}}) (rate({metric}{where}[{{range}}]))"


def _template(
    source: RequestSource,
    signal: str,
    unit: str,
    metric: str,
    text: str,
    *,
    is_native: bool = False,
) -> PromTemplate:
    return PromTemplate(
        signal,
        unit,
        metric,
        text,
        matchers=source.matchers,
        marked_by=source.marked_by,
        named_by=source.named_by,
        name_pattern=source.name_pattern,
        is_native=is_native,
    )
