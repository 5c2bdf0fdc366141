"""Where requests are sent beside what is there: Services, ingresses and routes of a gateway."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from faultline.connectors.shared.rows.collection_builder import StateRow
from faultline.connectors.vendors.kubernetes.answers import Meta, Pod
from faultline.connectors.vendors.kubernetes.object_answers import (
    BackendPort,
    EndpointSlice,
    HttpRoute,
    Ingress,
    IngressBackend,
    KubernetesService,
    ManagedCertificate,
    selects,
)
from faultline.connectors.vendors.kubernetes.pod_facts import declared_ports
from faultline.connectors.vendors.kubernetes.state_rows import (
    NamespaceContents,
    labels_text,
    listed,
)
from faultline.connectors.vendors.pagerduty.answers import moment

SLICE_OF = "kubernetes.io/service-name"
"""Label of a slice that names its Service (kubernetes.io, "EndpointSlices")."""


@dataclass(frozen=True)
class Routes:
    """Everything in a namespace that sends requests to pods. `slices` is None where they cannot be
    read."""

    services: Sequence[KubernetesService]
    slices: Sequence[EndpointSlice] | None
    ingresses: Sequence[Ingress]
    routes: Sequence[HttpRoute]


def route_facts(contents: NamespaceContents, routes: Routes) -> list[StateRow]:
    """Rows for Services without pods or with a wrong port, and for routes that lead nowhere."""
    rows: list[StateRow] = []
    for service in routes.services:
        rows += _of_service(contents, service, routes.slices)
    for backend in _backends(routes):
        row = _of_backend(contents, backend, routes)
        if row is not None:
            rows.append(row)
    return list(dict.fromkeys(rows))


def _of_service(
    contents: NamespaceContents,
    service: KubernetesService,
    slices: Sequence[EndpointSlice] | None,
) -> list[StateRow]:
    selector = service.spec.selector if service.spec else None
    if not selector:
        # Without a selector somebody else keeps its endpoints.
        return []
    selected = _selected(contents, selector)
    if selected:
        ours = selected[0][0]
        rows = _wrong_ports(contents, service, ours, [pod for _, pod in selected])
        # A wrong port already says why nothing answers.
        if not rows and _has_no_ready_endpoint(service, slices):
            rows = [_service_row(contents, service, "no_ready_endpoints", ours)]
        return rows
    owner = _owner(contents, service.metadata, selector)
    # Pods outside the scope may be behind it, which only slices show.
    if owner is None or slices is None or _has_endpoints(service, slices):
        return []
    pods = contents.pods_of(owner)
    if not pods:
        return [_service_row(contents, service, "no_ready_endpoints", owner)]
    labels = _labels_instead(selector, pods)
    row = _service_row(contents, service, "selector_matches_nothing", owner)
    return [row._replace(value=labels_text(selector)[:200], expected=labels[:200])]


def _selected(contents: NamespaceContents, selector: Mapping[str, str]) -> list[tuple[str, Pod]]:
    service_pods = []
    for service, pod in contents.pods.values():
        if selects(selector, pod.metadata.labels):
            service_pods.append((service, pod))
    return service_pods


def _owner(contents: NamespaceContents, meta: Meta, selector: Mapping[str, str]) -> str | None:
    """Whose Service it is that selects no pod: by its name, else by labels of a workload's pods
    that it half selects."""
    for workload in contents.workloads:
        if meta.name in (workload.meta.name, workload.ref.service):
            return workload.ref.service
    service, share = None, 0
    for workload in contents.workloads:
        spec = workload.object.spec
        match_labels = (spec.selector.match_labels if spec and spec.selector else None) or {}
        alike = sum(selector.get(key) == value for key, value in match_labels.items())
        if alike > share:
            service, share = workload.ref.service, alike
    return service


def _labels_instead(selector: Mapping[str, str], pods: Iterable[Pod]) -> str:
    """What the pods have for the labels that the selector names, else what they have at all."""
    label_texts: set[str] = set()
    every: set[str] = set()
    for pod in pods:
        labels = pod.metadata.labels or {}
        matching_labels = {key: labels[key] for key in selector if key in labels}
        label_texts.add(labels_text(matching_labels))
        every.add(labels_text(labels))
    named = label_texts - {""}
    return listed(named or every)


def _has_endpoints(service: KubernetesService, slices: Sequence[EndpointSlice]) -> bool:
    """Whether pods that are not in scope are behind it."""
    return any(endpoint_slice.endpoints for endpoint_slice in _slices_of(service, slices))


def _has_no_ready_endpoint(
    service: KubernetesService, slices: Sequence[EndpointSlice] | None
) -> bool:
    if slices is None:
        return False
    for endpoint_slice in _slices_of(service, slices):
        if any(endpoint.is_ready for endpoint in endpoint_slice.endpoints or ()):
            return False
    return True


def _slices_of(
    service: KubernetesService, slices: Iterable[EndpointSlice]
) -> Iterator[EndpointSlice]:
    for endpoint_slice in slices:
        if (endpoint_slice.metadata.labels or {}).get(SLICE_OF) == service.metadata.name:
            yield endpoint_slice


def _wrong_ports(
    contents: NamespaceContents, service: KubernetesService, ours: str, pods: Iterable[Pod]
) -> list[StateRow]:
    declared: set[int | str] = set()
    for pod in pods:
        declared |= declared_ports(pod)
    rows = []
    for port in (service.spec.ports if service.spec else None) or ():
        # An unset target is the Service's own port.
        target = port.target_port if port.target_port not in (None, 0) else port.port
        # A container need not declare a port, but one that declares some means them.
        if declared and target is not None and target not in declared:
            row = _service_row(contents, service, "port_not_served", ours)
            rows.append(row._replace(value=str(target)[:60], expected=listed(declared)[:200]))
    return rows


_FIELDS = {
    "selector_matches_nothing": "spec.selector",
    "port_not_served": "spec.ports.targetPort",
    "no_ready_endpoints": "endpoints",
}


def _service_row(
    contents: NamespaceContents, service: KubernetesService, fact: str, ours: str
) -> StateRow:
    since = service.metadata.written
    if fact == "no_ready_endpoints":
        # When the last pod of a service stopped being ready.
        times = []
        for pod in contents.pods_of(ours):
            for condition in (pod.status.conditions if pod.status else None) or ():
                at = moment(condition.last_transition_time)
                if condition.type == "Ready" and condition.status != "True" and at is not None:
                    times.append(at)
        since = max(times, default=None)
    name = service.metadata.name
    return contents.row("Service", name, fact, service=ours, field=_FIELDS[fact], since=since)


@dataclass(frozen=True)
class _Backend:
    """One place that an ingress or a route leads to."""

    kind: str
    meta: Meta
    service: str
    port: int | str | None
    beside: tuple[str, ...]
    """The other Services of the same ingress or route."""


def _backends(routes: Routes) -> Iterator[_Backend]:
    for ingress in routes.ingresses:
        named = [
            _ingress_backend(ingress_backend) for ingress_backend in _ingress_backends(ingress)
        ]
        yield from _together(
            "Ingress", ingress.metadata, [named_backend for named_backend in named if named_backend]
        )
    for route in routes.routes:
        pairs: list[tuple[str, int | str | None]] = []
        for rule in (route.spec.rules if route.spec else None) or ():
            for ref in rule.backend_refs or ():
                # Services of other namespaces are not listed, so none of them can be called
                # missing.
                same_space = ref.namespace in (None, route.metadata.namespace)
                if same_space and ref.kind in (None, "Service"):
                    pairs.append((ref.name, ref.port))
        yield from _together("HTTPRoute", route.metadata, pairs)


def _together(
    kind: str, meta: Meta, pairs: Sequence[tuple[str, int | str | None]]
) -> Iterator[_Backend]:
    names = tuple(name for name, _ in pairs)
    for name, port in pairs:
        yield _Backend(kind, meta, name, port, tuple(other for other in names if other != name))


def _ingress_backends(ingress: Ingress) -> Iterator[IngressBackend]:
    spec = ingress.spec
    if spec is None:
        return
    if spec.default_backend is not None:
        yield spec.default_backend
    for rule in spec.rules or ():
        for path in (rule.http.paths if rule.http else None) or ():
            if path.backend is not None:
                yield path.backend


def _ingress_backend(backend: IngressBackend) -> tuple[str, int | str | None] | None:
    service = backend.service
    if service is None:
        return None
    port = service.port or BackendPort()
    return service.name, port.number or port.name


def _of_backend(contents: NamespaceContents, backend: _Backend, routes: Routes) -> StateRow | None:
    services = {service.metadata.name: service for service in routes.services}
    there = services.get(backend.service)
    if there is None:
        value = f"Service {backend.service}"
    elif backend.port is not None and not _has_port(there, backend.port):
        value = f"port {backend.port} of Service {backend.service}"
    else:
        return None
    return contents.row(
        backend.kind,
        backend.meta.name,
        "route_to_nothing",
        service=_routed_to(contents, backend, services),
        field="backend",
        value=value,
        since=backend.meta.written,
    )


def _has_port(service: KubernetesService, port: int | str) -> bool:
    for service_port in (service.spec.ports if service.spec else None) or ():
        if port in (service_port.port, service_port.name):
            return True
    return False


def _routed_to(
    contents: NamespaceContents, backend: _Backend, services: Mapping[str, KubernetesService]
) -> str | None:
    """The service that requests were meant for: by the backend's name, else by the ingress's other
    backends, else by its own name."""
    names = {workload.meta.name: workload.ref.service for workload in contents.workloads}
    for name in (backend.service, *backend.beside, backend.meta.name):
        if name in names:
            return names[name]
        service = services.get(name)
        selector = service.spec.selector if service and service.spec else None
        selected = _selected(contents, selector or {})
        if selected:
            return selected[0][0]
    # Longest first: `cart-db` fits better than `cart`.
    for name, service_name in sorted(names.items(), key=lambda item: -len(item[0])):
        if backend.service.startswith(f"{name}-") or name.startswith(f"{backend.service}-"):
            return service_name
    return None


def certificate_facts(
    contents: NamespaceContents, certificates: Iterable[ManagedCertificate], routes: Routes
) -> list[StateRow]:
    """Rows for certificates that are past their end, by cert-manager's word; Secrets are never
    read."""
    rows = []
    for certificate in certificates:
        status, spec = certificate.status, certificate.spec
        until = moment(status.not_after) if status else None
        if until is None or until > contents.end or spec is None:
            continue
        for service in _served_with(contents, spec.secret_name, routes):
            row = contents.row(
                "Certificate",
                certificate.metadata.name,
                "certificate_expired",
                service=service,
                field="status.notAfter",
                value=f"it ended at {until:%Y-%m-%d %H:%M} UTC",
                since=until,
            )
            rows.append(row)
    return rows


def _served_with(contents: NamespaceContents, secret: str, routes: Routes) -> list[str | None]:
    """The services behind the ingresses that use a certificate's Secret; nobody in particular where
    none does."""
    services = {service.metadata.name: service for service in routes.services}
    owners: list[str | None] = []
    for ingress in routes.ingresses:
        used = {
            tls_block.secret_name
            for tls_block in (ingress.spec.tls if ingress.spec else None) or ()
        }
        if secret not in used:
            continue
        named = [
            _ingress_backend(ingress_backend) for ingress_backend in _ingress_backends(ingress)
        ]
        for backend in _together(
            "Ingress", ingress.metadata, [named_backend for named_backend in named if named_backend]
        ):
            service = _routed_to(contents, backend, services)
            if service not in owners:
                owners.append(service)
    return owners or [None]
