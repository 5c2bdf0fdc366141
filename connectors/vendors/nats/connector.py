"""NATS' own state: clients cut off as slow, connections, JetStream's streams and consumers.

A snapshot of now from the monitoring endpoints. The list of closed connections reaches back.
Fields: "Monitoring" (docs.nats.io), and the answers of a real server of version 2.9.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec

from faultline.analysis.wording.amounts import BYTES, SHARE, amount
from faultline.analysis.wording.phrases import counted
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.databases.database_facts import (
    BEHIND,
    connection_facts,
    restart_facts,
)
from faultline.connectors.shared.databases.database_server import Fact, ServerSnapshot, listed
from faultline.connectors.shared.databases.http_server import Endpoint, HttpServerConnector
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.nats import NatsSettings

FULL = 0.99
MOST_FACTS = 10
SLOW = "Slow Consumer"
"""How the reasons begin for which the server cuts off a client that does not keep up
(ClosedState in its server/client.go)."""


class VarzAnswer(msgspec.Struct):
    version: str = ""
    start: datetime | None = None
    connections: int = 0
    max_connections: int = 0


class ClosedConnection(msgspec.Struct):
    name: str = ""
    stop: datetime | None = None
    reason: str = ""


class ConnzAnswer(msgspec.Struct):
    connections: list[ClosedConnection] = []


class JetStreamConfig(msgspec.Struct):
    max_memory: float = -1
    max_storage: float = -1


class StreamConfig(msgspec.Struct):
    max_msgs: int = -1
    max_bytes: int = -1
    discard: str = "old"


class StreamState(msgspec.Struct):
    messages: int = 0
    bytes: int = 0


class ConsumerConfig(msgspec.Struct):
    max_ack_pending: int = -1
    deliver_subject: str = ""


class ConsumerDetail(msgspec.Struct):
    name: str
    config: ConsumerConfig | None = None
    num_pending: int = 0
    num_ack_pending: int = 0
    push_bound: bool = False


class StreamDetail(msgspec.Struct):
    name: str
    config: StreamConfig | None = None
    state: StreamState = msgspec.field(default_factory=StreamState)
    consumer_detail: list[ConsumerDetail] = []


class AccountDetail(msgspec.Struct):
    stream_detail: list[StreamDetail] = []


class JszAnswer(msgspec.Struct):
    disabled: bool = False
    config: JetStreamConfig | None = None
    memory: float = 0
    storage: float = 0
    account_details: list[AccountDetail] = []

    @property
    def streams(self) -> list[StreamDetail]:
        """Of all accounts."""
        return [stream for account in self.account_details for stream in account.stream_detail]


class HealthAnswer(msgspec.Struct):
    status: str = ""


def server_facts(varz: VarzAnswer, snapshot: ServerSnapshot) -> list[Fact]:
    """Connections and the server's start."""
    facts = connection_facts(varz.connections, varz.max_connections)
    if varz.start is not None and varz.start.tzinfo is not None:
        # The server's clock may be ahead of ours.
        up_s = max(0.0, (snapshot.at - varz.start).total_seconds())
        facts += restart_facts(up_s, snapshot.window_s, "start")
    return facts


def jetstream_facts(jsz: JszAnswer, snapshot: ServerSnapshot) -> list[Fact] | None:
    """None of a server without JetStream, which is no gap."""
    del snapshot
    if jsz.disabled:
        return None
    return storage_facts(jsz) + stream_facts(jsz.streams) + consumer_facts(jsz.streams)


def slow_facts(closed: Sequence[ClosedConnection], at: datetime, window_s: float) -> list[Fact]:
    """Clients that were cut off in the window because they did not keep up."""
    slow: list[tuple[float, ClosedConnection]] = []
    for connection in closed:
        if (
            connection.reason.startswith(SLOW)
            and connection.stop is not None
            and connection.stop.tzinfo is not None
        ):
            ago_s = max(0.0, (at - connection.stop).total_seconds())
            if ago_s <= window_s:
                slow.append((ago_s, connection))
    if not slow:
        return []
    names = sorted({short(client.name, 40) for _, client in slow if client.name})
    value = f"{counted(len(slow), 'client')} cut off as a slow consumer"
    if names:
        value += f": {', '.join(names[:5])}"
    # The trouble began with the first client that was cut off.
    first_s = max(ago_s for ago_s, _ in slow)
    return [Fact("consumers_behind", value, first_s, field="connections")]


