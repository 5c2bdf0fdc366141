"""Whether an address leads to this machine."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit


def names_this_machine(url: str) -> bool:
    """Whether an address leads to loopback. A public address means a proxy, and a proxy may hide
    its clients: by default nginx sends a loopback Host and no forwarding header.
    """
    host = _hostname(url)
    return host == "localhost" or is_loopback(host)


def ip_address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return None
    return (
        (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
    )


def _hostname(url: str) -> str:
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    address = ip_address_of(host)
    return address is not None and address.is_loopback
