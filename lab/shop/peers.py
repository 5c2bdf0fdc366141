"""Requests to other services: names, replicas, time-outs and retries."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from faultline.lab.shop.layout import CallStep
from faultline.lab.shop.levers import ServiceLevers
from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.telemetry import CLIENT, CURRENT, JsonLog, PodMetrics, SpanSender

NAMES = "names.json"
"""The shop's name server: a file with each service's addresses by cluster."""
READ_EVERY_S = 0.5
BACKOFF_S = 0.05


class CallFailed(Exception):
    """A call that brought nothing; `status` is what the caller answers with."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class AddressBook:
    """Who listens where, as the file says at the moment."""

    def __init__(self, room: Path, cluster: str) -> None:
        self._file = room / NAMES
        self._cluster = cluster
        self._read_at = 0.0
        self._stamp = 0
        self.version = 0
        """Grows when the file changes: connections are made again then."""
        self._names: dict[str, Any] = {}
        self._turns: dict[str, Iterator[int]] = {}

    def look(self) -> None:
        """Read the file again, if it has changed."""
        now = time.monotonic()
        if now - self._read_at < READ_EVERY_S:
            return
        self._read_at = now
        # Reading the time of the file is cheap enough for every request; reading it all is not.
        stamp = self._file.stat().st_mtime_ns
        if stamp != self._stamp:
            self._stamp = stamp
            self._names = json.loads(self._file.read_text())
            self.version += 1

    def knows(self, host: str) -> bool:
        """Whether the name resolves."""
        return host.removesuffix(".shop") in self._names

    def port(self, service: str) -> int:
        """The next replica in turn: of the own cluster, where it has any."""
        by_cluster = self._names.get(service, {})
        ports = by_cluster.get(self._cluster) or [p for ports in by_cluster.values() for p in ports]
        # Nobody listens on the port for discarded messages: the name fails before the port does.
        if not ports:
            return 9
        turn = self._turns.setdefault(service, itertools.count(random.randrange(8)))
        return int(ports[next(turn) % len(ports)])


class ShopResolver(AbstractResolver):
    """Resolves `SERVICE.shop` by the address book, and fails as a resolver fails."""

    def __init__(self, book: AddressBook) -> None:
        self._book = book

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Every known name is this machine."""
        if not self._book.knows(host):
            raise OSError(None, "Name or service not known")
        resolve_result: ResolveResult = {
            "hostname": host,
            "host": "127.0.0.1",
            "port": port,
            "family": socket.AF_INET,
            "proto": 0,
            "flags": 0,
        }
        return [resolve_result]

    async def close(self) -> None:
        """Nothing is open."""


class Peers:
    """Calls other services, as the layout and the levers say."""

    def __init__(
        self,
        pod: ShopPod,
        levers: ServiceLevers,
        metrics: PodMetrics,
        spans: SpanSender,
        log: JsonLog,
        external: frozenset[str],
    ) -> None:
        self._levers = levers
        self._metrics = metrics
        self._spans = spans
        self._log = log
        self._external = external
        self._book = AddressBook(pod.room, pod.cluster)
        self._authority = pod.room / "authority.pem"
        self._session: aiohttp.ClientSession | None = None
        self._made_for = -1

    async def call(self, call: CallStep) -> None:
        """One call with its retries. Raises CallFailed, unless the call is optional."""
        retries = self._levers.retries.get(call.callee, call.retries)
        for attempt in range(retries + 1):
            try:
                await self._once(call)
                return
            except CallFailed as failure:
                last = attempt == retries
                if last and call.optional:
                    self._log.warning(f"answering without {call.callee}: {failure}")
                    return
                if last:
                    raise
            # Without a random wait all callers would come back at once.
            await asyncio.sleep(BACKOFF_S * random.random())

    async def _once(self, call: CallStep) -> None:
        callee, began = call.callee, time.monotonic()
        timeout_s = self._levers.timeouts_s.get(callee, call.timeout_s)
        with self._spans.span(f"GET {call.path}", CLIENT, CURRENT.get()) as span:
            span.attributes |= {"peer.service": callee, "http.route": call.path}
            status, problem = await self._request(call, timeout_s)
            span.failed = problem
        self._metrics.calls.labels(callee, status).inc()
        self._metrics.call_durations.labels(callee).observe(time.monotonic() - began)
        if problem:
            raise CallFailed(problem, 504 if status == "timeout" else 502)

    async def _request(self, call: CallStep, timeout_s: float) -> tuple[str, str]:
        """The status for metrics, and what went wrong, if anything did."""
        secure = call.callee in self._external
        session = self._connections()
        port = self._book.port(call.callee)
        url = f"{'https' if secure else 'http'}://{call.callee}.shop:{port}{call.path}"
        here = CURRENT.get()
        headers = {"traceparent": here.header} if here else {}
        # The time-out covers name, handshake and answer, as most clients count it.
        limit = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with session.get(url, headers=headers, timeout=limit) as answer:
                await answer.read()
        except TimeoutError:
            return "timeout", f"{call.callee}: no answer within {timeout_s * 1000:g} ms"
        except (aiohttp.ClientError, OSError) as error:
            return "unreachable", f"{call.callee}: {error or type(error).__name__}"
        status = answer.status
        problem = f"{call.callee} answered {status} for {call.path}" if status >= 500 else ""
        return str(status), problem

    def _connections(self) -> aiohttp.ClientSession:
        """The session; a new one after names have changed, as their connections are gone then."""
        self._book.look()
        if self._session is None or self._made_for != self._book.version:
            old, self._session = self._session, self._new_session()
            self._made_for = self._book.version
            if old is not None:
                # Requests that are on their way end first.
                asyncio.get_running_loop().call_later(10, _close_soon, old)
        return self._session

    def _new_session(self) -> aiohttp.ClientSession:
        trusted: ssl.SSLContext | bool = True
        if self._authority.exists():
            trusted = ssl.create_default_context(cafile=str(self._authority))
        connector = aiohttp.TCPConnector(
            resolver=ShopResolver(self._book), ssl=trusted, use_dns_cache=False, limit=0
        )
        return aiohttp.ClientSession(connector=connector)

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()


_CLOSING: set[asyncio.Task[None]] = set()


def _close_soon(session: aiohttp.ClientSession) -> None:
    task = asyncio.get_running_loop().create_task(session.close())
    # The loop itself keeps no task alive.
    _CLOSING.add(task)
    task.add_done_callback(_CLOSING.discard)
