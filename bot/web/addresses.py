"""Where a visitor is: on this machine, or at the address that a proxy of ours vouches for."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.requests import Request

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""A request that carries one of these came through a proxy, so its loopback address is not the visitor's."""
MAX_HOPS = 32


def is_local(request: Request) -> bool:
    """Whether the visitor is on this machine and named it so.

    The Host header is checked too: a foreign page whose name resolves to 127.0.0.1 (DNS rebinding) carries its own.
    """
    if any(name in request.headers for name in FORWARDED):
        return False
    named = names_this_machine("//" + request.headers.get("host", ""))
    return named and request.client is not None and _is_loopback(request.client.host)


def names_this_machine(url: str) -> bool:
    """Whether an address leads to loopback. A public address means a proxy, and a proxy may hide whom it serves:
    nginx sends a loopback Host and no forwarding header unless it is told otherwise.
    """
    host = _hostname(url)
    return host == "localhost" or _is_loopback(host)


def client_address(request: Request, trusted: Sequence[str]) -> str:
    """The visitor's address: the last of X-Forwarded-For that no trusted proxy has, if a trusted one sent it.

    Each proxy adds whom it was asked by at the end, so what stands before the first stranger is the stranger's word.
    """
    here = request.client.host if request.client else ""
    networks = [ipaddress.ip_network(t) for t in trusted]
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    for hop in reversed(hops[-MAX_HOPS:]):
        if not _is_in(here, networks):
            break
        named = _address(hop.strip())
        if named is None:
            break
        here = str(named)
    return here


def _is_in(host: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    address = _address(host)
    return address is not None and any(address in network for network in networks)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _is_loopback(host: str) -> bool:
    address = _address(host)
    return address is not None and address.is_loopback
