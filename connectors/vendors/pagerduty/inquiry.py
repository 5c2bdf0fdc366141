"""The calls of one PagerDuty collection, under one deadline and one byte budget. One that fails is
a gap."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Item, Missing, Request
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.vendor_text import web_link
from faultline.connectors.vendors.pagerduty import answers
from faultline.connectors.vendors.pagerduty.session import VENDOR, ReadOnlySession, fetch, fetch_all

T = TypeVar("T")

LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the earliest window: a deploy may take a day to do harm."""
MOST_ALERTS, MOST_LOG_ENTRIES, MOST_CHANGES, MOST_PAST, MOST_ON_CALL = 100, 100, 300, 5, 20
MOST_SERVICES = 10
ID = re.compile(r"[A-Z0-9]{1,40}")
_SERVICE_ID = re.compile(r"[PQ][A-Z0-9]{6,13}")
"""What tells a service's id in the catalogue from its name."""


class Caller(Protocol):
    """The connector whose sessions are used."""

    @property
    def limits(self) -> Limits: ...
    def session(self, deadline: Deadline, budget: ByteBudget) -> ReadOnlySession: ...
    async def in_thread(self, call: Callable[[], T]) -> T: ...
    def theirs(self, service: str) -> str: ...
    def our_name(self, reference: Any) -> str | None: ...


@dataclass
class PagerDutyEvidence:
    """What one call brought."""

    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)


