"""Alertmanager: the alerts that are active, which of them are silenced or inhibited, and the
silences.

API v2 (prometheus/alertmanager, api/v2/openapi.yaml), of Alertmanager 0.16 and later. It knows what
is active now, not the past.
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
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.alertmanager import AlertmanagerSettings
from faultline.connectors.vendors.prometheus.promql import names_pattern, quoted

LIMITS = Limits(deadline_s=15, max_bytes=16 * 1024 * 1024, requests_per_s=10, concurrency=4)
MOST_SERVICES = 30
MOST_ALERTS = 300
"""Alerts kept: those of the services in scope and of the alert's name first, then the latest."""
MOST_SILENCES = 50
ALERTS, SILENCES = "/api/v2/alerts", "/api/v2/silences"


def build(
    alertmanager_settings: AlertmanagerSettings, settings: SharedSettings
) -> AlertmanagerConnector | None:
    """The configured connector, or None without a URL."""
    if alertmanager_settings.url is None:
        return None
    return AlertmanagerConnector(
        alertmanager_settings.url,
        access_of(alertmanager_settings, "alertmanager"),
        public_url=alertmanager_settings.public_url,
        service_labels=alertmanager_settings.service_labels,
        names=ServiceNames.of_catalogue(settings.services),
        limits=alertmanager_settings.limits(LIMITS),
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
        alerts = await collection.fetch("monitors", every, self._fetch_alerts(session, request))
        if alerts is None:
            return
        # Two stable sorts: what concerns the alert comes first, and the latest within that.
        ranked = sorted(alerts, key=lambda alert: alert.startsAt, reverse=True)
        ranked.sort(key=lambda alert: not self._concerns(alert, request))
        top_alerts = ranked[:MOST_ALERTS]
        rows = [row for alert in top_alerts if (row := self._row(alert)) is not None]
        cut = (
            f"{len(ranked) - len(top_alerts)} of {len(ranked)} active alerts left out"
            if len(ranked) > len(top_alerts)
            else None
        )
        details = {
            short(alert.labels.get("alertname", "alert"), 80): _alert_line(alert)
            # Alerts of one name share a key, so the first in rank is written last.
            for alert in reversed(top_alerts[:20])
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

    async def _fetch_alerts(self, session: HttpSession, request: Request) -> list[ActiveAlert]:
        """All alerts; where they are too large to be read, those of the services in scope and of
        the alert's name."""
        flags = [("active", "true"), ("silenced", "true"), ("inhibited", "true")]
        try:
            return await session.get(ALERTS, flags, type=list[ActiveAlert])
        # The list has no pages, so ask again for the alerts that matter.
        except BudgetExceeded:
            filters = self._filters(request)
            if session.deadline.remaining <= 0 or not filters:
                raise
        active_alerts: dict[str, ActiveAlert] = {}
        # A new session: the byte budget of the first one is spent, the deadline is not.
        async with self._http.open(session.deadline) as again:
            for text in filters:
                for alert in await again.get(
                    ALERTS, [*flags, ("filter", text)], type=list[ActiveAlert]
                ):
                    # One alert may match several filters.
                    active_alerts[alert.fingerprint] = alert
        return list(active_alerts.values())

    def _filters(self, request: Request) -> list[str]:
        services, _ = in_scope(request, MOST_SERVICES)
        theirs = [name for service in services for name in self._names.theirs(service)]
        filters = (
            [f'{label}=~"{names_pattern(theirs)}"' for label in self._labels] if theirs else []
        )
        alertname = request.alert.labels.get("alertname")
        return filters + ([f'alertname="{quoted(alertname[:500])}"'] if alertname else [])

    def _concerns(self, alert: ActiveAlert, request: Request) -> bool:
        services, _ = in_scope(request, MOST_SERVICES)
        return self._service(alert.labels) in services or alert.labels.get("alertname") == _name_of(
            request.alert
        )

    def _row(self, alert: ActiveAlert) -> tuple[Any, ...] | None:
        since = time_of(alert.startsAt)
        if since is None:
            return None
        name = short(alert.labels.get("alertname", ""), 200) or "alert without a name"
        link = f"{self._page}/#/alerts?{urlencode({'filter': f'{{alertname={_js(name)}}}'})}"
        return name, self._service(alert.labels), alert.state, since, link

    def _service(self, labels: Mapping[str, str]) -> str | None:
        named = next((v for label in self._labels if (v := labels.get(label))), None)
        return short(self._names.ours(named), 200) if named else None

    async def _silences(
        self, session: HttpSession, collection: CollectionBuilder, request: Request
    ) -> None:
        silences = await collection.fetch(
            "monitors", SILENCES, session.get(SILENCES, type=list[Silence])
        )
        active = [silence for silence in silences or () if silence.status.state == "active"]
        if not active:
            return
        concerned = sorted(
            active, key=lambda silence: not self._silence_concerns(silence, request)
        )[:MOST_SILENCES]
        rows = []
        for silence in concerned:
            since, service = time_of(silence.startsAt), self._silenced(silence)
            if since is not None and service is not None:
                rows.append(
                    (
                        f"silence {short(silence.id, 60)}",
                        service,
                        "silenced",
                        since,
                        self._silence_link(silence),
                    )
                )
        details = {
            f"silence {short(silence.id, 60)}": _silence_line(silence) for silence in concerned
        }
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

    def _silence_concerns(self, silence: Silence, request: Request) -> bool:
        services, _ = in_scope(request, MOST_SERVICES)
        return self._silenced(silence) in services or any(
            m.value == _name_of(request.alert) for m in silence.matchers
        )

    def _silenced(self, silence: Silence) -> str | None:
        """The service that a silence names outright."""
        # A pattern or a negation may mean any number of services.
        exact = {m.name: m.value for m in silence.matchers if m.isEqual and not m.isRegex}
        return self._service(exact)

    def _silence_link(self, silence: Silence) -> str:
        # `[1:]` drops the `=` after the empty name.
        return f"{self._page}/#/silences/{urlencode({'': silence.id[:80]})[1:]}"


def _name_of(alert: Alert) -> str:
    return alert.labels.get("alertname") or alert.title


def _js(text: str) -> str:
    return msgspec.json.encode(text).decode()


def _alert_line(alert: ActiveAlert) -> str:
    """An alert in one line: state, labels and its summary."""
    labels = ", ".join(f"{k}={v}" for k, v in sorted(alert.labels.items()) if k != "alertname")
    summary = alert.annotations.get("summary") or alert.annotations.get("description") or ""
    inhibited = (
        f" by {len(alert.status.inhibitedBy)} other alerts" if alert.status.inhibitedBy else ""
    )
    return short(f"{alert.state}{inhibited} since {alert.startsAt}; {labels}; {summary}", 600)


def _silence_line(silence: Silence) -> str:
    matchers = ", ".join(m.text for m in silence.matchers[:20])
    return short(
        f"{matchers}; {silence.startsAt} to {silence.endsAt}; by {silence.createdBy}: "
        f"{silence.comment}",
        600,
    )


class _Version(msgspec.Struct):
    version: str = "of unknown version"


class _Status(msgspec.Struct):
    versionInfo: _Version
