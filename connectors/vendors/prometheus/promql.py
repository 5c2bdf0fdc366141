"""PromQL: how names are put into queries safely.

A default query is asked only when its metric exists. Its `{by}` becomes the label that names the
service, `{where}` the matchers for the services (or the training job) in scope, `{range}` the range
of `rate()`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.alert_signal.subjects import scraped_service
from faultline.analysis.errors import SettingsError
from faultline.analysis.kinds.place_names import NAMESPACE_LABELS
from faultline.connectors.vendors.prometheus.templates import SCRAPE_JOBS, PromTemplate, is_plain

SERVICE_LABELS = ("service", "service_name", "app", "app_kubernetes_io_name", "container", "job")
"""Labels that name a service, most telling first, for metrics without the configured one."""
JOB_LABELS = ("training_job", "job_name", "hpc_job", "exported_job")
"""Labels that name a training job; `hpc_job` is dcgm-exporter's. The label `job` names what
Prometheus scrapes."""
STATUS_LABELS = (
    "code", "status", "status_code", "http_response_status_code", "http_status_code",
    "response_code", "grpc_code", "rpc_grpc_status_code", "rpc_response_status_code", "grpc_status",
    "http_status",
)  # fmt: skip
LONGEST_MATCHER = 4000
"""Characters of names in one matcher; proxies refuse URLs beyond 8 KiB. Longer lists are filtered
after the answer."""


@dataclass(frozen=True)
class PromQuery:
    """A query ready to be asked.

    `by` are the labels that make up the row's service, `only` its value where a series lacks them.
    `narrow` says that rows of services out of scope must go, should the matcher have let them
    through. `of` says that it is about GPUs or their hosts: rows then carry the labels of
    `faultline.connectors.shared.training.gpu_metrics`, and `points` bounds a series in each window.
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
    name_pattern: str = ""
    """As in `PromTemplate`."""
    is_extra: bool = False
    """Whether nobody misses it where it brings nothing."""
    split_by: str = ""
    """The labels that tell the parts of a service; empty where it is asked about as a whole."""
    namespace_label: str = ""
    """The label that separates services of one name; empty where the alert is of no
    namespace."""
    requested_by: str | None = None
    """Who wants it asked, where that is not the settings: a runbook."""


def build(
    template: PromTemplate,
    labels: Iterable[str],
    service_label: str,
    services: Sequence[str],
    job: str | None,
    range_s: float,
    place: Mapping[str, str],
    split_by: Sequence[str] = (),
    *,
    namespace: str = "",
) -> PromQuery | None:
    """The query for a metric that carries these labels; None where they cannot name the subject or
    the status. `place` is that of the alert, in the metric's labels: what lies elsewhere is not
    added to it. `split_by` is a label by which a service is split into its parts. Services
    of one name are separated by the label `namespace`."""
    label_spellings = spelt(labels)
    by = subject_labels(template, label_spellings, service_label)
    status = next(
        (label_spellings[label] for label in STATUS_LABELS if label in label_spellings), None
    )
    if not by or ("{status}" in template.promql and status is None):
        return None
    if template.marked_by and template.marked_by not in label_spellings:
        return None
    name_pattern = template.pattern_for(by[0])
    matchers = _matchers(template, label_spellings, by[0], services, job, name_pattern)
    matchers += tuple(f'{written(label)}="{quoted(value)}"' for label, value in place.items())
    added_up = dict.fromkeys((*by, *split_by))
    # Some queries tell namespaces apart anyway.
    if namespace and f"{{by}}, {namespace}" not in template.promql:
        added_up[namespace] = None
    text = template.promql.replace("{by}", ", ".join(written(label) for label in added_up))
    text = text.replace("{range}", duration(range_s))
    text = _SELECTOR.sub(lambda m: _selector(template, m, matchers), text)
    return PromQuery(
        template.signal,
        template.unit,
        text.replace("{status}", written(status or "")),
        by,
        narrow=bool(services) and template.subject != "job",
        name_pattern=name_pattern,
        is_extra=bool(split_by),
        split_by=", ".join(split_by),
        namespace_label=namespace,
    )


def namespace_label(template: PromTemplate, labels: Iterable[str], service_label: str) -> str:
    """The label for the namespace of a metric's subject; "" where it has none. Meshes name that of
    both ends of a call beside the proxy's own."""
    label_spellings = spelt(labels)
    by = subject_labels(template, label_spellings, service_label)
    if not by or template.subject == "job":
        return ""
    end = by[0].partition("_")[0]
    ends = (f"{end}_service_namespace", f"{end}_workload_namespace")
    # Prometheus renames the exporter's own label where the target has one (`honor_labels`).
    usual = ("exported_namespace", *NAMESPACE_LABELS)
    for label in (*ends, *usual):
        spelling = re.sub(r"[^a-zA-Z0-9_]", "_", label)
        if spelling in label_spellings:
            return label_spellings[spelling]
    return ""


