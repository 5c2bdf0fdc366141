"""Kafka's own state: consumer groups that are behind, partitions without a leader or with replicas
out of sync, brokers that are away.

A snapshot of now by the requests that `kafka-consumer-groups.sh --describe` sends (Metadata,
ListGroups, DescribeGroups, OffsetFetch, ListOffsets), twice for groups that are behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from fnmatch import fnmatchcase

from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.connectors.shared.contract.base import Check
from faultline.connectors.shared.databases.database_server import ServerConnector, ServerSnapshot
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kafka import KafkaSettings, facts
from faultline.connectors.vendors.kafka.facts import Cluster, Group, GroupReading
from faultline.connectors.vendors.kafka.session import KafkaSession

VENDOR = "kafka"
LIMITS = Limits(deadline_s=40, max_bytes=16 * 1024 * 1024, requests_per_s=20, concurrency=2)
MOST_READ_GROUPS = 200
"""Groups whose offsets are read: one request each."""
MOST_SAMPLED = 20
"""Groups that are read a second time."""
READ = "OffsetFetch and ListOffsets of consumer groups"


class KafkaConnector(ServerConnector[KafkaSettings, KafkaSession]):
    """One cluster."""

    name = VENDOR
    object_kind = "Broker"
    default_limits = LIMITS

    def opened(self) -> KafkaSession:
        return KafkaSession(self.section, self.limits)

    async def read(self, session: KafkaSession, snapshot: ServerSnapshot) -> None:
        label = session.label("Metadata")
        cluster = await snapshot.fetch(label, session.cluster())
        if cluster is None:
            return
        if cluster.partitions:
            snapshot.add(label, facts.cluster_facts(cluster))
        else:
            snapshot.lacks(label, "this user sees no topic: give it Describe on topics")
        await self._groups(_GroupsReading(session, cluster), snapshot, session.label(READ))

    async def _groups(self, reading: _GroupsReading, snapshot: ServerSnapshot, label: str) -> None:
        try:
            groups = await reading.groups(self.section.groups)
            first = await reading.offsets(groups)
            second = {}
            behind = [
                group_reading for group_reading in first if group_reading.longest >= facts.STUCK
            ]
            if behind and self.section.sample_s:
                await asyncio.sleep(self.section.sample_s)
                # Worst first: the second reading covers `MOST_SAMPLED` groups at most.
                behind.sort(
                    key=lambda group_reading: (-group_reading.longest, group_reading.group.name)
                )
                again = await reading.described(
                    [group_reading.group.name for group_reading in behind[:MOST_SAMPLED]]
                )
                second = {offset.group.name: offset for offset in await reading.offsets(again)}
            if groups:
                lag_facts = facts.group_facts(first, second)
                snapshot.add(label, lag_facts, facts.group_details(first))
        except FaultlineError as error:
            snapshot.lacks(label, str(error))
        # Many groups fail for the same reason: report it once.
        for reason in dict.fromkeys(reading.refused):
            snapshot.lacks(label, reason)

    async def examined(self, session: KafkaSession) -> Check:
        cluster = await session.cluster()
        unread: list[str] = []
        inventory = [f"{len(cluster.topics)} topics"]
        line = f"Kafka at {self.section.brokers}: {len(cluster.brokers)} brokers"
        if not cluster.topics:
            unread.append("topics")
        try:
            groups, refused = await session.groups()
            inventory.append(f"{len(groups)} consumer groups")
        except ConnectorError as error:
            refused = [error.problem]
        if refused:
            unread.append("consumer groups")
        line += f", {' and '.join(inventory)} can be read; no request changes anything"
        if refused:
            line += f"; some groups cannot be listed: {short(refused[0], 100)}"
        try:
            writing = sorted(await session.rights())
        # Without an answer the rights stay unknown, so do not warn.
        except FaultlineError:
            writing = []
        if writing:
            line += f"; warning: this user can also change the cluster ({', '.join(writing)})"
        return Check(self.name, True, line, tuple(unread))


class _GroupsReading:
    """Readings of consumer groups in one session."""

    def __init__(self, session: KafkaSession, cluster: Cluster) -> None:
        self._session = session
        self._led = cluster.led
        self.refused: list[str] = []

    async def groups(self, patterns: Sequence[str]) -> list[Group]:
        """Those that are asked about."""
        names, refused = await self._session.groups()
        self.refused += refused
        requested_names = sorted(
            name for name in names if any(fnmatchcase(name, pattern) for pattern in patterns)
        )
        if not names and not refused:
            self.refused.append("this user sees no consumer group: give it Describe on groups")
        if len(requested_names) > MOST_READ_GROUPS:
            reason = (
                f"{MOST_READ_GROUPS} of {len(requested_names)} consumer groups were read: "
                "narrow kafka.groups"
            )
            self.refused.append(reason)
        return await self.described(requested_names[:MOST_READ_GROUPS])

    async def described(self, names: Sequence[str]) -> list[Group]:
        """With state and members."""
        if not names:
            return []
        groups_by_name, refused = await self._session.described(names)
        self.refused += refused
        return list(groups_by_name.values())

    async def offsets(self, groups: Sequence[Group]) -> list[GroupReading]:
        """What each has read of what there is."""
        committed = {}
        for group in groups:
            try:
                committed[group.name] = await self._session.committed(group.name)
            except ConnectorError as error:
                self.refused.append(str(error))
        read = {at for group_offsets in committed.values() for at in group_offsets}
        # A partition without a leader has no offsets to ask for.
        ends, refused = await self._session.offsets(sorted(read & self._led))
        self.refused += refused
        at_s = time.monotonic()
        # Only a group without members can be abandoned, so only its partitions need their
        # beginnings.
        empty = {group.name for group in groups if group.state == "EMPTY"}
        places = {at for name in empty & set(committed) for at in committed[name]}
        begins, refused = await self._session.offsets(sorted(places & self._led), first=True)
        self.refused += refused
        readings = []
        for group in groups:
            if group.name in committed:
                group_offsets = committed[group.name]
                readings.append(
                    GroupReading(
                        group,
                        at_s,
                        group_offsets,
                        {at: ends[at] for at in group_offsets if at in ends},
                        {at: begins[at] for at in group_offsets if at in begins},
                    )
                )
        return readings


def build(section: KafkaSettings, shared: SharedSettings) -> KafkaConnector | None:
    """The configured connector, or None without brokers. Raises SettingsError."""
    if section.brokers is None:
        return None
    if section.username is not None and section.password is None:
        raise SettingsError("kafka.password", "must be set for kafka.username")
    return KafkaConnector(section, section.brokers.partition(":")[0])
