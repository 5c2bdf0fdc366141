"""PromQL: which queries are asked by default, and how names are put into them safely.

A default query is asked only when its metric exists. Its `{by}` becomes the label that names the
service, `{where}` the matchers for the services (or the training job) in scope, `{range}` the range
of `rate()`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from analysis.errors import SettingsError

SERVICE_LABELS = ("service", "service_name", "app", "app_kubernetes_io_name", "container", "job")
"""Labels that name a service, most telling first, for metrics without the configured one."""
DECISIVE_LABELS = ("destination_service_name",)
"""Where there is one of these (Istio), other labels name the proxy that measured."""
JOB_LABELS = ("training_job", "job_name", "hpc_job", "exported_job")
"""Labels that name a training job; `hpc_job` is dcgm-exporter's. The label `job` names what
Prometheus scrapes."""
STATUS_LABELS = (
    "code", "status", "status_code", "http_response_status_code", "http_status_code",
    "response_code", "grpc_code",
)  # fmt: skip
LONGEST_MATCHER = 4000
"""Characters of names in one matcher; proxies refuse URLs beyond 8 KiB. Longer lists are filtered
after the answer."""


@dataclass(frozen=True)
class PromTemplate:
    """A default query. `subject` says whose labels name the row's service: service, container or
    job."""

    signal: str
    unit: str
    metric: str
    promql: str
    subject: str = "service"


@dataclass(frozen=True)
class PromQuery:
    """A query ready to be asked.

    `by` are the labels that make up the row's service, `only` its value where a series lacks them.
    `narrow` says that rows of services out of scope must go, should the matcher have let them
    through. `of` says that it is about GPUs or their hosts: rows then carry the labels of
    `connectors.gpu_metrics`, and `points` bounds a series in each window.
    """

    signal: str
    unit: str | None
    promql: str
    by: tuple[str, ...] = ()
    only: str | None = None
    narrow: bool = False
    of: str | None = None
    points: int | None = None
    cut: str | None = None
    every_s: float | None = None
    """How often the metric is scraped, where that is known: a shorter step would repeat values."""
    asked_by: str | None = None
    """Who wants it asked, where that is not the settings: a runbook."""


_REQUESTS = (
    "http_requests_total",
    "http_server_request_duration_seconds_count",
    "http_server_requests_seconds_count",
    "http_request_duration_seconds_count",
    "istio_requests_total",
    "grpc_server_handled_total",
    "traces_spanmetrics_calls_total",
)
_LATENCIES = (
    ("http_request_duration_seconds_bucket", 1000),
    ("http_server_request_duration_seconds_bucket", 1000),
    ("http_server_requests_seconds_bucket", 1000),
    ("istio_request_duration_milliseconds_bucket", 1),
    ("grpc_server_handling_seconds_bucket", 1000),
    ("traces_spanmetrics_latency_bucket", 1000),
)
_ERRORS = {
    # The codes that a server answers with when the fault is its own.
    "grpc_server_handled_total": (
        '{status}=~"Unknown|DeadlineExceeded|ResourceExhausted|Internal|Unavailable|DataLoss"'
    ),
    "traces_spanmetrics_calls_total": 'status_code="STATUS_CODE_ERROR"',
}
_FAILED = '{status}=~"5.."'


def _golden() -> Iterator[PromTemplate]:
    for m in _REQUESTS:
        yield PromTemplate(
            "request_rate", "1/s", m, f"sum by ({{by}}) (rate({m}{{where}}[{{range}}]))"
        )
    for m in _REQUESTS:
        failed = f"sum by ({{by}}) (rate({m}{{where:{_ERRORS.get(m, _FAILED)}}}[{{range}}]))"
        every = f"sum by ({{by}}) (rate({m}{{where}}[{{range}}]))"
        yield PromTemplate("error_ratio", "ratio", m, f"({failed} or {every} * 0) / {every}")
    for name, quantile in (("latency_p50", "0.5"), ("latency_p99", "0.99")):
        for m, to_ms in _LATENCIES:
            buckets = f"sum by (le, {{by}}) (rate({m}{{where}}[{{range}}]))"
            scale = f" * {to_ms}" if to_ms != 1 else ""
            yield PromTemplate(name, "ms", m, f"histogram_quantile({quantile}, {buckets}){scale}")


def _resources() -> Iterator[PromTemplate]:
    running = '{where:container!="",container!="POD"}'
    cpu, memory = "container_cpu_usage_seconds_total", "container_memory_working_set_bytes"
    yield PromTemplate(
        "cpu_cores", "cores", cpu, f"sum by ({{by}}) (rate({cpu}{running}[{{range}}]))", "container"
    )
    yield PromTemplate(
        "memory_bytes", "bytes", memory, f"sum by ({{by}}) ({memory}{running})", "container"
    )
    cpu, memory = "process_cpu_seconds_total", "process_resident_memory_bytes"
    yield PromTemplate(
        "cpu_cores", "cores", cpu, f"sum by ({{by}}) (rate({cpu}{{where}}[{{range}}]))"
    )
    yield PromTemplate("memory_bytes", "bytes", memory, f"sum by ({{by}}) ({memory}{{where}})")
    m = "kube_pod_container_status_restarts_total"
    yield PromTemplate(
        "restarts", "1", m, f"sum by ({{by}}) (increase({m}{{where}}[{{range}}]))", "container"
    )
    m = "process_start_time_seconds"
    yield PromTemplate("restarts", "1", m, f"sum by ({{by}}) (changes({m}{{where}}[{{range}}]))")
    yield PromTemplate("availability", "ratio", "up", "avg by ({by}) (up{where})")


_TRAINING = (
    ("step_time", "s", "max", "training_step_time_seconds"),
    ("step_time", "s", "max", "training_step_duration_seconds"),
    ("step_time", "s", "max", "train_step_time_seconds"),
    ("throughput", "tokens/s", "sum", "training_tokens_per_second"),
    ("throughput", "samples/s", "sum", "training_samples_per_second"),
    ("loss", "1", "avg", "training_loss"),
    ("grad_norm", "1", "max", "training_grad_norm"),
    ("mfu", "ratio", "avg", "training_mfu"),
)


def _training() -> Iterator[PromTemplate]:
    for signal, unit, how, m in _TRAINING:
        yield PromTemplate(signal, unit, m, f"{how} by ({{by}}) ({m}{{where}})", "job")


DEFAULTS: tuple[PromTemplate, ...] = (*_golden(), *_resources(), *_training())
"""In order of preference: of two queries for one signal, a service's rows come from the first that
has any."""


def build(
    template: PromTemplate,
    labels: Iterable[str],
    service_label: str,
    services: Sequence[str],
    job: str | None,
    range_s: float,
    place: Mapping[str, str],
) -> PromQuery | None:
    """The query for a metric that carries these labels; None where they cannot name the subject or
    the status. `place` is that of the alert, in the metric's labels: what lies elsewhere is not
    added to it."""
    known = frozenset(labels)
    by = subject_labels(template.subject, known, service_label)
    status = next((label for label in STATUS_LABELS if label in known), None)
    if not by or ("{status}" in template.promql and status is None):
        return None
    matchers = _matchers(template.subject, known, by[0], services, job)
    matchers += tuple(f'{label}="{quoted(value)}"' for label, value in place.items())
    text = template.promql.replace("{by}", ", ".join(by)).replace("{range}", duration(range_s))
    text = re.sub(
        r"\{where(?::((?:[^{}\"]|\"[^\"]*\"|\{status\})*))?\}",
        lambda m: _braces(m[1], matchers),
        text,
    )
    narrow = bool(services) and template.subject in ("service", "container")
    return PromQuery(
        template.signal, template.unit, text.replace("{status}", status or ""), by, narrow=narrow
    )


def subject_labels(subject: str, known: frozenset[str], service_label: str) -> tuple[str, ...]:
    """The label that names whom a metric is about; none where it carries no such label."""
    preferred: tuple[str, ...] = DECISIVE_LABELS
    if subject == "job":
        preferred = JOB_LABELS
    elif subject == "container":
        # cAdvisor's and kube-state-metrics' own `service` label names the exporter, not the
        # container's service.
        preferred = ("container",)
    for label in (*preferred, service_label, *SERVICE_LABELS):
        if label in known:
            return (label,)
    return ()


def _matchers(
    subject: str, known: frozenset[str], label: str, services: Sequence[str], job: str | None
) -> tuple[str, ...]:
    if subject == "job":
        job_label = next((name for name in JOB_LABELS if name in known), None)
        return (f'{job_label}="{quoted(job)}"',) if job and job_label else ()
    names = one_of(services)
    if not services or len(names) > LONGEST_MATCHER:
        return ()
    return (f'{label}=~"{names}"',)


def _braces(own: str | None, matchers: tuple[str, ...]) -> str:
    inside = ",".join((own, *matchers) if own else matchers)
    return f"{{{inside}}}" if inside else ""


def quoted(text: str) -> str:
    """Text for the inside of a double-quoted PromQL string."""
    # A lone surrogate cannot be sent.
    text = text.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def one_of(names: Iterable[str]) -> str:
    """A regular expression (RE2) that matches exactly these names, for the inside of a
    double-quoted PromQL string."""
    escaped = [re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", name) for name in names]
    return quoted("|".join(escaped))


def duration(seconds: float) -> str:
    """Seconds as a PromQL duration."""
    return f"{round(seconds * 1000)}ms" if seconds % 1 else f"{int(seconds)}s"


_PLACE = re.compile(r'(=~|!~|!=|=)\s*"\{(service|job)\}"')
_ANY_PLACE = re.compile(r"\{(service|job)\}")


def check_label(label: str) -> None:
    """Raise SettingsError for a name that cannot be a label's (Prometheus data model)."""
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label):
        raise SettingsError(
            "prometheus.service_label", "must be a label's name: letters, digits and _"
        )


