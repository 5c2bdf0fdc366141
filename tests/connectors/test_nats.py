"""A real NATS with JetStream: a full stream, consumers that are stuck or away, a client that was
cut off."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from faultline.connectors.shared.contract.base import Connector
from faultline.connectors.vendors.nats import connector as facts
from faultline.loopback.bot_process import free_port
from tests.connectors.live_requests import configured, diagnosed_now, facts_of, snapshot
from tests.connectors.local_http import LocalServer, Reply
from tests.connectors.real_servers import facts_in, programs
from tests.debian_tools import debian_binary

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Client:
    """As much of NATS' protocol as the shop needs."""

    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._lines = self.socket.makefile("rb")
        self._lines.readline()
        self.send(f'CONNECT {{"verbose":false,"name":"{name}"}}\r\nSUB _INBOX 1\r\n'.encode())

    def send(self, raw: bytes) -> None:
        self.socket.sendall(raw)

    def publish(self, subject: str, body: bytes, reply: str = "") -> None:
        self.send(f"PUB {subject} {reply} {len(body)}\r\n".encode() + body + b"\r\n")

    def asks(self, subject: str, **body: Any) -> None:
        """A request to JetStream that has to succeed."""
        self.publish(subject, json.dumps(body).encode(), "_INBOX")
        while True:
            line = self._lines.readline()
            if line.startswith(b"PING"):
                self.send(b"PONG\r\n")
            elif line.startswith(b"MSG"):
                answer = json.loads(self._lines.read(int(line.split()[-1]) + 2))
                assert "error" not in answer, answer
                return

    def close(self) -> None:
        self._lines.close()
        self.socket.close()


@contextmanager
def connected(port: int, name: str) -> Iterator[Client]:
    """A client."""
    with closing(Client(port, name)) as client:
        yield client


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Where it listens to clients, and where it tells of itself."""
    with programs(tmp_path_factory.mktemp("nats")) as running:
        own, told = free_port(), free_port()
        running.start(
            debian_binary("nats-server", "usr/sbin/nats-server"),
            *("-a", "127.0.0.1", "-p", str(own), "-m", str(told)),
            *("--jetstream", "--store_dir", str(running.folder / "streams")),
        )
        running.until_answers(f"http://127.0.0.1:{told}/healthz")
        yield own, told


def connector(port: int, **own: Any) -> Connector:
    """As settings build it."""
    values = {"url": f"http://127.0.0.1:{port}", "service": "events-nats"}
    return configured("nats", {**values, **own})


def test_streams_that_are_full_and_consumers_that_are_stuck_or_away(
    ports: tuple[int, int], tmp_path: Path
) -> None:
    with connected(ports[0], "shop") as shop:
        stream = {"name": "ORDERS", "subjects": ["orders.>"], "max_msgs": 10, "discard": "new"}
        shop.asks("$JS.API.STREAM.CREATE.ORDERS", storage="memory", **stream)
        away = {"durable_name": "mails", "ack_policy": "explicit", "deliver_subject": "mails.in"}
        path = "$JS.API.CONSUMER.DURABLE.CREATE.ORDERS"
        shop.asks(f"{path}.mails", stream_name="ORDERS", config=away)
        stuck = {"durable_name": "billing", "ack_policy": "explicit", "max_ack_pending": 2}
        shop.asks(f"{path}.billing", stream_name="ORDERS", config=stuck)
        for _ in range(10):
            shop.asks("orders.new")
        for _ in range(2):
            shop.asks("$JS.API.CONSUMER.MSG.NEXT.ORDERS.billing", batch=1)
        found = snapshot(connector(ports[1]), tmp_path)
        diagnosis = diagnosed_now(tmp_path / "again", connector(ports[1]))
    told = {(kind, name, fact): value for kind, name, fact, value in facts_in(found)}
    full = "all of its 10 messages in use, and it discards what is new"
    assert told["Stream", "ORDERS", "writes_refused"] == full
    assert told["Consumer", "mails of ORDERS", "queue_without_consumers"] == "10 messages"
    waits = "8 messages not delivered, because all 2 that may be unacknowledged are"
    assert told["Consumer", "billing of ORDERS", "consumers_behind"] == waits
    started = told["Broker", "events-nats", "database_restarted"]
    assert str(started).startswith("its server started ")
    assert len(told) == 4
    assert found.missing == ()
    [finding] = [one for one in diagnosis.findings if "refuses writes" in one.sentence]
    assert finding.subject == "events-nats"


def test_a_client_that_does_not_read_is_cut_off_and_named(tmp_path: Path) -> None:
    with programs(tmp_path) as running:
        own, told = free_port(), free_port()
        settings = running.folder / "nats.conf"
        settings.write_text("max_pending: 100000\nmax_payload: 95000\n")
        running.start(
            debian_binary("nats-server", "usr/sbin/nats-server"),
            *("-a", "127.0.0.1", "-p", str(own), "-m", str(told), "-c", str(settings)),
        )
        running.until_answers(f"http://127.0.0.1:{told}/healthz")
        with connected(own, "reports") as slow, connected(own, "shop") as shop:
            slow.send(b"SUB orders.> 2\r\n")

            def is_told() -> bool:
                for _ in range(100):
                    shop.publish("orders.new", b"x" * 90_000)
                return "consumers_behind" in facts_of(snapshot(connector(told), tmp_path))

            running.until(is_told, "a slow consumer")
        value = facts_of(snapshot(connector(told), tmp_path))["consumers_behind"]
    assert value == "1 client cut off as a slow consumer: reports"


def test_a_server_that_calls_itself_unhealthy_and_one_that_is_gone(tmp_path: Path) -> None:
    with LocalServer() as server:
        server.on("/varz", Reply({"version": "2.9.10"}))
        server.on("/connz", Reply({"connections": []}))
        server.on("/jsz", Reply({"disabled": True}))
        server.on("/healthz", Reply({"status": "unavailable"}, status=503))
        port = int(server.url.rpartition(":")[2])
        found = snapshot(connector(port), tmp_path)
        assert facts_of(found) == {"database_unavailable": "unhealthy by its own check"}
        assert {one.method for one in server.asked} == {"GET"}
    gone = free_port()
    assert len(snapshot(connector(gone), tmp_path).missing) == 4
    assert not asyncio.run(connector(gone).check()).ok


def test_it_can_be_read(ports: tuple[int, int]) -> None:
    check = asyncio.run(connector(ports[1]).check())
    assert check.ok
    assert check.line.startswith("NATS 2.9.")


@pytest.mark.parametrize(
    ("storage", "told"),
    [(98.0, []), (99.5, ["99.5 % of max_storage in use (100 bytes)"])],
)
def test_jetstream_that_has_used_all_it_may(storage: float, told: list[str]) -> None:
    limits = facts.JetStreamConfig(max_memory=-1, max_storage=100)
    answer = facts.JszAnswer(config=limits, memory=5, storage=storage)
    assert [one.value for one in facts.storage_facts(answer)] == told


def test_connections_that_were_closed_for_other_reasons_or_long_ago_say_nothing() -> None:
    closed = [
        facts.ClosedConnection("shop", NOW, "Client Closed"),
        facts.ClosedConnection("old", datetime(2026, 3, 1, tzinfo=UTC), facts.SLOW),
    ]
    assert facts.slow_facts(closed, NOW, 7200) == []
