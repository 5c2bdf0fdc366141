"""torch.distributed.debug: the HTTP servers inside a training job's processes.

Rank 0 runs a frontend of pages (port 25999) that knows every rank's own server; each rank answers
`POST /handler/<name>`. The servers have no authentication, so the operator's network is what
protects them, and only hosts and ports that the settings allow are spoken to. The page is the job's
own word: only a host and a port are taken from it, and what is sent there is fixed. Source:
torch/distributed/debug in PyTorch 2.13.
"""

from __future__ import annotations

import asyncio
import functools
import html
import re
import shutil
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import httpx

from faultline.analysis.errors import ConnectorError
from faultline.bot.investigation.capture.captured import (
    CapturedFile,
    CaptureGap,
    CapturePlan,
    FileKind,
    MethodResult,
)
from faultline.bot.investigation.capture.outputs import KEEP_FREE_BYTES
from faultline.bot.runtime.threads import in_thread

MAX_PAGE_BYTES = 16 << 20
MAX_TRACE_BYTES = 512 << 20
MAX_RANKS = 4096
LOCAL_PORTS = range(32768, 61000)
"""From which Linux gives a server its port that asks for any, as the ranks' do unless
`start_debug_server` says otherwise (ip-sysctl, ip_local_port_range)."""
# The frontend's page has a heading for each rank, with the address of the rank's server.
_RANK = re.compile(r"<h2>\s*Rank (\d{1,6}): (https?://[^\s<]{1,256}?)/handler/")
_SERVER = re.compile(r"http://(\[[0-9A-Fa-f:.]{2,45}\]|[\w.-]{1,253}):(\d{1,5})", re.ASCII)
NO_SERVER = "an address that is not http://host:port"
FLIGHT_RECORDER = "fr_trace_json"
STACKS = "dump_traceback"
PROFILE = "torch_profile"
CHUNK = 1 << 20

Take = Callable[[bytes], Awaitable[None]]
"""What is done with each piece of an answer."""


@dataclass(frozen=True)
class DebugServers:
    """A job's own servers by rank, for example {0: "http://node-a:34567"}."""

    by_rank: Mapping[int, str]
    refused: tuple[str, ...] = ()
    """Addresses that the job names and the settings do not allow."""


class DebugServerClient:
    """Asks one job's servers. Every failure is a ConnectorError that names the server and the
    call."""

    def __init__(
        self, hosts: Sequence[str], *, ports: range = LOCAL_PORTS, timeout: float = 10.0
    ) -> None:
        """`hosts`: names or addresses that may be spoken to; `ports`: of the ranks' servers."""
        self._hosts = frozenset(hosts)
        self._ports = ports
        self._timeout = timeout

    async def discover(self, frontend: str) -> DebugServers:
        """Every rank's server, as the frontend's page of wait counters lists them."""
        page = await self._page(f"{frontend.rstrip('/')}/wait_counters")
        unescapes = {
            int(r): html.unescape(a)
            for r, a in _RANK.findall(page.decode("utf-8", "replace"))[:MAX_RANKS]
        }
        if not unescapes:
            raise ConnectorError(
                "debug server", f"discovery at {_shown(frontend)}", "the page lists no ranks"
            )
        servers: dict[int, str] = {}
        refused: set[str] = set()
        for rank, address in unescapes.items():
            if self._is_rank_server(address):
                servers[rank] = address
            else:
                # Nothing else of such an address is shown: it may hold credentials.
                refused.add(address if _SERVER.fullmatch(address) else NO_SERVER)
        return DebugServers(servers, tuple(sorted(refused)))

    async def profile(
        self, server: str, seconds: float, target: Path, *, max_bytes: int = MAX_TRACE_BYTES
    ) -> Path:
        """A profiler trace of the next `seconds` of one rank, written to `target`."""
        return await self._save(
            server, f"{PROFILE}?duration={seconds:g}", seconds, target, max_bytes
        )

    async def flight_recorder(
        self, server: str, target: Path, *, max_bytes: int = MAX_TRACE_BYTES
    ) -> Path:
        """The rank's flight recorder as JSON, written to `target`."""
        return await self._save(server, FLIGHT_RECORDER, 0, target, max_bytes)

    async def stacks(self, server: str, target: Path) -> Path:
        """The Python stacks of all threads of the rank, written to `target`."""
        return await self._save(server, STACKS, 0, target, MAX_PAGE_BYTES)

    async def _save(
        self, server: str, handler: str, seconds: float, target: Path, max_bytes: int
    ) -> Path:
        """Piece by piece to disk: all ranks of a job answer at the same time."""
        url = f"{server.rstrip('/')}/handler/{handler}"
        # No reader may find half a file under the final name.
        part = target.with_name(target.name + ".part")
        try:
            with part.open("wb") as file:

                async def write(piece: bytes) -> None:
                    await in_thread(file.write, piece)

                await self._read("POST", url, seconds + self._timeout, max_bytes, write)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        return target

    async def _page(self, url: str) -> bytes:
        page = bytearray()

        async def keep(piece: bytes) -> None:
            page.extend(piece)

        await self._read("GET", url, self._timeout, MAX_PAGE_BYTES, keep)
        return bytes(page)

    async def _read(
        self, method: str, url: str, seconds: float, max_bytes: int, take: Take
    ) -> None:
        call = f"{urlsplit(url).path} at {_shown(url)}"
        if not self._allowed(url):
            raise ConnectorError("debug server", call, "the settings do not name this host")
        try:
            async with asyncio.timeout(seconds), _http(seconds) as client:
                await _body(client, method, url, call, max_bytes, take)
        except TimeoutError:
            raise ConnectorError(
                "debug server", call, f"no answer within {seconds:g} s", retryable=True
            ) from None
        except httpx.HTTPError as error:
            raise ConnectorError(
                "debug server", call, type(error).__name__, retryable=True
            ) from error

    def _is_rank_server(self, address: str) -> bool:
        """Whether it is only a host and a port, and the settings allow both."""
        named = _SERVER.fullmatch(address)
        return named is not None and int(named[2]) in self._ports and self._allowed(address)

    def _allowed(self, url: str) -> bool:
        try:
            parts = urlsplit(url)
        except ValueError:
            return False
        return parts.scheme in ("http", "https") and parts.hostname in self._hosts


