"""Redis, real servers: memory, evictions, clients, slow commands, replication."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.shared.settings.connector_settings import DatabaseAddress
from faultline.connectors.vendors.redis.connector import LIMITS, RedisSession
from faultline.lab.shop.tools import find_redis
from faultline.loopback.bot_process import free_port
from tests.connectors.live_requests import configured, diagnosed_now, facts_of, snapshot
from tests.connectors.real_servers import Programs, programs

SECRET = "anna@example.com"
READER = "ACL SETUSER faultline on >pw-1 resetkeys -@all +info +slowlog|get"
SLOW = "local t = redis.call('TIME')[1]*1 repeat until redis.call('TIME')[1]*1 >= t + 2"
"""A script that is busy for one second at least."""


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Programs]:
    """What is started ends with the test."""
    with programs(tmp_path) as started:
        yield started


def start(running: Programs, *options: str) -> int:
    """The port of a new server."""
    port = free_port()
    own = ("--port", str(port), "--bind", "127.0.0.1", "--save", "", *options)
    running.start(find_redis(), *own)
    running.until(lambda: _answers(port), "Redis")
    return port


def _answers(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(7) == b"+PONG\r\n"


def client(port: int) -> Any:
    """The real client, which does what the shop's services do."""
    import redis

    return redis.Redis(port=port, socket_timeout=30)


def connector(port: int, **own: Any) -> Connector:
    """As settings build it."""
    values = {"host": "127.0.0.1", "port": port, "tls": "off", "service": "cart-cache"}
    catalogue = {"cart": {"aliases": ["cart-api"]}, "reports": {}, "session": {}}
    return configured("redis", {"sample_s": 0, **values, **own}, services=catalogue)


def test_a_slow_command_is_found_and_its_arguments_stay_away(
    running: Programs, tmp_path: Path
) -> None:
    port = start(running)
    with client(port) as one:
        one.eval(SLOW, 1, SECRET)
    diagnosis = diagnosed_now(tmp_path, connector(port))
    [finding] = [one for one in diagnosis.findings if "slow commands" in one.sentence]
    assert "Cache cart-cache is held up by slow commands: EVAL took " in finding.sentence
    assert (finding.subject, len(finding.evidence)) == ("cart-cache", 1)
    assert finding.onset is not None
    assert SECRET not in diagnosis.model_dump_json()