def service_named(label: str, value: str) -> str:
    """The service that a label's value names."""
    return scraped_service(value) if label in SCRAPE_JOBS else value


_SELECTOR = re.compile(
    r"([a-zA-Z_:][a-zA-Z0-9_:]*)\{where(?::((?:[^{}\"]|\"[^\"]*\"|\{status\})*))?\}"
)


def spelt(labels: Iterable[str]) -> dict[str, str]:
    """Labels by the name that they have where only letters, digits and underscores are allowed."""
    return {re.sub(r"[^a-zA-Z0-9_]", "_", label): label for label in labels}


def written(label: str) -> str:
    """A label as it is in a query."""
    return label if not label or is_plain(label) else f'"{quoted(label)}"'


def selector(metric: str) -> str:
    """The series of a metric."""
    return metric if is_plain(metric) else f'{{"{quoted(metric)}"}}'


def subject_labels(
    template: PromTemplate, label_spellings: Mapping[str, str], service_label: str
) -> tuple[str, ...]:
    """The label that names the subject of a metric; none where it carries no such label."""
    preferred = template.named_by
    if template.subject == "job":
        preferred = JOB_LABELS
    elif template.subject == "container":
        # cAdvisor's and kube-state-metrics' own `service` label names the exporter, not the
        # container's service.
        preferred = ("exported_container", "container")
    elif template.subject == "owner":
        return _owner_label(template.named_by, label_spellings)
    for label in (*preferred, service_label, *SERVICE_LABELS):
        if label in label_spellings:
            return (label_spellings[label],)
    return ()


def _owner_label(named_by: Iterable[str], label_spellings: Mapping[str, str]) -> tuple[str, ...]:
    """Where Prometheus keeps its own label of that name, the exporter's has another
    (`honor_labels`)."""
    for label in named_by:
        for spelling in (f"exported_{label}", label):
            if spelling in label_spellings:
                return (label_spellings[spelling],)
    return ()


def _matchers(
    template: PromTemplate,
    label_spellings: Mapping[str, str],
    label: str,
    services: Sequence[str],
    job: str | None,
    name_pattern: str,
) -> tuple[str, ...]:
    if template.subject == "job":
        job_label = next((name for name in JOB_LABELS if name in label_spellings), None)
        return (f'{job_label}="{quoted(job)}"',) if job and job_label else ()
    conditions = []
    for name, pattern in template.matchers:
        if name in label_spellings:
            conditions.append(f'{written(label_spellings[name])}=~"{pattern}"')
    names = names_pattern(services)
    if services and len(names) <= LONGEST_MATCHER:
        # Where the name is only a part of the value, what it is a part of may be too much: those
        # rows are dropped after the answer.
        around = f".*(?:{names}).*" if name_pattern else names
        conditions.append(f'{written(label)}=~"{around}"')
    return tuple(conditions)


def _selector(template: PromTemplate, match: re.Match[str], matchers: tuple[str, ...]) -> str:
    metric, inner_matchers = match.groups()
    inside = [inner_matchers, *matchers] if inner_matchers else list(matchers)
    if template.stored_as and metric == template.metric:
        metric = ""
        inside.insert(0, f'"{quoted(template.stored_as)}"')
    return f"{metric}{{{','.join(inside)}}}" if inside else metric


def quoted(text: str) -> str:
    """Text for the inside of a double-quoted PromQL string."""
    # A lone surrogate cannot be sent.
    text = text.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")


def names_pattern(names: Iterable[str]) -> str:
    """A regular expression (RE2) that matches exactly these names, for the inside of a
    double-quoted PromQL string."""
    escaped = [re.sub(r"([\\.+*?()|\[\]{}^$])", r"\\\1", name) for name in names]
    return quoted("|".join(escaped))


def duration(seconds: float) -> str:
    """Seconds as a PromQL duration."""
    return f"{round(seconds * 1000)}ms" if seconds % 1 else f"{int(seconds)}s"


def check_label(label: str) -> None:
    """Raise SettingsError for a name that cannot be a label's (Prometheus data model)."""
    if not re.fullmatch(r"[a-zA-Z_][a-zA-Z0-9_]*", label):
        raise SettingsError(
            "prometheus.service_label", "must be a label's name: letters, digits and _"
        )
