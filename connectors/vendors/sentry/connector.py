"""Sentry: issues that are new or surging, with stack traces and breadcrumbs, and the releases that
brought them.

API v0, GET only, of sentry.io or of a server of one's own.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec
import polars as pl

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind
from faultline.connectors.shared.contract.base import Check, Collected, Missing, Request
from faultline.connectors.shared.http.http import HttpSession, ReadOnlyHttp
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.sentry import SentrySettings
from faultline.connectors.vendors.sentry import rows as sentry_rows
from faultline.connectors.vendors.sentry.answers import VENDOR, SentryApiIssue
from faultline.connectors.vendors.sentry.issues import (
    ChosenIssue,
    Issues,
    SentryOrganization,
    issue_of,
)
from faultline.connectors.vendors.sentry.releases import Releases

LIMITS = Limits(deadline_s=25, max_bytes=32 * 1024 * 1024, requests_per_s=10, concurrency=5)
"""Sentry limits each call by itself and says so in headers (docs.sentry.io, "Rate Limits"); this
stays well below."""
MOST_PROJECTS, MOST_QUERY = 5, 1_000
NEEDS = {"issues": "event:read", "counts": "org:read", "releases": "project:read"}
_NO_PROJECT = "no service in scope names its project: set services.NAME.sentry_project"
_WRITES = re.compile(r"[a-z]+:(?:write|admin|releases|ingest)|org:ci")
"""Scopes of a token that can change something (docs.sentry.io, "Permissions & Scopes")."""


def build(sentry_settings: SentrySettings, settings: SharedSettings) -> SentryConnector | None:
    """The configured connector, or None without an organization or token."""
    if sentry_settings.organization is None or sentry_settings.token is None:
        return None
    projects = {}
    for name, entry in settings.services.items():
        if entry.sentry_project:
            projects[name] = entry.sentry_project
    token = sentry_settings.token.get_secret_value()
    return SentryConnector(
        sentry_settings.organization,
        token,
        sentry_settings.base_url,
        projects=projects,
        environments=sentry_settings.environments,
        limits=sentry_settings.limits(LIMITS),
    )


class SentryConnector:
    """`projects`: Sentry's slug or id of the project, by our name of the service."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("logs", "metrics", "changes")
    follows = ("service",)

    def __init__(
        self,
        organization: str,
        token: str,
        base_url: str = "https://sentry.io",
        *,
        projects: Mapping[str, str] | None = None,
        environments: Sequence[str] = (),
        limits: Limits = LIMITS,
    ) -> None:
        self._http = ReadOnlyHttp(
            VENDOR, base_url, headers={"Authorization": f"Bearer {token}"}, limits=limits
        )
        slug = quote(organization, safe="")
        self._place = SentryOrganization(
            f"/api/0/organizations/{slug}",
            f"/api/0/projects/{slug}",
            f"{page_address(self._http.base_url)}/organizations/{slug}",
            tuple(("environment", name) for name in environments),
        )
        self._projects = dict(projects or {})
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Issues, counts and releases of the projects in scope; a call that fails is a gap, the
        rest stands."""
        async with self._http.open() as session:
            issues = Issues(self._place, session, request.scope)
            issue_id = issue_of(request.alert)
            # First: the issue names its project even if the alert does not.
            issue = await issues.alert_issue(issue_id) if issue_id else None
            projects = self._in_scope(request, issue)
            if issue is not None:
                service = self._service_of(_slug(issue), request.alert.service)
                issues.chosen[issue.id] = ChosenIssue(issue, service, is_of_alert=True)
            await self._read_issues(issues, request.alert, projects)
            releases = []
            # After the issues, whose latest events are asked for suspect commits.
            for project, service in projects.items():
                releases.append(await self._releases(session, request, project, service, issues))
        has_projects = bool(projects)
        items = list(issues.items)
        missing = list(issues.missing)
        changes = []
        for release in releases:
            items += release.items
            missing += release.missing
            changes += release.rows
        if not has_projects and not missing:
            missing.append(Missing("logs", "projects", _NO_PROJECT))
        tables = {
            "logs": sentry_rows.logs_table(issues.logs),
            "changes": sentry_rows.changes_table(changes),
        }
        if issues.metrics:
            tables["metrics"] = pl.concat(issues.metrics)
        return Collected(tables, tuple(items), tuple(missing))

    async def _read_issues(self, issues: Issues, alert: Alert, projects: Mapping[str, str]) -> None:
        calls = [issues.of_project(project, service) for project, service in projects.items()]
        query, project = metric_query(alert)
        if query and project in projects:
            # A metric alert has a query: count what it counts.
            calls.insert(0, issues.counted(project, projects[project], query))
        await asyncio.gather(*calls)
        await issues.read()

    async def _releases(
        self, session: HttpSession, request: Request, project: str, service: str, issues: Issues
    ) -> Releases:
        releases = Releases(self._place, session, request.scope)
        events = []
        for chosen in issues.chosen.values():
            if chosen.service == service and chosen.event:
                events.append((chosen.issue, chosen.event))
        await releases.read(project, service, events)
        return releases

    async def check(self) -> Check:
        """What can be read with this token, and may it write?"""
        calls = self._calls()
        try:
            async with self._http.open() as session:
                refused = [await _refusal(session, path, params) for path, params in calls.values()]
                scopes = await _scopes(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        parts = ReadableParts(dict(zip(calls, refused, strict=True)), NEEDS)
        notes = [parts.words]
        if not self._projects:
            notes.append(
                "no service names its sentry_project: only issues that alerts name are read"
            )
        line = f"Sentry at {self._http.base_url}: {'; '.join(notes)}; only GET is sent"
        writing = [s for s in scopes if _WRITES.fullmatch(s)]
        if writing:
            line += (
                f"; warning: the token can also write ({', '.join(writing[:6])}): "
                "give it read scopes only"
            )
        return Check(self.name, "issues" in parts.readable, line, parts.unread)

    def _calls(self) -> dict[str, tuple[str, list[tuple[str, str]]]]:
        """One cheap call for each thing that is read."""
        organization = self._place.organization
        counts = [
            ("dataset", "errors"),
            ("yAxis", "count()"),
            ("statsPeriod", "1h"),
            ("interval", "600"),
        ]
        calls = {
            "issues": (f"{organization}/issues/", [("limit", "1"), ("statsPeriod", "1h")]),
            "counts": (f"{organization}/events-timeseries/", counts),
        }
        for project in list(self._projects.values())[:1]:
            calls["releases"] = (
                f"{self._place.projects}/{quote(project, safe='')}/releases/",
                [("per_page", "1")],
            )
        return calls

    def _in_scope(self, request: Request, alert_issue: SentryApiIssue | None) -> dict[str, str]:
        """Project to our name of its service: the alert's own first."""
        services: dict[str, str] = {}
        alert = request.alert
        named = (_slug(alert_issue) if alert_issue else "") or alert.labels.get(
            "sentry_project", ""
        )
        if named:
            services[named] = self._service_of(named, alert.service)
        for service in (alert.service, *request.scope.services):
            project = self._projects.get(service) if service else None
            # The alert's own project stands for its service already.
            if service and project and service not in services.values():
                services.setdefault(project, service)
        return dict(list(services.items())[:MOST_PROJECTS])

    def _service_of(self, project: str, otherwise: str | None) -> str:
        """Our name of a project's service; the alert's, else the project's own, where the catalogue
        has none."""
        for service, sentry_project in self._projects.items():
            if sentry_project.casefold() == project.casefold():
                return service
        return otherwise or short(project, 80) or "unknown"