def check_custom(queries: Mapping[str, str]) -> None:
    """Raise SettingsError for a configured query whose placeholder is not the whole of a matcher's
    quoted value."""
    for signal, text in queries.items():
        if len(_ANY_PLACE.findall(text)) != len(_PLACE.findall(text)):
            raise SettingsError(
                f"prometheus.queries.{signal}",
                'write placeholders as service=~"{service}" or job="{job}", with the quotes',
            )


def build_custom(
    signal: str, text: str, service_label: str, services: Sequence[str], job: str | None
) -> list[PromQuery]:
    """A configured query, or one per service where it says `="{service}"`; none where it needs what
    is not in scope."""
    places = _PLACE.findall(text)
    wanted = {name for _, name in places}
    if "job" in wanted and job is None:
        return []
    by = (service_label,)
    # A matcher that is no regular expression takes one name at a time.
    if ("=", "service") in places or ("!=", "service") in places:
        return [
            PromQuery(signal, None, _fill(text, [service], job), by, service)
            for service in services
        ]
    only = None
    if "job" in wanted and "service" not in wanted:
        only = job
    elif len(services) == 1:
        only = services[0]
    narrow = "service" in wanted and bool(services)
    return [PromQuery(signal, None, _fill(text, services, job), by, only, narrow=narrow)]


def _fill(text: str, services: Sequence[str], job: str | None) -> str:
    def value(match: re.Match[str]) -> str:
        operator, name = match.groups()
        names = [job or ""] if name == "job" else list(services)
        if operator in ("=", "!="):
            return f'{operator}"{quoted(names[0])}"'
        return f'{operator}"{one_of(names) if names else ".+"}"'

    return _PLACE.sub(value, text)
