"""The fields that we read of objects that route to pods, limit them or hold their data: the
reference of v1.35, cert-manager's and Gateway API's v1. All text is hostile.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from faultline.connectors.vendors.kubernetes.answers import (
    KubernetesCondition,
    Meta,
    Selector,
    Struct,
)


class ServicePort(Struct):
    """A port of a Service; `target_port` is a number or the name of a container's port."""

    name: str | None = None
    port: int | None = None
    # Unset: the same as `port`.
    target_port: int | str | None = None


class ServiceSpec(Struct):
    """What a Service selects and where it sends."""

    selector: dict[str, str] | None = None
    ports: list[ServicePort] | None = None
    type: str | None = None


class KubernetesService(Struct):
    """A Service."""

    metadata: Meta
    spec: ServiceSpec | None = None


class EndpointConditions(Struct):
    """Whether an endpoint takes requests."""

    ready: bool | None = None


class Endpoint(Struct):
    """One address behind a Service."""

    conditions: EndpointConditions | None = None

    @property
    def is_ready(self) -> bool:
        """An unknown state counts as ready (discovery/v1, EndpointConditions)."""
        return self.conditions is None or self.conditions.ready is not False


class EndpointSlice(Struct):
    """discovery/v1 EndpointSlice; the label `kubernetes.io/service-name` names its Service."""

    metadata: Meta
    endpoints: list[Endpoint] | None = None


class BackendPort(Struct):
    """The port of a backend by name or number."""

    name: str | None = None
    number: int | None = None


class BackendService(Struct):
    """The Service behind a path."""

    name: str = ""
    port: BackendPort | None = None


class IngressBackend(Struct):
    """What a path leads to."""

    service: BackendService | None = None


class IngressPath(Struct):
    """One path of a host."""

    backend: IngressBackend | None = None


class IngressPaths(Struct):
    """The paths of a host."""

    paths: list[IngressPath] | None = None


class IngressRule(Struct):
    """One host."""

    http: IngressPaths | None = None


class IngressTls(Struct):
    """The certificate of some hosts."""

    secret_name: str | None = None


class IngressSpec(Struct):
    """Where requests from outside go, and the class of the controller that routes them."""

    ingress_class_name: str | None = None
    default_backend: IngressBackend | None = None
    rules: list[IngressRule] | None = None
    tls: list[IngressTls] | None = None


class Ingress(Struct):
    """networking.k8s.io/v1 Ingress."""

    metadata: Meta
    spec: IngressSpec | None = None


class BackendRef(Struct):
    """What a rule of an HTTPRoute leads to."""

    name: str = ""
    kind: str | None = None
    # Unset: the namespace of the route.
    namespace: str | None = None
    port: int | None = None


class RouteRule(Struct):
    """A rule of an HTTPRoute."""

    backend_refs: list[BackendRef] | None = None


class RouteSpec(Struct):
    """The gateways and the rules of an HTTPRoute."""

    parent_refs: list[BackendRef] | None = None
    rules: list[RouteRule] | None = None


class HttpRoute(Struct):
    """gateway.networking.k8s.io/v1 HTTPRoute."""

    metadata: Meta
    spec: RouteSpec | None = None


class PolicyPeer(Struct):
    """A peer that a network policy admits."""

    pod_selector: Selector | None = None
    namespace_selector: Selector | None = None
    # Only its presence matters: addresses of pods are not compared.
    ip_block: dict[str, object] | None = None


class PolicyPort(Struct):
    """A port that a network policy opens."""

    port: int | str | None = None
    end_port: int | None = None


class IngressAllowance(Struct):
    """A rule for requests that come in; `from` is a word of Python."""

    ports: list[PolicyPort] | None = None
    peers: list[PolicyPeer] | None = msgspec.field(default=None, name="from")


class EgressAllowance(Struct):
    """A rule for requests that go out."""

    ports: list[PolicyPort] | None = None
    to: list[PolicyPeer] | None = None


class PolicySpec(Struct):
    """Which pods a network policy is about, and what it admits."""

    pod_selector: Selector | None = None
    policy_types: list[str] | None = None
    ingress: list[IngressAllowance] | None = None
    egress: list[EgressAllowance] | None = None


class NetworkPolicy(Struct):
    """networking.k8s.io/v1 NetworkPolicy."""

    metadata: Meta
    spec: PolicySpec | None = None


class QuotaStatus(Struct):
    """What a quota allows, and what is used of it."""

    hard: dict[str, str] | None = None
    used: dict[str, str] | None = None


class ResourceQuota(Struct):
    """A ResourceQuota."""

    metadata: Meta
    status: QuotaStatus | None = None


class ClaimStatus(Struct):
    """Pending, Bound or Lost."""

    phase: str | None = None


class VolumeClaim(Struct):
    """A PersistentVolumeClaim."""

    metadata: Meta
    status: ClaimStatus | None = None


class BudgetStatus(Struct):
    """How many instances may be taken away."""

    disruptions_allowed: int | None = None
    current_healthy: int | None = None
    desired_healthy: int | None = None


class BudgetSpec(Struct):
    """Which pods a budget is about."""

    selector: Selector | None = None


class DisruptionBudget(Struct):
    """policy/v1 PodDisruptionBudget."""

    metadata: Meta
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class CertificateSpec(Struct):
    """The Secret that a certificate is written to; the Secret itself is never read."""

    secret_name: str = ""


class CertificateStatus(Struct):
    """Until when a certificate is valid."""

    not_after: str | None = None
    conditions: list[KubernetesCondition] | None = None


class ManagedCertificate(Struct):
    """cert-manager.io/v1 Certificate."""

    metadata: Meta
    spec: CertificateSpec | None = None
    status: CertificateStatus | None = None


def selects(selector: Mapping[str, str] | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a plain selector picks an object with these labels. An empty one picks none."""
    if not selector:
        return False
    object_labels = labels or {}
    return all(object_labels.get(key) == value for key, value in selector.items())


def matches(selector: Selector | None, labels: Mapping[str, str] | None) -> bool:
    """Whether a label selector picks an object; an empty one picks all (metav1.LabelSelector)."""
    if selector is None:
        return False
    object_labels = labels or {}
    for key, value in (selector.match_labels or {}).items():
        if object_labels.get(key) != value:
            return False
    return all(
        _expression_holds(match_expression, object_labels)
        for match_expression in selector.match_expressions or ()
    )


def _expression_holds(expression: Mapping[str, object], labels: Mapping[str, str]) -> bool:
    key, operator = str(expression.get("key", "")), expression.get("operator")
    values = expression.get("values")
    listed = values if isinstance(values, list) else []
    if operator == "In":
        return labels.get(key) in listed
    if operator == "NotIn":
        # An object without the label matches too, as the API has it.
        return labels.get(key) not in listed
    if operator == "Exists":
        return key in labels
    # `DoesNotExist`, the last of the four operators.
    return key not in labels
