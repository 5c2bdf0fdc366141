"""Who an alert is about and where, by ranked evidence: the labels of the object that was measured,
then the rule's selectors, then the Kubernetes object that a text names, then labels that only hint.

An exporter measures others, so what names it (`job`, `service` and `pod` of the scrape) is never
whom the alert is about, unless the rule watches the exporter itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from faultline.analysis.alert_signal.rule_texts import QueryReading, is_exporter

SERVICE_LABELS = (
    "sloth_service", "slo_service", "openslo_service",
    "service", "service_name", "app", "app_kubernetes_io_name", "application", "app_name",
    "application_name", "destination_service_name", "destination_service",
    "destination_workload", "envoy_cluster_name", "deployment",
    "statefulset", "daemonset", "kube_deployment", "kube_stateful_set", "kube_daemon_set",
    "kube_service", "workload", "ServiceName", "Service",
    "service.name", "cloud_RoleName", "cloud/roleName", "AppRoleName", "cronjob", "kube_cronjob",
    "container", "container_name", "job_name", "kube_job", "job", "pod", "pod_name",
    "persistentvolumeclaim", "pvc", "horizontalpodautoscaler", "consumergroup", "consumer_group",
    "queue", "queue_name", "topic", "proxy", "backend", "upstream", "slo",
    "FunctionName", "functionname", "TargetGroup",
    "LoadBalancer", "LoadBalancerName", "QueueName", "queuename", "DBInstanceIdentifier",
    "dbinstanceidentifier", "DBClusterIdentifier", "dbclusteridentifier", "ClusterIdentifier",
    "clusteridentifier", "CacheClusterId", "cacheclusterid", "DomainName", "TableName",
    "StreamName", "TopicName", "ApiName", "ApiId", "NatGatewayId", "FileSystemId",
    "Service Name", "DistributionId", "BucketName", "AutoScalingGroupName", "ClusterName",
    "database_id", "server", "addr",
)  # fmt: skip
"""Labels and dimensions that name a service or the resource that stands for one, the most telling
first."""
_HINTS = frozenset({"job", *SERVICE_LABELS[SERVICE_LABELS.index("consumergroup") :]})
"""Labels that may be called after anything: a text that names a service of the catalogue counts
more."""
PLACE_LABELS = (
    "cluster", "cluster_name", "kube_cluster_name", "k8s_cluster_name", "region", "aws_region",
    "zone", "availability_zone", "availability-zone", "az", "datacenter", "dc", "site", "env",
    "environment", "deployment_environment_name", "namespace", "kube_namespace",
    "kubernetes_namespace", "node", "host", "hostname", "instance", "pod", "pod_name",
    "container", "version", "tenant", "tenant_id", "shard", "InstanceId", "aws_account",
)  # fmt: skip
"""Labels that say where: an alert that fixes one is about that place alone."""
_SERVICE_RANK = {label: rank for rank, label in enumerate(SERVICE_LABELS)}
_KUBERNETES_OBJECT = re.compile(
    r"kube_(deployment|statefulset|daemonset|poddisruptionbudget|horizontalpodautoscaler|cronjob"
    r"|persistentvolumeclaim|ingress|service|hpa)_"
)
_KUBERNETES_HOST = re.compile(r"kube_(node|namespace|resourcequota|persistentvolume)_|node_")
_EXPORTED_METRIC = re.compile(r"(?:kube|node|probe|container|kubelet_volume_stats)_")
"""Metrics of kube-state-metrics, node-exporter, blackbox-exporter and the kubelet."""
_CONTROLLER_METRIC = re.compile(
    r"(?:argocd_app|certmanager_certificate|gotk_|flux_|keda_scaled|velero_|cnpg_|strimzi_"
    r"|kube_customresource_|crossplane_)"
)
"""Metrics of controllers, whose label `name` is the object that they look after."""
_DATABASE_METRIC = re.compile(
    r"(?:pg|postgres\w*|mysql|redis|mongodb|elasticsearch|opensearch|memcached|cassandra|clickhouse)_"
)
"""Metrics of exporters that each watch a database, which is then their instance or cluster."""
_EXPORTER_METRIC = re.compile(r"(?:up$|scrape_|kube_pod_|kube_deployment_|container_)")
"""Metrics by which an exporter can be the one that is down."""
HOST_LABELS = (
    "node", "kubernetes_node", "kube_node", "nodename", "host", "hostname", "Hostname", "host_name",
    "host.name", "Computer", "computer", "node_name", "InstanceId",
    "dimension.InstanceId",
)  # fmt: skip
"""Labels that name a machine, the most telling first."""
_HOST_METRIC = re.compile(r"(?:node|windows|wmi|smartctl|ipmi|hwmon|system|host)_")
"""Metrics of a machine's own exporter, whose `instance` is that machine."""
_HOST_JOB = re.compile(
    r"(?i)(?:.*[-_/])?(?:node|node[-_ ]?exporter|windows[-_]?exporter|wmi[-_]?exporter|unix|hosts?"
    r"|snmp|ipmi|idrac|ping)"
)
_PORT = re.compile(r":\d{1,5}\Z")
_REPLICA_HASH = r"(?=[a-z]*\d)[a-z0-9]{3,10}"
"""What Kubernetes appends to a Deployment's name holds a digit nearly always. Alerts written by
hand shorten it."""
_POD_SUFFIX = re.compile(
    rf"-{_REPLICA_HASH}-[a-z0-9]{{5}}$|-(?=[a-z]*\d|[^aeiou]{{5}}$)[a-z0-9]{{5}}$|-\d{{1,3}}$"
)
_SHORT_POD_SUFFIX = re.compile(r"-(?=[a-f]*\d)(?=\d*[a-f])[a-f0-9]{4,10}$")
_SCHEDULED = re.compile(r"-\d{7,10}$")
"""The minute that a CronJob appends to the name of its Job."""
_ORDINAL = re.compile(r"-\d{1,3}$")
_CLAIM = re.compile(r"^(?:.*?-)?(?:data|storage|datadir|db|pvc|wal|volume|disk|logs?)-(?=.*[a-z])")
_CLAIM_END = re.compile(r"-(?:data|storage|pvc|claim|volume|disk)$")
_SCALER = re.compile(r"^(?:keda-)?hpa-|-(?:hpa|autoscaler|scaler)$")
_NAMED_END = re.compile(r"-(?:tls|cert|certificate)$")
_TAG = re.compile(
    r"(?<![\w.-])(service|service_name|kube_service|app|kube_deployment|deployment|statefulset"
    r"|workload)[:=][`'\"]?([A-Za-z0-9][\w.-]{1,62})"
)
"""A tag inside a text, as `[Triggered on {service:checkout}]`."""
_SLO_END = re.compile(
    r"(?i)[-_ ](?:http|grpc|requests?|availability|errors?|error-rate|latency|slo|success|uptime"
    r"|response-?time|p\d\d|\d+)$"
)
_GENERATED = re.compile(r"^(?:[0-9a-f-]{16,}|tf-?(?:lb-)?\d{14,}.*)$")
_LOAD_BALANCER = re.compile(
    r"(?:.*:)?(?:(?:loadbalancer/)?(?:app|net|gwy)|targetgroup)/([^/]+)/[^/]+"
)


