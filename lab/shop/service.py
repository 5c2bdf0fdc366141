"""One replica of any service of the shop: routes made of steps, metrics, logs, spans, levers."""

from __future__ import annotations

import asyncio
import errno
import random
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import psycopg
import redis.asyncio as redis
from aiohttp import web
from prometheus_client import generate_latest
from redis.exceptions import RedisError, ResponseError

from faultline.lab.shop import certificates
from faultline.lab.shop.layout import (
    PRODUCTS,
    CachedStep,
    CallStep,
    EnqueueStep,
    QueryStep,
    ShopService,
    SpoolStep,
    Step,
    WorkStep,
    services_of,
)
from faultline.lab.shop.levers import ServiceLevers
from faultline.lab.shop.peers import CallFailed, Peers
from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.pool import DatabasePool, PoolExhausted
from faultline.lab.shop.telemetry import (
    CURRENT,
    SERVER,
    JsonLog,
    PodMetrics,
    SpanSender,
    TraceContext,
)

REDIS_TIMEOUT_S = 1.0
GROUP = "workers"
BATCH_SIZE = 10
SPREAD = 0.25
"""Log-normal spread of a service's own processing time."""


class ServiceProgram:
    """The program of one replica."""

    def __init__(self, pod: ShopPod, layout: ShopService, external: frozenset[str]) -> None:
        self.pod = pod
        self.layout = layout
        self.levers = ServiceLevers()
        self.levers.update(pod.levers)
        self.metrics = PodMetrics(pod)
        self.log = JsonLog(pod, "elsewhere" if layout.external else "logs")
        self.spans = SpanSender(pod)
        self.peers = Peers(pod, self.levers, self.metrics, self.spans, self.log, external)
        self._pool = DatabasePool(
            pod.database, pod.service, layout.pool_size, self.levers, self.metrics
        )
        self._redis = redis.Redis(
            unix_socket_path=pod.redis_socket or "/nowhere",
            socket_timeout=REDIS_TIMEOUT_S,
            decode_responses=True,
        )
        self._ballast: list[bytearray] = []
        self._workers = asyncio.Semaphore(layout.workers)
        self._ssl = certificates.server_context(pod.room) if layout.external else None

    async def run(self) -> None:
        """Serve until SIGTERM; requests that are on their way end first."""
        app = web.Application()
        app.router.add_get("/metrics", self._show_metrics)
        app.router.add_post("/admin/levers", self._move_levers)
        for path, steps in self.layout.routes.items():
            app.router.add_get(path, self._handler(path, steps))
        # Requests that are on their way get that long to end.
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=2)
        await runner.setup()
        # A new version listens before the old one stops.
        site = web.TCPSite(
            runner, "127.0.0.1", self.pod.port, reuse_port=True, ssl_context=self._ssl
        )
        await site.start()
        self._apply()
        self.log.info(f"{self.pod.service} {self.pod.version} is listening on {self.pod.port}")
        tasks = [asyncio.create_task(coroutine) for coroutine in self._background()]
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        await site.stop()
        for task in tasks:
            task.cancel()
        await runner.cleanup()
        await self.peers.close()
        await self._pool.close()
        await self._redis.aclose()

    def _background(self) -> list[Coroutine[Any, Any, None]]:
        consumes: list[Coroutine[Any, Any, None]] = []
        if self.pod.collector:
            consumes.append(self.spans.run())
        if self.layout.consumer is not None:
            consumes.append(self._consume())
        if self.layout.batch is not None:
            consumes.append(self._batch())
        return consumes

    def _handler(
        self, path: str, steps: tuple[Step, ...]
    ) -> Callable[[web.Request], Awaitable[web.Response]]:
        async def handle(request: web.Request) -> web.Response:
            began = time.monotonic()
            # The caller decided whether this trace is kept.
            above = TraceContext.of(request.headers.get("traceparent", ""), self.pod.sampled)
            with self.spans.span(f"GET {path}", SERVER, above) as span:
                status, problem = await self._answer(path, steps)
                span.attributes["http.response.status_code"] = str(status)
                span.failed = problem
            self.metrics.requests.labels(path, "GET", str(status)).inc()
            self.metrics.durations.labels(path).observe(time.monotonic() - began)
            answer = web.json_response({"error": problem} if problem else {}, status=status)
            if self._ssl is not None:
                # Every request from outside makes a new TLS handshake.
                answer.force_close()
            return answer

        return handle

    async def _answer(self, path: str, steps: tuple[Step, ...]) -> tuple[int, str]:
        """The status, and what went wrong, if anything did."""
        levers = self.levers
        if random.random() < levers.refuse_share:
            return 503, "unavailable"
        try:
            await asyncio.sleep(levers.extra_ms / 1000)
            if levers.leak_mb:
                # Pages that nobody wrote to would take no memory.
                self._ballast.append(bytearray(b"x") * int(levers.leak_mb * 1_000_000))
            ends = time.thread_time() + levers.cpu_ms / 1000
            while levers.cpu_ms and time.thread_time() < ends:
                sum(range(500))
            if random.random() < levers.error_share:
                raise RuntimeError(levers.error or "unexpected value")
            # Waiting for a worker counts as part of the request, as it does for whoever asked.
            async with self._workers:
                for step in steps:
                    await self.do(step)
        except CallFailed as failure:
            self.log.error(f"{path} failed: {failure}")
            return failure.status, str(failure)
        except PoolExhausted as failure:
            self.log.error(f"{path} failed: {failure}")
            return 503, str(failure)
        except (psycopg.Error, RedisError, OSError, RuntimeError) as failure:
            problem = f"{type(failure).__name__}: {str(failure).strip()}"
            self.log.error(f"{path} failed: {problem}")
            return 500, problem
        self.log.info(f"{path} served")
        return 200, ""

    async def do(self, step: Step) -> None:
        """One step. Raises what went wrong."""
        if isinstance(step, WorkStep):
            await asyncio.sleep(step.ms / 1000 * random.lognormvariate(0, SPREAD))
        elif isinstance(step, CallStep):
            for _ in range(self.levers.call_times):
                await self.peers.call(step)
        elif isinstance(step, QueryStep):
            await self._query(step)
        elif isinstance(step, CachedStep):
            await self._cached(step)
        elif isinstance(step, EnqueueStep):
            await self._redis.xadd(step.stream, {"product": str(_product())}, maxlen=100_000)
        elif isinstance(step, SpoolStep):
            self._spool(step)

    async def _query(self, step: QueryStep) -> None:
        with self.spans.span("query", 3, CURRENT.get()) as span:
            span.attributes |= {"db.system": "postgresql", "peer.service": "shop-db"}
            span.attributes["db.query.text"] = step.sql
            try:
                sql = self.levers.batch_sql or step.sql
                await self._pool.query(sql.replace("{id}", str(_product())))
            except (psycopg.Error, PoolExhausted) as failure:
                span.failed = str(failure).strip()
                raise

    async def _cached(self, step: CachedStep) -> None:
        key = f"{step.prefix}:{random.randrange(step.keys)}"
        cache_entry = await self._redis.get(key)
        result = "hit" if cache_entry else "miss"
        self.metrics.cache.labels(step.prefix, result).inc()
        if cache_entry:
            return
        for miss_step in step.miss:
            await self.do(miss_step)
        await self._redis.set(key, "x" * 200, px=int(step.ttl_s * 1000))

    def _spool(self, step: SpoolStep) -> None:
        """Write a file. The folder is swept at its usual size; a smaller quota is a full disk."""
        folder = self.pod.room / "spool" / self.pod.name
        folder.mkdir(parents=True, exist_ok=True)
        files = sorted(folder.iterdir())
        used_kb = len(files) * step.kilobytes
        if used_kb + step.kilobytes > self.levers.disk_quota_kb:
            raise OSError(errno.ENOSPC, "No space left on device", str(folder))
        (folder / f"{time.time_ns()}").write_bytes(b"m" * step.kilobytes * 1000)
        # Mails are sent on by somebody else, who clears the folder.
        if len(files) > 50:
            files[0].unlink()

    async def _consume(self) -> None:
        """Take messages from the stream forever."""
        consumer = self.layout.consumer
        assert consumer is not None
        while True:
            try:
                await self._join(consumer.stream)
                await self._take_some(consumer.stream, consumer.steps)
            except (RedisError, OSError) as error:
                self.log.error(f"cannot read {consumer.stream}: {error}")
                await asyncio.sleep(1)

    async def _join(self, stream: str) -> None:
        """Make the consumer group, unless it is there: a flushed Redis has lost it."""
        with suppress(ResponseError):
            await self._redis.xgroup_create(stream, GROUP, id="0", mkstream=True)

    async def _take_some(self, stream: str, steps: tuple[Step, ...]) -> None:
        # What a consumer looks like that waits forever: alive, healthy, and taking nothing.
        if self.levers.stuck:
            await asyncio.sleep(0.5)
            return
        xreadgroup = await self._redis.xreadgroup(
            GROUP, self.pod.name, {stream: ">"}, count=BATCH_SIZE, block=500
        )
        for _, messages in _streams(xreadgroup):
            for number, _ in messages:
                await self._process(stream, str(number), steps)

    async def _process(self, stream: str, number: str, steps: tuple[Step, ...]) -> None:
        """One message, tried until it works: orders must not be lost."""
        while True:
            above = TraceContext.of("", self.pod.sampled)
            with self.spans.span(f"process {stream}", SERVER, above) as span:
                status, problem = await self._answer(f"order {number}", steps)
                span.failed = problem
            self.metrics.jobs.labels("ok" if status == 200 else "failed").inc()
            if status == 200:
                break
            await asyncio.sleep(0.3)
        # Until it is acknowledged, Redis keeps a message for whoever comes after a crash.
        await self._redis.xack(stream, GROUP, number)
        await self._redis.xdel(stream, number)

    async def _batch(self) -> None:
        batch = self.layout.batch
        assert batch is not None
        while True:
            await asyncio.sleep(batch.every_s / self.levers.hurry * random.uniform(0.8, 1.2))
            began = time.monotonic()
            status, _ = await self._answer("batch", batch.steps)
            self.metrics.jobs.labels("ok" if status == 200 else "failed").inc()
            self.log.info(f"report made in {(time.monotonic() - began) * 1000:.0f} ms")

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=generate_latest(self.metrics.registry))

    async def _move_levers(self, request: web.Request) -> web.Response:
        try:
            self.levers.update(await request.json())
        except ValueError as error:
            return web.json_response({"error": str(error)}, status=400)
        self._apply()
        return web.json_response({})

    def _apply(self) -> None:
        """Bring the certificate in line with the levers."""
        if self._ssl is not None:
            certificates.present(self._ssl, self.pod.room, self.levers.expired_certificate)


def _product() -> int:
    return random.randrange(1, PRODUCTS + 1)


def _streams(reply: object) -> list[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """What XREADGROUP gave, whichever of its two shapes the client uses."""
    if isinstance(reply, dict):
        return [(name, messages[0] if messages else []) for name, messages in reply.items()]
    return list(reply) if isinstance(reply, list) else []


async def serve(pod: ShopPod) -> None:
    """Run the service that the pod is a replica of."""
    services = services_of(small=pod.small)
    layout = next(service for service in services if service.name == pod.service)
    external = frozenset(service.name for service in services if service.external)
    await ServiceProgram(pod, layout, external).run()