@functools.cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


def _http(seconds: float) -> httpx.AsyncClient:
    """A client for one call. Reading the certificates for each call took 60 ms of CPU time per
    rank."""
    plain = {"Accept-Encoding": "identity"}
    return httpx.AsyncClient(
        timeout=seconds,
        # No proxy of the environment: the servers are on the operator's own network.
        trust_env=False,
        verify=_tls(),
        headers=plain,
        follow_redirects=False,
    )


async def _body(
    client: httpx.AsyncClient, method: str, url: str, call: str, max_bytes: int, take: Take
) -> None:
    async with client.stream(method, url) as response:
        if response.status_code != httpx.codes.OK:
            raise ConnectorError("debug server", call, "refused", status=response.status_code)
        if response.headers.get("Content-Encoding", "identity").strip().lower() not in (
            "",
            "identity",
        ):
            # a few kilobytes may unpack to gigabytes, before the length of a piece is known
            raise ConnectorError(
                "debug server", call, "the answer is compressed, which was not asked for"
            )
        length = 0
        async for piece in response.aiter_raw(CHUNK):
            length += len(piece)
            if length > max_bytes:
                raise ConnectorError(
                    "debug server", call, f"the answer is longer than {max_bytes} bytes"
                )
            await take(piece)


def _shown(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 80}"


# A capture through PyTorch's debug servers: stacks, then a profile of all ranks at once, then the
# flight recorders.

QUICK_SECONDS = 15.0
"""How long a rank may take for stacks and flight recorder: it writes down what it has in memory."""
MAX_ALL_BYTES = 32 << 30
"""Of all ranks' profiles together."""

Ask = Callable[[int, str, Path], Awaitable[Path]]


async def capture_through_debug_servers(
    plan: CapturePlan, folder: Path, say: Callable[[str], None] = lambda _: None
) -> MethodResult | str:
    """Ask every rank and write its answers into `folder`; or, where no rank can be found, why."""
    assert plan.debug_server is not None
    quick = _client(plan, QUICK_SECONDS)
    patient = _client(plan, plan.wait_seconds)
    try:
        servers = await quick.discover(plan.debug_server)
    except ConnectorError as error:
        return str(error)
    if not servers.by_rank:
        return (
            f"the settings (debug_hosts, debug_ports) do not allow the job's debug servers "
            f"({', '.join(servers.refused[:3])})"
        )
    ranks = dict(sorted(servers.by_rank.items()))
    most = await in_thread(_most_bytes, plan, folder, len(ranks))
    gaps = [
        CaptureGap(where, "debug_hosts and debug_ports do not allow it")
        for where in servers.refused
    ]
    for rank in range(plan.ranks or 0):
        if rank not in ranks:
            gaps.append(CaptureGap(f"rank {rank}", "has no debug server that may be spoken to"))
    requests: list[tuple[FileKind, str, Ask]] = [
        ("stacks", "rank{}_stacks.txt", lambda _, server, target: quick.stacks(server, target)),
        (
            "trace",
            "rank{}_trace.json",
            lambda _, server, target: patient.profile(server, plan.seconds, target, max_bytes=most),
        ),
        (
            "flight_recorder",
            "rank{}.fr_trace.json",
            lambda _, server, target: quick.flight_recorder(server, target, max_bytes=most),
        ),
    ]
    files: list[CapturedFile] = []
    start = datetime.now(UTC)
    for kind, name, ask in requests:
        say(f"asking {len(ranks)} ranks: {kind.replace('_', ' ')}")
        if kind == "trace":
            # The stacks came first, so the trace begins only now.
            start = datetime.now(UTC)
        # All ranks at once, so that their profiles cover the same steps.
        asking = [
            _fetch_file(rank, server, kind, folder, name, ask) for rank, server in ranks.items()
        ]
        for result in await asyncio.gather(*asking):
            if isinstance(result, CapturedFile):
                files.append(result)
            else:
                gaps.append(result)
    return MethodResult(tuple(files), tuple(gaps), counts=True, start=start)


def _client(plan: CapturePlan, timeout: float) -> DebugServerClient:
    return DebugServerClient(plan.debug_hosts, ports=plan.debug_ports, timeout=timeout)


def _most_bytes(plan: CapturePlan, folder: Path, ranks: int) -> int:
    """Of one file: every rank writes a profile and a flight recorder, and the disk must not run
    full."""
    room = max(0, shutil.disk_usage(folder).free - KEEP_FREE_BYTES)
    return min(MAX_TRACE_BYTES, plan.max_file_bytes, min(MAX_ALL_BYTES, room) // (2 * ranks))


async def _fetch_file(
    rank: int, server: str, kind: FileKind, folder: Path, name: str, ask: Ask
) -> CapturedFile | CaptureGap:
    host, taken = urlsplit(server).hostname or "", datetime.now(UTC)
    where = f"rank {rank} on {host}"
    try:
        path = await ask(rank, server, folder / name.format(rank))
    except ConnectorError as error:
        return CaptureGap(where, str(error))
    except OSError as error:
        return CaptureGap(where, f"its {kind} cannot be written here ({error.strerror})")
    return CapturedFile(path, kind, host, None, rank, taken)