class Ask:
    """The calls of one collection, under one deadline and one byte budget."""

    def __init__(self, connector: Caller, deadline: Deadline) -> None:
        self._connector = connector
        self._deadline = deadline
        self._budget = ByteBudget("size of pagerduty's answers", connector.limits.max_bytes)

    async def single(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The object at `path`."""

        def call() -> dict[str, Any]:
            with self._connector.session(self._deadline, self._budget) as session:
                return fetch(session, path, params)

        return await self._connector.in_thread(call)

    async def many(self, path: str, key: str, most: int, **params: Any) -> list[dict[str, Any]]:
        """The list at `path`, `most` entries of it."""

        def call() -> list[dict[str, Any]]:
            with self._connector.session(self._deadline, self._budget) as session:
                return list(fetch_all(session, path, key, params, most))

        return await self._connector.in_thread(call)

    async def incident(self, incident_id: str) -> dict[str, Any]:
        """The incident itself. Raises: without it nothing else of it can be read."""
        incident = (await self.single(f"/incidents/{incident_id}")).get("incident")
        if not isinstance(incident, dict):
            raise ConnectorError(
                VENDOR, f"/incidents/{incident_id}", "the answer holds no incident"
            )
        return incident

    async def service_names(
        self, request: Request, incident: Mapping[str, Any] | None
    ) -> dict[str, str]:
        """Our names of the services whose changes matter, by PagerDuty's id: the incident's own
        comes first."""
        names: dict[str, str] = {}
        service = (incident or {}).get("service")
        text = answers.text_of(service.get("id")) if isinstance(service, Mapping) else ""
        if ID.fullmatch(text):
            names[text] = request.alert.service or self._connector.our_name(service) or text
        services = [s for s in request.scope.services if s not in names.values()][:MOST_SERVICES]
        for name, service_id in zip(
            services, await asyncio.gather(*map(self._service_id, services)), strict=True
        ):
            if service_id is not None:
                names.setdefault(service_id, name)
        return names

    async def _service_id(self, name: str) -> str | None:
        theirs = self._connector.theirs(name)
        if _SERVICE_ID.fullmatch(theirs):
            return theirs
        try:
            services = await self.many("/services", "services", 25, query=theirs)
        # Without its id, only this service's changes are missing.
        except FaultlineError:
            return None
        # The search also finds services whose name only contains the text.
        same = [
            s.get("id")
            for s in services
            if answers.text_of(s.get("name")).casefold() == theirs.casefold()
        ]
        return next((i for i in same if isinstance(i, str) and ID.fullmatch(i)), None)

    async def alerts(self, incident_id: str) -> PagerDutyEvidence:
        """The incident's alerts, their bodies as details."""
        path = f"/incidents/{incident_id}/alerts"
        try:
            alerts = await self.many(path, "alerts", MOST_ALERTS)
        except FaultlineError as error:
            return PagerDutyEvidence(missing=[Missing("monitors", f"GET {path}", str(error))])
        link = next((u for a in alerts if (u := web_link(a.get("html_url")))), None)
        details = answers.alert_details(alerts)
        items = [Item("monitors", f"GET {path}", link=link, rows=len(alerts))]
        items += [Item("alert", f"body of {path}", link=link, details=details)] if details else []
        return PagerDutyEvidence(items=items, alerts=alerts)

    async def log(self, incident_id: str) -> PagerDutyEvidence:
        """Who did what, and the triggering event."""
        path = f"/incidents/{incident_id}/log_entries"
        try:
            # The triggering event is in the channel, which the API leaves out unless asked.
            entries = await self.many(
                path, "log_entries", MOST_LOG_ENTRIES, **{"include[]": "channels"}
            )
        except FaultlineError as error:
            return PagerDutyEvidence(missing=[Missing("alert", f"GET {path}", str(error))])
        item = Item("alert", f"GET {path}", rows=len(entries), details=answers.log_details(entries))
        return PagerDutyEvidence(items=[item])

    async def related(self, incident_id: str) -> PagerDutyEvidence:
        """Changes that PagerDuty itself relates to the incident."""
        path = f"/incidents/{incident_id}/related_change_events"
        try:
            events = await self.many(path, "change_events", MOST_CHANGES)
        except FaultlineError as error:
            return PagerDutyEvidence(missing=[Missing("changes", f"GET {path}", str(error))])
        return PagerDutyEvidence(
            items=[Item("changes", f"GET {path}", rows=len(events))], changes=events
        )

    async def changes_of(self, service_id: str, scope: Scope) -> PagerDutyEvidence:
        """Changes of one service around the incident."""
        path = f"/services/{service_id}/change_events"
        window = Window(start=scope.events_from - LOOKBACK, end=scope.incident.end)
        try:
            events = await self.many(
                path,
                "change_events",
                MOST_CHANGES,
                since=_utc(window.start),
                until=_utc(window.end),
            )
        except FaultlineError as error:
            return PagerDutyEvidence(missing=[Missing("changes", f"GET {path}", str(error))])
        cut = f"only the latest {MOST_CHANGES} were asked" if len(events) >= MOST_CHANGES else None
        return PagerDutyEvidence(
            items=[Item("changes", f"GET {path}", window=window, rows=len(events), cut=cut)],
            changes=events,
        )

    async def past(self, incident_id: str) -> PagerDutyEvidence:
        """Similar incidents of the last six months; only some plans have them."""
        path = f"/incidents/{incident_id}/past_incidents"
        try:
            past = answers.objects(
                (await self.single(path, {"limit": MOST_PAST})).get("past_incidents")
            )
        except FaultlineError as error:
            return PagerDutyEvidence(
                missing=[
                    Missing("alert", f"GET {path}", _without_plan(error, "similar past incidents"))
                ]
            )
        return PagerDutyEvidence(
            items=[Item("alert", f"GET {path}", rows=len(past), details=answers.past_details(past))]
        )

    async def related_incidents(self, incident_id: str) -> PagerDutyEvidence:
        """Open incidents that PagerDuty takes for the same trouble; only some plans have them."""
        path = f"/incidents/{incident_id}/related_incidents"
        try:
            related = answers.objects((await self.single(path)).get("related_incidents"))
        except FaultlineError as error:
            return PagerDutyEvidence(
                missing=[Missing("alert", f"GET {path}", _without_plan(error, "related incidents"))]
            )
        return PagerDutyEvidence(
            items=[
                Item(
                    "alert",
                    f"GET {path}",
                    rows=len(related),
                    details=answers.related_details(related),
                )
            ]
        )

    async def on_call(self, incident: Mapping[str, Any]) -> PagerDutyEvidence:
        """Who is on call for the incident's escalation policy: names, and no addresses."""
        policy = incident.get("escalation_policy")
        policy_id = answers.text_of(policy.get("id")) if isinstance(policy, Mapping) else ""
        # An id from an answer becomes part of a query: take letters and digits only.
        if not ID.fullmatch(policy_id):
            return PagerDutyEvidence()
        query = f"GET /oncalls?escalation_policy_ids[]={policy_id}&earliest=true"
        # `earliest`: one shift of each person and level, not every future one.
        params = {"escalation_policy_ids[]": policy_id, "earliest": "true"}
        try:
            people = await self.many("/oncalls", "oncalls", MOST_ON_CALL, **params)
        except FaultlineError as error:
            return PagerDutyEvidence(missing=[Missing("alert", query, str(error))])
        link = web_link(policy.get("html_url")) if isinstance(policy, Mapping) else None
        return PagerDutyEvidence(
            items=[
                Item(
                    "alert",
                    query,
                    link=link,
                    rows=len(people),
                    details=answers.on_call_details(people),
                )
            ]
        )

    async def on_call_now(self, service: str) -> PagerDutyEvidence:
        """Who is on call for the escalation policy of one of our services. Raises
        ConnectorError."""
        service_id = await self._service_id(service)
        if service_id is None:
            return PagerDutyEvidence()
        service_object = (await self.single(f"/services/{service_id}")).get("service")
        return await self.on_call(service_object if isinstance(service_object, Mapping) else {})

    async def refusal(self, path: str) -> str | None:
        """Why the list at `path` cannot be read, or None. Raises when the key itself is not
        accepted."""
        try:
            await self.single(path, {"limit": 1})
        except ConnectorError as error:
            # 402 stands for a plan without the feature.
            if error.status in (402, 403, 404):
                return f"HTTP {error.status}"
            raise
        return None


def _without_plan(error: FaultlineError, what: str) -> str:
    if isinstance(error, ConnectorError) and error.status in (402, 403, 404):
        return f"{what} are not part of this PagerDuty plan, or not permitted (HTTP {error.status})"
    return str(error)


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
