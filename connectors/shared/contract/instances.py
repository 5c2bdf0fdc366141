"""The connectors of several servers of one vendor.

A connector does not know that it is one of several. Each instance is a connector, built from its
own table and wrapped here: it has its own name in evidence, gaps, checks, rates and circuits, is
asked only about what it covers, and says where its rows belong.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from urllib.parse import urlsplit

from faultline.analysis.case.rounds import FollowedKind
from faultline.analysis.errors import ConnectorError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.connectors.shared.contract.abilities import (
    AnswersQueries,
    BoundedQuery,
    EvaluatesAlertQuery,
    FollowsLeads,
    KnowsAlerts,
    KnowsCalls,
    KnowsHistory,
    KnowsOnCall,
    KnowsOrigin,
    KnowsRules,
    KnowsServices,
)
from faultline.connectors.shared.contract.base import Check, Collected, Connector, Missing, Request
from faultline.connectors.shared.contract.placed_rows import placed
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.instances import Instance
from faultline.connectors.shared.settings.settings_types import Section, addresses_in
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.rate_limiter import asking_instance


class ConnectorInstance:
    """One instance of a connector, which is a connector itself."""

    def __init__(self, connector: Connector, table: Section) -> None:
        self._connector = connector
        self._instance = table.instance
        self._hosts = {_host_of(url) for url in addresses_in(table)} - {""}

    @property
    def vendor(self) -> str:
        """The connector's own name."""
        return self._connector.name

    @property
    def name(self) -> str:
        """The vendor's name and the instance's."""
        return f"{self.vendor} {self._instance.name}"

    @property
    def kinds(self) -> tuple[EvidenceKind, ...]:
        """What it can bring."""
        return self._connector.kinds

    @property
    def limits(self) -> Limits:
        """Its limits."""
        return self._connector.limits

    @property
    def follows(self) -> Collection[FollowedKind]:
        """About what else it can be asked."""
        return self._connector.follows if isinstance(self._connector, FollowsLeads) else ()

    def objection(self, alert: Alert, scope: Scope) -> str | None:
        """Why it is not asked about an alert; None where it is, and where the alert is its own."""
        # The vendor's own alert proves that this server holds its data, whatever `covers` says.
        if self._is_of(alert):
            return None
        return self._instance.covers.objection(alert, scope)

    def sent(self, alert: Alert) -> bool:
        """Whether the alert is its own, or a link of it leads to an address of this instance."""
        if self._is_of(alert):
            return True
        hosts = {_host_of(link.url) for link in alert.links}
        return bool(hosts & self._hosts)

    def _is_of(self, alert: Alert) -> bool:
        return isinstance(self._connector, KnowsOrigin) and self._connector.is_of(alert)

    async def collect(self, request: Request) -> Collected:
        """What the connector brings, with the places that this instance covers."""
        why = self.objection(request.alert, request.scope)
        if why is not None:
            missing = tuple(Missing(kind, self.name, why) for kind in self.kinds)
            return Collected(missing=missing)
        scope = self._instance.covers.narrowed(request.scope)
        with asking_instance(self._instance.name):
            collected = await self._connector.collect(replace(request, scope=scope))
        # Labels of every row are rewritten, which would block the event loop.
        return await asyncio.to_thread(placed, collected, self._instance.covers, self.name)

    async def check(self) -> Check:
        """Is it reachable, allowed, and read-only?"""
        with asking_instance(self._instance.name):
            check = await self._connector.check()
        return replace(check, name=self.name)

    async def enrich(self, alert: Alert) -> Alert:
        """The alert with what this instance knows of it. Raises ConnectorError."""
        # The wrapper has every ability by its methods, so ask the wrapped connector which it has.
        if not isinstance(self._connector, KnowsAlerts):
            return alert
        with asking_instance(self._instance.name):
            return await self._connector.enrich(alert)

    async def callees_of(self, alert: Alert, scope: Scope) -> tuple[str, ...]:
        """What the alert's service calls, where this instance knows it. Raises ConnectorError."""
        if not isinstance(self._connector, KnowsCalls) or self.objection(alert, scope) is not None:
            return ()
        with asking_instance(self._instance.name):
            return await self._connector.callees_of(alert, scope)

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """Names of the services that this instance has data of. Raises FaultlineError."""
        if not isinstance(self._connector, KnowsServices):
            return ()
        with asking_instance(self._instance.name):
            return await self._connector.services_in(window)

    async def data_since(self, window: Window) -> datetime | None:
        """When this instance's data begins. Raises FaultlineError."""
        if not isinstance(self._connector, KnowsHistory):
            return None
        with asking_instance(self._instance.name):
            return await self._connector.data_since(window)

    async def on_call(self, service: str) -> Mapping[str, str]:
        """Who is on call for a service, where this instance knows it. Raises FaultlineError."""
        if not isinstance(self._connector, KnowsOnCall):
            return {}
        with asking_instance(self._instance.name):
            return await self._connector.on_call(service)

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The expression of the rule that sent the alert. Raises ConnectorError."""
        if not isinstance(self._connector, KnowsRules):
            return None
        with asking_instance(self._instance.name):
            return await self._connector.rule_of(alert)

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert's query is one that this instance may know."""
        connector = self._connector
        return isinstance(connector, EvaluatesAlertQuery) and connector.evaluates(alert)

    async def evaluate(self, request: Request) -> Collected:
        """What this instance gives for the alert's query. Raises FaultlineError."""
        if not isinstance(self._connector, EvaluatesAlertQuery):
            return Collected()
        with asking_instance(self._instance.name):
            return await self._connector.evaluate(request)

    @property
    def query_language(self) -> str | None:
        """The language of its queries, where its vendor's connector takes some."""
        if not isinstance(self._connector, AnswersQueries):
            return None
        return self._connector.query_language

    @property
    def query_kinds(self) -> tuple[EvidenceKind, ...]:
        """What an answer to a query is."""
        if not isinstance(self._connector, AnswersQueries):
            return ()
        return self._connector.query_kinds

    async def answer(self, query: BoundedQuery) -> Collected:
        """What this instance answers to a query. Raises FaultlineError."""
        if not isinstance(self._connector, AnswersQueries):
            raise ConnectorError(self.name, "query", "takes no queries")
        with asking_instance(self._instance.name):
            return await self._connector.answer(query)


