"""What Kafka's answers say is wrong.

Requests and fields: "Kafka protocol guide" (kafka.apache.org/protocol), versions 2.4 to 4.x.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from faultline.analysis.wording.amounts import PER_SECOND, SECONDS, amount
from faultline.analysis.wording.phrases import counted
from faultline.connectors.shared.databases.database_facts import BEHIND
from faultline.connectors.shared.databases.database_server import Fact
from faultline.connectors.shared.vendor_text import short

STUCK = 100
"""Messages that a group without members has not read, as of RabbitMQ's facts: fewer may be a
restart."""
MOST_GROUPS = 10
FEW_PARTITIONS, MOSTLY = 3, 0.5
"""Where no partition is worse, none of three has more than half of the lag."""
NO_LEADER = -1


class Place(NamedTuple):
    """A partition of a topic."""

    topic: str
    number: int


@dataclass(frozen=True)
class Partition:
    """Brokers by their ids; `leader` is -1 where there is none."""

    at: Place
    leader: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


@dataclass(frozen=True)
class Cluster:
    """The brokers that are there, and all partitions that the user may see."""

    brokers: frozenset[int]
    partitions: tuple[Partition, ...]

    @property
    def topics(self) -> frozenset[str]:
        """Their names."""
        return frozenset(partition.at.topic for partition in self.partitions)

    @property
    def led(self) -> frozenset[Place]:
        """The partitions that have a leader, whose offsets can be asked for."""
        return frozenset(
            partition.at for partition in self.partitions if partition.leader != NO_LEADER
        )


@dataclass(frozen=True)
class Group:
    """A consumer group. `state` is librdkafka's name of it, such as STABLE or EMPTY."""

    name: str
    state: str = "UNKNOWN"
    members: int = 0

    @property
    def rebalances(self) -> bool:
        """Whether its partitions are being assigned again; the states have PREPARING or COMPLETING
        before it."""
        return "REBALANC" in self.state

    @property
    def text(self) -> str:
        """For humans."""
        return f"{self.state.lower().replace('_', ' ')}, {counted(self.members, 'member')}"


@dataclass(frozen=True)
class GroupReading:
    """A group's offsets beside those of the partitions it reads, at `at_s` (monotonic seconds)."""

    group: Group
    at_s: float
    committed: Mapping[Place, int]
    ends: Mapping[Place, int]
    begins: Mapping[Place, int] = field(default_factory=dict)
    """Of a group without members."""

    def lags(self) -> dict[Place, int]:
        """Messages that it has not read, by partition."""
        lags = {}
        for at, end in self.ends.items():
            if at in self.committed:
                lags[at] = max(0, end - self.committed[at])
        return lags

    def by_topic(self) -> Counter[str]:
        """The same by topic."""
        lags_by_topic: Counter[str] = Counter()
        for at, lag in self.lags().items():
            lags_by_topic[at.topic] += lag
        return lags_by_topic

    @property
    def longest(self) -> int:
        """Unread messages of the topic where it is furthest behind."""
        return max(self.by_topic().values(), default=0)

    def has_lost(self, topic: str) -> bool:
        """Whether messages were deleted before it read them: then it has been away for as long
        as the topic keeps its messages, and is probably not used any more."""
        ours = {at: start for at, start in self.begins.items() if at.topic == topic}
        return any(self.committed.get(at, start) < start for at, start in ours.items())


def cluster_facts(cluster: Cluster) -> list[Fact]:
    """Brokers that are away, and partitions that cannot be used or have too few replicas."""
    facts = []
    # Metadata lists live brokers only; partitions still name those that are away.
    replicas = Counter(broker for partition in cluster.partitions for broker in partition.replicas)
    for broker in sorted(set(replicas) - cluster.brokers):
        value = f"away from its cluster, with replicas of {counted(replicas[broker], 'partition')}"
        name = f"broker {broker}"
        facts.append(Fact("database_unavailable", value, None, "Broker node", name, "brokers"))
    total = len(cluster.partitions)
    headless = [partition for partition in cluster.partitions if partition.leader == NO_LEADER]
    if headless:
        facts.append(_of_partitions("partitions_without_leader", headless, total, "leader"))
    missing: Counter[int] = Counter()
    behind = []
    for partition in cluster.partitions:
        away = set(partition.replicas) - set(partition.in_sync)
        # A partition without a leader is a fact by itself: do not report it twice.
        if away and partition.leader != NO_LEADER:
            behind.append(partition)
            missing.update(away)
    if behind:
        worst = ", ".join(str(broker) for broker, _ in missing.most_common(5))
        more = f"; not in sync: {'broker' if len(missing) == 1 else 'brokers'} {worst}"
        facts.append(_of_partitions("partitions_under_replicated", behind, total, "isr", more))
    return facts


