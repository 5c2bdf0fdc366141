"""What connections may take before they hold a request: bytes, seconds, and places.

uvicorn's fast protocol limits none of these. Whoever opens connections and sends little or nothing
would hold all of them, and a webhook would find none.
"""

from __future__ import annotations

import asyncio
import ipaddress
import resource
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from faultline.bot.runtime import measures
from faultline.bot.runtime.instrumentation import ARRIVED

MAX_HEAD_BYTES = 64 * 1024
"""Request line and headers; the senders of webhooks, and browsers, stay below 16 KiB."""
BACKLOG = 512
"""Connections that the kernel completes before they are accepted: a storm begins with hundreds at
once, and asyncio accepts as many in one turn, before any is counted."""
RESERVED_DESCRIPTORS = 256
"""Left for databases, files and the process's own pipes; a web process has below 100 open."""
MAX_CONNECTIONS = 8_192
"""A connection costs about 20 KB."""
MAX_DESCRIPTORS = 65_536
FEWEST_CONNECTIONS = 64
CLOSES_WITHIN_S = 5.0
"""For the last bytes of a refusal to leave."""
IPV6_HOST_BITS = 64
"""The bits of an IPv6 address that a host chooses itself (RFC 4291, 2.5.1)."""


@dataclass(frozen=True)
class ConnectionLimits:
    """Limits for one server."""

    head_within_s: float = 10.0
    """From the connection, or from a request's first byte, to the end of its headers."""
    body_within_s: float = 20.0
    """From there to the end of the body."""
    unread_within_s: float = 60.0
    """For which a client may leave an answer unread."""
    per_address: int = 256
    total: int = MAX_CONNECTIONS
    proxies: Sequence[str] = ()
    """Addresses and networks without a limit, as many clients share each."""


def raise_descriptor_limit() -> int:
    """Allow this process as many open files as it may have; says how many that are."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < most:
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        return most
    return MAX_DESCRIPTORS if soft == resource.RLIM_INFINITY else soft


def connections_within(descriptors: int) -> int:
    """How many connections a process may have, by its limit of open files."""
    return min(
        MAX_CONNECTIONS, max(FEWEST_CONNECTIONS, descriptors - BACKLOG - RESERVED_DESCRIPTORS)
    )


def limited_connections(limits: ConnectionLimits) -> type[asyncio.Protocol]:
    """What makes the connections of one server, for uvicorn's `http`."""
    made: Callable[..., asyncio.Protocol] = partial(
        LimitedConnection, connections=Connections(limits)
    )
    # uvicorn calls it, and asks no more of a class.
    return cast("type[asyncio.Protocol]", made)


class Connections:
    """The open connections of one server. Where there are too many, the one that has been without
    a complete request for longest makes room."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._proxies = [ipaddress.ip_network(proxy) for proxy in limits.proxies]
        self._address: dict[LimitedConnection, str] = {}
        self._of_address: Counter[str] = Counter()
        # Dictionaries keep the order in which they were filled: the oldest is the first.
        self._waiting: dict[LimitedConnection, None] = {}
        self._waiting_of: defaultdict[str, dict[LimitedConnection, None]] = defaultdict(dict)

    def open(self, connection: LimitedConnection, host: str) -> bool:
        """Count one, in another's place if necessary; whether there is room for it."""
        address, exempt = self._address_of(host)
        candidates = None
        if not exempt and self._of_address[address] >= self.limits.per_address:
            candidates = self._waiting_of[address]
        elif len(self._address) >= self.limits.total:
            candidates = self._waiting
        if candidates is not None:
            oldest = next(iter(candidates), None)
            measures.CONNECTIONS_CLOSED.labels("refused" if oldest is None else "made room").inc()
            if oldest is None:
                return False
            self.close(oldest)
            oldest.transport.abort()
        self._address[connection] = address
        self._of_address[address] += 1
        self.wait(connection)
        return True

    def wait(self, connection: LimitedConnection) -> None:
        """From now on it waits for a request."""
        if (address := self._address.get(connection)) is not None:
            self.serve(connection)
            self._waiting[connection] = None
            self._waiting_of[address][connection] = None

    def serve(self, connection: LimitedConnection) -> None:
        """Its request is complete: it makes room for no other."""
        if (address := self._address.get(connection)) is not None:
            self._waiting.pop(connection, None)
            self._waiting_of[address].pop(connection, None)

    def close(self, connection: LimitedConnection) -> None:
        """Count it no more."""
        self.serve(connection)
        address = self._address.pop(connection, None)
        if address is None:
            return
        self._of_address[address] -= 1
        if not self._of_address[address]:
            del self._of_address[address]
            self._waiting_of.pop(address, None)

    def _address_of(self, host: str) -> tuple[str, bool]:
        """What counts as one address, and whether it is a proxy's."""
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host, False
        # `::ffff:10.0.0.1` is 10.0.0.1, which is how `proxies` names it.
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped:
            address = address.ipv4_mapped
        if any(address in proxy for proxy in self._proxies):
            return str(address), True
        if isinstance(address, ipaddress.IPv6Address):
            return str(ipaddress.ip_network((address, IPV6_HOST_BITS), strict=False)), False
        return str(address), False


