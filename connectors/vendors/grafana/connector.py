"""Grafana: what its alert rules say, how their states changed, annotations that tell of changes,
and in Grafana Cloud service level objectives and incidents.

Read from grafana/grafana as of 2026 (docs/sources/developers/http_api/annotations.md;
pkg/services/ngalert/api/tooling/ definitions/prom.go): Grafana 9 and later, with alerts managed by
Grafana itself.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.kinds.signals import AlertQuery
from faultline.analysis.vocabulary import Alert, EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ANYONE, ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.shared.queries.alert_evaluation import (
    EvaluatedSeries,
    EvaluatedWindow,
    evaluated,
    matrix_series,
)
from faultline.connectors.shared.rows.collection_builder import (
    CollectionBuilder,
    epoch_ms,
    full_window,
    ns_of,
    time_of,
)
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import plain_url, short
from faultline.connectors.vendors.grafana import GrafanaSettings
from faultline.connectors.vendors.grafana.annotations import (
    Annotation,
    kind_of_change,
    labels_in_text,
    labels_of_tags,
    plain_text,
)
from faultline.connectors.vendors.grafana.cloud_apps import CloudApps
from faultline.connectors.vendors.grafana.managed_rules import (
    MANAGED_RULES,
    ManagedGroup,
    MatrixAnswer,
    linked_rules,
    managed_rule,
    queried_source,
)
from faultline.connectors.vendors.grafana.rules import RuleQueriesAnswer, query_of_grafana_rule
from faultline.connectors.vendors.grafana.session import GrafanaHttp, GrafanaSession

LIMITS = Limits(deadline_s=20, max_bytes=32 * 1024 * 1024, requests_per_s=10, concurrency=4)
NEEDS = {
    "alert rules": "alert.rules:read",
    "annotations": "annotations:read",
    "SLOs": "the role SLO Viewer",
    "incidents": "the role Viewer of IRM",
}
CLOUD = ".grafana.net"
"""The end of the hosts of Grafana Cloud's stacks."""
LOOKBACK = timedelta(hours=24)
"""Changes are asked from so long before the earliest window: a deploy may take a day to do harm."""
MOST_ANNOTATIONS = 500
MOST_ALERTS = 300
ANNOTATIONS, RULES = "/api/annotations", "/api/prometheus/grafana/api/v1/rules"
PERMISSIONS = "/api/access-control/user/permissions"
SERVICE_LABELS = ("service", "service_name", "app", "job")
CALM = frozenset({"normal", "ok", "inactive"})
STATES = {"alerting": "firing", "normal": "ok", "nodata": "no data"}
"""Grafana's words for states of alerts (ngalert/eval/eval.go), as other sources have them."""
_WRITES = re.compile(r"[a-z.]+:(?:write|create|delete|add|remove)")


def build(grafana_settings: GrafanaSettings, settings: SharedSettings) -> GrafanaConnector | None:
    """The configured connector, or None without a URL."""
    if grafana_settings.url is None:
        return None
    names = ServiceNames.of_catalogue(settings.services)
    if grafana_settings.cloud_apps is not None:
        has_cloud_apps = grafana_settings.cloud_apps
    else:
        has_cloud_apps = (urlsplit(grafana_settings.url or "").hostname or "").endswith(CLOUD)
    return GrafanaConnector(
        grafana_settings.url,
        access_of(grafana_settings, "grafana"),
        public_url=grafana_settings.public_url,
        change_tags=grafana_settings.change_tags,
        cloud_apps=has_cloud_apps,
        names=names,
        limits=grafana_settings.limits(LIMITS),
    )


class RuleAlert(msgspec.Struct):
    labels: dict[str, str] = {}
    state: str = ""
    activeAt: str | None = None


class GrafanaRule(msgspec.Struct):
    """An alert rule and its alerts."""

    name: str = ""
    state: str | None = None
    health: str | None = None
    lastError: str | None = None
    uid: str | None = None
    labels: dict[str, str] | None = None
    alerts: list[RuleAlert] | None = None


