"""Network policies that cut a caller off from what it calls.

A pod that some policy selects takes only what one of those policies admits (kubernetes.io, "Network
Policies"). Who calls whom is the service catalogue's to say, or a container's variables that hold a
Service's name; without either only a policy that admits nobody at all is reported.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import product

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.vendors.kubernetes.answers import Meta, Pod
from faultline.connectors.vendors.kubernetes.object_answers import (
    KubernetesService,
    NetworkPolicy,
    PolicyPeer,
    PolicyPort,
    matches,
)
from faultline.connectors.vendors.kubernetes.pod_facts import declared_ports
from faultline.connectors.vendors.kubernetes.state_rows import NamespaceContents

NAMESPACE_LABEL = "kubernetes.io/metadata.name"
"""Every namespace carries its own name under it (kubernetes.io, "Automatic labelling")."""
INGRESS, EGRESS = "Ingress", "Egress"


@dataclass(frozen=True)
class _Rule:
    """One rule of a policy, whichever way it is for."""

    peers: Sequence[PolicyPeer] | None
    ports: Sequence[PolicyPort] | None


@dataclass(frozen=True)
class CallerPods:
    """A service's pods and the namespace that they are in."""

    space: str
    pods: Sequence[Pod]


def with_services(
    pods: Mapping[str, CallerPods],
    services: Sequence[KubernetesService],
    contents: NamespaceContents,
) -> dict[str, CallerPods]:
    """The pods of each service, and for what is called and was not listed itself a pod as its
    Service selects it: policies select by the same labels."""
    pods_by_service = dict(pods)
    called = {callee for caller, callee in contents.calls if caller in pods}
    for service in services:
        name, selector = service.metadata.name, service.spec.selector if service.spec else None
        if name in called and name not in pods and selector:
            labels = Meta(name=name, namespace=contents.name, labels=selector)
            pods_by_service[name] = CallerPods(contents.name, [Pod(metadata=labels)])
    return pods_by_service


def policy_facts(
    contents: NamespaceContents,
    policies: Sequence[NetworkPolicy],
    elsewhere: Mapping[str, CallerPods],
) -> list[StateRow]:
    """Rows for calls that the policies of this namespace do not let through. `elsewhere` are the
    pods of all services in scope, of any namespace."""
    rows = list(_closed_to_all(contents, policies))
    # A service that nobody may reach is reported once, not for each caller.
    closed = {row.service for row in rows}
    for caller, callee in contents.calls:
        if callee in closed or caller not in elsewhere or callee not in elsewhere:
            continue
        rows += _between(contents, policies, caller, callee, elsewhere)
    return rows


def admitted_calls(
    contents: NamespaceContents,
    policies: Sequence[NetworkPolicy],
    elsewhere: Mapping[str, CallerPods],
) -> list[tuple[str, str]]:
    """Caller and callee where a policy of this namespace names both by the labels of their pods:
    whoever wrote it meant the one to call the other."""
    here = [(name, pods) for name, pods in elsewhere.items() if pods.space == contents.name]
    calls: dict[tuple[str, str], None] = {}
    for policy, way in product(policies, (INGRESS, EGRESS)):
        named = _named_peers(policy, way)
        subjects = [name for name, pods in here if _is_about(policy, way, pods.pods[0])]
        for subject, (other, pods) in product(subjects, elsewhere.items()):
            if other != subject and any(_is_peer(peer, pods, contents.name) for peer in named):
                calls[(other, subject) if way == INGRESS else (subject, other)] = None
    return list(calls)


def _named_peers(policy: NetworkPolicy, way: str) -> list[PolicyPeer]:
    """The peers that it selects by labels, where it selects its own pods by labels too: an empty
    selector selects every pod, and names nobody."""
    selector = policy.spec.pod_selector if policy.spec else None
    if selector is None or not selector.text:
        return []
    peers = [peer for rule in _rules(policy, way) for peer in rule.peers or ()]
    return [peer for peer in peers if peer.pod_selector and peer.pod_selector.text]


def _between(
    contents: NamespaceContents,
    policies: Sequence[NetworkPolicy],
    caller: str,
    callee: str,
    pods_by_service: Mapping[str, CallerPods],
) -> Iterator[StateRow]:
    """What stops a call, on the side of the callee and on that of the caller."""
    from_pods, to_pods = pods_by_service[caller], pods_by_service[callee]
    if to_pods.space == contents.name:
        blocking = _blocking(policies, INGRESS, to_pods, from_pods, to_pods.pods)
        if blocking is not None:
            yield _row(contents, blocking, callee, caller, callee)
    if from_pods.space == contents.name:
        blocking = _blocking(policies, EGRESS, from_pods, to_pods, to_pods.pods)
        if blocking is not None:
            yield _row(contents, blocking, caller, caller, callee)


