"""Which workloads an alert is about: what its labels name, what services in scope are, a training
job's pods."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from faultline.analysis.errors import SettingsError
from faultline.analysis.kinds.place_names import NAMESPACE_LABELS
from faultline.analysis.vocabulary import Alert, Scope
from faultline.connectors.vendors.kubernetes.answers import Meta, Workload

MOST_WORKLOADS, MOST_NAMESPACES = 20, 5
PATHS = {
    "Deployment": ("apis/apps/v1", "deployments"),
    "StatefulSet": ("apis/apps/v1", "statefulsets"),
    "DaemonSet": ("apis/apps/v1", "daemonsets"),
    "Job": ("apis/batch/v1", "jobs"),
    "Pod": ("api/v1", "pods"),
}
"""Kind to the group's path and the resource's name (kubernetes.io, API reference)."""
_SHORT = {"deploy": "Deployment", "sts": "StatefulSet", "ds": "DaemonSet", "po": "Pod"}
KINDS = {
    **{k.lower(): k for k in PATHS},
    **{plural: k for k, (_, plural) in PATHS.items()},
    **_SHORT,
}
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""RFC 1123 subdomains, which names of objects are (kubernetes.io, "Object Names and IDs")."""
_SAFE = "bcdfghjklmnpqrstvwxz2456789"
"""The letters of generated names (k8s.io/apimachinery/pkg/util/rand)."""
# A Deployment's name, the hash of its template, five random characters.
_OF_REPLICA_SET = re.compile(rf"(.+)-[{_SAFE}]{{1,10}}-[{_SAFE}]{{5}}")
# Five random characters, or the ordinal of a StatefulSet's pod.
_OF_POD = re.compile(rf"(.+)-(?:[{_SAFE}]{{5}}|[0-9]{{1,5}})")
OBJECT_LABELS = (
    "deployment",
    "statefulset",
    "daemonset",
    "job_name",
    "pod",
    "exported_pod",
    "pod_name",
)
"""Labels by which kube-state-metrics and cAdvisor name an object."""
JOB_LABELS = (
    "job-name",
    "batch.kubernetes.io/job-name",
    "training.kubeflow.org/job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "volcano.sh/job-name",
)
"""Labels of pods that name their job: Kubernetes, Kubeflow's training operator, JobSet, Volcano."""


SOURCE_ANNOTATIONS = {
    "backstage.io/source-location": "",
    "github.com/project-slug": "https://github.com/",
    "gitlab.com/project-slug": "https://gitlab.com/",
    "org.opencontainers.image.source": "",
}
"""Annotations that name the repository of a workload, with what goes before their values
(backstage.io, "Well-known Annotations on Catalog Entities"; OCI image specification,
"Annotations")."""
_ADDRESS = re.compile(r"[\w.:/@%+~-]{3,300}")


@dataclass(frozen=True)
class Ref:
    """A workload by kind and name, pods by a label selector, or pods of a training job by
    `patterns`."""

    service: str
    namespace: str
    kind: str = ""
    name: str = ""
    selector: str = ""
    patterns: tuple[str, ...] = ()
    guessed: bool = False
    """Looked for by the service's name: that it is not there says nothing."""

    @property
    def label(self) -> str:
        """For humans."""
        if self.kind:
            return f"{self.namespace}/{self.kind.lower()}/{self.name}"
        pods = self.selector or f"pods {', '.join(self.patterns)}"
        return f"{self.namespace}/{pods}"


@dataclass(frozen=True)
class ObservedWorkload:
    """An existing workload, and how its pods are recognised."""

    ref: Ref
    kind: str
    object: Workload

    @property
    def meta(self) -> Meta:
        """Its name and the like."""
        return self.object.metadata

    @property
    def selector(self) -> str:
        """Selects its pods."""
        selector = self.object.spec.selector if self.object.spec else None
        return selector.text if selector else ""


def source_repository(workload: ObservedWorkload) -> str:
    """The address of the repository that annotations of a workload name, "" without them."""
    for key, host in SOURCE_ANNOTATIONS.items():
        # Backstage writes `url:https://github.com/acme/checkout/`.
        value = workload.meta.annotation(key).removeprefix("url:").strip()
        if value and _ADDRESS.fullmatch(value):
            return f"{host}{value}"
    return ""