class GrafanaRuleGroup(msgspec.Struct):
    rules: list[GrafanaRule] | None = None


class GrafanaRuleGroups(msgspec.Struct):
    groups: list[GrafanaRuleGroup]


class RulesAnswer(msgspec.Struct):
    data: GrafanaRuleGroups


class GrafanaConnector:
    """Monitors from alert rules and their history, changes from annotations with one of
    `change_tags`. With `cloud_apps` burn rates of objectives and incidents besides."""

    name = "grafana"

    def __init__(
        self,
        url: str,
        access: ServerAccess = ANYONE,
        *,
        public_url: str | None = None,
        change_tags: Sequence[str] = ("deploy",),
        cloud_apps: bool = False,
        names: ServiceNames | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        self._http = GrafanaHttp(self.name, url, access=access, limits=limits)
        evidence_kinds: tuple[EvidenceKind, ...] = ("monitors", "changes")
        self.kinds: tuple[EvidenceKind, ...] = (
            (*evidence_kinds, "metrics", "alert") if cloud_apps else evidence_kinds
        )
        self._page = plain_url(public_url, self.name) if public_url else self._http.base_url
        self._tags = tuple(change_tags)
        self._names = names or ServiceNames()
        self._cloud = CloudApps(self._page, self._names) if cloud_apps else None
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Rules, their history, and changes. A call that fails becomes a gap, the others stand."""
        collection = CollectionBuilder()
        async with self._http.open() as session:
            calls = [self._rules, self._history, self._changes]
            if self._cloud is not None:
                calls += [self._cloud.objectives, self._cloud.incidents]
            await asyncio.gather(*(call(session, collection, request) for call in calls))
        return collection.collected()

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The query of the rule that sent the alert. Raises ConnectorError."""
        if not (alert.links or alert.labels.get("alertname")):
            return None
        async with self._http.open() as session:
            # The rules' queries are needed, not their alerts.
            answer = await session.get(RULES, [("limit_alerts", "0")], type=RuleQueriesAnswer)
        return query_of_grafana_rule(answer, alert)

    def evaluates(self, alert: Alert) -> bool:
        """Whether the alert comes from a rule that Grafana manages."""
        return bool(linked_rules(alert)) or alert.source == self.name

    async def evaluate(self, request: Request) -> Collected:
        """What the rule's own query gives through Grafana's data source, now and over two weeks.
        Raises FaultlineError."""
        async with self._http.open() as session:
            rules = await session.get(MANAGED_RULES, type=dict[str, list[ManagedGroup]])
            rule = managed_rule(rules, request.alert)
            source = queried_source(rule) if rule is not None else None
            if source is None:
                return Collected()
            path = source.path

            async def ask(text: str, at: EvaluatedWindow) -> Sequence[EvaluatedSeries]:
                params = [
                    ("query", text),
                    ("start", f"{at.window.start.timestamp():.0f}"),
                    ("end", f"{at.window.end.timestamp():.0f}"),
                    ("step", f"{at.step_s}s"),
                ]
                answer = await session.get(path, params, type=MatrixAnswer)
                return matrix_series(answer.data.result)

            uid = rule.grafana_alert.uid if rule is not None else ""
            link = f"{self._page}/alerting/grafana/{uid}/view"
            return await evaluated(source.query, request.scope, ask, link=link)

    async def check(self) -> Check:
        """What can be read with this token, and may it write?"""
        calls = {
            "alert rules": (RULES, [("limit_alerts", "1")]),
            "annotations": (ANNOTATIONS, [("limit", "1")]),
        }
        try:
            async with self._http.open() as session:
                version = (await session.get("/api/health", type=_Health)).version
                refused: dict[str, str | None] = {}
                for name, call in calls.items():
                    refused[name] = await _refusal(session, *call)
                absent: list[str] = []
                if self._cloud is not None:
                    of_apps, absent = await self._cloud.refusals(session)
                    refused |= of_apps
                writing = await _writing(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        parts = ReadableParts(refused, NEEDS)
        sent = "only GET and the list of incidents are" if self._cloud else "only GET is"
        line = f"Grafana {short(version, 40)} at {self._http.base_url}: {parts.words}; {sent} sent"
        if absent:
            line += f"; not installed: {', '.join(absent)}"
        if writing:
            line += (
                f"; warning: the token can also write ({', '.join(writing[:4])}): "
                "give it the role Viewer"
            )
        return Check(self.name, bool(parts.readable), line, parts.unread)

    async def _rules(
        self, session: GrafanaSession, collection: CollectionBuilder, request: Request
    ) -> None:
        answer = await collection.fetch("monitors", RULES, session.get(RULES, type=RulesAnswer))
        if answer is None:
            return
        rules = [rule for group in answer.data.groups for rule in group.rules or ()]
        services, _ = in_scope(request, 100)
        made = [row for rule in rules for row in self._rule_rows(rule)]
        # Services in scope first, then the latest, so that the cap drops the others.
        made.sort(key=lambda row: (row[1] not in services, -row[3]))
        # A rule that cannot be evaluated looks calm, so name it.
        failing = {
            short(rule.name, 80): short(f"cannot be evaluated: {rule.lastError}", 300)
            for rule in rules
            if rule.health == "error" and rule.lastError
        }
        cut = (
            f"{len(made) - MOST_ALERTS} of {len(made)} alerts left out"
            if len(made) > MOST_ALERTS
            else None
        )
        link, count = f"{self._page}/alerting/list", collection.add("monitors", made[:MOST_ALERTS])
        details = dict(list(failing.items())[:20])
        collection.items.append(
            Item(
                "monitors",
                RULES,
                full_window(request.scope),
                link,
                rows=count,
                cut=cut,
                details=details,
            )
        )

    def _rule_rows(self, rule: GrafanaRule) -> Iterable[tuple[Any, ...]]:
        """One row per alert of a rule that is not calm."""
        uid = rule.uid or ""
        link = (
            f"{self._page}/alerting/grafana/{quote(uid, safe='')}/view"
            if uid
            else f"{self._page}/alerting/list"
        )
        for alert in rule.alerts or ():
            state = _state(alert.state)
            since = time_of(alert.activeAt)
            if state is not None and state != "ok" and since is not None:
                # An alert's own label wins over one of its rule.
                labels = {**(rule.labels or {}), **alert.labels}
                yield (
                    short(rule.name, 200) or "rule without a name",
                    self._service(labels),
                    state,
                    since,
                    link,
                )

    async def _history(
        self, session: GrafanaSession, collection: CollectionBuilder, request: Request
    ) -> None:
        """Changes of alerts' states, of all windows."""
        window = full_window(request.scope)
        params = [("type", "alert"), *_between(window), ("limit", str(MOST_ANNOTATIONS))]
        query = f"{ANNOTATIONS}?{urlencode(params)}"
        answer = await collection.fetch(
            "monitors", query, session.get(ANNOTATIONS, params, type=list[Annotation])
        )
        if answer is None:
            return
        rows = []
        for annotation in answer:
            at, state, text = (
                ns_of(annotation.time, 1_000_000),
                _state(annotation.newState or ""),
                plain_text(annotation.text),
            )
            if at is not None and state is not None:
                # The text begins with the name where the field is empty: `Name {labels} - State`.
                name = short(annotation.alertName or text.partition(" {")[0], 200) or "alert"
                service = self._service({**labels_in_text(text), **labels_of_tags(annotation.tags)})
                rows.append((name, service, state, at, self._annotation_link(annotation, window)))
        cut = (
            f"only the latest {MOST_ANNOTATIONS} were asked"
            if len(answer) >= MOST_ANNOTATIONS
            else None
        )
        link, count = f"{self._page}/alerting/history", collection.add("monitors", rows)
        collection.items.append(Item("monitors", query, window, link, rows=count, cut=cut))

    async def _changes(
        self, session: GrafanaSession, collection: CollectionBuilder, request: Request
    ) -> None:
        around = full_window(request.scope)
        window = Window(start=around.start - LOOKBACK, end=around.end)
        tags = [("tags", tag) for tag in self._tags]
        params = [("type", "annotation"), *_between(window), *tags, ("matchAny", "true")]
        params.append(("limit", str(MOST_ANNOTATIONS)))
        query = f"{ANNOTATIONS}?{urlencode(params)}"
        answer = await collection.fetch(
            "changes", query, session.get(ANNOTATIONS, params, type=list[Annotation])
        )
        if answer is None:
            return
        services, _ = in_scope(request, 100)
        rows = [
            row
            for annotation in answer
            if (row := self._change(annotation, services, window)) is not None
        ]
        cut = (
            f"only the latest {MOST_ANNOTATIONS} were asked"
            if len(answer) >= MOST_ANNOTATIONS
            else None
        )
        link, count = f"{self._page}{query}", collection.add("changes", rows)
        item = Item("changes", query, window, link, rows=count, cut=cut)
        collection.items.append(item.holding(rows))

    def _change(
        self, annotation: Annotation, services: Sequence[str], window: Window
    ) -> tuple[Any, ...] | None:
        at = ns_of(annotation.time, 1_000_000)
        tags = [tag for tag in annotation.tags or () if isinstance(tag, str)]
        # Take only what bears one of the tags, whatever the server filters.
        if at is None or not set(tags) & set(self._tags):
            return None
        title = plain_text(annotation.text) or ", ".join(short(tag, 80) for tag in tags[:10])
        named = self._service(labels_of_tags(tags)) or self._tagged(tags, services)
        link = self._annotation_link(annotation, window)
        author = short(annotation.login or "", 100) or None
        return (
            at,
            named,
            kind_of_change(tags),
            f"annotation {annotation.id}",
            title,
            author,
            link,
            None,
            None,
        )

    def _tagged(self, tags: Sequence[str], services: Sequence[str]) -> str | None:
        """The service that a tag names by itself."""
        return next((s for s in services if self._names.matches(s, tags)), None)

    def _annotation_link(self, annotation: Annotation, window: Window) -> str:
        if not annotation.dashboardUID:
            return f"{self._page}{ANNOTATIONS}/{annotation.id}"
        link_params = dict(_between(window)) | (
            {"viewPanel": str(annotation.panelId)} if annotation.panelId else {}
        )
        return (
            f"{self._page}/d/{quote(annotation.dashboardUID[:100], safe='')}?"
            f"{urlencode(link_params)}"
        )

    def _service(self, labels: Mapping[str, str]) -> str | None:
        named = next((v for label in SERVICE_LABELS if (v := labels.get(label))), None)
        return short(self._names.ours(named), 200) if named else None


def _between(window: Window) -> list[tuple[str, str]]:
    return [("from", str(epoch_ms(window.start))), ("to", str(epoch_ms(window.end)))]


def _state(new_state: str) -> str | None:
    """A state in lower case, without its reason: `Normal (NoData)`; None where there is none."""
    state = short(new_state.partition("(")[0], 30).lower()
    return STATES.get(state, "ok" if state in CALM else state) or None


class _Health(msgspec.Struct):
    version: str = "of unknown version"


async def _refusal(session: HttpSession, path: str, params: list[tuple[str, str]]) -> str | None:
    """Why a call is refused, None when it is answered. Raises what is no answer at all."""
    try:
        await session.get(path, params, type=Any)
    except ConnectorError as error:
        # No status means no answer, which is more than a refusal.
        if error.status is None:
            raise
        return error.problem
    return None


async def _writing(session: HttpSession) -> list[str]:
    """Actions of the token that write; none where Grafana does not tell its permissions."""
    try:
        response = await session.get(PERMISSIONS, type=dict[str, Any])
    except ConnectorError:
        return []
    return sorted(short(action, 60) for action in response if _WRITES.fullmatch(action[:200]))