@dataclass(frozen=True)
class Naming:
    """A service and what names it, in the words of an answer."""

    service: str
    source: str
    is_hint: bool = False
    """Whether better evidence may say something else."""


def literal_service(reading: QueryReading) -> str | None:
    """The service that the rule's selectors name; the name of an exporter is nobody's."""
    naming = next(_selector_namings(reading), None)
    return naming.service if naming is not None else None


def _selector_namings(reading: QueryReading) -> Iterator[Naming]:
    ranked: list[tuple[int, str, str]] = []
    for selection in reading.measured:
        for label in selection.equal:
            rank = _SERVICE_RANK.get(label)
            service = workload(label, selection.equal) if rank is not None else ""
            if rank is not None and service and not is_exporter(service):
                ranked.append((rank, label, service))
    for _, label, value in sorted(ranked):
        yield Naming(value, f"the rule's selector {label}", label in _HINTS)


def naming_label(reading: QueryReading) -> str | None:
    """The label that names the service once the alert fires; None where no label stands out."""
    if reading.grouped is not None:
        return first_naming(reading.grouped)
    for selection in reading.measured:
        match = _KUBERNETES_OBJECT.match(selection.metric)
        if match:
            return match[1]
        if selection.metric.startswith("kube_pod_container"):
            return "container"
    return None