def vendor_of(connector: Connector) -> str:
    """The vendor of a connector, also of one of several."""
    if isinstance(connector, ConnectorInstance):
        return connector.vendor
    return connector.name


def vendor_in(name: str) -> str:
    """The vendor in a connector's name, also in that of one of several."""
    return name.partition(" ")[0]


def worth_asking(
    connectors: Iterable[Connector], alert: Alert, scope: Scope
) -> tuple[Connector, ...]:
    """Without the instances that cover something else.

    Where that leaves none of a vendor, all of it stay: each says as a gap what it covers.
    """
    candidates = tuple(connectors)
    fitting = [connector for connector in candidates if _objection(connector, alert, scope) is None]
    vendors = {vendor_of(connector) for connector in fitting}
    return tuple(
        connector
        for connector in candidates
        if connector in fitting or vendor_of(connector) not in vendors
    )


def likely_senders(connectors: Sequence[Connector], alert: Alert) -> list[Connector]:
    """Those that an alert may come from: first the ones that its links lead to."""
    at = Window(start=alert.started_at, end=alert.started_at)
    possible = worth_asking(connectors, alert, Scope(incident=at))
    # Sorting is stable: False sorts first, and the order of the settings stays otherwise.
    return sorted(
        possible,
        key=lambda connector: (
            not (isinstance(connector, ConnectorInstance) and connector.sent(alert))
        ),
    )


def _objection(connector: Connector, alert: Alert, scope: Scope) -> str | None:
    if isinstance(connector, ConnectorInstance):
        return connector.objection(alert, scope)
    return None


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).netloc.casefold()
    # Links come from the alert, and `urlsplit` raises on a broken IPv6 address.
    except ValueError:
        return ""


def visible_settings(settings: SharedSettings, section: str, table: Section) -> SharedSettings:
    """The settings as one instance's connector sees them. Its table is the section, and the
    catalogue holds the services that it covers.

    Of another section with several tables it gets the one with its name, else the only one that
    may be about the same place.
    """
    is_covered = table.instance.covers.knows
    services = {name: service for name, service in settings.services.items() if is_covered(name)}
    update: dict[str, object] = {section: table, "services": services}
    for other in type(settings).model_fields:
        counterpart = _counterpart(table.instance, settings.instances(other))
        if other != section and counterpart is not None:
            update[other] = counterpart
    return settings.model_copy(update=update)


def _counterpart(instance: Instance, tables: Sequence[Section]) -> Section | None:
    for table in tables:
        if table.instance.name == instance.name:
            return table
    agreeing = [table for table in tables if table.instance.covers.agrees(instance.covers)]
    # With two that fit, either one would be a guess.
    return agreeing[0] if len(agreeing) == 1 else None
