"""PagerDuty: the incident's alerts, its log, the changes around it and similar incidents of the past.

Reading only; notes are written elsewhere, with another session.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol, TypeVar

from pydantic import SecretStr

from analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from analysis.vocabulary import Alert, EvidenceKind, Link, Scope, Window
from connectors import pagerduty_answers as answers
from connectors.base import Check, Collected, Item, Limits, Missing, Request
from connectors.http import plain_url
from connectors.pacing import ByteBudget, Deadline, pace_of
from connectors.pagerduty_session import VENDOR, ReadOnlySession, fetch, fetch_all

T = TypeVar("T")

LIMITS = Limits(max_bytes=8 * 1024 * 1024, requests_per_s=10, concurrency=4)
"""PagerDuty allows 960 requests a minute."""
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the earliest window: a deploy may take a day to do harm."""
ENRICH_S = 4.0
MOST_ALERTS, MOST_LOG_ENTRIES, MOST_CHANGES, MOST_PAST = 100, 100, 300, 5
MOST_SERVICES = 10
_ID = re.compile(r"[A-Z0-9]{1,40}")
_SERVICE_ID = re.compile(r"[PQ][A-Z0-9]{6,13}")
"""What tells a service's id in the catalogue from its name."""
_INCIDENT_LINK = re.compile(r"https://[a-z0-9.-]+\.pagerduty\.com/incidents/([A-Z0-9]{1,40})(?:[/?#].*)?")
_IDENTITY = frozenset({"fingerprint", "incident_key"})
"""Labels that decide which investigation an alert belongs to; what a vendor adds later must not change that."""


class PagerDutyConfig(Protocol):
    """The settings section this connector is built from."""

    @property
    def api_token(self) -> SecretStr | None: ...
    @property
    def api_url(self) -> str: ...
    @property
    def from_email(self) -> str | None: ...


class CatalogueEntry(Protocol):
    """A service of the catalogue."""

    @property
    def pagerduty_service(self) -> str | None: ...


class HasPagerDuty(Protocol):
    """Settings with a section for this connector, and a service catalogue."""

    @property
    def pagerduty(self) -> PagerDutyConfig: ...
    @property
    def services(self) -> Mapping[str, CatalogueEntry]: ...


def build(settings: HasPagerDuty) -> PagerDutyConnector | None:
    """The configured connector, or None without a token."""
    own = settings.pagerduty
    if own.api_token is None:
        return None
    known = {name: entry.pagerduty_service for name, entry in settings.services.items() if entry.pagerduty_service}
    return PagerDutyConnector(own.api_token.get_secret_value(), own.api_url, own.from_email, services=known)


@dataclass
class _Found:
    """What one call brought."""

    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    changes: list[dict[str, Any]] = field(default_factory=list)
    alerts: list[dict[str, Any]] = field(default_factory=list)


