"""The one way to fetch an address that somebody else wrote: from hosts that the settings name, and
only outward.

Every address, and each one that a redirect leads to, passes the same checks: https (plain http
where the settings say so for that host), a host and port of the allow-list, and every IP address
that the host's name has now is public or of a network that the settings open. The connection goes
to the very address that was checked, so that a name which changes its mind between the check and
the connection (DNS rebinding) gains nothing; the certificate is still the host's. No cookies, no
credentials, no proxy of the environment.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx

from faultline.analysis.errors import ConnectorError, SettingsError
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.transport import Timeouts, plain_client
from faultline.connectors.shared.vendor_text import problem_of, short

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to the addresses of the host. Raises OSError."""

CHUNK = 65_536
MAX_URL = 4_096
MOST_REDIRECTS = 3
RESOLVE_S = 3.0
TIMEOUTS = Timeouts(connect_s=5.0, read_s=15.0)
NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""RFC 6052: the last 32 bits are an IPv4 address."""
NEVER: tuple[Network, ...] = tuple(
    ipaddress.ip_network(text)
    for text in (
        "0.0.0.0/8",
        # Link-local. The metadata services of AWS, Azure, Google and others are at 169.254.169.254.
        "169.254.0.0/16",
        # IETF protocol assignments. Oracle's metadata service is at 192.0.0.192.
        "192.0.0.0/24",
        # Alibaba's metadata service.
        "100.100.100.200/32",
        # Azure's host, which is a public address.
        "168.63.129.16/32",
        "224.0.0.0/4",
        "240.0.0.0/4",
        # Unspecified, and the deprecated IPv4-compatible addresses (RFC 4291 section 2.5.5.1).
        "::/96",
        # Teredo.
        "2001::/32",
        # 6to4: bits 16 to 47 are an IPv4 address (RFC 3056, out of use by RFC 7526).
        "2002::/16",
        # Local NAT64 (RFC 8215): the address does not say where it leads.
        "64:ff9b:1::/48",
        # AWS's services on IPv6.
        "fd00:ec2::/32",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    )
)
"""Not to be opened by any setting: places that answer with credentials, and addresses that hide
another."""
_LOOPBACK6 = ipaddress.ip_address("::1")
_HOST = re.compile(r"(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]{0,62})(?:\.[a-z0-9_][a-z0-9_-]{0,62})*")
_ENTRY = re.compile(r"(?:(https?)://)?(\*\.)?([^:/\s*]+)(?::(\d{1,5}))?")
_LITERAL6 = re.compile(r"\[([0-9a-f:.]{2,45})\]")
_URL = re.compile(r"(https?)://([^/?#\\@\s%]+)([/?][^\s\\]*)?(?:#.*)?", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class AllowedHost:
    """One entry of an allow-list: a host, or with `*.` all names below it (not it itself), at one
    port."""

    host: str
    below: bool = False
    port: int = 443
    scheme: str = "https"

    @classmethod
    def read(cls, entry: str, key: str) -> AllowedHost:
        """`traces.example`, `*.traces.example`, `traces.example:8443` or `http://minio:9000`.
        Raises SettingsError."""
        match = _ENTRY.fullmatch(entry.strip().lower())
        if match is None or not _HOST.fullmatch(match[3]):
            raise SettingsError(
                key, f"{entry[:80]!r} is not a host such as traces.example or *.traces.example:8443"
            )
        scheme = match[1] or "https"
        port = int(match[4]) if match[4] else 443 if scheme == "https" else 80
        if not 0 < port < 65_536:
            raise SettingsError(key, f"{entry[:80]!r} names no port")
        return cls(match[3], match[2] is not None, port, scheme)

    @property
    def text(self) -> str:
        """As the settings write it."""
        text = f"*.{self.host}" if self.below else self.host
        if self.scheme != "https":
            text = f"http://{text}"
        usual_port = 443 if self.scheme == "https" else 80
        if self.port != usual_port:
            text = f"{text}:{self.port}"
        return text

    def allows(self, target: Target) -> bool:
        """Whether this entry opens the target."""
        fits = target.host.endswith("." + self.host) if self.below else target.host == self.host
        return fits and (target.scheme, target.port) == (self.scheme, self.port)


@dataclass(frozen=True)
class Target:
    """An address taken apart: what is checked is exactly what is asked. `path` holds the query."""

    scheme: str
    host: str
    port: int
    path: str

    @property
    def url(self) -> str:
        """The address, without a fragment."""
        return f"{self.scheme}://{self.authority}{self.path}"

    @property
    def authority(self) -> str:
        """Host, and the port where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return (
            host if self.port == (443 if self.scheme == "https" else 80) else f"{host}:{self.port}"
        )


