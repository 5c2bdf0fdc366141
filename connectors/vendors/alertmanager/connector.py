"""Alertmanager: the alerts that are active, which of them are silenced or inhibited, and the
silences.

API v2 (prometheus/alertmanager, api/v2/openapi.yaml), of Alertmanager 0.16 and later. It knows what
is active now, and nothing of the past.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from faultline.analysis.errors import BudgetExceeded, FaultlineError, SettingsError
from faultline.analysis.vocabulary import Alert, EvidenceKind
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    full_window,
    time_of,
)
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.limits import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.alertmanager.settings import AlertmanagerSettings
from faultline.connectors.vendors.prometheus.promql import one_of, quoted

LIMITS = Limits(deadline_s=15, max_bytes=16 * 1024 * 1024, requests_per_s=10, concurrency=4)
MOST_SERVICES = 30
MOST_ALERTS = 300
"""Alerts kept: those of the services in scope and of the alert's name first, then the latest."""
MOST_SILENCES = 50
ALERTS, SILENCES = "/api/v2/alerts", "/api/v2/silences"


def build(own: AlertmanagerSettings, settings: SharedSettings) -> AlertmanagerConnector | None:
    """The configured connector, or None without a URL."""
    if own.url is None:
        return None
    return AlertmanagerConnector(
        own.url,
        access_of(own, "alertmanager"),
        public_url=own.public_url,
        service_labels=own.service_labels,
        names=ServiceNames.of_catalogue(settings.services),
        limits=own.limits(LIMITS),
    )


class AlertmanagerState(msgspec.Struct):
    state: str = ""
    silencedBy: list[str] | None = None
    inhibitedBy: list[str] | None = None
    mutedBy: list[str] | None = None


class ActiveAlert(msgspec.Struct):
    """One alert as Alertmanager holds it."""

    labels: dict[str, str]
    startsAt: str
    status: AlertmanagerState
    annotations: dict[str, str] = {}
    generatorURL: str = ""
    fingerprint: str = ""

    @property
    def state(self) -> str:
        """In one word. What is silenced and inhibited at once counts as silenced."""
        if self.status.silencedBy:
            return "silenced"
        if self.status.inhibitedBy:
            return "inhibited"
        if self.status.mutedBy:
            return "muted"
        return (
            "firing"
            if self.status.state in ("active", "unprocessed")
            else short(self.status.state, 20) or "firing"
        )


class Matcher(msgspec.Struct):
    name: str
    value: str
    isRegex: bool = False
    isEqual: bool = True

    @property
    def text(self) -> str:
        """As Alertmanager writes it."""
        sign = ("=~" if self.isRegex else "=") if self.isEqual else ("!~" if self.isRegex else "!=")
        return f'{self.name}{sign}"{quoted(self.value)}"'


class Silence(msgspec.Struct):
    """One silence."""

    id: str
    matchers: list[Matcher]
    startsAt: str
    endsAt: str
    status: AlertmanagerState
    createdBy: str = ""
    comment: str = ""


