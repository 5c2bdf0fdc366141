"""Calls to what sends no spans: an external provider, a database, a queue, a cache.

They are known from the caller's client spans, whose attributes name the other side.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Collection

import polars as pl

from faultline.analysis.metrics.labels import labels_of

PEER_ATTRIBUTES = (
    "peer.service",
    "upstream_cluster.name",
    "server.address",
    "net.peer.name",
    "out.host",
    "db.name",
)
"""What names the other side, the most telling first: OpenTelemetry's semantic conventions, current
and former, Envoy's and Datadog's."""
MENTIONS_PEER = "|".join(re.escape(f'"{name}"') for name in PEER_ATTRIBUTES)
CLIENT = r"\"span\.kind\":\s?\"(?i:client|producer|span_kind_client|span_kind_producer)\""
NOT_CALLING = frozenset(
    {"server", "consumer", "internal", "span_kind_server", "span_kind_consumer"}
)
_PORT = re.compile(r":\d+$")
LONGEST = 253
"""Of a host name (RFC 1035)."""
_LOCAL = frozenset({"localhost", "unknown", "unknown_service"})

CALLS: dict[str, pl.DataType | type[pl.DataType]] = {
    "caller": pl.String,
    "callee": pl.String,
    "start": pl.Datetime("ns", "UTC"),
    "duration_us": pl.Float64,
    "status": pl.String,
}


def peer_calls(visits: pl.DataFrame) -> pl.DataFrame:
    """One row per call below which no other service sent a span: caller, callee, start, duration
    (us) and status. `visits` are spans with their visits."""
    names_peers = pl.col("attributes").str.contains(MENTIONS_PEER)
    if not visits.select(names_peers.any()).item():
        return pl.DataFrame(schema=CALLS)
    services = set(visits["service"].unique()) - {""}
    answered = visits.filter("entry")["parent"].drop_nulls().unique()
    # A span by which a request enters may name the host that was asked for: its own.
    calling = ~pl.col("entry") | pl.col("attributes").str.contains(CLIENT)
    naming = visits.filter(names_peers, ~pl.col("row").is_in(answered.implode()), calling)
    texts = naming["attributes"].unique().to_list()
    peers = {text: peer_named(text, services) for text in texts}
    callee = pl.col("attributes").replace_strict(peers, default=None, return_dtype=pl.String)
    calls = naming.with_columns(callee.alias("callee"))
    calls = calls.filter(pl.col("callee").is_not_null(), pl.col("callee") != pl.col("service"))
    return calls.select(pl.col("service").alias("caller"), *list(CALLS)[1:])


def peer_named(attributes: str, services: Collection[str]) -> str | None:
    """The callee of a client span; None for spans of other kinds, bare addresses and unreadable
    attributes."""
    labels = labels_of(attributes)
    if labels.get("span.kind", "").lower() in NOT_CALLING:
        return None
    for name in PEER_ATTRIBUTES:
        if labels.get(name):
            return peer_name(labels[name], services)
    return None


def peer_name(address: str, services: Collection[str]) -> str | None:
    """A host or service name without its port; the known service where its first label is one."""
    name = _PORT.sub("", address.strip())
    if not name or len(name) > LONGEST or not name.isprintable() or name.lower() in _LOCAL:
        return None
    # An address of a pod or a load balancer names nobody, and is another one tomorrow.
    if _is_address(name) or _is_address(address.strip()):
        return None
    first = name.split(".", 1)[0]
    return first if name not in services and first in services else name


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