def storage_facts(jsz: JszAnswer) -> list[Fact]:
    """JetStream that has used what it may."""
    limits = jsz.config or JetStreamConfig()
    facts = []
    for used, most, what in (
        (jsz.memory, limits.max_memory, "max_memory"),
        (jsz.storage, limits.max_storage, "max_storage"),
    ):
        if most > 0 and used >= FULL * most:
            value = f"{amount(used / most, SHARE)} of {what} in use ({amount(most, BYTES)})"
            facts.append(Fact("writes_refused", value, field=what))
    return facts


def stream_facts(streams: Sequence[StreamDetail]) -> list[Fact]:
    """Streams that are full and keep what is old, which refuses what is new."""
    facts = []
    for stream in streams:
        config = stream.config or StreamConfig()
        if config.discard != "new":
            continue
        for used, most, what in (
            (stream.state.messages, config.max_msgs, "messages"),
            (stream.state.bytes, config.max_bytes, "bytes"),
        ):
            # -1 stands for no limit.
            if 0 < most <= used:
                value = f"all of its {most} {what} in use, and it discards what is new"
                name = short(stream.name, 80)
                facts.append(Fact("writes_refused", value, None, "Stream", name, what))
                # One limit is enough to refuse messages.
                break
    return facts[:MOST_FACTS]


def consumer_facts(streams: Sequence[StreamDetail]) -> list[Fact]:
    """Consumers of streams with most undelivered messages first."""
    consumers = [(stream, consumer) for stream in streams for consumer in stream.consumer_detail]
    facts = []
    for stream, consumer in sorted(
        consumers, key=lambda pair: (-pair[1].num_pending, pair[1].name)
    ):
        name = f"{short(consumer.name, 60)} of {short(stream.name, 60)}"
        for kind, value, field in _judged(consumer):
            facts.append(Fact(kind, value, None, "Consumer", name, field))
    return facts[:MOST_FACTS]


def _judged(consumer: ConsumerDetail) -> Iterator[tuple[str, str, str]]:
    config = consumer.config or ConsumerConfig()
    # Only a push consumer has a subject. Whether anybody reads a pull consumer is unknown.
    if consumer.num_pending and config.deliver_subject and not consumer.push_bound:
        yield "queue_without_consumers", counted(consumer.num_pending, "message"), "push_bound"
    elif consumer.num_pending and 0 < config.max_ack_pending <= consumer.num_ack_pending:
        value = (
            f"{counted(consumer.num_pending, 'message')} not delivered, because all "
            f"{config.max_ack_pending} that may be unacknowledged are"
        )
        yield "consumers_behind", value, "num_ack_pending"
    elif consumer.num_pending >= BEHIND:
        value = (
            f"{counted(consumer.num_pending, 'message')} not delivered, "
            f"{consumer.num_ack_pending} not "
            "acknowledged"
        )
        yield "consumers_behind", value, "num_pending"


def stream_details(jsz: JszAnswer) -> dict[str, str]:
    """The largest streams, for people."""
    shown = sorted(jsz.streams, key=lambda stream: (-stream.state.messages, stream.name))[:10]
    lines = []
    for stream in shown:
        consumers = counted(len(stream.consumer_detail), "consumer")
        size = amount(stream.state.bytes, BYTES)
        name = short(stream.name, 80)
        lines.append(f"{name}: {stream.state.messages} messages, {size}, {consumers}")
    return listed("largest streams", lines)


class NatsConnector(HttpServerConnector):
    """One server."""

    name = "nats"
    endpoints = (
        Endpoint("/varz", VarzAnswer, server_facts),
        Endpoint(
            "/connz",
            ConnzAnswer,
            lambda connz, snapshot: slow_facts(connz.connections, snapshot.at, snapshot.window_s),
            params=(("state", "closed"), ("sort", "stop"), ("limit", "1024")),
        ),
        Endpoint(
            "/jsz",
            JszAnswer,
            jetstream_facts,
            params=tuple((name, "true") for name in ("accounts", "streams", "consumers", "config")),
            details=stream_details,
        ),
        Endpoint(
            "/healthz",
            HealthAnswer,
            lambda health, snapshot: [],
            facts_of_status={
                503: Fact("database_unavailable", "unhealthy by its own check", field="healthz")
            },
        ),
    )

    async def examined(self, session: HttpSession) -> Check:
        """Whoever reaches these endpoints can read all of them and change nothing."""
        varz = await session.get("/varz", type=VarzAnswer)
        version = short(varz.version, 20)
        line = f"NATS {version} at {self.http.base_url} can be read; only GET is sent"
        return Check(self.name, True, line)


def build(section: NatsSettings, shared: SharedSettings) -> NatsConnector | None:
    """The configured connector, or None without a URL."""
    return None if section.url is None else NatsConnector(section, section.url)
