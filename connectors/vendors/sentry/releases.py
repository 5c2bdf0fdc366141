"""The releases of one collection from Sentry: when they were deployed, their commits, and those
that are suspected."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar
from urllib.parse import quote

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Scope, Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.sentry import rows as sentry_rows
from faultline.connectors.vendors.sentry.answers import (
    CommitFile,
    CommittersAnswer,
    Deploy,
    SentryApiEvent,
    SentryApiIssue,
    SentryCommit,
    SentryRelease,
)
from faultline.connectors.vendors.sentry.issues import SentryOrganization, call_text

T = TypeVar("T")

LOOKBACK = timedelta(hours=24)
"""Releases are asked from so long before the incident: a deploy may take a day to do harm."""
LISTED, MOST_RELEASES, MOST_SUSPECTS = 25, 4, 5


@dataclass
class Releases:
    """What was asked about the releases of one project, and what came of it."""

    place: SentryOrganization
    session: HttpSession
    scope: Scope
    rows: list[tuple[Any, ...]] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    _files: dict[str, list[CommitFile]] = field(default_factory=dict)
    _deployed: dict[str, datetime] = field(default_factory=dict)

    @property
    def _environments(self) -> set[str]:
        return {name for _, name in self.place.environments}

    @property
    def window(self) -> Window:
        """From a day before the incident to its end."""
        return Window(start=self.scope.incident.start - LOOKBACK, end=self.scope.incident.end)

    def _holds(self, at: datetime) -> bool:
        return self.window.start <= at <= self.window.end

    async def read(
        self, project: str, service: str, events: Sequence[tuple[SentryApiIssue, SentryApiEvent]]
    ) -> None:
        """The project's releases in the window, then the suspects of its issues."""
        path = f"{self.place.projects}/{quote(project, safe='')}/releases/"
        params = [*self.place.environments, ("per_page", str(LISTED))]
        try:
            listed = await self.session.get(path, params, type=list[SentryRelease])
        except FaultlineError as error:
            self.missing.append(Missing("changes", call_text(path, params), str(error)))
            return
        recent = [
            r
            for r in listed
            if (at := sentry_rows.released_at(r)) and self.window.start <= at <= self.window.end
        ]
        cut = (
            f"{len(recent) - MOST_RELEASES} older releases left out"
            if len(recent) > MOST_RELEASES
            else None
        )
        recent = recent[:MOST_RELEASES]
        release_rows: list[tuple[Any, ...]] = []
        for rows in await asyncio.gather(*(self._release(r, service) for r in recent)):
            release_rows += rows
        self.rows += release_rows
        link = f"{self.place.pages}/releases/?project={quote(project, safe='')}"
        item = Item(
            "changes", call_text(path, params), self.window, link, rows=len(recent), cut=cut
        )
        self.items.append(item.holding(release_rows))
        await asyncio.gather(
            *(self._suspects(project, service, i, e) for i, e in events[:MOST_SUSPECTS])
        )

    async def _release(self, release: SentryRelease, service: str) -> list[tuple[Any, ...]]:
        """The changes of one release in the window."""
        path = f"{self.place.organization}/releases/{quote(release.version, safe='')}"
        deploys, commits, files = await asyncio.gather(
            self._list(f"{path}/deploys/", list[Deploy]),
            self._list(f"{path}/commits/", list[SentryCommit]),
            self._list(f"{path}/commitfiles/", list[CommitFile]),
        )
        # Kept for the suspects, whose commits name no files.
        self._files[release.version] = files
        ours = [d for d in deploys if not self._environments or d.environment in self._environments]
        # It was deployed, but to other environments alone.
        if deploys and not ours:
            return []
        rows = sentry_rows.release_rows(
            release, ours, commits, files, service, self._link(release.version)
        )
        within = [r for r in rows if self._holds(r[0])]
        if within:
            self._deployed[release.version] = max(r[0] for r in within)
        return within

    async def _list(self, path: str, type: type[list[T]]) -> list[T]:
        try:
            return await self.session.get(path, type=type)
        except FaultlineError as error:
            self.missing.append(Missing("changes", f"GET {path}", str(error)))
            return []

    async def _suspects(
        self, project: str, service: str, issue: SentryApiIssue, event: SentryApiEvent
    ) -> None:
        """Sentry's own pages ask this; it answers 404 where it suspects nobody."""
        path = (
            f"{self.place.projects}/{quote(project, safe='')}/events/"
            f"{quote(event.eventID, safe='')}/committers/"
        )
        try:
            committers = (await self.session.get(path, type=CommittersAnswer)).committers
        except FaultlineError as error:
            if not (isinstance(error, ConnectorError) and error.status == 404):
                self.missing.append(Missing("changes", f"GET {path}", str(error)))
            return
        commits = [
            (c, committer.author) for committer in committers for c in committer.commits if c.id
        ][:MOST_SUSPECTS]
        at = self._deployed.get(event.version or "")
        commit_rows = []
        # A suspect counts from the deploy of its release. Without one it has no time.
        if at is not None:
            files, link = self._files.get(event.version or "", []), self._link(event.version or "")
            commit_rows = [
                sentry_rows.commit_row(c, author, files, at, service, link) for c, author in commits
            ]
        self.rows += commit_rows
        named = [f"{short(c.id, 12)} {sentry_rows.first_line(c.message)}" for c, _ in commits]
        text = {f"suspect {n}": text for n, text in enumerate(named, start=1)}
        if text:
            text["issue"] = issue.name
            link = self.place.issue(issue.id, self.scope.incident)
            item = Item("changes", f"GET {path}", link=link, rows=len(commits), details=text)
            self.items.append(item.holding(commit_rows))

    def _link(self, version: str) -> str:
        return f"{self.place.pages}/releases/{quote(version, safe='')}/"
