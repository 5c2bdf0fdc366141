"""PagerDuty: the incident's alerts, its log, the changes around it, related and similar incidents,
who is on call.

Reading only; notes are written elsewhere, with another session.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any, TypeVar

from faultline.analysis.errors import BudgetExceeded, ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Link
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.circuit_breaker import ByteBudget, Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import plain_url, web_link
from faultline.connectors.vendors.pagerduty import ACCOUNT_LABEL, PagerDutySettings, answers
from faultline.connectors.vendors.pagerduty.inquiry import ID, MOST_SERVICES, Ask
from faultline.connectors.vendors.pagerduty.session import VENDOR, ReadOnlySession

T = TypeVar("T")

LIMITS = Limits(max_bytes=8 * 1024 * 1024, requests_per_s=10, concurrency=4)
"""PagerDuty allows 960 requests a minute."""
NEEDS = {
    "incidents": "incidents.read",
    "services": "services.read",
    "change events": "change_events.read, and a plan that has them",
    "on-call": "oncalls.read",
}
"""The scope of an OAuth app for each; a key of the API has no scopes, but its user's rights."""
ENRICH_S = 4.0
_INCIDENT_LINK = re.compile(
    r"https://[a-z0-9.-]+\.pagerduty\.com/incidents/([A-Z0-9]{1,40})(?:[/?#].*)?"
)
_IDENTITY = frozenset({"fingerprint", "incident_key"})
"""Labels that decide which investigation an alert belongs to; what a vendor adds later must not
change that."""


def build(
    pagerduty_settings: PagerDutySettings, settings: SharedSettings
) -> PagerDutyConnector | None:
    """The configured connector, or None without a token."""
    if pagerduty_settings.api_token is None:
        return None
    pagerduty_services = {
        name: entry.pagerduty_service
        for name, entry in settings.services.items()
        if entry.pagerduty_service
    }
    return PagerDutyConnector(
        pagerduty_settings.api_token.get_secret_value(),
        pagerduty_settings.api_url,
        pagerduty_settings.from_email,
        services=pagerduty_services,
        account=pagerduty_settings.instance.name,
        limits=pagerduty_settings.limits(LIMITS),
    )


