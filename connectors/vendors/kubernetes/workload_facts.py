"""What workloads, autoscalers, budgets, quotas and namespaces show of missing instances."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.vendors.kubernetes.answers import (
    KubernetesCondition,
    Named,
    Scaler,
    Selector,
)
from faultline.connectors.vendors.kubernetes.events import service_of
from faultline.connectors.vendors.kubernetes.object_answers import (
    DisruptionBudget,
    ResourceQuota,
    matches,
)
from faultline.connectors.vendors.kubernetes.restorers import restorer_of
from faultline.connectors.vendors.kubernetes.state_rows import NamespaceContents
from faultline.connectors.vendors.kubernetes.workloads import ObservedWorkload
from faultline.connectors.vendors.pagerduty.answers import moment

QUOTA = re.compile(r"exceeded quota: ([a-z0-9.-]{1,253}), ?(.{0,300})")
"""Of the quota's admission (k8s.io/apiserver, resourcequota/controller.go)."""
# A quota on a resource that the pod's template does not set.
MUST_SAY = re.compile(r"failed quota: ([a-z0-9.-]{1,253}): (.{0,300})")
LIMITS = re.compile(r"((?:minimum|maximum) \w{1,40} usage per \w{1,40} is .{0,200})")
"""Of limit ranges (kubernetes/plugin/pkg/admission/limitranger/admission.go)."""
UNANSWERED = re.compile(
    r'failed calling webhook "([^"]{1,253})": (?:failed to call webhook: )?'
    r'(?:\w{3,6} "https?://([^/:"]{1,253})[^"]{0,1000}": )?(.{1,200})'
)
"""Of an admission webhook that could not be asked, while its failurePolicy is Fail
(k8s.io/apiserver, pkg/admission/plugin/webhook)."""
DENIED = re.compile(r'admission webhook "([^"]{1,253})" denied the request: ?(.{1,200})')
ENDING = "because it is being terminated"
# A DaemonSet has no `replicas` to compare with.
COUNTED = ("Deployment", "StatefulSet")
# Such as FailedGetResourceMetric and InvalidSelector; ScalingDisabled is on purpose.
BLIND = re.compile(r"Failed|Invalid")


def workload_facts(contents: NamespaceContents) -> list[StateRow]:
    """Rows for workloads that run fewer instances than they should, or whose rollout is stuck."""
    rows: list[StateRow] = []
    for workload in contents.workloads:
        if workload.kind == "Job":
            rows += _failed_job(contents, workload)
        elif workload.kind in COUNTED:
            rows += _counted(contents, workload)
    return rows


def _failed_job(contents: NamespaceContents, workload: ObservedWorkload) -> Iterator[StateRow]:
    for condition in _conditions(workload):
        if condition.type == "Failed" and condition.status == "True":
            yield contents.row(
                "Job",
                workload.meta.name,
                "job_failed",
                service=workload.ref.service,
                field="status.conditions",
                value=_words(condition),
                since=moment(condition.last_transition_time),
            )


def _counted(contents: NamespaceContents, workload: ObservedWorkload) -> Iterator[StateRow]:
    spec, status = workload.object.spec, workload.object.status
    replicas = spec.replicas if spec else None
    if replicas == 0:
        yield _of(contents, workload, "scaled_to_zero", "0", since=workload.meta.written)
    # Go leaves out a count of 0.
    ready = (status.ready_replicas if status else None) or 0
    if replicas and status is not None and ready < replicas:
        since = _changed(workload, "Available", "False") or _newest_unready(contents, workload)
        yield _of(contents, workload, "replicas_missing", str(ready), str(replicas), since)
    for condition in _conditions(workload):
        if condition.type == "Progressing" and condition.status == "False":
            since = moment(condition.last_transition_time)
            yield _of(contents, workload, "rollout_stuck", _words(condition), since=since)


def _of(
    contents: NamespaceContents,
    workload: ObservedWorkload,
    fact: str,
    value: str,
    expected: str | None = None,
    since: datetime | None = None,
) -> StateRow:
    return contents.row(
        workload.kind,
        workload.meta.name,
        fact,
        service=workload.ref.service,
        field="spec.replicas" if fact != "rollout_stuck" else "status.conditions",
        value=value,
        expected=expected,
        since=since,
        restored_by=restorer_of(workload.meta),
    )


def _conditions(workload: ObservedWorkload) -> Sequence[KubernetesCondition]:
    status = workload.object.status
    return (status.conditions if status else None) or ()


def _changed(workload: ObservedWorkload, kind: str, status: str) -> datetime | None:
    for condition in _conditions(workload):
        if condition.type == kind and condition.status == status:
            return moment(condition.last_transition_time)
    return None


def _newest_unready(contents: NamespaceContents, workload: ObservedWorkload) -> datetime | None:
    """When the last of its pods stopped being ready: without its own condition, nothing else
    says since when instances are missing."""
    times = []
    for pod in contents.pods_of(workload.ref.service):
        for condition in (pod.status.conditions if pod.status else None) or ():
            at = moment(condition.last_transition_time)
            if condition.type == "Ready" and condition.status == "False" and at is not None:
                times.append(at)
    return max(times, default=None)


def refused_facts(contents: NamespaceContents) -> list[StateRow]:
    """Rows for quotas, limit ranges, webhooks and a namespace that refuse new pods, by the events
    that tell of it."""
    objects = {(contents.name, *key): service for key, service in contents.services.items()}
    rows: dict[tuple[str, str, str | None], StateRow] = {}
    # Oldest first: setdefault then keeps when the refusals began.
    for event in sorted(contents.events, key=lambda event: str(event.first)):
        if event.reason != "FailedCreate":
            continue
        service = service_of(event, objects)
        refused = _refusal(event.text, contents.name)
        if service is None or refused is None:
            continue
        kind, name, fact, value = refused
        row = contents.row(
            kind,
            name,
            fact,
            service=service,
            field="events",
            value=value,
            since=event.first,
        )
        rows.setdefault((fact, name, service), row)
    return list(rows.values())


