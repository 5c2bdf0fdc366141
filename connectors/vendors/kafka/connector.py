"""Kafka's own state: consumer groups that are behind, partitions without a leader or with replicas
out of sync, brokers that are away.

A snapshot of now by the requests that `kafka-consumer-groups.sh --describe` sends (Metadata,
ListGroups, DescribeGroups, OffsetFetch, ListOffsets), twice for groups that are behind.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from fnmatch import fnmatchcase

from faultline.analysis.errors import ConnectorError, FaultlineError, SettingsError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.base import Check, Collected, Request
from faultline.connectors.shared.databases.database_server import ServerSnapshot
from faultline.connectors.shared.settings.limits import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.kafka import facts
from faultline.connectors.vendors.kafka.facts import Cluster, Group, GroupReading
from faultline.connectors.vendors.kafka.session import KafkaSession, opened
from faultline.connectors.vendors.kafka.settings import KafkaSettings

VENDOR = "kafka"
LIMITS = Limits(deadline_s=40, max_bytes=16 * 1024 * 1024, requests_per_s=20, concurrency=2)
MOST_ASKED = 200
"""Groups whose offsets are read: one request each."""
MOST_SAMPLED = 20
"""Groups that are read a second time."""
READ = "OffsetFetch and ListOffsets of consumer groups"


def build(own: KafkaSettings, settings: SharedSettings) -> KafkaConnector | None:
    """The configured connector, or None without brokers. Raises SettingsError."""
    if own.brokers is None:
        return None
    if own.username is not None and own.password is None:
        raise SettingsError("kafka.password", "must be set for kafka.username")
    host = own.brokers.partition(":")[0]
    service = own.of_service(settings.instance_of(VENDOR), host)
    return KafkaConnector(own, service, limits=own.limits(LIMITS))


class KafkaConnector:
    """One cluster. `service` is whom its facts are about."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("states",)

    def __init__(self, own: KafkaSettings, service: str, *, limits: Limits = LIMITS) -> None:
        self._own = own
        self._service = service
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """The snapshot. A call that fails becomes a gap, the others stand."""
        snapshot = ServerSnapshot("Broker", self._service, datetime.now(UTC), request.scope)
        if snapshot.comes_too_late():
            return snapshot.builder.collected()
        async with opened(self._own, self.limits) as session:
            try:
                cluster = await session.cluster()
            except FaultlineError as error:
                snapshot.lacks(self._said("Metadata"), str(error))
                return snapshot.builder.collected()
            if cluster.partitions:
                snapshot.add(self._said("Metadata"), facts.cluster_facts(cluster))
            else:
                reason = "this user sees no topic: give it Describe on topics"
                snapshot.lacks(self._said("Metadata"), reason)
            await self._groups(_GroupsReading(session, cluster), snapshot)
        return snapshot.builder.collected()

    async def _groups(self, reading: _GroupsReading, found: ServerSnapshot) -> None:
        try:
            groups = await reading.groups(self._own.groups)
            first = await reading.offsets(groups)
            second = {}
            behind = [one for one in first if one.longest >= facts.STUCK]
            if behind and self._own.sample_s:
                await asyncio.sleep(self._own.sample_s)
                behind.sort(key=lambda one: (-one.longest, one.group.name))
                again = await reading.described([one.group.name for one in behind[:MOST_SAMPLED]])
                second = {offset.group.name: offset for offset in await reading.offsets(again)}
            if groups:
                told = facts.group_facts(first, second)
                found.add(self._said(READ), told, facts.groups_said(first))
        except FaultlineError as error:
            found.lacks(self._said(READ), str(error))
        for reason in dict.fromkeys(reading.refused):
            found.lacks(self._said(READ), reason)

    async def check(self) -> Check:
        """Reachable, and may this user see everything and change nothing?"""
        unread: list[str] = []
        async with opened(self._own, self.limits) as session:
            try:
                cluster = await session.cluster()
            except FaultlineError as error:
                return Check(self.name, False, str(error))
            seen = []
            line = f"Kafka at {self._own.brokers}: {len(cluster.brokers)} brokers"
            seen.append(f"{len(cluster.topics)} topics")
            if not cluster.topics:
                unread.append("topics")
            try:
                groups, refused = await session.groups()
                seen.append(f"{len(groups)} consumer groups")
            except ConnectorError as error:
                groups, refused = [], [error.problem]
            if refused:
                unread.append("consumer groups")
            line += f", {' and '.join(seen)} can be read; no request changes anything"
            if refused:
                line += f"; some groups cannot be listed: {short(refused[0], 100)}"
            try:
                writing = sorted(await session.rights())
            except FaultlineError:
                writing = []
            if writing:
                line += f"; warning: this user can also change the cluster ({', '.join(writing)})"
        return Check(self.name, True, line, tuple(unread))

    def _said(self, call: str) -> str:
        """The call as evidence names it."""
        return f"{self._own.brokers}: {call}"


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
        if len(requested_names) > MOST_ASKED:
            reason = (
                f"{MOST_ASKED} of {len(requested_names)} consumer groups were read: "
                "narrow kafka.groups"
            )
            self.refused.append(reason)
        return await self.described(requested_names[:MOST_ASKED])

    async def described(self, names: Sequence[str]) -> list[Group]:
        """With state and members."""
        if not names:
            return []
        found, refused = await self._session.described(names)
        self.refused += refused
        return list(found.values())

    async def offsets(self, groups: Sequence[Group]) -> list[GroupReading]:
        """What each has read of what there is."""
        committed = {}
        for group in groups:
            try:
                committed[group.name] = await self._session.committed(group.name)
            except ConnectorError as error:
                self.refused.append(str(error))
        read = {at for one in committed.values() for at in one}
        ends, refused = await self._session.offsets(sorted(read & self._led))
        self.refused += refused
        at_s = time.monotonic()
        empty = {group.name for group in groups if group.state == "EMPTY"}
        places = {at for name in empty & set(committed) for at in committed[name]}
        begins, refused = await self._session.offsets(sorted(places & self._led), first=True)
        self.refused += refused
        readings = []
        for group in groups:
            if group.name in committed:
                given = committed[group.name]
                readings.append(
                    GroupReading(
                        group,
                        at_s,
                        given,
                        {at: ends[at] for at in given if at in ends},
                        {at: begins[at] for at in given if at in begins},
                    )
                )
        return readings