class PagerDutyConnector:
    """Changes, the incident's alerts as monitors, and details. `services`: PagerDuty's id or name by our name."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("changes", "monitors", "alert")

    def __init__(
        self,
        api_token: str,
        api_url: str = "https://api.pagerduty.com",
        from_email: str | None = None,
        *,
        services: Mapping[str, str] | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._token = api_token
        self._url = plain_url(api_url, VENDOR)
        self._from_email = from_email
        self._services = dict(services or {})
        self._threads = ThreadPoolExecutor(limits.concurrency, thread_name_prefix=VENDOR)
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Everything PagerDuty knows of the alert's incident and of recent changes. A call that fails is a gap."""
        ask = _Ask(self, Deadline.within(self.limits))
        incident_id = incident_of(request.alert)
        incident, missing = None, []
        try:
            incident = await ask.incident(incident_id) if incident_id else None
        except ConnectorError as error:
            if error.status == 401:
                raise
            missing.append(Missing("alert", f"GET /incidents/{incident_id}", str(error)))
        names = await ask.service_names(request, incident)
        calls = [ask.changes_of(service_id, request.scope) for service_id in list(names)[:MOST_SERVICES]]
        if incident is not None and incident_id:
            calls += [ask.alerts(incident_id), ask.log(incident_id), ask.related(incident_id), ask.past(incident_id)]
        found = await asyncio.gather(*calls)
        missing += [m for one in found for m in one.missing]
        if not calls and not missing:
            missing.append(Missing("changes", "services and incident", _NOTHING_TO_ASK))
        return Collected(
            {
                "changes": answers.changes_table((e for one in found for e in one.changes), names),
                "monitors": answers.monitors_table((a for one in found for a in one.alerts), names),
            },
            tuple(i for one in found for i in one.items),
            tuple(missing),
        )

    async def enrich(self, alert: Alert) -> Alert:
        """The alert with what its incident's alerts say in its labels. Raises ConnectorError."""
        incident_id = incident_of(alert)
        if incident_id is None:
            return alert
        ask = _Ask(self, Deadline.after(ENRICH_S))
        try:
            incident, found = await asyncio.gather(ask.incident(incident_id), ask.alerts(incident_id))
        except BudgetExceeded as error:
            raise ConnectorError(VENDOR, "enrich", str(error), retryable=True) from error
        return _enriched(alert, incident, answers.alert_details(found.alerts), self.our_name(incident.get("service")))

    async def check(self) -> Check:
        """Which of the things read can be read with this key?"""
        ask = _Ask(self, Deadline.within(self.limits))
        wanted = {"incidents": "/incidents", "services": "/services", "change events": "/change_events"}
        try:
            refusals = await asyncio.gather(*(ask.refusal(path) for path in wanted.values()))
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        readable = [what for what, refusal in zip(wanted, refusals, strict=True) if refusal is None]
        refused = [f"{what} cannot be read ({r})" for what, r in zip(wanted, refusals, strict=True) if r is not None]
        said = [f"{', '.join(readable)} can be read"] if readable else []
        line = f"PagerDuty at {self._url}: {'; '.join([*said, *refused])}; only GET is sent"
        return Check(self.name, "incidents" in readable, line)

    def session(self, deadline: Deadline, budget: ByteBudget) -> ReadOnlySession:
        """A session for one call; use it as a context manager, in one thread."""
        pace = pace_of(VENDOR, self._url, self.limits)
        return ReadOnlySession(self._token, self._url, self._from_email, pace, deadline, budget)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call; it ends by its deadline even when nobody waits for it any more."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)

    def theirs(self, service: str) -> str:
        """PagerDuty's id or name of a service; our own name where the catalogue has none."""
        return self._services.get(service, service)

    def our_name(self, reference: Any) -> str | None:
        """Our name of the service that PagerDuty refers to, else PagerDuty's."""
        if not isinstance(reference, Mapping):
            return None
        identity, summary = answers.text_of(reference.get("id")), answers.text_of(reference.get("summary"))
        for name, theirs in self._services.items():
            if theirs == identity or theirs.casefold() == summary.casefold():
                return name
        return summary or identity or None


