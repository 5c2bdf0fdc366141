"""How each fault is switched on in the running shop, and off again. Each returns how to undo it."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import psycopg

from faultline.lab.shop.pod import ShopPod
from faultline.lab.shop.running import PROXY, SHOPPERS, Shop
from faultline.lab.shop.stores import QUICK_LOOKUP, SLOW_LOOKUP

Undo = Callable[[], None]
FLUSHES_EVERY_S = 0.5


class FaultInjection:
    """One fault about to be switched on: where, by which change, and the dice."""

    def __init__(self, shop: Shop, target: str, rng: random.Random, version: str | None) -> None:
        self.shop = shop
        self.target = target
        self.rng = rng
        self.version = version
        """The version of a guilty deploy; None: the running processes are changed."""

    def levers(self, **values: Any) -> Undo:
        """Move levers of all the target's replicas."""
        return self._move(self.shop.pods_of(self.target), values)

    def levers_of(self, pods: list[ShopPod], **values: Any) -> Undo:
        """Move levers of some processes."""
        return self._move(pods, values)

    def _move(self, pods: list[ShopPod], values: dict[str, Any]) -> Undo:
        services = {pod.service for pod in pods}
        # A guilty deploy brings the values along; any other fault changes what runs.
        if self.version is not None:
            self.shop.deploy(self.target, self.version, values)
        else:
            for pod in pods:
                self.shop.move_levers(pod, **values)

        def undo() -> None:
            # What leaked or is stuck ends only with the process.
            for service in services:
                self.shop.deploy(service, self.shop.pods_of(service)[0].version)

        return undo


def slow_code(it: FaultInjection) -> Undo:
    return it.levers(extra_ms=it.rng.uniform(1300, 2500))


def n_plus_one(it: FaultInjection) -> Undo:
    return it.levers(call_times=it.rng.randint(45, 60))


def connection_leak(it: FaultInjection) -> Undo:
    return it.levers(leaked_connections=it.rng.uniform(0.08, 0.2))


def small_pool(it: FaultInjection) -> Undo:
    return it.levers(pool_size=1)


def cpu_burn(it: FaultInjection) -> Undo:
    return it.levers(cpu_ms=it.rng.uniform(500, 700))


def memory_leak(it: FaultInjection) -> Undo:
    return it.levers(leak_mb=it.rng.uniform(5, 9))


def slow_query(it: FaultInjection) -> Undo:
    _run_sql(it.shop, SLOW_LOOKUP)
    return lambda: _run_sql(it.shop, QUICK_LOOKUP)


def database_lock(it: FaultInjection) -> Undo:
    """A session takes the table for itself and does not commit."""
    connection = psycopg.connect(it.shop.stores.database, application_name="psql")
    connection.execute("LOCK TABLE stock IN ACCESS EXCLUSIVE MODE")

    def undo() -> None:
        connection.rollback()
        connection.close()

    return undo


def cache_flush(it: FaultInjection) -> Undo:
    """A script that flushes Redis again and again."""
    # Only the shop needs Redis' client, and the list of faults is shown without it.
    import redis

    client = redis.Redis(unix_socket_path=it.shop.stores.redis_socket)
    stop = threading.Event()

    def flush() -> None:
        while not stop.wait(FLUSHES_EVERY_S):
            with suppress(redis.RedisError):
                client.flushall()

    thread = threading.Thread(target=flush, daemon=True)
    thread.start()

    def undo() -> None:
        stop.set()
        thread.join()
        client.close()

    return undo


def retry_storm(it: FaultInjection) -> Undo:
    return it.levers(timeouts_s={"payments": 0.03}, retries={"payments": 8})


def expired_certificate(it: FaultInjection) -> Undo:
    (pod,) = it.shop.pods_of(it.target)
    it.shop.move_levers(pod, expired_certificate=True)
    return lambda: it.shop.move_levers(pod, expired_certificate=False)


def dns_failure(it: FaultInjection) -> Undo:
    it.shop.hide(it.target)
    return it.shop.hide


