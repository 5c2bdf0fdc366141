"""Who calls whom as a cluster's objects have it: ingresses and routes that lead to Services, and
containers that are given a Service's address.

The values of a container's variables are looked through for the names of Services that are there,
and forgotten: they may hold passwords. Nothing but the name of such a Service is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from faultline.analysis.case.calls import NETWORK_POLICIES
from faultline.connectors.shared.rows.collection_builder import CallRow, nanoseconds
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kubernetes.object_answers import (
    HttpRoute,
    Ingress,
    IngressBackend,
    KubernetesService,
    RouteSpec,
    selects,
)
from faultline.connectors.vendors.kubernetes.state_rows import NamespaceContents

SOURCE = "kubernetes"
MOST_CALLS = 2_000
MOST_CONTAINERS, MOST_VARIABLES, MOST_HOSTS = 20, 500, 50
LONGEST_VALUE = 4_000
NGINX_CLASS, NGINX = "nginx", "ingress-nginx"
"""The usual class of the controller ingress-nginx, and what the controller is called."""
INGRESS = "ingress"
"""Who routes, where an Ingress names no class."""
# A label of RFC 1123 has at most 63 characters.
_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_HOST = rf"{_LABEL}(?:\.{_LABEL}){{0,6}}"
_IN_URL = re.compile(rf"(?:://|@|\bhost=)({_HOST})(?=[:/,;?\s]|$)")
"""A host after a scheme, after credentials, or in a connection string of PostgreSQL."""
_BARE = re.compile(rf"(?<![-\w./:@=?&])({_HOST})(?=(:\d)|[/,;\s]|$)")
"""A host that stands by itself. With a port or in the cluster's domain it is an address: other
words may be anything, such as a mode."""
_NAMES_ADDRESS = re.compile(
    r"(HOSTS?|HOSTNAME|ADDR|ADDRESS(ES)?|URLS?|URI|ENDPOINTS?|SERVERS?|DSN)$"
)
_INJECTED = re.compile(r"\$\(([A-Z][A-Z0-9_]{0,62})_SERVICE_(?:HOST|PORT)")
"""Variables that Kubernetes itself sets for each Service (kubernetes.io, "Service", "Discovering
services")."""


@dataclass(frozen=True)
class ReferringObjects:
    """What of a namespace leads to Services."""

    contents: NamespaceContents
    services: Sequence[KubernetesService]
    ingresses: Sequence[Ingress]
    routes: Sequence[HttpRoute]
    admitted: Sequence[tuple[str, str]] = ()
    """Caller and callee, by network policies that name both."""


@dataclass(frozen=True)
class ServicesThere:
    """Our name of what is behind each Service, by its namespace and name."""

    ours: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, referring: Iterable[ReferringObjects]) -> ServicesThere:
        """The Services of these namespaces."""
        ours: dict[tuple[str, str], str] = {}
        for referring_object in referring:
            for service in referring_object.services:
                name = service.metadata.name
                ours[referring_object.contents.name, name] = _behind(
                    referring_object.contents, service
                )
        return cls(ours)

    def at(self, host: str, space: str) -> str | None:
        """What answers at a host, as seen from a namespace: `cart`, `cart.shop`,
        `cart.shop.svc.cluster.local`, or a pod of a StatefulSet such as `kafka-0.kafka`."""
        name, _, rest = host.partition(".")
        if not rest:
            return self.ours.get((space, name))
        our = self._in_domain(name, rest)
        if our is None:
            # The first part may be a pod: `kafka-0.kafka` or `kafka-0.kafka.shop`.
            behind, _, domain = rest.partition(".")
            our = self._in_domain(behind, domain) if domain else self.ours.get((space, behind))
        return our

    def _in_domain(self, name: str, domain: str) -> str | None:
        space, _, suffix = domain.partition(".")
        # `cart.example.com` is another host, even if there is a namespace `example`.
        is_cluster = not suffix or suffix == "svc" or suffix.startswith("svc.")
        return self.ours.get((space, name)) if is_cluster else None


def service_references(referring: Sequence[ReferringObjects], end: datetime) -> list[CallRow]:
    """The calls that these namespaces' objects declare."""
    there = ServicesThere.of(referring)
    pairs: dict[tuple[str, str], None] = {}
    for referring_object in referring:
        for caller, callee in (
            *_calls_from_variables(referring_object, there),
            *_routed(referring_object, there),
        ):
            if caller != callee:
                pairs[short(caller, 200), short(callee, 200)] = None
    at = nanoseconds(end)
    rows = [CallRow(*pair, SOURCE, at) for pair in pairs]
    for referring_object in referring:
        for caller, callee in referring_object.admitted:
            rows.append(CallRow(short(caller, 200), short(callee, 200), NETWORK_POLICIES, at))
    return rows[:MOST_CALLS]