def test_a_full_cache_that_evicts_and_one_that_refuses_writes(
    running: Programs, tmp_path: Path
) -> None:
    port = start(running, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
    over = threading.Event()

    def fill() -> None:
        with client(port) as one:
            number = 0
            while not over.is_set():
                number += 1
                one.set(f"{SECRET}{number}", "x" * 10_000)

    filling = threading.Thread(target=fill)
    filling.start()
    try:
        with client(port) as one:
            while not one.info("stats")["evicted_keys"]:
                time.sleep(0.01)
        told = facts_of(snapshot(connector(port, sample_s=1), tmp_path))
    finally:
        over.set()
        filling.join(60)
    with client(port) as one:
        one.config_set("maxmemory-policy", "noeviction")
        one.config_set("maxmemory", "1mb")
    assert " of maxmemory in use, policy allkeys-lru, " in told["memory_near_limit"]
    assert told["memory_near_limit"].endswith(" keys evicted in 1 s")
    told = facts_of(snapshot(connector(port), tmp_path))
    assert told["writes_refused"].endswith(" of maxmemory in use, and its policy is noeviction")


def test_clients_near_their_limit(running: Programs, tmp_path: Path) -> None:
    port = start(running, "--maxclients", "12")
    with ExitStack() as stack:
        for _ in range(10):
            stack.enter_context(socket.create_connection(("127.0.0.1", port)))
        told = facts_of(snapshot(connector(port), tmp_path))
    assert told["pool_exhausted"] == "11 of 12 (92 % of maxclients)"


def test_a_replica_without_its_primary(running: Programs, tmp_path: Path) -> None:
    port = start(running, "--replicaof", "127.0.0.1", str(free_port()))
    told = facts_of(snapshot(connector(port), tmp_path))
    assert told["database_lagging"] == "its link to the primary is down"
    assert told["database_restarted"].startswith("its server started ")


def test_a_user_that_only_reads_statistics_sees_all_of_it(
    running: Programs, tmp_path: Path
) -> None:
    port = start(running)
    with client(port) as one:
        one.execute_command(*READER.split())
    built = connector(port, username="faultline", password="pw-1", sample_s=0.1)
    found = snapshot(built, tmp_path)
    assert found.missing == ()
    assert len(found.items) == 3
    check = asyncio.run(built.check())
    assert check.ok
    assert "who calls it is not shown to this user: +client|list" in check.line
    assert "whether this user may also write is not shown to it" in check.line
    unlimited = asyncio.run(connector(port).check())
    assert "+client|list" not in unlimited.line
    assert "warning: the user default can also write" in unlimited.line


def test_whoever_has_connections_calls_the_cache(running: Programs, tmp_path: Path) -> None:
    import redis

    port = start(running)
    with client(port) as owner:
        owner.execute_command(*READER.split(), "+client|list")
        owner.execute_command("ACL", "SETUSER", "svc-reports", "on", "nopass", "+@all")
    logins: list[dict[str, Any]] = [
        {"client_name": "cart-api"},
        {"username": "svc-reports", "password": "x"},
        {},
    ]
    with ExitStack() as stack:
        for login in logins:
            one = stack.enter_context(redis.Redis(port=port, **login))
            one.ping()
        found = snapshot(connector(port, username="faultline", password="pw-1"), tmp_path)
    assert found.missing == ()
    calls = found.tables["topology"].select("caller", "callee", "source").rows()
    assert calls == [
        ("cart", "cart-cache", "database"),
        ("reports", "cart-cache", "database_users"),
    ]
    assert [one.query.partition(": ")[2] for one in found.items if one.kind == "topology"] == [
        "CLIENT LIST"
    ]


def test_a_wrong_password_is_a_gap_that_does_not_show_it(running: Programs, tmp_path: Path) -> None:
    port = start(running)
    built = connector(port, username="nobody", password="pw-2")
    gaps = snapshot(built, tmp_path).missing
    assert [gap.kind for gap in gaps] == ["states", "topology"]
    assert all("WRONGPASS" in gap.reason for gap in gaps)
    assert "pw-2" not in str(gaps)
    assert not asyncio.run(built.check()).ok


@pytest.mark.parametrize("words", [("SET", "a", "b"), ("CONFIG", "SET"), ("SLOWLOG", "RESET")])
def test_no_command_that_writes_is_sent(running: Programs, words: tuple[str, ...]) -> None:
    server = DatabaseAddress("127.0.0.1", start(running), None, None, "off")

    async def tried() -> None:
        async with RedisSession(server, LIMITS) as session:
            await session.ask(*words)

    with pytest.raises(ConnectorError, match="sends reading commands only"):
        asyncio.run(tried())


@pytest.mark.parametrize(
    "nonsense",
    [b"HTTP/1.1 400\r\n", b"$99999999\r\n", b"*99999\r\n", b"*1\r\n" * 20, b"x" * 9999],
)
def test_what_is_no_reply_is_a_gap(nonsense: bytes, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            accepted, _ = listening.accept()
            with accepted:
                accepted.recv(1000)
                accepted.sendall(nonsense)
                time.sleep(0.2)

        thread = threading.Thread(target=answer)
        thread.start()
        found = snapshot(connector(listening.getsockname()[1]), tmp_path)
        thread.join(60)
    assert found.tables == {}
    assert [one.kind for one in found.missing] == ["states", "topology"]
    assert "internal error" not in found.missing[0].reason