def keeps_service(reading: QueryReading) -> bool:
    """Whether an alert carries the series' own labels, and they are not those of an exporter."""
    if reading.grouped is not None:
        return False
    for selection in reading.measured:
        about_hosts = _KUBERNETES_HOST.match(selection.metric) is not None
        # Such exporters measure others, so the labels of their series name the exporter.
        if about_hosts and (
            selection.metric.startswith("kube_") or is_exporter(selection.equal.get("job", ""))
        ):
            return False
    return True


def first_naming(labels: Iterable[str]) -> str | None:
    """The most telling of the labels that name a service."""
    ranked_labels = [label for label in labels if label in _SERVICE_RANK]
    return min(ranked_labels, key=_SERVICE_RANK.__getitem__, default=None)


def object_labels(labels: Mapping[str, str]) -> dict[str, str]:
    """The labels with those of the measured object in their place.

    Without `honorLabels` Prometheus renames a label of the object to `exported_...` where the
    scrape has one of the same name.
    """
    renamed: dict[str, str] = {}
    for label, value in labels.items():
        if label.startswith("exported_"):
            renamed[label.removeprefix("exported_")] = value
    return {**labels, **renamed}


def namings(
    labels: Mapping[str, str], reading: QueryReading | None = None, text: str = ""
) -> Iterator[Naming]:
    """Who an alert may be about, the best evidence first."""
    metric = reading.measured[0].metric if reading is not None and reading.measured else ""
    yield from controlled_namings(labels, metric)
    labelled = list(_label_namings(labels, reading, metric))
    selected = list(_selector_namings(reading)) if reading is not None else []
    yield from (naming for naming in (*labelled, *selected) if not naming.is_hint)
    yield from text_namings(text)
    hints = [naming for naming in (*selected, *labelled) if naming.is_hint]
    # A scrape job says least: it is called by who set it up.
    yield from (hint for hint in hints if not hint.source.endswith(" job"))
    yield from database_namings(labels, metric)
    yield from (hint for hint in hints if hint.source.endswith(" job"))


def controlled_namings(labels: Mapping[str, str], metric: str) -> Iterator[Naming]:
    """The object that a controller or its notification gives as its kind and name, and the
    container that cAdvisor names so outside Kubernetes."""
    is_object = "kind" in labels or _CONTROLLER_METRIC.match(metric) is not None
    is_container = metric.startswith("container_") and "container" not in labels
    if labels.get("name") and (is_object or is_container):
        yield Naming(_NAMED_END.sub("", labels["name"]), "its label name")


def database_namings(labels: Mapping[str, str], metric: str) -> Iterator[Naming]:
    """The database that an exporter watches, where its instance or cluster has a name."""
    if _DATABASE_METRIC.match(metric):
        for label in ("instance", "cluster"):
            name = without_port(labels.get(label, ""))
            if name and not is_exporter(name):
                yield Naming(name, f"its label {label}", is_hint=True)


def text_namings(text: str) -> Iterator[Naming]:
    """Who a text names by a tag or as an object of Kubernetes."""
    for label, value in _TAG.findall(text[:_LONGEST_TEXT]):
        yield Naming(value.rstrip("."), f"the tag {label} in its text")
    object_in_text = kubernetes_object(text)
    if object_in_text is not None:
        yield Naming(object_in_text.name, f"the {object_in_text.kind} in its text")


def _label_namings(
    labels: Mapping[str, str], reading: QueryReading | None, metric: str
) -> Iterator[Naming]:
    measured = object_labels(labels)
    probed = probed_host(measured, metric)
    preferred = naming_label(reading) if reading is not None else None
    ordered = sorted(
        (label for label in measured if label in _SERVICE_RANK or label == preferred),
        key=lambda label: (label != preferred, _SERVICE_RANK.get(label, 0)),
    )
    own_exporters: list[Naming] = []
    for label in ordered:
        service = workload(label, measured)
        if not service:
            continue
        exported = f"exported_{label}"
        source = f"its label {exported if exported in labels else label}"
        if is_exporter(service):
            own_exporters.append(Naming(service, source, is_hint=True))
        # The job of a probe or of a machine's exporter is called by who set it up.
        elif label != "job" or not (probed or _HOST_METRIC.match(metric)):
            yield Naming(service, source, _is_hint(label, labels, metric))
    if probed:
        yield Naming(probed, "the address that was probed", is_hint=True)
    # A rule on `up` may be about the exporter itself.
    if _EXPORTER_METRIC.match(metric):
        yield from own_exporters


