"""A broker of Kafka on loopback that tells of a cluster, and of nothing else.

Its messages are encoded by kafka-python from the schemas that Apache Kafka publishes
(clients/src/main/resources/common/message), so that they are another's reading of the protocol than
that of the client under test.
"""

from __future__ import annotations

import contextlib
import socketserver
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from kafka.protocol import admin, consumer, metadata, sasl

FIRST = 1
NOT_AUTHORIZED, NO_GROUP_RIGHT, BAD_LOGIN = 29, 30, 58
EARLIEST = -2
KINDS: Mapping[int, Any] = {
    2: consumer.ListOffsetsRequest,
    3: metadata.MetadataRequest,
    9: consumer.OffsetFetchRequest,
    10: metadata.FindCoordinatorRequest,
    15: admin.DescribeGroupsRequest,
    16: admin.ListGroupsRequest,
    17: sasl.SaslHandshakeRequest,
    18: metadata.ApiVersionsRequest,
    36: sasl.SaslAuthenticateRequest,
}
MODULES = (admin, consumer, metadata, sasl)
NEWEST = {9: 9, 3: 12}
"""Offsets by the names of topics, and metadata, as of Kafka 3.9."""


@dataclass
class ToldGroup:
    """A consumer group, with up to where it has read each partition."""

    state: str = "Stable"
    members: int = 1
    committed: Mapping[tuple[str, int], int] = field(default_factory=dict)


@dataclass
class KafkaBroker:
    """What the cluster is like. `ends` may grow by `comes` with each time that they are asked for,
    and committed offsets by `reads`."""

    brokers: Sequence[int] = (1, 2, 3)
    topics: Mapping[str, Sequence[tuple[int, Sequence[int], Sequence[int]]]] = field(
        default_factory=dict
    )
    """Leader, replicas and replicas in sync of each partition."""
    groups: Mapping[str, ToldGroup] = field(default_factory=dict)
    ends: Mapping[tuple[str, int], int] = field(default_factory=dict)
    begins: Mapping[tuple[str, int], int] = field(default_factory=dict)
    comes: int = 0
    reads: int = 0
    denied: Sequence[str] = ()
    """Groups that this user may not describe."""
    lists_groups: bool = True
    login: tuple[str, str] | None = None
    rights: Sequence[int] = ()
    """What the user may do with the cluster, by the codes of operations."""
    port: int = 0
    asked: list[str] = field(default_factory=list)
    """The requests that came, by name."""
    logins: list[bytes] = field(default_factory=list)

    def answer(self, request: Any, version: int, is_open: list[bool]) -> Any:
        """To one request. `is_open` says whether its connection has logged in."""
        name = type(request).__name__.partition("_")[0].removesuffix("Request")
        self.asked.append(name)
        if name not in ("ApiVersions", "SaslHandshake", "SaslAuthenticate") and not is_open[0]:
            raise ConnectionError
        if name == "SaslAuthenticate":
            self.logins.append(bytes(request.auth_bytes))
            user, password = bytes(request.auth_bytes).decode().split("\0")[1:]
            is_open[0] = (user, password) == self.login
            error = 0 if is_open[0] else BAD_LOGIN
            return told(error_code=error, error_message=None, auth_bytes=b"", session_lifetime_ms=0)
        return getattr(self, f"_{name.lower()}")(request, version)

    def _apiversions(self, request: Any, version: int) -> Any:
        keys = [
            told(api_key=key, min_version=0, max_version=NEWEST.get(key, kind.max_version))
            for key, kind in KINDS.items()
        ]
        return told(
            error_code=0,
            api_keys=keys,
            throttle_time_ms=0,
            supported_features=[],
            finalized_features_epoch=-1,
            finalized_features=[],
            zk_migration_ready=False,
        )

    def _saslhandshake(self, request: Any, version: int) -> Any:
        return told(error_code=0, mechanisms=["PLAIN"])

    def _metadata(self, request: Any, version: int) -> Any:
        topics = []
        for name, partitions in self.topics.items():
            listed = [
                told(
                    error_code=0 if leader >= 0 else 5,
                    partition_index=number,
                    leader_id=leader,
                    leader_epoch=1,
                    replica_nodes=list(replicas),
                    isr_nodes=list(in_sync),
                    offline_replicas=[],
                )
                for number, (leader, replicas, in_sync) in enumerate(partitions)
            ]
            topics.append(
                told(
                    error_code=0,
                    name=name,
                    topic_id=None,
                    is_internal=False,
                    partitions=listed,
                    authorized_operations=(),
                )
            )
        return told(
            throttle_time_ms=0,
            brokers=[self._node(one) for one in self.brokers],
            cluster_id="events",
            controller_id=FIRST,
            topics=topics,
            authorized_operations=self.rights,
            error_code=0,
        )

    def _node(self, broker: int) -> Any:
        return told(node_id=broker, host="127.0.0.1", port=self.port, rack=None)

    def _findcoordinator(self, request: Any, version: int) -> Any:
        at = {"node_id": FIRST, "host": "127.0.0.1", "port": self.port}
        keys = request.coordinator_keys if version >= 4 else ()
        found = [told(key=key, error_code=0, error_message=None, **at) for key in keys]
        return told(throttle_time_ms=0, error_code=0, error_message=None, coordinators=found, **at)

    def _listgroups(self, request: Any, version: int) -> Any:
        groups = [
            told(
                group_id=name, protocol_type="consumer", group_state=one.state, group_type="Classic"
            )
            for name, one in self.groups.items()
        ]
        if not self.lists_groups:
            return told(throttle_time_ms=0, error_code=NOT_AUTHORIZED + 2, groups=[])
        return told(throttle_time_ms=0, error_code=0, groups=groups)

    def _describegroups(self, request: Any, version: int) -> Any:
        groups = []
        for name in request.groups:
            one, is_denied = self.groups[name], name in self.denied
            members = [
                told(
                    member_id=f"c-{i}",
                    group_instance_id=None,
                    client_id="shop",
                    client_host="/10.0.0.1",
                    member_metadata=b"",
                    member_assignment=b"",
                )
                for i in range(one.members)
            ]
            groups.append(
                told(
                    error_code=NO_GROUP_RIGHT if is_denied else 0,
                    error_message=None,
                    group_id=name,
                    group_state=one.state,
                    protocol_type="consumer",
                    protocol_data="range",
                    members=[] if is_denied else members,
                    authorized_operations=(),
                )
            )
        return told(throttle_time_ms=0, groups=groups)

    def _offsetfetch(self, request: Any, version: int) -> Any:
        names = [one.group_id for one in request.groups] if version >= 8 else [request.group_id]
        groups = []
        for name in names:
            one = self.groups[name]
            topics: dict[str, list[Any]] = {}
            for (topic, number), offset in one.committed.items():
                given = told(
                    partition_index=number,
                    committed_offset=offset,
                    committed_leader_epoch=-1,
                    metadata="",
                    error_code=0,
                )
                topics.setdefault(topic, []).append(given)
            listed = [told(name=topic, partitions=of) for topic, of in topics.items()]
            groups.append(told(group_id=name, topics=listed, error_code=0))
            one.committed = {at: offset + self.reads for at, offset in one.committed.items()}
        return told(throttle_time_ms=0, error_code=0, groups=groups, topics=groups[0].topics)

    def _listoffsets(self, request: Any, version: int) -> Any:
        topics = []
        for topic in request.topics:
            listed = []
            for one in topic.partitions:
                is_first = one.timestamp == EARLIEST
                known = self.begins if is_first else self.ends
                at = (topic.name, one.partition_index)
                offset = known.get(at, 0)
                if not is_first:
                    self.ends = {**self.ends, at: offset + self.comes}
                listed.append(
                    told(
                        partition_index=one.partition_index,
                        error_code=0,
                        timestamp=-1,
                        offset=offset,
                        leader_epoch=1,
                    )
                )
            topics.append(told(name=topic.name, partitions=listed))
        return told(throttle_time_ms=0, topics=topics)


