"""Who answers at an address: hosts, ports, URLs and Kubernetes' names as services.

Metrics, spans, failing lines and variables of containers all name callees by their address. What an
address means is decided here alone.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from faultline.analysis.kinds.signals import PEER

LONGEST = 253
"""Of a host name (RFC 1035)."""
_SCHEME = re.compile(r"^(?:jdbc:)?[A-Za-z][A-Za-z0-9+.-]*:///?")
"""Also gRPC's targets: `dns:///payments:8080`."""
_PORT = re.compile(r":\d+$")
_NOBODY = frozenset({"localhost", "unknown", "unknown_service", "none", "null"})
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_SUFFIXES = frozenset({"service", "svc", "api", "server", "app", "grpc"})
"""Words that names of services and interfaces end with, and that distinguish none."""
INSIDE = frozenset({"svc", "internal", "local"})
"""Labels of host names that are not reached from outside."""


PEER_LABELS = (
    PEER,
    "peer_service",
    "peer.service",
    "server",
    "server_address",
    "server.address",
    "server_service",
    "destination",
    "destination_workload",
    "destination_app",
    "destination_service_name",
    "upstream",
    "target",
)
"""Labels in which a caller's metrics name the callee: OpenTelemetry, Istio, Envoy, Tempo."""


@dataclass(frozen=True)
class AddressBook:
    """The services that are known, and what is known of where they answer."""

    services: Collection[str]
    hosts: Mapping[str, str] = field(default_factory=dict)
    """Services by IP addresses, aliases, and host names that do not name them, in small letters."""
    namespace: str = ""
    """The namespace of the alert: names without one are of services there."""
    namespaces: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By service, the namespaces in which one of that name runs, where that is known."""

    def service_at(self, address: str) -> str | None:
        """The service at a host, a host with its port, or a URL: a known one, or else the host
        itself. None for an IP address that nothing ties to a service, and for this machine."""
        text = address.strip()
        if _SCHEME.match(text):
            text = _SCHEME.sub("", text).split("/")[0].split("?")[0].rpartition("@")[2]
        name = _PORT.sub("", text).rstrip(".")
        for spelling in (text, name):
            if spelling.casefold() in self.hosts:
                return self.hosts[spelling.casefold()]
        if not name or len(name) > LONGEST or not name.isprintable() or name.lower() in _NOBODY:
            return None
        # An address of a pod or a load balancer names nobody, and is another one tomorrow.
        if _is_ip(name) or _is_ip(text):
            return None
        if name in self.services or "." not in name:
            return name
        return self._in_domain(name)

    def service_in(self, name: str, namespace: str) -> str:
        """A service by its name and namespace: another one than ours of that name where services
        of that name run in several namespaces."""
        there = self.namespaces.get(name, ())
        is_ambiguous = namespace in there and len(there) > 1
        if self.namespace and is_ambiguous and namespace != self.namespace:
            return f"{name}.{namespace}"
        return name

    def _in_domain(self, host: str) -> str:
        labels = host.split(".")
        # `cart.shop.svc.cluster.local`, or a pod of a StatefulSet: `kafka-0.kafka.shop.svc`.
        if "svc" in labels[2:]:
            at = labels.index("svc", 2)
            return self.service_in(self._ours(labels[at - 2]), labels[at - 1])
        first = self._ours(labels[0])
        if first not in self.services and first == labels[0]:
            return host
        # A service called `api` does not answer at `api.stripe.com`.
        if len(labels) > 2 and not names_service(labels[0], labels):
            return host
        return self.service_in(first, labels[1]) if len(labels) == 2 else first

    def _ours(self, label: str) -> str:
        return self.hosts.get(label.casefold(), label)

    def service_of_interface(self, interface: str) -> str | None:
        """The known service that implements an RPC interface such as `acme.payments.v1.Payments`
        or `acme.payments.v1.Payments/Charge`: the only one that shares its name."""
        path = interface.strip("/").split("/")[0]
        *package, last = path.split(".")
        names = [_words(last), *(_words(part) for part in reversed(package))]
        for words in names:
            services = self._by_words.get(words, ()) if words else ()
            if len(services) == 1:
                return next(iter(services))
        # `CheckoutService` of the service `checkout-core`: only its beginning is the same.
        beginning = set()
        for words, services in self._by_words.items():
            if names[0] and words[: len(names[0])] == names[0]:
                beginning |= services
        return beginning.pop() if len(beginning) == 1 else None

    @cached_property
    def _by_words(self) -> dict[tuple[str, ...], set[str]]:
        services: dict[tuple[str, ...], set[str]] = {}
        for service in self.services:
            services.setdefault(_words(service), set()).add(service)
        return services


def names_service(label: str, labels: Collection[str]) -> bool:
    """Whether a label of a host name means the service of that name. `api` and its like mean it
    only inside."""
    return label.casefold() not in _SUFFIXES or not INSIDE.isdisjoint(labels)


def _words(name: str) -> tuple[str, ...]:
    words = [word.lower() for word in _WORD.findall(name)]
    while len(words) > 1 and words[-1] in _SUFFIXES:
        words.pop()
    return tuple(words)


def _is_ip(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


def peer_of(service: str, labels: Mapping[str, str], book: AddressBook) -> str | None:
    """The service that a caller's series of its calls is about; None where it is about the service
    itself, as that of a server which tells the host it was asked for."""
    for name in PEER_LABELS:
        if labels.get(name):
            peer = book.service_at(labels[name]) or labels[name]
            # A label of the service's own host is none of a callee.
            return peer if peer != service else None
    return None