def disk_full(it: FaultInjection) -> Undo:
    return it.levers(disk_quota_kb=16)


def stuck_consumer(it: FaultInjection) -> Undo:
    return it.levers(stuck=True)


def bad_replica(it: FaultInjection) -> Undo:
    """One of several replicas fails half of its requests, or is slow."""
    pods = [pod for pod in it.shop.pods_of(it.target) if pod.cluster == "eu"]
    chosen = [it.rng.choice(pods)]
    if it.rng.random() < 0.5:
        return it.levers_of(chosen, error_share=0.6, error="broken pipe")
    return it.levers_of(chosen, extra_ms=it.rng.uniform(1500, 2500))


def bad_cluster(it: FaultInjection) -> Undo:
    """Everything in one cluster is slow and refuses some requests."""
    ours = [p for p in it.shop.pods.values() if p.program == "service" and p.cluster == it.target]
    # Drawn before anything moves, so that every replica gets the same.
    share, extra_ms = it.rng.uniform(0.08, 0.15), it.rng.uniform(150, 400)
    return it.levers_of(ours, refuse_share=share, extra_ms=extra_ms)


def external_outage(it: FaultInjection) -> Undo:
    (pod,) = it.shop.pods_of(it.target)
    if it.rng.random() < 0.5:
        it.shop.move_levers(pod, refuse_share=it.rng.uniform(0.6, 1))
    else:
        it.shop.move_levers(pod, extra_ms=3000)
    return lambda: it.shop.move_levers(pod, refuse_share=0, extra_ms=0)


def bad_flag(it: FaultInjection) -> Undo:
    share = it.rng.uniform(0.25, 0.6)
    return it.levers(error_share=share, error="KeyError: 'discount_code'")


def bad_version(it: FaultInjection) -> Undo:
    share = it.rng.uniform(0.3, 0.8)
    return it.levers(error_share=share, error="TypeError: 'NoneType' object is not subscriptable")


def bad_config(it: FaultInjection) -> Undo:
    """A time-out in ms where seconds are meant."""
    callee = {"checkout": "inventory", "payments": "bank", "web": "catalog"}[it.target]
    return it.levers(timeouts_s={callee: 0.001})


def noisy_neighbour(it: FaultInjection) -> Undo:
    """A batch job takes row locks, holds them for seconds, and runs far too often."""
    sql = "DO $$ BEGIN PERFORM 1 FROM stock FOR UPDATE; PERFORM pg_sleep(2.2); END $$"
    return it.levers(batch_sql=sql, hurry=100)


def packet_delay(it: FaultInjection) -> Undo:
    return _network(it, delay_s=it.rng.uniform(0.3, 0.45), loss=0)


def packet_loss(it: FaultInjection) -> Undo:
    return _network(it, delay_s=0, loss=it.rng.uniform(0.15, 0.3))


def _network(it: FaultInjection, **values: float) -> Undo:
    # The fault is between caller and service, so it moves the proxies and no replica.
    proxies = [it.shop.pods[f"{PROXY}-{pod.name}"] for pod in it.shop.pods_of(it.target)]
    for proxy in proxies:
        it.shop.move_levers(proxy, **values)

    def undo() -> None:
        for proxy in proxies:
            it.shop.move_levers(proxy, delay_s=0, loss=0)

    return undo


def traffic_surge(it: FaultInjection) -> Undo:
    shoppers = it.shop.pods[SHOPPERS]
    it.shop.move_levers(shoppers, surge=it.rng.uniform(9, 13), route="/search")
    return lambda: it.shop.move_levers(shoppers, surge=1)


def false_alarm(it: FaultInjection) -> Undo:
    """Nothing is wrong: a rule is read whose threshold lies below what is usual."""
    it.shop.prometheus.set_rules(wrong_threshold_s=0.002)
    return it.shop.prometheus.set_rules


def _run_sql(shop: Shop, sql: str) -> None:
    with psycopg.connect(shop.stores.database, autocommit=True) as connection:
        connection.execute(sql.encode())
