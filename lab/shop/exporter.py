"""A small exporter of Redis and PostgreSQL, with the names that the usual exporters use."""

from __future__ import annotations

import asyncio
import signal

import psycopg
import redis.asyncio as redis
from aiohttp import web
from prometheus_client import CollectorRegistry, Gauge, generate_latest
from redis.exceptions import RedisError

from faultline.lab.shop.pod import ShopPod

_OF_REDIS = {
    "connected_clients": "redis_connected_clients",
    "used_memory": "redis_memory_used_bytes",
    "total_commands_processed": "redis_commands_processed_total",
    "keyspace_hits": "redis_keyspace_hits_total",
    "keyspace_misses": "redis_keyspace_misses_total",
    "evicted_keys": "redis_evicted_keys_total",
}
_ACTIVITY = """
SELECT count(*) FILTER (WHERE state = 'active'),
       count(*) FILTER (WHERE state LIKE 'idle in%'),
       count(*) FILTER (WHERE wait_event_type = 'Lock'),
       coalesce(max(extract(epoch FROM now() - xact_start)), 0)
FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_STATES = ("active", "idle in transaction", "waiting")
_WORK = """
SELECT xact_commit, tup_returned, tup_fetched, deadlocks, blk_read_time
FROM pg_stat_database WHERE datname = current_database()
"""
_SCANS = "SELECT relname, seq_scan, idx_scan FROM pg_stat_user_tables"


class StoreExporter:
    """Asks both stores when Prometheus asks it."""

    def __init__(self, pod: ShopPod) -> None:
        self._pod = pod
        self._redis = redis.Redis(unix_socket_path=pod.redis_socket, socket_timeout=2)
        self._connection: psycopg.AsyncConnection[tuple[object, ...]] | None = None

    async def run(self) -> None:
        """Serve until SIGTERM."""
        app = web.Application()
        app.router.add_get("/redis", self._of_redis)
        app.router.add_get("/postgres", self._of_postgres)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", self._pod.port).start()
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        await stop.wait()
        await runner.cleanup()

    async def _of_redis(self, _: web.Request) -> web.Response:
        registry = CollectorRegistry()
        up = Gauge("redis_up", "Whether Redis answers.", registry=registry)
        try:
            info = await self._redis.info()
            keys = await self._redis.dbsize()
            waiting = await self._redis.xlen("orders")
        # Report a store that is down as down: the scrape itself succeeds.
        except (RedisError, OSError):
            up.set(0)
            return web.Response(body=generate_latest(registry))
        up.set(1)
        Gauge("redis_db_keys", "Keys.", registry=registry).set(keys)
        Gauge("redis_stream_length", "Messages waiting.", ["stream"], registry=registry).labels(
            "orders"
        ).set(waiting)
        for name, metric in _OF_REDIS.items():
            Gauge(metric, name, registry=registry).set(float(info[name]))
        return web.Response(body=generate_latest(registry))

    async def _of_postgres(self, _: web.Request) -> web.Response:
        registry = CollectorRegistry()
        up = Gauge("pg_up", "Whether PostgreSQL answers.", registry=registry)
        try:
            await self._read_postgres(registry)
            up.set(1)
        except psycopg.Error:
            # The next scrape connects again.
            self._connection = None
            up.set(0)
        return web.Response(body=generate_latest(registry))

    async def _read_postgres(self, registry: CollectorRegistry) -> None:
        if self._connection is None:
            self._connection = await psycopg.AsyncConnection.connect(
                self._pod.database, autocommit=True, application_name="exporter"
            )
        activity = await (await self._connection.execute(_ACTIVITY)).fetchone()
        work = await (await self._connection.execute(_WORK)).fetchone()
        scans = await (await self._connection.execute(_SCANS)).fetchall()
        states = Gauge("pg_stat_activity_count", "Sessions.", ["state"], registry=registry)
        # The fourth column is a duration, and is read below.
        for state, number in zip(_STATES, activity or (), strict=False):
            states.labels(state).set(_number(number))
        if activity is not None:
            Gauge("pg_stat_activity_max_tx_duration", "Seconds.", registry=registry).set(
                _number(activity[3])
            )
        names = ("xact_commit", "tup_returned", "tup_fetched", "deadlocks", "blk_read_time")
        for name, number in zip(names, work or (), strict=False):
            Gauge(f"pg_stat_database_{name}", name, registry=registry).set(_number(number))
        sequential = Gauge("pg_stat_user_tables_seq_scan", "Scans.", ["relname"], registry=registry)
        for table, scanned, _ in scans:
            sequential.labels(str(table)).set(_number(scanned))


def _number(value: object) -> float:
    return float(str(value)) if value is not None else 0.0


async def serve(pod: ShopPod) -> None:
    """Run the exporter."""
    await StoreExporter(pod).run()