def _is_hint(label: str, labels: Mapping[str, str], metric: str) -> bool:
    """Whether better evidence may say something else: the label `service` may be that of the
    exporter's own Service, whatever it is called.

    Prometheus Operator adds it together with `endpoint`. The service of a rule's author or of a
    static target comes without.
    """
    # Traefik makes names with a sign of a namespace, a service and a port.
    if label in _HINTS or "@" in labels.get(f"exported_{label}", labels.get(label, "")):
        return True
    if label != "service" or "exported_service" in labels or metric.startswith("kube_service_"):
        return False
    scraped_by = (labels.get("job", ""), labels.get("container", ""))
    by_exporter = any(is_exporter(name) for name in scraped_by)
    return "endpoint" in labels and (by_exporter or bool(_EXPORTED_METRIC.match(metric)))


def misrouting_label(labels: Mapping[str, str], service: str | None) -> str | None:
    """The label by which an alert would go to an exporter instead of `service`; None where its
    labels are right."""
    if service is None or is_exporter(service):
        return None
    for label in ("service", "app", "job"):
        if label in labels and f"exported_{label}" not in labels and is_exporter(labels[label]):
            # A scrape job is called after the exporter anyway: it counts only alone.
            return label if label != "job" or "service" not in labels else None
    return None


def service_in(labels: Mapping[str, str], preferred: str | None) -> str | None:
    """The service that the labels of a firing alert name."""
    if preferred and labels.get(preferred):
        return workload(preferred, labels)
    naming = next(_label_namings(labels, None, ""), None)
    return naming.service if naming is not None else None


def place_in(*sources: Mapping[str, str]) -> dict[str, str]:
    """Where the alert is, by labels and selectors; the first source counts most."""
    place: dict[str, str] = {}
    for labels in sources:
        measured = object_labels(labels)
        for label in PLACE_LABELS:
            if measured.get(label):
                place.setdefault(label, measured[label])
    return place


def host_in(labels: Mapping[str, str], reading: QueryReading | None = None) -> str | None:
    """The machine that an alert is about: what a label calls one, else the instance of an exporter
    that measures its own machine."""
    measured = object_labels(labels)
    if reading is not None and reading.measured:
        measured = {**reading.measured[0].equal, **measured}
    for label in HOST_LABELS:
        if measured.get(label):
            return _PORT.sub("", measured[label])
    metric = reading.measured[0].metric if reading is not None and reading.measured else ""
    by_job = _HOST_JOB.fullmatch(measured.get("job", "")) is not None
    instance = measured.get("instance", "")
    if instance and "://" not in instance and (_HOST_METRIC.match(metric) or by_job):
        return _PORT.sub("", instance)
    return None


def workload(label: str, labels: Mapping[str, str]) -> str:
    """The service that a label's value stands for: a pod's name without what Kubernetes appends to
    that of its Deployment or StatefulSet, the CronJob of a Job, the owner of a claim."""
    value = labels[label]
    if label in ("container", "container_name"):
        return _container_workload(value, labels.get("pod") or labels.get("pod_name") or "")
    stem_of = _STEMS.get(label)
    if stem_of is not None:
        return stem_of(value)
    if label in ("TargetGroup", "LoadBalancer"):
        match = _LOAD_BALANCER.fullmatch(value)
        value = match[1] if match else value
        return "" if _GENERATED.match(value) else value
    return value


def pod_workload(pod: str) -> str:
    """The name of a pod's workload."""
    # Keep a name that consists of such a suffix alone.
    stem = _POD_SUFFIX.sub("", pod) or pod
    # The pod of a CronJob's Job.
    return _SCHEDULED.sub("", stem) or stem


def job_workload(job: str) -> str:
    """The CronJob of a Job."""
    return _SCHEDULED.sub("", job) or job


def scraped_service(job: str) -> str:
    """The service of a scrape job: a PodMonitor's job and OpenTelemetry's are `namespace/name`."""
    return job.rpartition("/")[2] or job


def scaled_workload(autoscaler: str) -> str:
    """The workload that an autoscaler is called after, as KEDA and people do."""
    return _SCALER.sub("", autoscaler) or autoscaler


def mesh_service(address: str) -> str:
    """The service that a proxy calls `outbound|80||checkout.shop.svc.cluster.local` or
    `checkout@kubernetes`."""
    name = address.rpartition("|")[2].partition("@")[0]
    return name.partition(".")[0] if ".svc" in name else name


