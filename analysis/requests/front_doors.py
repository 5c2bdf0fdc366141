"""Endpoints that are only seen by their callers, and the services behind them.

A call through a load balancer or a DNS name is often drawn beside the instrumented service that
answers it: two nodes, one service. Such an endpoint is a host name that calls nobody; a piece of
that name names exactly one of the services that its caller calls as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from faultline.analysis.requests.topology import Topology

MIN_LETTERS = 5
"""Shorter pieces of a name occur in others by chance; load balancers cut names to about this
length."""
_HOST = re.compile(r"[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
_LETTERS = re.compile(r"[a-z]+")
_STORE = re.compile(
    r"(^|[^a-z])(db|sql|postgres\w*|mysql|mongo\w*|redis|rds|cache|kafka|queue|sqs|s3|bucket"
    r"|broker)([^a-z]|$)"
)
"""A data store is often named for the service it serves, and is another thing."""
_GENERIC = (
    *("services", "servers", "clusters", "internal", "external", "gateways"),
    *("amazonaws", "cloudapp", "googleapis"),
)
"""Words, or their beginnings, that host names are made of whoever answers."""


def front_doors(topology: Topology) -> dict[str, str]:
    """Endpoint to the service behind it; without those that no service, or more than one, could be
    behind."""
    doors = {}
    for endpoint in sorted(topology.services):
        if not _is_endpoint(endpoint) or topology.callees(endpoint):
            continue
        # The instrumented services that the endpoint's callers call as well.
        beside = set()
        for caller in topology.callers(endpoint):
            for service in topology.callees(caller):
                # AWS X-Ray draws a database as name@host.
                if not _HOST.match(service) and "@" not in service:
                    beside.add(service)
        behind = _sharing_a_piece(endpoint, beside)
        if len(behind) == 1:
            doors[endpoint] = behind.pop()
    return doors


def _is_endpoint(name: str) -> bool:
    return _HOST.match(name) is not None and _STORE.search(name.lower()) is None


def _sharing_a_piece(endpoint: str, services: Iterable[str]) -> set[str]:
    """The services that share a piece of the host's name; a piece that several services share
    identifies none."""
    pieces = {piece for piece in _pieces(endpoint) if not _is_generic(piece)}
    by_piece: dict[str, set[str]] = {piece: set() for piece in pieces}
    for service in services:
        words = _pieces(service)
        for piece in pieces:
            if any(piece in word or word in piece for word in words):
                by_piece[piece].add(service)
    unique_services = set()
    for named in by_piece.values():
        if len(named) == 1:
            unique_services |= named
    return unique_services


def _is_generic(piece: str) -> bool:
    # Load balancers cut names short, so a piece may be the beginning of such a word.
    return any(word.startswith(piece) for word in _GENERIC)


def _pieces(name: str) -> list[str]:
    return [piece for piece in _LETTERS.findall(name.lower()) if len(piece) >= MIN_LETTERS]
