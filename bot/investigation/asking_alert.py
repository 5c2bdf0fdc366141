"""The alert's own query, as a source of evidence: asked of whichever connected server sent the
alert."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind
from faultline.connectors.shared.contract.abilities import EvaluatesAlertQuery
from faultline.connectors.shared.contract.base import (
    Check,
    Collected,
    Connector,
    Missing,
    Request,
)
from faultline.connectors.shared.contract.instances import likely_senders, vendor_of
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.rate_limiter import collecting
from faultline.connectors.vendors.recorded import CONNECTOR as RECORDED

LIMITS = Limits(deadline_s=20)
WITHIN_S = LIMITS.deadline_s - 2
"""For one server, so that a silent one does not cost what the others answered."""
MOST_SERVERS = 4
"""Servers that are asked at once, the likeliest senders first."""
LANGUAGES = {
    "promql": ("PromQL", "Prometheus, Grafana or Google Cloud"),
    "logql": ("LogQL", "Loki or Grafana"),
    "datadog": ("Datadog's query language", "Datadog"),
    "nrql": ("NRQL", "New Relic"),
    "kql": ("KQL", "Azure Monitor"),
    "mql": ("MQL", "Google Cloud"),
}
"""What queries are written in, and which connectors evaluate it."""
NO_SERIES = (
    "it has no series there, neither now nor in the two weeks before. The metric may have been "
    "renamed, or another server evaluates the rule"
)


class AlertQueryConnector:
    """Evaluates the query of the alert. Brings nothing for an alert that has none."""

    name = "alert query"
    kinds: tuple[EvidenceKind, ...] = ("alert_query",)
    limits = LIMITS

    def __init__(self, connectors: Sequence[Connector]) -> None:
        self._connectors = connectors

    async def collect(self, request: Request) -> Collected:
        """The rows of the first server that has the series, by how likely it sent the alert."""
        query = request.alert.query
        # A recorded case brings what was asked then.
        if any(vendor_of(other) == RECORDED.name for other in self._connectors):
            return Collected()
        text = query.text if query is not None else request.alert.title
        servers = self._servers(request)
        if not servers:
            if query is None:
                return Collected()
            what, needed = LANGUAGES.get(query.language, ("it", ""))
            reason = f"no connected source evaluates {what}"
            if needed:
                reason += f": connect {needed}"
            return Collected(missing=(Missing("alert_query", text, reason),))
        answers = await asyncio.gather(*(self._evaluation(server, request) for server in servers))
        missing: list[Missing] = []
        for answer in answers:
            table = answer.tables.get("alert_query")
            if table is not None and table.height:
                return answer
            missing += answer.missing
        if not missing:
            names = ", ".join(server.name for server in servers)
            missing.append(Missing("alert_query", text, NO_SERIES, source=names))
        return Collected(missing=tuple(missing))

    def _servers(self, request: Request) -> list[EvaluatesAlertQuery]:
        servers: list[EvaluatesAlertQuery] = []
        for server in likely_senders(self._connectors, request.alert):
            if isinstance(server, EvaluatesAlertQuery) and server.evaluates(request.alert):
                servers.append(server)
        return servers[:MOST_SERVERS]

    async def _evaluation(self, server: EvaluatesAlertQuery, request: Request) -> Collected:
        """What one server gives, with its name; why it gave nothing as a gap."""
        alert = request.alert
        query = alert.query.text if alert.query is not None else alert.title
        try:
            async with asyncio.timeout(WITHIN_S), collecting(server.name, server.limits):
                collected = await server.evaluate(request)
        except TimeoutError:
            reason = f"no answer within {WITHIN_S:g} s"
        except FaultlineError as error:
            reason = str(error)
        # One server's fault must not cost what the others answer.
        except Exception as error:  # noqa: BLE001  the edge of one server: recorded as a gap
            reason = f"its answer could not be evaluated ({type(error).__name__})"
        else:
            items = tuple(replace(item, source=server.name) for item in collected.items)
            return Collected(collected.tables, items, collected.missing)
        return Collected(missing=(Missing("alert_query", query, reason, source=server.name),))

    async def check(self) -> Check:
        """Its servers are checked by themselves."""
        return Check(self.name, True, "the alert's own query is asked of the server that sent it")
