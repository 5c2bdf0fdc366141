"""Where a visitor is: on this machine, or at the address that a proxy of ours vouches for."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.requests import Request

from faultline.bot.settings.processes import ip_address_of, is_loopback, names_this_machine

FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip", "via")
"""A request that carries one of these came through a proxy, so its loopback address is not the
visitor's."""
MAX_HOPS = 32


def is_local(request: Request) -> bool:
    """Whether the visitor is on this machine and named it so.

    The Host header is checked too: a foreign page whose name resolves to 127.0.0.1 (DNS rebinding)
    carries its own.
    """
    if any(name in request.headers for name in FORWARDED):
        return False
    named = names_this_machine("//" + request.headers.get("host", ""))
    return named and request.client is not None and is_loopback(request.client.host)


def client_address(request: Request, trusted: Sequence[str]) -> str:
    """The visitor's address: the last of X-Forwarded-For that no trusted proxy has, if a trusted
    one sent it.

    Each proxy appends the address that it got the request from. What stands before the first
    untrusted address is therefore that sender's claim.
    """
    here = request.client.host if request.client else ""
    networks = [ipaddress.ip_network(t) for t in trusted]
    hops = ",".join(request.headers.getlist("x-forwarded-for")).split(",")
    # Foreign input: look at the last hops only, because their number has no bound.
    for hop in reversed(hops[-MAX_HOPS:]):
        if not _is_in(here, networks):
            break
        named = ip_address_of(hop.strip())
        if named is None:
            break
        here = str(named)
    return here


def _is_in(host: str, networks: Sequence[ipaddress.IPv4Network | ipaddress.IPv6Network]) -> bool:
    address = ip_address_of(host)
    return address is not None and any(address in network for network in networks)
