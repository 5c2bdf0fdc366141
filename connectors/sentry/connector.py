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

from analysis.errors import ConnectorError, FaultlineError
from analysis.vocabulary import Alert, EvidenceKind
from connectors.base import Check, Collected, Missing, Request
from connectors.http import HttpSession, ReadOnlyHttp
from connectors.limits import Limits
from connectors.sentry import rows as sentry_rows
from connectors.sentry.answers import VENDOR, SentryIssue
from connectors.sentry.issues import ChosenIssue, Issues, SentryOrganization, issue_of
from connectors.sentry.releases import Releases
from connectors.sentry.settings import SentrySettings
from connectors.shared_settings import SharedSettings
from connectors.vendor_text import short

LIMITS = Limits(deadline_s=25, max_bytes=32 * 1024 * 1024, requests_per_s=10, concurrency=5)
"""Sentry limits each call by itself and says so in headers (docs.sentry.io, "Rate Limits"); this
stays well below."""
MOST_PROJECTS, MOST_QUERY = 5, 1_000
_NO_PROJECT = "no service in scope names its project: set services.NAME.sentry_project"
_WRITES = re.compile(r"[a-z]+:(?:write|admin|releases|ingest)|org:ci")
"""Scopes of a token that can change something (docs.sentry.io, "Permissions & Scopes")."""


def build(own: SentrySettings, settings: SharedSettings) -> SentryConnector | None:
    """The configured connector, or None without an organization or token."""
    if own.organization is None or own.token is None:
        return None
    projects = {
        name: entry.sentry_project
        for name, entry in settings.services.items()
        if entry.sentry_project
    }
    token = own.token.get_secret_value()
    return SentryConnector(
        own.organization, token, own.base_url, projects=projects, environments=own.environments
    )


class SentryConnector:
    """`projects`: Sentry's slug or id of the project, by our name of the service."""

    name = VENDOR
    kinds: tuple[EvidenceKind, ...] = ("logs", "metrics", "changes")

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
        releases: list[Releases] = []
        async with self._http.open() as session:
            issues = Issues(self._place, session, request.scope)
            issue_id = issue_of(request.alert)
            own = await issues.own(issue_id) if issue_id else None
            projects = self._in_scope(request, own)
            if own is not None:
                project = own.project.slug if own.project else ""
                issues.chosen[own.id] = ChosenIssue(
                    own, self._service_of(project, request.alert.service), own=True
                )
            calls = [issues.of_project(project, service) for project, service in projects.items()]
            query, project = metric_query(request.alert)
            if query and project in projects:
                calls.insert(0, issues.counted(project, projects[project], query))
            await asyncio.gather(*calls)
            await issues.read()
            for project, service in projects.items():
                releases.append(Releases(self._place, session, request.scope))
                events = [
                    (c.issue, c.event)
                    for c in issues.chosen.values()
                    if c.service == service and c.event
                ]
                await releases[-1].read(project, service, events)
        missing = [*issues.missing, *(m for r in releases for m in r.missing)]
        if not projects and not missing:
            missing.append(Missing("logs", "projects", _NO_PROJECT))
        tables = {"logs": sentry_rows.logs_table(issues.logs)}
        tables["changes"] = sentry_rows.changes_table([row for r in releases for row in r.rows])
        if issues.metrics:
            tables["metrics"] = pl.concat(issues.metrics)
        return Collected(
            tables, (*issues.items, *(i for r in releases for i in r.items)), tuple(missing)
        )

    async def check(self) -> Check:
        """What can be read with this token, and may it write?"""
        calls = self._calls()
        try:
            async with self._http.open() as session:
                refused = [await _refusal(session, path, params) for path, params in calls.values()]
                scopes = await _scopes(session)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        readable = [what for what, refusal in zip(calls, refused, strict=True) if refusal is None]
        said = [f"{', '.join(readable)} can be read"] if readable else []
        said += [
            f"{what} cannot be read ({r})"
            for what, r in zip(calls, refused, strict=True)
            if r is not None
        ]
        if not self._projects:
            said.append(
                "no service names its sentry_project: only issues that alerts name are read"
            )
        line = f"Sentry at {self._http.base_url}: {'; '.join(said)}; only GET is sent"
        writing = [s for s in scopes if _WRITES.fullmatch(s)]
        if writing:
            line += (
                f"; warning: the token can also write ({', '.join(writing[:6])}): "
                "give it read scopes only"
            )
        return Check(self.name, "issues" in readable, line)

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

    def _in_scope(self, request: Request, own: SentryIssue | None) -> dict[str, str]:
        """Project to our name of its service: the alert's own first."""
        found: dict[str, str] = {}
        alert = request.alert
        named = (own.project.slug if own and own.project else "") or alert.labels.get(
            "sentry_project", ""
        )
        if named:
            found[named] = self._service_of(named, alert.service)
        for service in filter(None, (alert.service, *request.scope.services)):
            project = self._projects.get(service)
            if project and service not in found.values():
                found.setdefault(project, service)
        return dict(list(found.items())[:MOST_PROJECTS])

    def _service_of(self, project: str, otherwise: str | None) -> str:
        """Our name of a project's service; the alert's, else the project's own, where the catalogue
        has none."""
        wanted = project.casefold()
        ours = next((s for s, p in self._projects.items() if p.casefold() == wanted), None)
        return ours or otherwise or short(project, 80) or "unknown"


def metric_query(alert: Alert) -> tuple[str, str]:
    """The search of a metric alert that counts events, and its project; empty for other alerts."""
    counts = alert.source == VENDOR and alert.labels.get("aggregate") == "count()"
    return (
        alert.labels.get("query", "")[:MOST_QUERY] if counts else "",
        alert.labels.get("sentry_project", ""),
    )


def page_address(base_url: str) -> str:
    """Base of the pages: regions of sentry.io answer the API alone (docs.sentry.io, "Data Storage
    Location")."""
    host = urlsplit(base_url).hostname or ""
    return "https://sentry.io" if host == "sentry.io" or host.endswith(".sentry.io") else base_url


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
    return [short(s, 40) for s in (root.auth.scopes if root.auth else [])]


async def _refusal(session: HttpSession, path: str, params: list[tuple[str, str]]) -> str | None:
    """Why a call is refused, None when it is answered. Raises what is no answer at all."""
    try:
        await session.get(path, params, type=Any)
    except ConnectorError as error:
        if error.status is None:
            raise
        return error.problem
    return None
