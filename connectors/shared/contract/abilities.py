"""What some connectors can do besides collecting."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol, runtime_checkable

from faultline.analysis.case.rounds import FollowedKind
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.connectors.shared.contract.base import Collected, Request
from faultline.connectors.shared.settings.connector_settings import Limits


@runtime_checkable
class KnowsAlerts(Protocol):
    """A connector whose vendor knows more of an alert than its webhook said."""

    @property
    def name(self) -> str:
        """The connector's name; its vendor is the alert's source."""

    async def enrich(self, alert: Alert) -> Alert:
        """The alert with the vendor's details in its labels."""


@runtime_checkable
class KnowsOrigin(Protocol):
    """A connector that can tell which alerts came from its own account or workspace."""

    def is_of(self, alert: Alert) -> bool:
        """Whether the alert came from here."""


@runtime_checkable
class KnowsRules(Protocol):
    """A connector whose server evaluates alert rules."""

    @property
    def name(self) -> str:
        """The connector's name."""

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The expression of the rule that sent the alert; None where the server has no such
        rule."""


@runtime_checkable
class EvaluatesAlertQuery(Protocol):
    """A connector whose server can evaluate the query of an alert, now and over past weeks."""

    @property
    def name(self) -> str:
        """The connector's name."""

    @property
    def limits(self) -> Limits:
        """Its limits, which hold for an evaluation as for a collection."""

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert's query is one that this server may know. Makes no call."""

    async def evaluate(self, request: Request) -> Collected:
        """Rows of the table `alert_query` over the incident and the same hours of earlier days,
        with one item; no rows where the server has no such series. Raises FaultlineError."""


@runtime_checkable
class KnowsCalls(Protocol):
    """A connector whose server can tell quickly which services the alerting service calls."""

    @property
    def name(self) -> str:
        """The connector's name."""

    async def callees_of(self, alert: Alert, scope: Scope) -> tuple[str, ...]:
        """What the alert's service calls, by name; none where the server does not know. Raises
        ConnectorError."""


@runtime_checkable
class ReadsRepositories(Protocol):
    """A connector that reads repositories of the settings, and no others."""

    def reads_repository(self, address: str) -> bool:
        """Whether the settings name the repository at an address."""


@runtime_checkable
class FollowsLeads(Protocol):
    """A connector that asks its vendor about single objects by name, so that it can be asked again
    about those to which the evidence leads."""

    @property
    def name(self) -> str:
        """The connector's name."""

    @property
    def follows(self) -> Collection[FollowedKind]:
        """Which kinds of leads. Services come in the request's scope, all of them in its leads."""


@runtime_checkable
class KnowsServices(Protocol):
    """A connector whose server lists the services it has data of."""

    @property
    def name(self) -> str:
        """The connector's name."""

    async def services_in(self, window: Window) -> tuple[str, ...]:
        """Names of services with data in that time, as the server has them. Raises
        FaultlineError."""


@runtime_checkable
class KnowsHistory(Protocol):
    """A connector whose server can tell quickly since when it has data."""

    @property
    def name(self) -> str:
        """The connector's name."""

    @property
    def kinds(self) -> tuple[EvidenceKind, ...]:
        """What it can bring."""

    async def data_since(self, window: Window) -> datetime | None:
        """When the data in this window begins: the window's start where there was some before.
        None where there is none. Raises FaultlineError."""


@runtime_checkable
class KnowsOnCall(Protocol):
    """A connector whose vendor knows who is on call."""

    async def on_call(self, service: str) -> Mapping[str, str]:
        """Who is on call for a service now: names by "on call, level 1" and so on; none where the
        vendor does not know the service. Raises FaultlineError."""


@dataclass(frozen=True)
class BoundedQuery:
    """A query in a vendor's own language, written by somebody who is not trusted."""

    text: str
    window: Window
    rows: int
    """Series or lines that may come back."""
    points: int
    """Of each series."""
    service: str | None = None
    """Whom rows are about that do not say so."""


@runtime_checkable
class AnswersQueries(Protocol):
    """A connector that takes queries in its vendor's language."""

    @property
    def name(self) -> str:
        """The connector's name."""

    @property
    def limits(self) -> Limits:
        """Its limits, which hold for a query as for a collection."""

    @property
    def query_language(self) -> str | None:
        """What it is called: "PromQL". None where this one takes no queries after all."""

    @property
    def query_kinds(self) -> tuple[EvidenceKind, ...]:
        """What an answer is: metrics, logs or both."""

    async def answer(self, query: BoundedQuery) -> Collected:
        """Series or lines, at most as many as the query allows, and one item whose rows are of no
        service (so that no other finding cites it). Raises FaultlineError, also for a query that
        could change something or has no bounds."""