class LimitedConnection(HttpToolsProtocol):
    """Closes a connection whose head is too long, whose head or body does not end in time, or that
    leaves its answer unread."""

    def __init__(self, *args: Any, connections: Connections, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._all = connections
        self._limits = connections.limits
        self._in_head = True
        self._head_bytes = 0
        self._complete = False
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it, and expect a head."""
        super().connection_made(transport)
        if self._all.open(self, self.client[0] if self.client else ""):
            self._expect(self._limits.head_within_s)
        else:
            self._refuse(503, "Too many connections.")

    def connection_lost(self, exc: Exception | None) -> None:
        """Count it no more."""
        self._all.close(self)
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Count what came before the end of a head."""
        # A refused client may still send.
        if self.transport.is_closing():
            return
        if self._in_head:
            self._head_bytes += len(data)
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD_BYTES and not self.transport.is_closing():
            self._refuse(400, "The request's headers are too long.")

    def on_message_begin(self) -> None:
        """A head begins."""
        self._in_head, self._complete = True, False
        self._expect(self._limits.head_within_s)
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A head ended."""
        self._in_head, self._head_bytes = False, 0
        self._expect(self._limits.body_within_s)
        self.scope["state"][ARRIVED] = self.loop.time()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A body ended."""
        self._complete = True
        self._expect(None)
        self._all.serve(self)
        super().on_message_complete()
        # The answer may be complete before the body, as for one that is too large.
        if self.cycle is not None and self.cycle.response_complete:
            self._rest()

    def on_response_complete(self) -> None:
        """An answer ended."""
        super().on_response_complete()
        if self._complete and self.cycle.response_complete:
            self._rest()

    def pause_writing(self) -> None:
        """The client does not read what it asked for."""
        super().pause_writing()
        self._unread = self.loop.call_later(self._limits.unread_within_s, self.transport.abort)

    def resume_writing(self) -> None:
        """It reads again."""
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None
        super().resume_writing()
        if self._complete and self.cycle is not None and self.cycle.response_complete:
            self._rest()

    def _rest(self) -> None:
        # The answer is complete here, and may be on its way for minutes.
        if self._unread is not None:
            return
        # uvicorn forgets to close an idle connection once a byte came that begins no request.
        self._in_head, self._head_bytes = True, 0
        self._all.wait(self)
        self._expect(self._limits.head_within_s)

    def _expect(self, within_s: float | None) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if within_s is not None and not self.transport.is_closing():
            self._deadline = self.loop.call_later(within_s, self._too_slow, within_s)

    def _too_slow(self, within_s: float) -> None:
        if self.transport.is_closing():
            return
        # We do not read: the client cannot be blamed.
        if self.flow.read_paused:
            self._expect(within_s)
            return
        measures.CONNECTIONS_CLOSED.labels("too slow").inc()
        part = "headers" if self._in_head else "body"
        self._refuse(408, f"The request's {part} did not arrive within {within_s:g} s.")

    def _refuse(self, status: int, line: str) -> None:
        """Answer, unless nothing was asked or an answer is under way, and close."""
        # While a head is read, the cycle is of the request before.
        answering = self.cycle is not None and (
            not self.cycle.response_complete if self._in_head else self.cycle.response_started
        )
        nothing = status == 408 and self._in_head and not self._head_bytes
        if not answering and not nothing:
            head = b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n"
            length = f"content-length: {len(line)}\r\n\r\n".encode("ascii")
            self.transport.write(STATUS_LINE[status] + head + length + line.encode("ascii"))
        self._all.serve(self)
        self.transport.close()
        # A client that reads nothing would hold the last bytes, and the connection, for ever.
        self.loop.call_later(CLOSES_WITHIN_S, self.transport.abort)
