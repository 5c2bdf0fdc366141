"""What writes a workload's settings back where somebody changes them by hand: GitOps controllers,
operators, autoscalers."""

from __future__ import annotations

import re
from collections.abc import Iterable

from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.answers import Meta, Scaler

_MARKS = (
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux's HelmRelease"),
)
"""Labels and annotations: Argo CD, "Resource Tracking"; Flux's controllers set theirs on all that
they apply."""
DOWNSCALED = "downscaler/original-replicas"
"""The annotation in which kube-downscaler notes the replicas that it will restore."""
VERTICALLY_SCALED = re.compile(r"Pod resources updated by ([a-z0-9.-]{1,253})")
"""The annotation `vpaUpdates` of a pod (kubernetes/autoscaler, vertical-pod-autoscaler,
admission-controller)."""
_MANAGERS = (
    ("argocd", "Argo CD"),
    ("kustomize-controller", "Flux"),
    ("helm-controller", "Flux's HelmRelease"),
)
_BUILT_IN = frozenset({"ReplicaSet", "Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob"})
_BY_HAND = ("kubectl", "helm", "oc", "lens", "k9s", "mozilla", "dashboard", "rancher")
"""Beginnings of the managers that a person's tools and one-off commands write as
(`metadata.managedFields`)."""


def restorer_of(meta: Meta) -> str | None:
    """Who restores an object's settings; None where nobody is known to."""
    for owner in meta.owner_references or ():
        if owner.kind and owner.kind not in _BUILT_IN:
            return short(f"the operator of {owner.kind} {owner.name}", 80)
    keys = {*(meta.labels or {}), *(meta.annotations or {})}
    for key, name in _MARKS:
        if key in keys:
            return name
    for field in meta.managed_fields or ():
        for prefix, name in _MANAGERS:
            if not field.subresource and (field.manager or "").startswith(prefix):
                return name
    return None


def resources_restorer(meta: Meta) -> str | None:
    """Who sets what a pod's containers request, and so their limits; None where nobody does."""
    match = VERTICALLY_SCALED.match(meta.annotation("vpaUpdates"))
    return f"VerticalPodAutoscaler {short(match[1], 60)}" if match is not None else None


def replicas_restorer(
    meta: Meta, kind: str, scalers: Iterable[Scaler], writer: str | None = None
) -> str | None:
    """Who sets an object's number of replicas again: its autoscaler, else the automaton that set
    it (`writer`), else whoever restores all of it."""
    for scaler in scalers:
        target = scaler.spec.scale_target_ref if scaler.spec else None
        if target is not None and (target.kind, target.name) == (kind, meta.name):
            return f"HorizontalPodAutoscaler {short(scaler.metadata.name, 60)}"
    if meta.annotation(DOWNSCALED):
        return "kube-downscaler"
    if writer and not writer.lower().startswith(_BY_HAND):
        return short(writer, 60)
    return restorer_of(meta)