class AlertmanagerConnector:
    """Active alerts as monitors, silences as their details. `service_labels`: labels that may name
    a service."""

    name = "alertmanager"
    kinds: tuple[EvidenceKind, ...] = ("monitors",)

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        public_url: str | None = None,
        service_labels: Sequence[str] = ("service", "service_name", "app", "job"),
        names: ServiceNames | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(self.name, url, access=access, limits=limits)
        self._page = plain_url(public_url, self.name) if public_url else self._http.base_url
        self._labels = tuple(service_labels)
        self._names = names or ServiceNames()
        self.limits = limits
        for label in self._labels:
            if not label.replace("_", "a").isalnum() or not label.isascii():
                raise SettingsError(
                    "alertmanager.service_labels", f"{label[:80]!r} is not the name of a label"
                )

    async def collect(self, request: Request) -> Collected:
        """Alerts and silences as they are now. A call that fails becomes a gap, the other
        stands."""
        collection = CollectionBuilder()
        async with self._http.open() as session:
            await asyncio.gather(
                self._alerts(session, collection, request),
                self._silences(session, collection, request),
            )
        return collection.collected()

    async def check(self) -> Check:
        """Reachable and allowed? Alertmanager itself has no permissions: who reaches it can also
        silence alerts."""
        try:
            async with self._http.open() as session:
                status = await session.get("/api/v2/status", type=_Status)
                alerts = await session.get(ALERTS, type=list[ActiveAlert])
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        version = short(status.versionInfo.version, 40)
        line = f"Alertmanager {version} at {self._http.base_url}: alerts and silences can be read"
        line += f", {len(alerts)} alerts are active; only GET is sent"
        return Check(
            self.name, True, f"{line}; warning: Alertmanager has no read-only access of its own"
        )

    async def _alerts(
        self, session: HttpSession, collection: CollectionBuilder, request: Request
    ) -> None:
        every = f"{ALERTS}?active=true&silenced=true&inhibited=true"
        found = await collection.fetch("monitors", every, self._found(session, request))
        if found is None:
            return
        ranked = sorted(found, key=lambda one: one.startsAt, reverse=True)
        ranked.sort(key=lambda one: not self._concerns(one, request))
        kept = ranked[:MOST_ALERTS]
        rows = [row for one in kept if (row := self._row(one)) is not None]
        cut = (
            f"{len(ranked) - len(kept)} of {len(ranked)} active alerts left out"
            if len(ranked) > len(kept)
            else None
        )
        details = {
            short(one.labels.get("alertname", "alert"), 80): _said(one)
            for one in reversed(kept[:20])
        }
        link = f"{self._page}/#/alerts"
        count = collection.add("monitors", rows)
        collection.items.append(
            Item(
                "monitors",
                every,
                full_window(request.scope),
                link,
                rows=count,
                cut=cut,
                details=details,
            )
        )

    async def _found(self, session: HttpSession, request: Request) -> list[ActiveAlert]:
        """All alerts; where they are too large to be read, those of the services in scope and of
        the alert's name."""
        flags = [("active", "true"), ("silenced", "true"), ("inhibited", "true")]
        try:
            return await session.get(ALERTS, flags, type=list[ActiveAlert])
        except BudgetExceeded:
            filters = self._filters(request)
            if session.deadline.remaining <= 0 or not filters:
                raise
        active_alerts: dict[str, ActiveAlert] = {}
        async with self._http.open(session.deadline) as again:
            for text in filters:
                for one in await again.get(
                    ALERTS, [*flags, ("filter", text)], type=list[ActiveAlert]
                ):
                    active_alerts[one.fingerprint] = one
        return list(active_alerts.values())

    def _filters(self, request: Request) -> list[str]:
        services, _ = in_scope(request, MOST_SERVICES)
        theirs = [name for service in services for name in self._names.theirs(service)]
        filters = [f'{label}=~"{one_of(theirs)}"' for label in self._labels] if theirs else []
        alertname = request.alert.labels.get("alertname")
        return filters + ([f'alertname="{quoted(alertname[:500])}"'] if alertname else [])

    def _concerns(self, one: ActiveAlert, request: Request) -> bool:
        services, _ = in_scope(request, MOST_SERVICES)
        return self._service(one.labels) in services or one.labels.get("alertname") == _name_of(
            request.alert
        )

    def _row(self, one: ActiveAlert) -> tuple[Any, ...] | None:
        since = time_of(one.startsAt)
        if since is None:
            return None
        name = short(one.labels.get("alertname", ""), 200) or "alert without a name"
        link = f"{self._page}/#/alerts?{urlencode({'filter': f'{{alertname={_js(name)}}}'})}"
        return name, self._service(one.labels), one.state, since, link

    def _service(self, labels: Mapping[str, str]) -> str | None:
        named = next((v for label in self._labels if (v := labels.get(label))), None)
        return short(self._names.ours(named), 200) if named else None

    async def _silences(
        self, session: HttpSession, collection: CollectionBuilder, request: Request
    ) -> None:
        found = await collection.fetch(
            "monitors", SILENCES, session.get(SILENCES, type=list[Silence])
        )
        active = [one for one in found or () if one.status.state == "active"]
        if not active:
            return
        concerned = sorted(active, key=lambda one: not self._silences_one(one, request))[
            :MOST_SILENCES
        ]
        rows = []
        for one in concerned:
            since, service = time_of(one.startsAt), self._silenced(one)
            if since is not None and service is not None:
                rows.append(
                    (
                        f"silence {short(one.id, 60)}",
                        service,
                        "silenced",
                        since,
                        self._silence_link(one),
                    )
                )
        details = {f"silence {short(one.id, 60)}": _silence_said(one) for one in concerned}
        cut = (
            f"{len(active) - MOST_SILENCES} more left out" if len(active) > MOST_SILENCES else None
        )
        count, link = collection.add("monitors", rows), f"{self._page}/#/silences"
        collection.items.append(
            Item(
                "monitors",
                SILENCES,
                full_window(request.scope),
                link,
                rows=count,
                cut=cut,
                details=details,
            )
        )

    def _silences_one(self, one: Silence, request: Request) -> bool:
        services, _ = in_scope(request, MOST_SERVICES)
        return self._silenced(one) in services or any(
            m.value == _name_of(request.alert) for m in one.matchers
        )

    def _silenced(self, one: Silence) -> str | None:
        """The service that a silence names outright."""
        exact = {m.name: m.value for m in one.matchers if m.isEqual and not m.isRegex}
        return self._service(exact)

    def _silence_link(self, one: Silence) -> str:
        return f"{self._page}/#/silences/{urlencode({'': one.id[:80]})[1:]}"


def _name_of(alert: Alert) -> str:
    return alert.labels.get("alertname") or alert.title


def _js(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _said(one: ActiveAlert) -> str:
    """An alert in one line: state, labels and its summary."""
    labels = ", ".join(f"{k}={v}" for k, v in sorted(one.labels.items()) if k != "alertname")
    summary = one.annotations.get("summary") or one.annotations.get("description") or ""
    inhibited = f" by {len(one.status.inhibitedBy)} other alerts" if one.status.inhibitedBy else ""
    return short(f"{one.state}{inhibited} since {one.startsAt}; {labels}; {summary}", 600)


def _silence_said(one: Silence) -> str:
    matchers = ", ".join(m.text for m in one.matchers[:20])
    return short(
        f"{matchers}; {one.startsAt} to {one.endsAt}; by {one.createdBy}: {one.comment}", 600
    )


class _Version(msgspec.Struct):
    version: str = "of unknown version"


class _Status(msgspec.Struct):
    versionInfo: _Version
