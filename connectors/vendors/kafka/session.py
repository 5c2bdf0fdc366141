"""A client of Kafka that only describes: it has no method that produces, fetches, commits, creates
or alters.

confluent-kafka is librdkafka, which speaks to all versions of brokers and bounds the size of an
answer. It blocks, so it is asked in a thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import ConsumerGroupTopicPartitions, KafkaError, KafkaException, TopicPartition
from confluent_kafka import admin as kafka_admin
from confluent_kafka.admin import AdminClient

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.databases.driver_session import DriverSession
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kafka import KafkaSettings
from faultline.connectors.vendors.kafka.facts import Cluster, Group, Partition, Place

K = TypeVar("K")
R = TypeVar("R")
VENDOR = "kafka"
LONGEST_CALL_S = 8.0
NOT_PERMITTED = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
# The connection's own errors: worth a retry, unlike a broker's refusal.
LOST = frozenset(
    {
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._TIMED_OUT,
        KafkaError._RESOLVE,
        KafkaError._SSL,
        KafkaError._AUTHENTICATION,
    }
)
# Without types.
_ADMIN: Any = kafka_admin
READING = frozenset(
    {
        _ADMIN.AclOperation.DESCRIBE,
        _ADMIN.AclOperation.DESCRIBE_CONFIGS,
        _ADMIN.AclOperation.READ,
    }
)


class KafkaSession(DriverSession):
    """One collection's calls, one after the other. It connects with its first call."""

    vendor = VENDOR
    errors = (KafkaException,)

    def __init__(self, kafka_settings: KafkaSettings, limits: Limits) -> None:
        super().__init__(kafka_settings.brokers or "", limits)
        self._configuration = {**configuration(kafka_settings, limits), "error_cb": self._noticed}
        self._client: AdminClient | None = None
        self._last_error = ""

    async def close(self) -> None:
        """Disconnect, which librdkafka does when nobody holds it any more."""

        # Dropping the last reference closes the connections, which blocks.
        def drop() -> None:
            self._client = None

        await asyncio.to_thread(drop)

    async def cluster(self) -> Cluster:
        """Its brokers and partitions, with internal topics. Raises ConnectorError,
        BudgetExceeded."""

        def asks(client: AdminClient, within_s: float) -> Cluster:
            topics = client.list_topics(timeout=within_s)
            partitions = []
            for topic, topic_metadata in topics.topics.items():
                for number, partition in topic_metadata.partitions.items():
                    place = Place(topic, number)
                    partitions.append(
                        Partition(
                            place,
                            partition.leader,
                            tuple(partition.replicas),
                            tuple(partition.isrs),
                        )
                    )
            return Cluster(frozenset(topics.brokers), tuple(partitions))

        return await self._run_call("Metadata", asks)

    async def groups(self) -> tuple[list[str], list[str]]:
        """The names of consumer groups, and what brokers refused. Raises ConnectorError,
        BudgetExceeded."""

        def asks(client: AdminClient, within_s: float) -> tuple[list[str], list[str]]:
            result = client.list_consumer_groups(request_timeout=within_s).result(within_s)
            refused = [_problem(error)[0] for error in result.errors or ()]
            return [group.group_id for group in result.valid or ()], refused

        return await self._run_call("ListGroups", asks)

    async def described(self, names: Iterable[str]) -> tuple[dict[str, Group], list[str]]:
        """State and members of these groups, and what was refused."""

        def asks(client: AdminClient, within_s: float) -> tuple[dict[str, Group], list[str]]:
            futures = client.describe_consumer_groups(list(names), request_timeout=within_s)
            results_by_key, refused = _results(futures, within_s)
            groups = {}
            for name, result in results_by_key.items():
                groups[name] = Group(name, result.state.name, len(result.members))
            return groups, refused

        return await self._run_call("DescribeGroups", asks)

    async def committed(self, group: str) -> dict[Place, int]:
        """Up to where a group has read. Raises ConnectorError, BudgetExceeded."""

        def asks(client: AdminClient, within_s: float) -> dict[Place, int]:
            topic_partitions = [ConsumerGroupTopicPartitions(group)]
            futures = client.list_consumer_group_offsets(topic_partitions, request_timeout=within_s)
            offsets = {}
            for topic_partition in futures[group].result(within_s).topic_partitions:
                # A negative offset means that the group has committed nothing there.
                if topic_partition.error is None and topic_partition.offset >= 0:
                    offsets[Place(topic_partition.topic, topic_partition.partition)] = (
                        topic_partition.offset
                    )
            return offsets

        return await self._run_call("OffsetFetch", asks)

    async def offsets(
        self, places: Iterable[Place], *, first: bool = False
    ) -> tuple[dict[Place, int], list[str]]:
        """Where these partitions end, or begin, and what was refused."""
        spec = _ADMIN.OffsetSpec.earliest() if first else _ADMIN.OffsetSpec.latest()
        specs = {TopicPartition(place.topic, place.number): spec for place in places}

        def asks(client: AdminClient, within_s: float) -> tuple[dict[Place, int], list[str]]:
            futures = client.list_offsets(specs, request_timeout=within_s)
            results_by_key, refused = _results(futures, within_s)
            offsets = {
                Place(at.topic, at.partition): result.offset
                for at, result in results_by_key.items()
            }
            return offsets, refused

        return await self._run_call("ListOffsets", asks) if specs else ({}, [])

    async def rights(self) -> frozenset[str]:
        """What this user may do with the cluster besides reading, where the cluster tells."""

        def asks(client: AdminClient, within_s: float) -> frozenset[str]:
            result = client.describe_cluster(
                include_authorized_operations=True, request_timeout=within_s
            ).result(within_s)
            authorized_operations = set(result.authorized_operations or ()) - READING
            return frozenset(
                authorized_operation.name for authorized_operation in authorized_operations
            )

        return await self._run_call("DescribeCluster", asks)

    def _noticed(self, error: KafkaError) -> None:
        self._last_error = error.str()

    async def _run_call(self, call: str, asks: Callable[[AdminClient, float], R]) -> R:
        def connected() -> R:
            if self._client is None:
                self._client = AdminClient(self._configuration)
            try:
                return asks(self._client, min(LONGEST_CALL_S, self.deadline.remaining))
            except KafkaException:
                # Why a connection failed, it tells only to a callback.
                self._client.poll(0)
                raise

        return await self.in_thread(call, connected)

    def problem(self, call: str, error: Exception) -> ConnectorError:
        assert isinstance(error, KafkaException)
        text, lost = _problem(error)
        if lost and self._last_error:
            text = short(self._last_error, 200)
        return ConnectorError(VENDOR, call, text, retryable=lost)