def _row(
    contents: NamespaceContents, policy: NetworkPolicy, service: str, caller: str, callee: str
) -> StateRow:
    return contents.row(
        "NetworkPolicy",
        policy.metadata.name,
        "traffic_blocked",
        service=service,
        field="spec",
        value=caller,
        expected=callee,
        since=policy.metadata.written,
    )


def _blocking(
    policies: Sequence[NetworkPolicy],
    way: str,
    subject: CallerPods,
    other: CallerPods,
    served: Sequence[Pod],
) -> NetworkPolicy | None:
    """The newest policy on `subject` pods, where none of them admits `other` on a served port."""
    if not subject.pods or not other.pods:
        return None
    # Pods of one service are taken to share their labels: one stands for all.
    pod = subject.pods[0]
    about = [policy for policy in policies if _is_about(policy, way, pod)]
    ports = _numbers(served)
    for policy in about:
        for rule in _rules(policy, way):
            if rule.peers and not any(_is_peer(peer, other, subject.space) for peer in rule.peers):
                admits = False
            else:
                admits = _opens(rule.ports, ports)
            if admits:
                return None
    return max(about, key=_written, default=None)


def _written(policy: NetworkPolicy) -> datetime:
    return policy.metadata.written or datetime.min.replace(tzinfo=UTC)


def _is_about(policy: NetworkPolicy, way: str, pod: Pod) -> bool:
    spec = policy.spec
    if spec is None or way not in _ways(policy):
        return False
    return matches(spec.pod_selector, pod.metadata.labels)


def _ways(policy: NetworkPolicy) -> Sequence[str]:
    """Without `policyTypes` a policy is about what comes in, and about what goes out where it has
    rules for that."""
    spec = policy.spec
    if spec is None:
        return ()
    if spec.policy_types:
        return spec.policy_types
    return (INGRESS, EGRESS) if spec.egress else (INGRESS,)


def _rules(policy: NetworkPolicy, way: str) -> list[_Rule]:
    spec = policy.spec
    if spec is None:
        return []
    if way == INGRESS:
        return [_Rule(rule.peers, rule.ports) for rule in spec.ingress or ()]
    return [_Rule(rule.to, rule.ports) for rule in spec.egress or ()]


def _is_peer(peer: PolicyPeer, other: CallerPods, space: str) -> bool:
    if peer.ip_block is not None:
        # Addresses of pods are not compared, so that it may well be one.
        return True
    if peer.namespace_selector is None:
        if other.space != space:
            return False
    elif not matches(peer.namespace_selector, {NAMESPACE_LABEL: other.space}):
        # Of other labels of a namespace nothing is known.
        return any(key != NAMESPACE_LABEL for key in peer.namespace_selector.match_labels or ())
    if peer.pod_selector is None:
        return True
    return any(matches(peer.pod_selector, pod.metadata.labels) for pod in other.pods)


def _opens(opened: Sequence[PolicyPort] | None, ports: set[int | str]) -> bool:
    """Whether any of these ports is let through; unknown ports are."""
    if not opened or not ports:
        return True
    for policy_port in opened:
        # A rule without a port opens all of them.
        if policy_port.port is None or policy_port.port in ports:
            return True
        if policy_port.end_port is not None and isinstance(policy_port.port, int):
            numbers = [port for port in ports if isinstance(port, int)]
            if any(policy_port.port <= port <= policy_port.end_port for port in numbers):
                return True
    return False


def _numbers(pods: Iterable[Pod]) -> set[int | str]:
    numbers: set[int | str] = set()
    for pod in pods:
        numbers |= declared_ports(pod)
    return numbers


def _closed_to_all(
    contents: NamespaceContents, policies: Sequence[NetworkPolicy]
) -> Iterator[StateRow]:
    """Services whose pods nobody may reach, by any policy."""
    services = dict.fromkeys(service for service, _ in contents.pods.values())
    for service in services:
        pod = contents.pods_of(service)[0]
        about = [policy for policy in policies if _is_about(policy, INGRESS, pod)]
        if about and not any(_rules(policy, INGRESS) for policy in about):
            newest = max(about, key=_written)
            yield _row(contents, newest, service, "anyone", service)
