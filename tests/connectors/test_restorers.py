"""Who writes an object back is read from its own metadata."""

from __future__ import annotations

import msgspec
import pytest

from faultline.connectors.vendors.kubernetes.answers import Meta
from faultline.connectors.vendors.kubernetes.restorers import (
    replicas_restorer,
    resources_restorer,
    restorer_of,
)


def meta(**fields: object) -> Meta:
    return msgspec.convert({"name": "orders", **fields}, Meta)


@pytest.mark.parametrize(
    ("fields", "restorer"),
    [
        ({"annotations": {"argocd.argoproj.io/tracking-id": "shop:apps/Deployment:shop/orders"}},
         "Argo CD"),
        ({"labels": {"argocd.argoproj.io/instance": "shop"}}, "Argo CD"),
        ({"labels": {"kustomize.toolkit.fluxcd.io/name": "apps"}}, "Flux"),
        ({"labels": {"helm.toolkit.fluxcd.io/name": "orders"}}, "Flux's HelmRelease"),
        ({"managedFields": [{"manager": "argocd-controller"}]}, "Argo CD"),
        ({"ownerReferences": [{"kind": "Cluster", "name": "pg"}]}, "the operator of Cluster pg"),
        ({"ownerReferences": [{"kind": "ReplicaSet", "name": "orders-1"}]}, None),
        ({"managedFields": [{"manager": "kubectl-client-side-apply"}]}, None),
        ({"labels": {"app.kubernetes.io/managed-by": "Helm"}}, None),
    ],
)  # fmt: skip
def test_the_restorer_is_named(fields: dict[str, object], restorer: str | None) -> None:
    assert restorer_of(meta(**fields)) == restorer


@pytest.mark.parametrize(
    ("writer", "restorer"),
    [("kubectl", None), ("Lens", None), ("kube-downscaler", "kube-downscaler")],
)
def test_an_automaton_sets_replicas_again_and_a_person_does_not(
    writer: str, restorer: str | None
) -> None:
    assert replicas_restorer(meta(), "Deployment", (), writer) == restorer


def test_a_downscaler_restores_the_replicas_that_it_noted() -> None:
    noted = meta(annotations={"downscaler/original-replicas": "3"})
    assert replicas_restorer(noted, "Deployment", (), "kubectl") == "kube-downscaler"
    assert restorer_of(noted) is None


@pytest.mark.parametrize(
    ("annotations", "restorer"),
    [
        (
            {"vpaUpdates": "Pod resources updated by orders-vpa: container 0: memory request"},
            "VerticalPodAutoscaler orders-vpa",
        ),
        ({"vpaObservedContainers": "app"}, None),
        ({}, None),
    ],
)
def test_a_vertical_autoscaler_sets_a_pods_memory_again(
    annotations: dict[str, str], restorer: str | None
) -> None:
    assert resources_restorer(meta(annotations=annotations)) == restorer