def configuration(kafka_settings: KafkaSettings, limits: Limits) -> dict[str, Any]:
    """librdkafka's properties (its CONFIGURATION.md)."""
    paths_by_name: dict[str, Any] = {
        "bootstrap.servers": kafka_settings.brokers,
        "client.id": "faultline",
        "security.protocol": "PLAINTEXT" if kafka_settings.tls == "off" else "SSL",
        # librdkafka takes no larger number.
        "receive.message.max.bytes": min(limits.max_bytes, 2**31 - 1),
        "socket.timeout.ms": round(1000 * LONGEST_CALL_S),
        # Otherwise it writes to the terminal.
        "log_level": 0,
    }
    if kafka_settings.tls != "off":
        paths_by_name["enable.ssl.certificate.verification"] = kafka_settings.tls == "verify"
        for name, path in (
            ("ssl.ca.location", kafka_settings.ca_file),
            ("ssl.certificate.location", kafka_settings.client_cert_file),
            ("ssl.key.location", kafka_settings.client_key_file or kafka_settings.client_cert_file),
        ):
            if path is not None:
                paths_by_name[name] = str(path)
    if kafka_settings.username is not None:
        paths_by_name["security.protocol"] = f"SASL_{paths_by_name['security.protocol']}"
        paths_by_name["sasl.mechanism"] = kafka_settings.mechanism
        paths_by_name["sasl.username"] = kafka_settings.username
        paths_by_name["sasl.password"] = (
            kafka_settings.password.get_secret_value() if kafka_settings.password else ""
        )
    return paths_by_name


def _results(futures: Mapping[K, Future[Any]], within_s: float) -> tuple[dict[K, Any], list[str]]:
    """What there is, and the different reasons why the rest is not. Raises KafkaException where
    nothing is there."""
    results_by_key: dict[K, Any] = {}
    refused: dict[str, None] = {}
    last = None
    for key, future in futures.items():
        try:
            results_by_key[key] = future.result(within_s)
        except KafkaException as error:
            last = error
            refused[_problem(error)[0]] = None
    if last is not None and not results_by_key:
        raise last
    return results_by_key, list(refused)


def _problem(error: KafkaException | KafkaError) -> tuple[str, bool]:
    """The error as text, and whether the connection is lost."""
    cause = error.args[0] if isinstance(error, KafkaException) else error
    if not isinstance(cause, KafkaError):
        return short(str(cause), 200), False
    text = short(cause.str() or cause.name(), 200)
    if cause.code() in NOT_PERMITTED:
        return f"not permitted: {text}", False
    return text, cause.code() in LOST