def read_target(url: str) -> Target:
    """Take an address apart. Raises ValueError with the reason for anything that two readers could
    read differently."""
    match = (
        _URL.fullmatch(url) if len(url) <= MAX_URL and url.isascii() and url.isprintable() else None
    )
    if match is None:
        raise ValueError("is not a plain https address")
    scheme, authority, path = match[1].lower(), match[2].lower(), match[3] or "/"
    literal = _LITERAL6.match(authority)
    host, rest = (literal[1], authority[literal.end() :]) if literal else _split_port(authority)
    if rest and not re.fullmatch(r":\d{1,5}", rest):
        raise ValueError("names no port")
    port = int(rest[1:]) if rest else 443 if scheme == "https" else 80
    if not 0 < port < 65_536:
        raise ValueError("names no port")
    if literal is None and not _HOST.fullmatch(host):
        raise ValueError("names no host")
    return Target(scheme, host, port, path if path.startswith("/") else f"/{path}")


def why_not(address: Address, networks: Sequence[Network]) -> str | None:
    """Why an IP address may not be connected to; None when it may. `networks`: private ones that
    are open."""
    inner = _inner(address)
    if inner is not None:
        return why_not(inner, networks)
    if address != _LOOPBACK6 and any(
        address in network for network in NEVER if network.version == address.version
    ):
        return "an address of the machine's own surroundings"
    if any(address in network for network in networks if network.version == address.version):
        return None
    return None if address.is_global else "a private address"


def _inner(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address that an IPv6 address stands for."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None


async def resolve_host(host: str, port: int) -> Sequence[str]:
    """The host's addresses, as the system's resolver gives them."""
    getaddrinfo = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(address[0]) for _, _, _, _, address in getaddrinfo]