def _slug(issue: SentryApiIssue) -> str:
    return issue.project.slug if issue.project else ""


def metric_query(alert: Alert) -> tuple[str, str]:
    """The search of a metric alert that counts events, and its project; empty for other alerts."""
    project = alert.labels.get("sentry_project", "")
    if alert.source != VENDOR or alert.labels.get("aggregate") != "count()":
        return "", project
    return alert.labels.get("query", "")[:MOST_QUERY], project


def page_address(base_url: str) -> str:
    """Base of the pages: regions of sentry.io answer the API alone (docs.sentry.io, "Data Storage
    Location")."""
    host = urlsplit(base_url).hostname or ""
    is_saas = host == "sentry.io" or host.endswith(".sentry.io")
    return "https://sentry.io" if is_saas else base_url


class _Auth(msgspec.Struct):
    scopes: list[str] = msgspec.field(default_factory=list)


class _Root(msgspec.Struct):
    auth: _Auth | None = None


async def _scopes(session: HttpSession) -> list[str]:
    """The token's scopes as the API's root tells them; none where it does not."""
    try:
        root = await session.get("/api/0/", type=_Root)
    except ConnectorError:
        return []
    if root.auth is None:
        return []
    return [short(scope, 40) for scope in root.auth.scopes]


async def _refusal(session: HttpSession, path: str, params: list[tuple[str, str]]) -> str | None:
    """Why a call is refused, None when it is answered. Raises what is no answer at all."""
    try:
        await session.get(path, params, type=Any)
    except ConnectorError as error:
        # Without a status the server did not answer at all.
        if error.status is None:
            raise
        return error.problem
    return None