def _behind(contents: NamespaceContents, service: KubernetesService) -> str:
    """Our service whose pods a Service selects; else the Service's own name."""
    selector = service.spec.selector if service.spec else None
    for ours, pod in contents.pods.values():
        if selects(selector, pod.metadata.labels):
            return ours
    return service.metadata.name


def _calls_from_variables(
    objects: ReferringObjects, there: ServicesThere
) -> Iterator[tuple[str, str]]:
    for workload in objects.contents.workloads:
        spec = workload.object.spec
        for name, value in _settings(spec.template if spec else None):
            for callee in _services_in(name, value, objects.contents.name, there):
                yield workload.ref.service, callee


def _settings(template: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Names and values of the variables and arguments that a template's containers are given."""
    spec = (template or {}).get("spec")
    if not isinstance(spec, Mapping):
        return
    containers = [*_tables(spec.get("initContainers")), *_tables(spec.get("containers"))]
    for container in containers[:MOST_CONTAINERS]:
        for variable in _tables(container.get("env"))[:MOST_VARIABLES]:
            name, value = variable.get("name"), variable.get("value")
            # A variable with `valueFrom` has no value here, and its source stays unread.
            if isinstance(name, str) and isinstance(value, str):
                yield name, value[:LONGEST_VALUE]
        words = [*_words(container.get("command")), *_words(container.get("args"))]
        for argument in words[:MOST_VARIABLES]:
            # `--cart-addr=cart:7070` is a setting with a name, and `cart:7070` after it is one too.
            is_named = argument.startswith("-") and "=" in argument
            name, _, value = argument.partition("=") if is_named else ("", "", argument)
            yield name.lstrip("-").replace("-", "_").upper(), value[:LONGEST_VALUE]


def _words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _services_in(name: str, value: str, space: str, there: ServicesThere) -> Iterator[str]:
    for host in islice(_hosts(name, value), MOST_HOSTS):
        callee = there.at(host, space)
        if callee is not None:
            yield callee


def _hosts(name: str, value: str) -> Iterator[str]:
    for match in _INJECTED.finditer(value):
        # `CART_DB_SERVICE_HOST` stands for the Service `cart-db`.
        yield match[1].lower().replace("_", "-")
    for match in _IN_URL.finditer(value):
        yield match[1]
    for match in _BARE.finditer(value):
        is_whole = match[1] == value and _NAMES_ADDRESS.search(name)
        if match[2] or ".svc" in match[1] or is_whole:
            yield match[1]


def _routed(objects: ReferringObjects, there: ServicesThere) -> Iterator[tuple[str, str]]:
    for ingress in objects.ingresses:
        ingress_class_name = ingress.spec.ingress_class_name if ingress.spec else None
        router = NGINX if ingress_class_name == NGINX_CLASS else ingress_class_name or INGRESS
        for backend in _backends(ingress):
            name = backend.service.name if backend.service else ""
            callee = there.ours.get((objects.contents.name, name))
            if callee is not None:
                yield router, callee
    for route in objects.routes:
        if route.spec is not None:
            yield from _by_gateways(route.spec, objects.contents.name, there)


def _by_gateways(spec: RouteSpec, space: str, there: ServicesThere) -> Iterator[tuple[str, str]]:
    gateways = [parent.name for parent in spec.parent_refs or () if parent.name]
    for rule in spec.rules or ():
        for ref in rule.backend_refs or ():
            callee = there.ours.get((ref.namespace or space, ref.name))
            if callee is not None:
                yield from ((gateway, callee) for gateway in gateways)


def _backends(ingress: Ingress) -> Iterator[IngressBackend]:
    spec = ingress.spec
    if spec is None:
        return
    if spec.default_backend is not None:
        yield spec.default_backend
    for rule in spec.rules or ():
        for path in (rule.http.paths if rule.http else None) or ():
            if path.backend is not None:
                yield path.backend


def _tables(value: Any) -> list[Mapping[str, Any]]:
    return (
        [table for table in value if isinstance(table, Mapping)] if isinstance(value, list) else []
    )