@dataclass(frozen=True)
class FetchGuard:
    """What may be fetched: the allow-list, private networks that are open, and how names are
    resolved."""

    vendor: str
    hosts: Sequence[AllowedHost]
    networks: Sequence[Network] = ()
    resolve: Resolve = resolve_host
    verify: ssl.SSLContext | bool = field(default=True, repr=False)

    def target(self, url: str) -> Target:
        """The address, if its host is one of the allow-list. Raises ConnectorError saying why
        not."""
        try:
            target = read_target(url)
        except ValueError as error:
            raise self._refused(url, str(error)) from None
        if not any(entry.allows(target) for entry in self.hosts):
            raise self._refused(
                url, f"{target.scheme}://{target.authority} is not among the allowed hosts"
            )
        return target

    async def address(self, target: Target) -> str:
        """An address of the host that may be connected to; every address that it has must be
        one."""
        try:
            async with asyncio.timeout(RESOLVE_S):
                raw_addresses = await self.resolve(target.host, target.port)
            addresses = [
                # A link-local address may end in its interface, as in `fe80::1%eth0`.
                ipaddress.ip_address(raw_address.partition("%")[0])
                for raw_address in dict.fromkeys(raw_addresses)
            ]
        except (OSError, TimeoutError, UnicodeError, ValueError) as error:
            raise self._refused(
                target.url, f"{target.host} has no address ({type(error).__name__})"
            ) from error
        if not addresses:
            raise self._refused(target.url, f"{target.host} has no address")
        for address in addresses:
            if (why := why_not(address, self.networks)) is not None:
                raise self._refused(target.url, f"{target.host} is {address}, {why}")
        return str(addresses[0])

    @asynccontextmanager
    async def open(self, url: str, deadline: Deadline) -> AsyncIterator[FetchedFile]:
        """The answer at an address, redirects followed under the same checks. Raises
        ConnectorError, BudgetExceeded."""
        # A proxy would connect to an address of its choice, not to the one that was checked.
        async with plain_client(verify=self.verify, timeouts=TIMEOUTS, use_proxies=False) as client:
            for _ in range(MOST_REDIRECTS + 1):
                target = self.target(url)
                # The request to that very address; name, certificate and Host header stay the
                # host's own.
                where = httpx.URL(target.url).copy_with(host=await self.address(target))
                headers = {
                    "host": target.authority,
                    "accept": "*/*",
                    "accept-encoding": "identity",
                    "user-agent": "faultline",
                }
                request = client.build_request(
                    "GET", where, headers=headers, extensions={"sni_hostname": target.host}
                )
                response = await self._sent(client, request, target, deadline)
                try:
                    if not response.is_redirect:
                        self._check(response, target)
                        yield FetchedFile(target, response, self.vendor)
                        return
                    url = self._next(response, target)
                finally:
                    await response.aclose()
        raise self._refused(url, f"leads on through more than {MOST_REDIRECTS} redirects")

    async def _sent(
        self, client: httpx.AsyncClient, request: httpx.Request, target: Target, deadline: Deadline
    ) -> httpx.Response:
        try:
            async with asyncio.timeout(deadline.remaining):
                return await client.send(request, stream=True)
        except TimeoutError:
            raise deadline.exceeded() from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, UnicodeError) as error:
            raise self._refused(
                target.url, f"no answer ({type(error).__name__})", retryable=True
            ) from error

    def _next(self, response: httpx.Response, target: Target) -> str:
        """Where a redirect leads: a whole address, or a path of the same host."""
        location = str(response.headers.get("location", ""))
        # Two slashes begin another host, which has to pass the checks as one.
        if location.startswith("/") and not location.startswith("//"):
            return f"{target.scheme}://{target.authority}{location}"
        return location

    def _check(self, response: httpx.Response, target: Target) -> None:
        if response.status_code != 200:
            status = response.status_code
            raise self._refused(target.url, problem_of(status), status=status)
        encoding = response.headers.get("content-encoding", "identity").lower()
        if encoding not in ("identity", ""):
            raise self._refused(
                target.url, f"used an encoding that was not requested: {short(encoding, 40)}"
            )

    def _refused(
        self, url: str, problem: str, *, status: int | None = None, retryable: bool = False
    ) -> ConnectorError:
        return ConnectorError(
            self.vendor, without_query(url), problem, status=status, retryable=retryable
        )


@dataclass(frozen=True)
class FetchedFile:
    """An answer whose body is still to be read."""

    target: Target
    response: httpx.Response
    vendor: str

    @property
    def size(self) -> int | None:
        """What the answer says of its length, in bytes."""
        content_length = self.response.headers.get("content-length", "")
        return (
            int(content_length[:18])
            if content_length.isascii() and content_length.isdigit()
            else None
        )

    async def blocks(self, deadline: Deadline) -> AsyncIterator[bytes]:
        """The body as it comes. Raises ConnectorError, BudgetExceeded."""
        got, blocks = 0, self.response.aiter_raw(CHUNK)
        try:
            while True:
                async with asyncio.timeout(deadline.remaining):
                    block = await anext(blocks, None)
                if block is None:
                    break
                got += len(block)
                yield block
        except TimeoutError:
            raise deadline.exceeded() from None
        except httpx.HTTPError as error:
            phrase = f"broke off after {got:,} bytes ({type(error).__name__})"
            raise ConnectorError(
                self.vendor, without_query(self.target.url), phrase, retryable=True
            ) from error


def without_query(url: str) -> str:
    """An address as it may be shown: what is in the query is often a signature that opens the
    file."""
    return short(re.split(r"[?#]", url, maxsplit=1)[0], 300)


def _split_port(authority: str) -> tuple[str, str]:
    host, colon, port = authority.partition(":")
    return host, colon + port