def without_port(address: str) -> str:
    """The name in an address such as `checkout-db:5432`; "" for a number."""
    name = _PORT.sub("", address.rpartition("//")[2])
    return "" if re.fullmatch(r"[\d.]+|.*:.*", name) else name


def claim_owner(claim: str) -> str:
    """The StatefulSet whose claim it is, or the claim without words for storage."""
    bare = _ORDINAL.sub("", claim)
    return (_CLAIM.sub("", bare) if bare != claim else _CLAIM_END.sub("", claim)) or bare


def _container_workload(container: str, pod: str) -> str:
    """Containers are often called `app` or after a sidecar; the pod's name says whose they are."""
    if not pod:
        return container
    rest = pod.removeprefix(f"{container}-")
    generated = all(len(part) <= 10 and re.search(r"\d", part) for part in rest.split("-"))
    return container if rest != pod and generated else pod_workload(pod)


def slo_service(name: str) -> str:
    """The service of an objective as Pyrra names it: `checkout` of `checkout-availability`."""
    shorter = _SLO_END.sub("", name)
    return slo_service(shorter) if shorter and shorter != name else name


_STEMS: Mapping[str, Callable[[str], str]] = {
    "pod": pod_workload,
    "pod_name": pod_workload,
    "job_name": job_workload,
    "kube_job": job_workload,
    "persistentvolumeclaim": claim_owner,
    "pvc": claim_owner,
    "horizontalpodautoscaler": scaled_workload,
    "service": mesh_service,
    "destination_service": mesh_service,
    "envoy_cluster_name": mesh_service,
    "server": without_port,
    "addr": without_port,
    "slo": slo_service,
    "job": scraped_service,
}
"""Labels whose values hold more than the name of a workload."""


# Probes: the address that was asked says whose answer was waited for.

_GENERIC_HOSTS = frozenset({"www", "api", "app", "web", "localhost"})


def probed_host(labels: Mapping[str, str], metric: str = "") -> str:
    """The name in the address that a probe asked; "" where nothing was probed."""
    address = ""
    for label in ("target", "instance", "url", "endpoint_url"):
        value = labels.get(label, "")
        if "://" in value or (value and label == "instance" and metric.startswith("probe_")):
            address = value
            break
    if not address:
        return ""
    try:
        host = urlsplit(address if "://" in address else f"//{address}").hostname or ""
    except ValueError:
        return ""
    parts = host.split(".")
    if re.fullmatch(r"[\d.]+|.*:.*", host):
        return ""
    while len(parts) > 1 and parts[0] in _GENERIC_HOSTS:
        parts = parts[1:]
    # What is left of `www.example.com` is a company, not a service.
    return parts[0] if len(parts) > 2 or len(host.split(".")) == 1 else ""


# Texts: the descriptions of kubernetes-mixin name an object as `namespace/name`.

_KINDS = {
    "pod": "pod", "deployment": "deployment", "statefulset": "StatefulSet",
    "daemonset": "DaemonSet", "job": "job", "cronjob": "CronJob", "hpa": "HPA",
}  # fmt: skip
_NAME = r"[a-z0-9](?:[-a-z0-9]{0,251}[a-z0-9])?"
_OBJECT = re.compile(
    rf"(?<![\w/.:-])(?:(?P<kind>(?i:{'|'.join(_KINDS)}))s?[:=]?\s+)?[`'\"]?"
    rf"(?P<namespace>{_NAME})/(?P<name>{_NAME})(?![\w/.:-])"
)
_LONGEST_TEXT = 2_000


@dataclass(frozen=True)
class KubernetesObject:
    """An object that a text names: its kind, its namespace and the name of its workload."""

    kind: str
    namespace: str
    name: str


def kubernetes_object(text: str) -> KubernetesObject | None:
    """The first object that a text names as `Pod shop/checkout-7c9f6d5b8-x2x1p`, or without a kind
    where the name can only be a pod's."""
    for match in _OBJECT.finditer(text[:_LONGEST_TEXT]):
        kind = (match["kind"] or "").casefold()
        name = match["name"]
        if kind in ("", "pod"):
            stem = pod_workload(name)
            name = stem if stem != name else _SHORT_POD_SUFFIX.sub("", name)
            # Texts also hold "and/or" and "read/write".
            if not kind and name == match["name"]:
                continue
        elif kind in ("job", "cronjob"):
            name = _SCHEDULED.sub("", name) or name
        return KubernetesObject(_KINDS.get(kind, "pod"), match["namespace"], name)
    return None
