"""Kafka's connector before a broker that tells of a troubled cluster, and before librdkafka's own
mock cluster: who is behind, what has no leader, and that nothing is changed."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from faultline.analysis.errors import SettingsError
from faultline.connectors.shared.contract.base import Connector, collect_from
from faultline.connectors.vendors.kafka import KafkaSettings
from faultline.connectors.vendors.kafka.connector import LIMITS
from faultline.connectors.vendors.kafka.facts import Place, cluster_facts
from faultline.connectors.vendors.kafka.session import KafkaSession
from faultline.loopback.bot_process import free_port
from tests.connectors.kafka_broker import KafkaBroker, ToldGroup, serving
from tests.connectors.live_requests import (
    configured,
    diagnosed_now,
    facts_of,
    live_request,
    snapshot,
)
from tests.connectors.real_servers import facts_in
from tests.own_certificates import OwnAuthority

DESCRIBING = {
    "ApiVersions",
    "DescribeGroups",
    "FindCoordinator",
    "ListGroups",
    "ListOffsets",
    "Metadata",
    "OffsetFetch",
    "SaslAuthenticate",
    "SaslHandshake",
}
HEALTHY = [(1, (1, 2), (1, 2)), (2, (1, 2), (1, 2))]
DESCRIBE, ALTER, CREATE = 8, 7, 5


def connector(broker: KafkaBroker, **own: Any) -> Connector:
    """As settings build it."""
    values = {"brokers": f"127.0.0.1:{broker.port}", "tls": "off", "service": "events-kafka"}
    return configured("kafka", {**values, "sample_s": 0.3, **own})


def read_by(group: str, state: str = "Stable", members: int = 1, **more: Any) -> KafkaBroker:
    """A healthy cluster whose topic `orders` this group has read up to 500."""
    committed = {("orders", 0): 500, ("orders", 1): 500}
    return KafkaBroker(
        brokers=(1, 2),
        topics={"orders": HEALTHY},
        groups={group: ToldGroup(state, members, committed)},
        **more,
    )


def told_of(broker: KafkaBroker, folder: Path, **own: Any) -> dict[str, str]:
    """Its facts."""
    with serving(broker):
        found = snapshot(connector(broker, **own), folder)
    assert found.missing == ()
    return facts_of(found)


def test_a_broker_that_is_away_is_the_cause_and_its_partitions_are_told(tmp_path: Path) -> None:
    broker = KafkaBroker(
        brokers=(1, 2),
        topics={"orders": [(1, (1, 2, 3), (1, 2)), (-1, (3,), ()), (2, (2, 3), (2,))]},
        groups={"billing": ToldGroup(committed={("orders", 0): 1, ("orders", 1): 1})},
        ends={("orders", 0): 1},
    )
    with serving(broker):
        diagnosis = diagnosed_now(tmp_path, connector(broker))
        facts = facts_in(snapshot(connector(broker), tmp_path))
    cause = diagnosis.causes[0]
    assert (cause.subject, cause.kind) == ("events-kafka", "database_unavailable")
    assert facts == {
        (
            "Broker node",
            "broker 3",
            "database_unavailable",
            "away from its cluster, with replicas of 3 partitions",
        ),
        ("Topic", "orders", "partitions_without_leader", "1 of 3 partitions (1)"),
        (
            "Topic",
            "orders",
            "partitions_under_replicated",
            "2 of 3 partitions (0, 2); not in sync: broker 3",
        ),
    }


def test_partitions_of_many_topics_are_one_fact(tmp_path: Path) -> None:
    broker = KafkaBroker(brokers=(1, 2), topics={f"t{i}": [(1, (1, 2), (1,))] for i in range(40)})
    broker.groups = {"billing": ToldGroup()}
    told = told_of(broker, tmp_path)
    assert told == {
        "partitions_under_replicated": "40 of 40 partitions, of 40 topics (t0, t1, t2, ...); "
        "not in sync: broker 2"
    }


def test_a_group_that_is_behind_is_told_with_how_fast_it_reads(tmp_path: Path) -> None:
    ends = {("orders", 0): 40_500, ("orders", 1): 2_500}
    broker = read_by("billing", ends=ends, comes=3_000, reads=30)
    with serving(broker):
        found = snapshot(connector(broker), tmp_path)
    [(kind, name, fact, value)] = facts_in(found)
    assert (kind, name, fact) == ("Consumer group", "billing", "consumers_behind")
    said, _, rates = str(value).partition("; ")
    assert said == "42,000 messages of orders, 40,000 of them in partition 0 of 2"
    comes, reads = (float(one.partition("/s")[0].replace(",", "")) for one in rates.split(", "))
    assert comes > 50 * reads > 0
    [item] = [one for one in found.items if "OffsetFetch" in one.query]
    assert list(item.details.values()) == ["billing: 42,000 of orders, stable, 1 member"]


@pytest.mark.parametrize(
    ("others", "fact"), [(0, "partition_behind"), (30_000, "consumers_behind")]
)
def test_a_group_is_behind_on_one_partition_or_on_all(
    tmp_path: Path, others: int, fact: str
) -> None:
    ends = {("orders", 0): others, ("orders", 1): others, ("orders", 2): 40_000}
    broker = KafkaBroker(
        brokers=(1, 2),
        topics={"orders": [*HEALTHY, HEALTHY[0]]},
        groups={"billing": ToldGroup(committed=dict.fromkeys(ends, 0))},
        ends=ends,
        comes=3_000,
        reads=30,
    )
    with serving(broker):
        [(_, _, name, _)] = facts_in(snapshot(connector(broker), tmp_path))
    assert name == fact


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"comes": 10}, "8,000 messages of orders"),
        ({}, None),
        ({"comes": 10, "begins": {("orders", 0): 3_000}}, None),
    ],
    ids=["its topic is in use", "nothing comes", "what it has not read is deleted by now"],
)
def test_a_group_without_members_is_told_only_where_somebody_misses_it(
    more: dict[str, Any], said: str | None, tmp_path: Path
) -> None:
    ends = {("orders", 0): 4_500, ("orders", 1): 4_500}
    broker = read_by("billing", "Empty", 0, ends=ends, **more)
    assert told_of(broker, tmp_path).get("queue_without_consumers") == said


def test_a_group_that_keeps_rebalancing_reads_nothing(tmp_path: Path) -> None:
    broker = read_by("billing", "PreparingRebalance", 3, ends={("orders", 0): 900})
    told = told_of(broker, tmp_path)["consumers_behind"]
    assert told.startswith("400 messages of orders, and it has been rebalancing for ")


def test_a_healthy_cluster_has_no_fact(tmp_path: Path) -> None:
    broker = read_by("billing", ends={("orders", 0): 520, ("orders", 1): 9_000}, comes=10)
    assert told_of(broker, tmp_path) == {}


def test_only_describing_requests_are_sent_and_only_of_the_groups_that_are_wanted(
    tmp_path: Path,
) -> None:
    broker = read_by("billing", ends={("orders", 0): 40_500})
    broker.groups = {**broker.groups, "console-consumer-7": broker.groups["billing"]}
    with serving(broker):
        found = snapshot(connector(broker, groups=["bill*"]), tmp_path)
        assert asyncio.run(connector(broker).check()).ok
    assert [name for _, name, _, _ in facts_in(found)] == ["billing"]
    assert set(broker.asked) <= DESCRIBING


def test_what_a_user_may_not_describe_is_a_gap_and_the_rest_stands(tmp_path: Path) -> None:
    broker = read_by("billing", ends={("orders", 0): 40_500})
    broker.groups = {**broker.groups, "payroll": ToldGroup()}
    broker.denied = ("payroll",)
    with serving(broker):
        found = snapshot(connector(broker), tmp_path)
    assert "consumers_behind" in facts_of(found)
    [gap] = found.missing
    assert gap.reason.startswith("not permitted: ")


def test_a_user_that_sees_nothing_gets_gaps_not_a_healthy_cluster(tmp_path: Path) -> None:
    broker = KafkaBroker()
    with serving(broker):
        found = snapshot(connector(broker), tmp_path)
        check = asyncio.run(connector(broker).check())
    assert [gap.reason for gap in found.missing] == [
        "this user sees no topic: give it Describe on topics",
        "this user sees no consumer group: give it Describe on groups",
    ]
    assert check.unread == ("topics",)
    broker.lists_groups = False
    with serving(broker):
        found = snapshot(connector(broker), tmp_path)
        check = asyncio.run(connector(broker).check())
    assert "not permitted: " in found.missing[1].reason
    assert check.unread == ("topics", "consumer groups")


def test_check_warns_of_rights_beyond_describing() -> None:
    broker = read_by("billing", rights=(DESCRIBE,))
    with serving(broker):
        check = asyncio.run(connector(broker).check())
        broker.rights = (DESCRIBE, ALTER, CREATE)
        powerful = asyncio.run(connector(broker).check())
    assert check.ok
    assert check.line.endswith(
        ": 2 brokers, 1 topics and 1 consumer groups can be read; no request changes anything"
    )
    assert powerful.line.endswith(
        "; warning: this user can also change the cluster (ALTER, CREATE)"
    )


def test_a_user_logs_in_over_tls_whose_certificate_is_verified(tmp_path: Path) -> None:
    authority = OwnAuthority(tmp_path)
    own = authority.issue("broker", "127.0.0.1")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.cert, own.key)
    broker = read_by("billing", login=("faultline", "pw-1"))
    login = {"username": "faultline", "password": "pw-1", "mechanism": "PLAIN", "tls": "verify"}
    with serving(broker, context):
        known = snapshot(connector(broker, **login, ca_file=str(authority.cert)), tmp_path)
        assert known.missing == ()
        seen = len(broker.logins)
        unknown = snapshot(connector(broker, **login), tmp_path)
        assert len(broker.logins) == seen
    [gap] = unknown.missing
    assert "certificate verify failed" in gap.reason


def test_a_wrong_password_is_a_gap_that_does_not_show_it(tmp_path: Path) -> None:
    broker = read_by("billing", login=("faultline", "pw-1"))
    with serving(broker):
        wrong = connector(broker, username="faultline", password="pw-2", mechanism="PLAIN")
        [gap] = snapshot(wrong, tmp_path).missing
        check = asyncio.run(wrong.check())
    assert "uthentication" in gap.reason
    assert "pw-2" not in gap.reason
    assert not check.ok


def test_a_user_without_a_password_is_a_mistake_of_the_settings() -> None:
    with pytest.raises(SettingsError, match=r"kafka\.password"):
        connector(KafkaBroker(port=1), username="faultline")


def test_an_incident_of_yesterday_is_a_gap(tmp_path: Path) -> None:
    request = live_request(tmp_path, ended_ago=timedelta(days=1))
    built = connector(KafkaBroker(port=free_port()))
    [gap] = asyncio.run(collect_from(built, request)).missing
    assert gap.reason == "the server only tells of now, and the incident is over"


@pytest.mark.parametrize(
    "nonsense", [b"", b"HTTP/1.1 400\r\n\r\n", b"\x7f\xff\xff\xff", b"x" * 999]
)
def test_what_is_no_server_of_its_protocol_is_a_gap(nonsense: bytes, tmp_path: Path) -> None:
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.1)

        def answer() -> None:
            while not over.is_set():
                try:
                    accepted, _ = listening.accept()
                except TimeoutError:
                    continue
                with accepted:
                    accepted.sendall(nonsense)

        thread = threading.Thread(target=answer)
        thread.start()
        built = connector(KafkaBroker(port=listening.getsockname()[1]), deadline_s=3)
        found = snapshot(built, tmp_path)
        over.set()
        thread.join(60)
    assert found.tables == {}
    [gap] = found.missing
    assert "internal error" not in gap.reason


@pytest.fixture
def mock_cluster() -> Iterator[tuple[Producer, str]]:
    """librdkafka's cluster of three brokers, which lives as long as its producer."""
    producer = Producer({"test.mock.num.brokers": 3, "bootstrap.servers": "none", "log_level": 0})
    known = producer.list_topics(timeout=30).brokers.values()
    yield producer, ",".join(f"{one.host}:{one.port}" for one in known)
    producer.close()


def test_offsets_are_those_of_the_cluster(mock_cluster: tuple[Producer, str]) -> None:
    producer, brokers = mock_cluster
    for number in range(90):
        producer.produce("orders", b"x", partition=0 if number < 50 else 1)
    assert producer.flush(30) == 0
    places = [Place("orders", 0), Place("orders", 1)]

    async def asked() -> tuple[Any, Any, Any]:
        own = KafkaSettings(brokers=brokers, tls="off")
        async with KafkaSession(own, LIMITS) as session:
            cluster = await session.cluster()
            ends = await session.offsets(places)
            return cluster, ends, await session.offsets(places, first=True)

    cluster, ends, begins = asyncio.run(asked())
    assert cluster.brokers == {1, 2, 3}
    assert cluster.led >= set(places)
    assert cluster_facts(cluster) == []
    assert ends == ({places[0]: 50, places[1]: 40}, [])
    assert begins == ({places[0]: 0, places[1]: 0}, [])