def _refusal(text: str, space: str) -> tuple[str, str, str, str] | None:
    """Kind, name, fact and value of what refuses."""
    quota = QUOTA.search(text) or MUST_SAY.search(text)
    if quota is not None:
        return "ResourceQuota", quota[1], "quota_exceeded", quota[2]
    limit = LIMITS.search(text)
    if limit is not None:
        return "LimitRange", space, "limit_range_refused", limit[1]
    unanswered = UNANSWERED.search(text)
    if unanswered is not None:
        why = ": ".join(part for part in (unanswered[2], unanswered[3]) if part)
        return "Webhook", unanswered[1], "webhook_unanswered", why
    denied = DENIED.search(text)
    if denied is not None:
        return "Webhook", denied[1], "webhook_denied", denied[2]
    if ENDING in text:
        return "Namespace", space, "namespace_terminating", ENDING
    return None


def quota_facts(
    contents: NamespaceContents, quotas: Iterable[ResourceQuota], state_rows: Iterable[StateRow]
) -> list[StateRow]:
    """Rows for quotas that are used up while instances are missing and no event tells why."""
    rows = list(state_rows)
    if any(row.fact == "quota_exceeded" for row in rows):
        return []
    lacking = [row for row in rows if row.fact == "replicas_missing"]
    unplaced = {row.service for row in rows if row.kind == "Pod"}
    quota_rows = []
    for quota in quotas:
        used_up = _used_up(quota)
        for row in lacking:
            # Pods that are there were admitted: something else keeps them from serving.
            if used_up and row.service not in unplaced:
                quota_rows.append(
                    contents.row(
                        "ResourceQuota",
                        quota.metadata.name,
                        "quota_exceeded",
                        service=row.service,
                        field="status.used",
                        value=used_up,
                        since=row.since,
                    )
                )
    return quota_rows


def _used_up(quota: ResourceQuota) -> str:
    status = quota.status
    if status is None:
        return ""
    full = []
    for resource, hard in sorted((status.hard or {}).items()):
        # A quota of 0 forbids the resource on purpose.
        if hard == (status.used or {}).get(resource) and hard != "0":
            full.append(f"{resource} {hard} of {hard} used")
    return ", ".join(full)


def scaler_facts(contents: NamespaceContents, scalers: Iterable[Scaler]) -> list[StateRow]:
    """Rows for autoscalers at their maximum, or without the metrics that they need."""
    rows = []
    for scaler in scalers:
        name = scaler.metadata.name
        service = contents.services.get(("HorizontalPodAutoscaler", name))
        if service is None or scaler.status is None:
            continue
        for condition in scaler.status.conditions or ():
            blind = _limited(scaler, condition) or _blind(condition)
            if blind is None:
                continue
            fact, value = blind
            row = contents.row(
                "HorizontalPodAutoscaler",
                name,
                fact,
                service=service,
                field=f"status.conditions {condition.type}",
                value=value,
                since=moment(condition.last_transition_time),
            )
            rows.append(row)
    return rows


def _limited(scaler: Scaler, condition: KubernetesCondition) -> tuple[str, str] | None:
    limited = condition.type == "ScalingLimited" and condition.status == "True"
    # ScalingLimited has other reasons too, such as the minimum.
    if not limited or condition.reason != "TooManyReplicas":
        return None
    most = scaler.spec.max_replicas if scaler.spec else None
    return "autoscaler_at_maximum", str(most or "")


def _blind(condition: KubernetesCondition) -> tuple[str, str] | None:
    inactive = condition.type == "ScalingActive" and condition.status == "False"
    if inactive and BLIND.match(condition.reason or ""):
        return "autoscaler_blind", _words(condition)
    return None


def budget_facts(
    contents: NamespaceContents, budgets: Iterable[DisruptionBudget]
) -> list[StateRow]:
    """Rows for budgets below what they demand."""
    rows = []
    for budget in budgets:
        status = budget.status
        if status is None or status.disruptions_allowed != 0:
            continue
        if (status.current_healthy or 0) >= (status.desired_healthy or 0):
            continue
        selector = budget.spec.selector if budget.spec else None
        for service in _services_selected(contents, selector):
            row = contents.row(
                "PodDisruptionBudget",
                budget.metadata.name,
                "disruption_blocked",
                service=service,
                field="status.currentHealthy",
                value=str(status.current_healthy or 0),
                expected=str(status.desired_healthy),
            )
            rows.append(row)
    return rows


def _services_selected(contents: NamespaceContents, selector: Selector | None) -> list[str]:
    services = []
    for service, pod in contents.pods.values():
        if matches(selector, pod.metadata.labels) and service not in services:
            services.append(service)
    return services


def namespace_facts(contents: NamespaceContents, spaces: Iterable[Named]) -> list[StateRow]:
    """A row for each service of a namespace that is being deleted."""
    rows = []
    for space in spaces:
        at = moment(space.metadata.deletion_timestamp)
        if at is None or space.metadata.name != contents.name:
            continue
        for service in sorted({workload.ref.service for workload in contents.workloads}):
            rows.append(
                contents.row(
                    "Namespace",
                    contents.name,
                    "namespace_terminating",
                    service=service,
                    field="metadata.deletionTimestamp",
                    since=at,
                )
            )
    return rows


def _words(condition: KubernetesCondition) -> str:
    return ": ".join(part for part in (condition.reason, condition.message) if part)