def parsed(service: str, text: str) -> Ref:
    """`namespace/kind/name`, or `namespace/selector` such as `shop/app=checkout`. Raises
    SettingsError."""
    key = f"services.{service}.kubernetes"
    namespace, slash, rest = text.strip().partition("/")
    if not slash or not _NAME.fullmatch(namespace):
        raise SettingsError(key, "must be namespace/kind/name, or namespace/label=value")
    if "=" in rest or " in (" in rest:
        return Ref(service, namespace, selector=rest.strip())
    kind, _, name = rest.partition("/")
    if kind.lower() not in KINDS:
        raise SettingsError(
            key, f"must name one of {', '.join(k.lower() for k in PATHS)} after the namespace"
        )
    if not _NAME.fullmatch(name):
        raise SettingsError(key, "must end with the name of an object")
    return Ref(service, namespace, KINDS[kind.lower()], name)


def refs_of(
    alert: Alert,
    scope: Scope,
    refs_by_service: Mapping[str, Sequence[Ref]],
    jobs: Mapping[str, Sequence[str]],
    namespaces: Sequence[str],
) -> list[Ref]:
    """What to look at, the alert's own object first. `jobs`: patterns of the pods of each training
    job."""
    refs = [*_named_by(alert)]
    services = [service for service in (alert.service, *scope.services) if service]
    for service in dict.fromkeys(services):
        service_refs = refs_by_service.get(service)
        refs += service_refs if service_refs is not None else _guessed(service, namespaces)
    refs += _of_training(alert, scope, jobs, namespaces)
    chosen: dict[tuple[object, ...], Ref] = {}
    for ref in refs:
        key = (ref.namespace, ref.kind, ref.name, ref.selector, ref.patterns)
        # The alert's own word for a workload counts more than a later guess.
        chosen.setdefault(key, ref)
    # The alert's own workloads come first, so the bounds cut the others.
    spaces = list(dict.fromkeys(ref.namespace for ref in chosen.values()))[:MOST_NAMESPACES]
    return [ref for ref in chosen.values() if ref.namespace in spaces][:MOST_WORKLOADS]


def _named_by(alert: Alert) -> Iterable[Ref]:
    """The object that the alert's labels name, as those of kube-state-metrics do."""
    namespace = _namespace_of(alert)
    if namespace is None:
        return
    for label in OBJECT_LABELS:
        name = alert.labels.get(label, "")
        if _NAME.fullmatch(name):
            kind = KINDS.get(label.removeprefix("exported_").removesuffix("_name"), "Pod")
            yield Ref(alert.service or name, namespace, kind, name, guessed=label != "deployment")


def _namespace_of(alert: Alert) -> str | None:
    for label in NAMESPACE_LABELS:
        namespace = alert.labels.get(label, "")
        if _NAME.fullmatch(namespace):
            return namespace
    return None


def _guessed(service: str, namespaces: Sequence[str]) -> list[Ref]:
    # Names of objects have neither capitals nor underscores.
    name = service.lower().replace("_", "-")
    if not _NAME.fullmatch(name):
        return []
    refs = []
    for namespace in namespaces:
        refs.append(Ref(service, namespace, "Deployment", name, guessed=True))
        refs.append(Ref(service, namespace, "StatefulSet", name, guessed=True))
    return refs


def _of_training(
    alert: Alert, scope: Scope, jobs: Mapping[str, Sequence[str]], namespaces: Sequence[str]
) -> list[Ref]:
    training = scope.training
    job = (training.name if training else None) or scope.job
    if not job:
        return []
    pod = training.pod if training else None
    patterns = tuple(pattern for pattern in (pod, *jobs.get(job, ())) if pattern)
    named = _namespace_of(alert)
    spaces = dict.fromkeys((named, *namespaces) if named else namespaces)
    guessed = not patterns
    return [Ref(job, space, patterns=(*patterns, job), guessed=guessed) for space in spaces]


def of_job(meta: Meta, patterns: Sequence[str]) -> bool:
    """Whether a pod is one of a training job: by its name, or by a label that names the job."""
    labels = meta.labels or {}
    names = [meta.name, *(labels[label] for label in JOB_LABELS if label in labels)]
    return any(fnmatchcase(name, pattern) for name in names for pattern in patterns)


def makers_of(pod: str) -> list[str]:
    """Names of what may have made a pod of this name, which may be gone: its ReplicaSet or set, its
    Deployment."""
    match, by_two = _OF_POD.fullmatch(pod), _OF_REPLICA_SET.fullmatch(pod)
    return [match[1] for match in (match, by_two) if match]
