"""The apps of Grafana Cloud: burn rates of objectives (SLO) and declared incidents (IRM)."""

from __future__ import annotations

from collections.abc import Awaitable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.contract.base import Item, Request
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, full_window
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.vendors.grafana import incidents as irm
from faultline.connectors.vendors.grafana import objectives as slo
from faultline.connectors.vendors.grafana.links import Explore
from faultline.connectors.vendors.grafana.session import GrafanaSession

T = TypeVar("T")


@dataclass(frozen=True)
class CloudApps:
    """What is asked of them. `page` is the base of links."""

    page: str
    names: ServiceNames

    async def objectives(
        self, session: GrafanaSession, collection: CollectionBuilder, request: Request
    ) -> None:
        """Burn rates of the objectives of the services, by one query for each data source."""
        call = _if_installed(session.get(slo.SLOS, type=slo.SlosAnswer))
        answer = await collection.fetch("metrics", slo.SLOS, call)
        if answer is None:
            return
        services, _ = in_scope(request, 100)
        chosen = slo.chosen(answer.slos, services, self.names, request.alert)
        window = full_window(request.scope)
        # The series of an objective are in the Prometheus that it names.
        for source, slos in chosen.items():
            requested_slos = slos[: slo.MOST_SLOS]
            query = slo.burn_query(objective for objective, _ in requested_slos)
            params = slo.burn_params(query, window)
            path = slo.burn_path(source)
            series = await collection.fetch(
                "metrics", query, session.get(path, params, type=slo.BurnAnswer)
            )
            if series is None:
                continue
            rows = slo.burn_rows(series.data.result, requested_slos)
            details = slo.burn_details(requested_slos, rows, request.scope.incident)
            every = [row for part in rows.values() for row in part]
            explore = Explore(self.page, "prometheus", source)
            link = explore.link({"expr": query}, window, self.page)
            left_out = len(slos) - len(requested_slos)
            cut = f"{left_out} of {len(slos)} objectives left out" if left_out else None
            count = collection.add("metrics", every)
            item = Item("metrics", query, window, link, rows=count, cut=cut, details=details)
            collection.items.append(item.holding(every))

    async def incidents(
        self, session: GrafanaSession, collection: CollectionBuilder, request: Request
    ) -> None:
        """Incidents that people declared and that overlap with ours."""
        query = f"POST {irm.INCIDENTS}"
        call = _if_installed(session.incidents(irm.QUERY))
        answer = await collection.fetch("alert", query, call)
        if answer is None:
            return
        incident_previews = answer.incidentPreviews or []
        beside = irm.beside(incident_previews, request.scope)
        cut = None
        if len(incident_previews) >= irm.MOST_INCIDENTS:
            cut = f"only the latest {irm.MOST_INCIDENTS} were asked"
        elif len(beside) > irm.MOST_SHOWN:
            cut = f"the latest {irm.MOST_SHOWN} of {len(beside)}"
        link = irm.incident_link(self.page, beside)
        item = Item("alert", query, request.scope.incident, link, rows=len(beside), cut=cut)
        collection.items.append(replace(item, details=irm.details_of(beside)))

    async def refusals(self, session: GrafanaSession) -> tuple[dict[str, str | None], list[str]]:
        """Why each app cannot be read, None where it can; and those that are not installed."""
        refused: dict[str, str | None] = {}
        absent: list[str] = []
        for name in ("SLOs", "incidents"):
            try:
                if await _if_installed(_small_call(session, name)) is None:
                    absent.append(name)
                else:
                    refused[name] = None
            except ConnectorError as error:
                # Without any answer, the other app cannot be tried either.
                if error.status is None:
                    raise
                refused[name] = error.problem
        return refused, absent


def _small_call(session: GrafanaSession, name: str) -> Awaitable[Any]:
    if name == "SLOs":
        return session.get(slo.SLOS, type=slo.SlosAnswer)
    return session.incidents({**irm.QUERY, "limit": 1})


async def _if_installed(call: Awaitable[T]) -> T | None:
    """The answer; None where the app is not installed, which is no gap."""
    try:
        return await call
    except ConnectorError as error:
        if error.status == 404:
            return None
        raise
