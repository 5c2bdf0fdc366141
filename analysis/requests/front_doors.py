"""Endpoints that are only seen by their callers, and the services behind them.

A call through a load balancer or a DNS name is often drawn beside the instrumented service that
answers it: two nodes, one service. Such an endpoint is a host name that calls nobody; a piece of
that name names exactly one of the services that its caller calls as well.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from analysis.requests.topology import Topology

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
    found = {}
    for endpoint in sorted(topology.services):
        if (
            topology.callees(endpoint)
            or not _HOST.match(endpoint)
            or _STORE.search(endpoint.lower())
        ):
            continue
        beside = {c for caller in topology.callers(endpoint) for c in topology.callees(caller)}
        behind = _named(endpoint, (s for s in beside if not _HOST.match(s) and "@" not in s))
        if len(behind) == 1:
            found[endpoint] = behind.pop()
    return found


def _named(endpoint: str, services: Iterable[str]) -> set[str]:
    """The services that share a piece of the host's name; pieces that name several services tell
    nothing."""
    pieces = {
        p for p in _pieces(endpoint.lower()) if not any(word.startswith(p) for word in _GENERIC)
    }
    by_piece = {p: set[str]() for p in pieces}
    for service in services:
        words = _pieces(service.lower())
        for piece in pieces:
            if any(piece in word or word in piece for word in words):
                by_piece[piece].add(service)
    return {next(iter(named)) for named in by_piece.values() if len(named) == 1}


def _pieces(name: str) -> list[str]:
    return [p for p in _LETTERS.findall(name) if len(p) >= MIN_LETTERS]