class PagerDutyConnector:
    """Changes, the incident's alerts as monitors, and details. `services`: PagerDuty's id or name
    by our name. `account`: its name, where there are several."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("changes", "monitors", "alert")

    def __init__(
        self,
        api_token: str,
        api_url: str = "https://api.pagerduty.com",
        from_email: str | None = None,
        *,
        services: Mapping[str, str] | None = None,
        account: str = "",
        limits: Limits = LIMITS,
    ) -> None:
        self._token = api_token
        self._url = plain_url(api_url, VENDOR)
        self._from_email = from_email
        self._services = dict(services or {})
        self._account = account
        # A separate pool: calls that block here take no thread from others.
        self._threads = ThreadPoolExecutor(limits.concurrency, thread_name_prefix=VENDOR)
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Everything PagerDuty knows of the alert's incident and of recent changes. A call that
        fails is a gap."""
        ask = Ask(self, Deadline.within(self.limits))
        incident_id = incident_of(request.alert, self._account)
        incident, missing = await self._incident(ask, incident_id)
        names = await ask.service_names(request, incident)
        calls = [
            ask.changes_of(service_id, request.scope) for service_id in list(names)[:MOST_SERVICES]
        ]
        if incident is not None and incident_id:
            calls += [
                ask.alerts(incident_id),
                ask.log(incident_id),
                ask.related(incident_id),
                ask.past(incident_id),
            ]
            calls += [ask.related_incidents(incident_id), ask.on_call(incident)]
        parts = await asyncio.gather(*calls)
        missing += [m for part in parts for m in part.missing]
        if not calls and not missing:
            missing.append(Missing("changes", "services and incident", _NOTHING_TO_ASK))
        changes: list[Mapping[str, Any]] = []
        alerts: list[Mapping[str, Any]] = []
        items: list[Item] = []
        for part in parts:
            changes += part.changes
            alerts += part.alerts
            changes_table = answers.changes_table(part.changes, names)
            for item in part.items:
                items.append(item.holding(changes_table) if item.kind == "changes" else item)
        tables = {
            "changes": answers.changes_table(changes, names),
            "monitors": answers.monitors_table(alerts, names),
        }
        return Collected(tables, tuple(items), tuple(missing))

    async def _incident(
        self, ask: Ask, incident_id: str | None
    ) -> tuple[dict[str, Any] | None, list[Missing]]:
        if incident_id is None:
            return None, []
        try:
            return await ask.incident(incident_id), []
        except ConnectorError as error:
            if error.status == 401:
                raise
            # A link does not say which of several accounts it leads to: one of them knows it.
            if self._account and error.status == 404:
                return None, []
            return None, [Missing("alert", f"GET /incidents/{incident_id}", str(error))]

    async def enrich(self, alert: Alert) -> Alert:
        """The alert with what its incident's alerts say in its labels. Raises ConnectorError."""
        incident_id = incident_of(alert, self._account)
        if incident_id is None:
            return alert
        ask = Ask(self, Deadline.after(ENRICH_S))
        try:
            incident, alert_evidence = await asyncio.gather(
                ask.incident(incident_id), ask.alerts(incident_id)
            )
        except BudgetExceeded as error:
            raise ConnectorError(VENDOR, "enrich", str(error), retryable=True) from error
        service = self.our_name(incident.get("service"))
        new = {
            k: v
            for k, v in answers.alert_details(alert_evidence.alerts).items()
            if k not in _IDENTITY
        }
        page = web_link(incident.get("html_url"))
        links = alert.links
        identity = answers.text_of(incident.get("id"))
        # A webhook and the API may name the page of one incident by two addresses.
        if page and not any(_is_page_of(link.url, identity, page) for link in links):
            links = (*links, Link(title="PagerDuty incident", url=page))
        # What the alert itself says wins over what the API adds.
        labels = {**new, **alert.labels}
        return alert.model_copy(
            update={"labels": labels, "links": links, "service": alert.service or service}
        )

    async def on_call(self, service: str) -> Mapping[str, str]:
        """Who is on call for a service now: names by level, none where PagerDuty does not know
        the service. Raises ConnectorError, BudgetExceeded."""
        evidence = await Ask(self, Deadline.after(ENRICH_S)).on_call_now(service)
        # Nothing else is asked here, so a gap is an error.
        for missing in evidence.missing:
            raise ConnectorError(VENDOR, missing.query, missing.reason)
        return {key: people for item in evidence.items for key, people in item.details.items()}

    def is_of(self, alert: Alert) -> bool:
        """Whether this account sent the alert."""
        return alert.source == VENDOR and alert.labels.get(ACCOUNT_LABEL, "") == self._account

    async def check(self) -> Check:
        """Which of the things read can be read with this key?"""
        ask = Ask(self, Deadline.within(self.limits))
        paths = {
            "incidents": "/incidents",
            "services": "/services",
            "change events": "/change_events",
            "on-call": "/oncalls",
        }
        try:
            refusals = await asyncio.gather(*(ask.refusal(path) for path in paths.values()))
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        parts = ReadableParts(dict(zip(paths, refusals, strict=True)), NEEDS)
        line = f"PagerDuty at {self._url}: {parts.words}; only GET is sent"
        return Check(self.name, "incidents" in parts.readable, line, parts.unread)

    def session(self, deadline: Deadline, budget: ByteBudget) -> ReadOnlySession:
        """A session for one call; use it as a context manager, in one thread."""
        limiter = rate_limiter_of(VENDOR, self._url, self.limits)
        return ReadOnlySession(self._token, self._url, self._from_email, limiter, deadline, budget)

    async def in_thread(self, call: Callable[[], T]) -> T:
        """Run a blocking call; it ends by its deadline even when nobody waits for it any more."""
        # An executor does not pass context variables on by itself.
        return await asyncio.get_running_loop().run_in_executor(
            self._threads, copy_context().run, call
        )

    def theirs(self, service: str) -> str:
        """PagerDuty's id or name of a service; our own name where the catalogue has none."""
        return self._services.get(service, service)

    def our_name(self, reference: Any) -> str | None:
        """Our name of the service that PagerDuty refers to, else PagerDuty's."""
        if not isinstance(reference, Mapping):
            return None
        identity, summary = (
            answers.text_of(reference.get("id")),
            answers.text_of(reference.get("summary")),
        )
        for name, theirs in self._services.items():
            if theirs == identity or theirs.casefold() == summary.casefold():
                return name
        return summary or identity or None


_NOTHING_TO_ASK = (
    "the alert names no PagerDuty incident, and no service in scope is known to PagerDuty"
)


def incident_of(alert: Alert, account: str = "") -> str | None:
    """The alert's PagerDuty incident: its own id where PagerDuty sent it, else one that a link
    names. None where another account sent it."""
    if alert.labels.get(ACCOUNT_LABEL, account) != account:
        return None
    candidates = [alert.id] if alert.source == VENDOR else []
    candidates += [m[1] for link in alert.links if (m := _INCIDENT_LINK.fullmatch(link.url))]
    return next((c for c in candidates if ID.fullmatch(c)), None)


def _is_page_of(url: str, identity: str, page: str) -> bool:
    """Whether an address is the page of the incident, whichever host it names."""
    named = rf"https?://[^/?#]+/incidents/{re.escape(identity)}/?(?:[?#].*)?"
    return url == page or (bool(identity) and re.fullmatch(named, url) is not None)