def told(**fields: Any) -> Any:
    """A message, which is encoded by its fields' names."""
    return SimpleNamespace(**fields)


class _Connection(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        broker: KafkaBroker = self.server.told  # type: ignore[attr-defined]
        is_open = [broker.login is None]
        with contextlib.suppress(OSError, struct.error):
            while size := self.rfile.read(4):
                frame = self.rfile.read(struct.unpack(">i", size)[0])
                key, version, correlation = struct.unpack_from(">hhi", frame)
                kind = KINDS[key]
                request = kind.decode(frame, version=version, header=True)
                message = broker.answer(request, version, is_open)
                body = _encoded(kind, version, correlation, message)
                self.wfile.write(struct.pack(">i", len(body)) + body)


def _encoded(kind: Any, version: int, correlation: int, message: Any) -> bytes:
    name = kind.__name__.replace("Request", "Response")
    response = next(getattr(of, name) for of in MODULES if hasattr(of, name))
    # A version encodes those of the fields that it has.
    given = {name: value for name, value in vars(message).items() if name in response.fields}
    response = response(version=version, **given)
    response.with_header(correlation_id=correlation)
    encoded: bytes = response.encode(header=True)
    return encoded


@contextlib.contextmanager
def serving(broker: KafkaBroker, context: ssl.SSLContext | None = None) -> Iterator[KafkaBroker]:
    """While it listens at `broker.port`."""
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), _Connection, bind_and_activate=False)
    server.daemon_threads = True
    server.told = broker  # type: ignore[attr-defined]
    server.server_bind()
    server.server_activate()
    if context is not None:
        server.socket = context.wrap_socket(
            server.socket, server_side=True, do_handshake_on_connect=False
        )
    broker.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield broker
    finally:
        server.shutdown()
        server.server_close()
        thread.join(30)