def _of_partitions(
    kind: str, partitions: Sequence[Partition], total: int, field: str, more: str = ""
) -> Fact:
    topics = Counter(headless.at.topic for headless in partitions)
    value = f"{len(partitions)} of {counted(total, 'partition')}"
    if len(topics) == 1:
        [topic] = topics
        numbers = ", ".join(
            str(headless.at.number)
            for headless in sorted(partitions, key=lambda headless: headless.at)[:8]
        )
        name = short(topic, 80)
        return Fact(kind, f"{value} ({numbers}){more}", None, "Topic", name, field)
    named = ", ".join(short(topic, 40) for topic, _ in topics.most_common(3))
    return Fact(kind, f"{value}, of {len(topics)} topics ({named}, ...){more}", field=field)


def group_facts(first: Iterable[GroupReading], second: Mapping[str, GroupReading]) -> list[Fact]:
    """Groups that are behind, with what both readings show, the one that is most behind first."""
    facts = []
    for group_reading in sorted(
        first, key=lambda group_reading: (-group_reading.longest, group_reading.group.name)
    ):
        topics = group_reading.by_topic().most_common(1)
        if topics and (
            fact := _judged(group_reading, second.get(group_reading.group.name), *topics[0])
        ):
            facts.append(fact)
    return facts[:MOST_GROUPS]


def _judged(reading: GroupReading, later: GroupReading | None, topic: str, lag: int) -> Fact | None:
    name, value = short(reading.group.name, 80), f"{lag:,} messages of {short(topic, 60)}"
    # EMPTY: the group has offsets, but no members.
    if reading.group.state == "EMPTY":
        if _is_abandoned(reading, later, topic, lag):
            return None
        return Fact("queue_without_consumers", value, None, "Consumer group", name, "members")
    # One reading may catch a short rebalance. Two show that the group is stuck in it.
    if later is not None and reading.group.rebalances and later.group.rebalances and lag >= STUCK:
        for_s = later.at_s - reading.at_s
        value += f", and it has been rebalancing for {amount(for_s, SECONDS)} at least"
        return Fact("consumers_behind", value, for_s, "Consumer group", name, "state")
    if lag < BEHIND:
        return None
    lags = {at: count for at, count in reading.lags().items() if at.topic == topic}
    # Of equal lags the lowest partition wins, so that every run names the same one.
    worst = max(lags, key=lambda at: (lags[at], -at.number))
    if len(lags) > 1:
        value += f", {lags[worst]:,} of them in partition {worst.number} of {len(lags)}"
    if later is not None and later.at_s > reading.at_s:
        seconds = later.at_s - reading.at_s
        comes = _moved(reading, later, topic, lambda read: read.ends) / seconds
        reads = _moved(reading, later, topic, lambda read: read.committed) / seconds
        value += f"; {amount(comes, PER_SECOND)} in, {amount(reads, PER_SECOND)} read"
    is_uneven = len(lags) >= FEW_PARTITIONS and lags[worst] > MOSTLY * lag
    kind = "partition_behind" if is_uneven else "consumers_behind"
    return Fact(kind, value, None, "Consumer group", name, "lag")


def _is_abandoned(reading: GroupReading, later: GroupReading | None, topic: str, lag: int) -> bool:
    """Whether nobody misses the members of a group without any."""
    # Without a second reading the topic counts as used.
    is_used = later is None or _moved(reading, later, topic, lambda read: read.ends) > 0
    return lag < STUCK or not is_used or reading.has_lost(topic)


def _moved(
    earlier: GroupReading,
    later: GroupReading,
    topic: str,
    offsets: Callable[[GroupReading], Mapping[Place, int]],
) -> int:
    """By how many messages of a topic these offsets moved between two readings."""
    before, after = offsets(earlier), offsets(later)
    return sum(after[at] - before[at] for at in before if at.topic == topic and at in after)


def group_details(readings: Iterable[GroupReading]) -> dict[str, str]:
    """The groups that are most behind, for people."""
    lines = []
    for reading in sorted(readings, key=lambda reading: (-reading.longest, reading.group.name))[
        :MOST_GROUPS
    ]:
        for topic, lag in reading.by_topic().most_common(1):
            name = short(reading.group.name, 80)
            lines.append(f"{name}: {lag:,} of {short(topic, 60)}, {reading.group.text}")
    return {"consumer groups that are most behind": "\n".join(lines)} if lines else {}