class _Ask:
    """The calls of one collection, under one deadline and one byte budget."""

    def __init__(self, connector: PagerDutyConnector, deadline: Deadline) -> None:
        self._connector = connector
        self._deadline = deadline
        self._budget = ByteBudget("size of pagerduty's answers", connector.limits.max_bytes)

    async def one(self, path: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
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
        incident = (await self.one(f"/incidents/{incident_id}")).get("incident")
        if not isinstance(incident, dict):
            raise ConnectorError(VENDOR, f"/incidents/{incident_id}", "the answer holds no incident")
        return incident

    async def service_names(self, request: Request, incident: Mapping[str, Any] | None) -> dict[str, str]:
        """Our names of the services whose changes matter, by PagerDuty's id: the incident's own comes first."""
        names: dict[str, str] = {}
        service = (incident or {}).get("service")
        own_id = answers.text_of(service.get("id")) if isinstance(service, Mapping) else ""
        if _ID.fullmatch(own_id):
            names[own_id] = request.alert.service or self._connector.our_name(service) or own_id
        wanted = [s for s in request.scope.services if s not in names.values()][:MOST_SERVICES]
        for name, service_id in zip(wanted, await asyncio.gather(*map(self._service_id, wanted)), strict=True):
            if service_id is not None:
                names.setdefault(service_id, name)
        return names

    async def _service_id(self, name: str) -> str | None:
        theirs = self._connector.theirs(name)
        if _SERVICE_ID.fullmatch(theirs):
            return theirs
        try:
            found = await self.many("/services", "services", 25, query=theirs)
        except FaultlineError:
            return None
        same = [s.get("id") for s in found if answers.text_of(s.get("name")).casefold() == theirs.casefold()]
        return next((i for i in same if isinstance(i, str) and _ID.fullmatch(i)), None)

    async def alerts(self, incident_id: str) -> _Found:
        """The incident's alerts, their bodies as details."""
        path = f"/incidents/{incident_id}/alerts"
        try:
            alerts = await self.many(path, "alerts", MOST_ALERTS)
        except FaultlineError as error:
            return _Found(missing=[Missing("monitors", f"GET {path}", str(error))])
        link = next((u for a in alerts if (u := answers.web_link(a.get("html_url")))), None)
        details = answers.alert_details(alerts)
        items = [Item("monitors", f"GET {path}", link=link, rows=len(alerts))]
        items += [Item("alert", f"body of {path}", link=link, details=details)] if details else []
        return _Found(items=items, alerts=alerts)

    async def log(self, incident_id: str) -> _Found:
        """Who did what, and the triggering event."""
        path = f"/incidents/{incident_id}/log_entries"
        try:
            entries = await self.many(path, "log_entries", MOST_LOG_ENTRIES, **{"include[]": "channels"})
        except FaultlineError as error:
            return _Found(missing=[Missing("alert", f"GET {path}", str(error))])
        item = Item("alert", f"GET {path}", rows=len(entries), details=answers.log_details(entries))
        return _Found(items=[item])

    async def related(self, incident_id: str) -> _Found:
        """Changes that PagerDuty itself relates to the incident."""
        path = f"/incidents/{incident_id}/related_change_events"
        try:
            events = await self.many(path, "change_events", MOST_CHANGES)
        except FaultlineError as error:
            return _Found(missing=[Missing("changes", f"GET {path}", str(error))])
        return _Found(items=[Item("changes", f"GET {path}", rows=len(events))], changes=events)

    async def changes_of(self, service_id: str, scope: Scope) -> _Found:
        """Changes of one service around the incident."""
        path = f"/services/{service_id}/change_events"
        earliest = min(w.start for w in (scope.incident, *scope.baseline))
        window = Window(start=earliest - LOOKBACK, end=scope.incident.end)
        try:
            events = await self.many(
                path, "change_events", MOST_CHANGES, since=_utc(window.start), until=_utc(window.end)
            )
        except FaultlineError as error:
            return _Found(missing=[Missing("changes", f"GET {path}", str(error))])
        cut = f"only the latest {MOST_CHANGES} were asked" if len(events) >= MOST_CHANGES else None
        return _Found(items=[Item("changes", f"GET {path}", window=window, rows=len(events), cut=cut)], changes=events)

    async def past(self, incident_id: str) -> _Found:
        """Similar incidents of the last six months; only some plans have them."""
        path = f"/incidents/{incident_id}/past_incidents"
        try:
            past = answers.objects((await self.one(path, {"limit": MOST_PAST})).get("past_incidents"))
        except FaultlineError as error:
            return _Found(missing=[Missing("alert", f"GET {path}", _without_plan(error))])
        return _Found(items=[Item("alert", f"GET {path}", rows=len(past), details=answers.past_details(past))])

    async def refusal(self, path: str) -> str | None:
        """Why the list at `path` cannot be read, or None. Raises when the key itself is not accepted."""
        try:
            await self.one(path, {"limit": 1})
        except ConnectorError as error:
            if error.status in (402, 403, 404):
                return f"HTTP {error.status}"
            raise
        return None


_NOTHING_TO_ASK = "the alert names no PagerDuty incident, and no service in scope is known to PagerDuty"


def incident_of(alert: Alert) -> str | None:
    """The alert's PagerDuty incident: its own id where PagerDuty sent it, else one that a link names."""
    candidates = [alert.id] if alert.source == VENDOR else []
    candidates += [m[1] for link in alert.links if (m := _INCIDENT_LINK.fullmatch(link.url))]
    return next((c for c in candidates if _ID.fullmatch(c)), None)


def _enriched(alert: Alert, incident: Mapping[str, Any], details: Mapping[str, str], service: str | None) -> Alert:
    new = {k: v for k, v in details.items() if k not in _IDENTITY}
    page = answers.web_link(incident.get("html_url"))
    links = alert.links
    if page and page not in {link.url for link in links}:
        links = (*links, Link(title="PagerDuty incident", url=page))
    labels = {**new, **alert.labels}
    return alert.model_copy(update={"labels": labels, "links": links, "service": alert.service or service})


def _without_plan(error: FaultlineError) -> str:
    if isinstance(error, ConnectorError) and error.status in (402, 403, 404):
        return f"similar past incidents are not part of this PagerDuty plan, or not permitted (HTTP {error.status})"
    return str(error)


def _utc(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
