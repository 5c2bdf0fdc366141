"""The issues of one collection from Sentry: which stand out in the incident, their events, counts
and stack traces."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlencode

import polars as pl

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, EvidenceKind, Scope, Window
from faultline.connectors.shared.contract.base import Item, Missing
from faultline.connectors.shared.http.http import HttpSession
from faultline.connectors.vendors.sentry import answers
from faultline.connectors.vendors.sentry import rows as sentry_rows
from faultline.connectors.vendors.sentry.answers import ListedEvent, SentryApiEvent, SentryApiIssue

T = TypeVar("T")

MOST_ISSUES, PAGE = 6, 100
SURGE = 3.0
"""An issue surges at three times its baseline's rate, as a log template does
(analysis/logs/templates.py)."""
MOST_POINTS = 300
"""Buckets of a series of counts, of a minute each where they suffice."""
_ISSUE_ID = re.compile(r"\d{1,20}")
_ISSUE_LINK = re.compile(
    r"https?://[^\s/]+/(?:organizations/[^\s/]+/)?issues/(\d{1,20})(?:[/?#].*)?"
)


@dataclass(frozen=True)
class SentryOrganization:
    """Where the organization is found: paths of the API, base of its pages, the environments that
    count."""

    organization: str
    projects: str
    pages: str
    environments: tuple[tuple[str, str], ...] = ()

    def issue(self, issue_id: str, window: Window) -> str:
        """The page of an issue with the events of a window."""
        return f"{self.pages}/issues/{issue_id}/?{urlencode(between(window))}"


@dataclass
class ChosenIssue:
    """An issue with its events in the incident and before."""

    issue: SentryApiIssue
    service: str
    now: int = 0
    before: int = 0
    event: SentryApiEvent | None = None
    is_of_alert: bool = False

    def stands_out(self, share: float) -> bool:
        """New, or at three times the rate; `share` is the incident's length by the baseline's."""
        return self.now > 0 and self.now >= SURGE * self.before * share


@dataclass
class Issues:
    """What was asked about issues, and what came of it. `services`: our names by project."""

    place: SentryOrganization
    session: HttpSession
    scope: Scope
    items: list[Item] = field(default_factory=list)
    missing: list[Missing] = field(default_factory=list)
    logs: list[tuple[Any, ...]] = field(default_factory=list)
    metrics: list[pl.DataFrame] = field(default_factory=list)
    chosen: dict[str, ChosenIssue] = field(default_factory=dict)

    @property
    def before(self) -> Window:
        """The baseline, from its first window to its last."""
        windows = self.scope.baseline_logs or self.scope.baseline or (self.scope.incident,)
        return Window(start=min(w.start for w in windows), end=max(w.end for w in windows))

    @property
    def span(self) -> Window:
        """Baseline and incident."""
        return Window(
            start=min(self.before.start, self.scope.incident.start), end=self.scope.incident.end
        )

    async def alert_issue(self, issue_id: str) -> SentryApiIssue | None:
        """The issue that the alert is about. Raises ConnectorError where the token is refused
        altogether."""
        path = f"{self.place.organization}/issues/{issue_id}/"
        try:
            return await self.session.get(path, type=SentryApiIssue)
        except FaultlineError as error:
            if isinstance(error, ConnectorError) and error.status == 401:
                raise
            self.missing.append(Missing("logs", f"GET {path}", str(error)))
            return None

    async def of_project(self, project: str, service: str) -> None:
        """The project's issues in the incident beside those of the baseline, and its errors over
        time."""
        now, before, _ = await asyncio.gather(
            self._listed(project, self.scope.incident),
            self._listed(project, self.before),
            self.counted(project, service),
        )
        counts = {issue.id: issue.events for issue in before}
        for issue in now:
            # Issues of other categories, such as performance, hold no errors.
            if issue.issueCategory in (None, "error") and _ISSUE_ID.fullmatch(issue.id):
                chosen_issue = self.chosen.setdefault(issue.id, ChosenIssue(issue, service))
                chosen_issue.now, chosen_issue.before = issue.events, counts.get(issue.id, 0)

    async def read(self) -> None:
        """Events and stack traces: of the alert's issue, then of those that stand out, then of the
        most frequent."""
        share = self.scope.incident.seconds / max(1.0, self.before.seconds)
        order = sorted(
            self.chosen.values(),
            # The id last: equal issues come in the same order in every run.
            key=lambda c: (not c.is_of_alert, not c.stands_out(share), -c.now, c.issue.id),
        )
        left = [c for c in order[MOST_ISSUES:] if c.stands_out(share)]
        if left:
            phrase = (
                f"{len(left)} more issues that are new or surging were left "
                f"out, {left[0].issue.name} is the largest"
            )
            self.missing.append(Missing("logs", "issues", phrase))
        self.chosen = {c.issue.id: c for c in order[:MOST_ISSUES]}
        await asyncio.gather(*(self._issue(c) for c in self.chosen.values()))

    async def _listed(self, project: str, window: Window) -> list[SentryApiIssue]:
        path = f"{self.place.organization}/issues/"
        # Without a query Sentry lists unresolved issues alone.
        params = [("project", project), *self.place.environments, *between(window), ("query", "")]
        params += [("sort", "freq"), ("limit", str(PAGE))]
        issues = await self._fetch("logs", path, params, list[SentryApiIssue])
        if issues is None:
            return []
        cut = f"the {PAGE} most frequent issues; there may be more" if len(issues) >= PAGE else None
        # Without the limit, which a page does not have.
        link = f"{self.place.pages}/issues/?{urlencode(params[:-1])}"
        self.items.append(
            Item("logs", call_text(path, params), window, link, rows=len(issues), cut=cut)
        )
        return issues

    async def counted(self, project: str, service: str, query: str = "") -> None:
        """Errors by minute: the project's, or those that an alert's own query counts."""
        path = f"{self.place.organization}/events-timeseries/"
        interval = 60 * max(1, math.ceil(self.span.seconds / 60 / MOST_POINTS))
        params = [
            ("dataset", "errors"),
            ("yAxis", "count()"),
            ("project", project),
            *self.place.environments,
        ]
        params += [
            *between(self.span),
            ("interval", str(interval)),
            *([("query", query)] if query else []),
        ]
        answer = await self._fetch("metrics", path, params, answers.SeriesAnswer)
        if answer is not None:
            table = sentry_rows.metrics_table(answer, service, {"query": query} if query else {})
            shown = [("project", project), *between(self.span), ("query", query)]
            link = f"{self.place.pages}/issues/?{urlencode(shown)}"
            self.metrics.append(table)
            item = Item("metrics", call_text(path, params), self.span, link, rows=table.height)
            self.items.append(item.holding(table))

    async def _issue(self, chosen_issue: ChosenIssue) -> None:
        path = f"{self.place.organization}/issues/{chosen_issue.issue.id}/events/"
        chosen_issue.event, now, before = await asyncio.gather(
            self._fetch("logs", f"{path}latest/", list(self.place.environments), SentryApiEvent),
            self._events(path, self.scope.incident),
            self._events(path, self.before),
        )
        listed_events, cut = alike_sampled((now, chosen_issue.now), (before, chosen_issue.before))
        link = self.place.issue(chosen_issue.issue.id, self.scope.incident)
        rows = sentry_rows.log_rows(
            chosen_issue.issue, chosen_issue.event, listed_events, chosen_issue.service, link
        )
        self.logs += rows
        counted = {
            "events in the incident": str(chosen_issue.now),
            "events in the baseline": str(chosen_issue.before),
        }
        details = answers.details_of(chosen_issue.issue, chosen_issue.event) | (
            counted if chosen_issue.now or chosen_issue.before else {}
        )
        query = f"GET {path}"
        item = Item("logs", query, self.span, link, rows=len(rows), cut=cut, details=details)
        self.items.append(item.holding(rows))

    async def _events(self, path: str, window: Window) -> list[ListedEvent]:
        """All events of the window up to 100, else 100 of them at random."""
        params = [
            *self.place.environments,
            *between(window),
            ("sample", "true"),
            ("per_page", str(PAGE)),
        ]
        return await self._fetch("logs", path, params, list[ListedEvent]) or []

    async def _fetch(
        self, kind: EvidenceKind, path: str, params: list[tuple[str, str]], type: type[T]
    ) -> T | None:
        try:
            return await self.session.get(path, params, type=type)
        except FaultlineError as error:
            self.missing.append(Missing(kind, call_text(path, params), str(error)))
            return None


def alike_sampled(
    *windows: tuple[Sequence[ListedEvent], int],
) -> tuple[list[ListedEvent], str | None]:
    """Of each window's events the same share, so that their counts compare; `int` is how many there
    are in truth."""
    shares = [len(listed) / total for listed, total in windows if listed and total > len(listed)]
    share = min(shares, default=1.0)
    if share >= 1.0:
        return [e for listed, _ in windows for e in listed], None
    sample = [
        e for listed, total in windows for e in listed[: math.ceil(max(total, len(listed)) * share)]
    ]
    every = sum(max(total, len(listed)) for listed, total in windows)
    return sample, f"{len(sample)} of {every:,} events, chosen at random"


def issue_of(alert: Alert) -> str | None:
    """The id of the issue that an alert is about: its label, else a link to it."""
    issue_id = alert.labels.get("issue_id", "")
    if alert.source == answers.VENDOR and _ISSUE_ID.fullmatch(issue_id):
        return issue_id
    if _ISSUE_ID.fullmatch(linked := alert.labels.get("sentry_issue_id", "")):
        return linked
    return next(
        (
            m[1]
            for link in alert.links
            # Other trackers have pages of the same form.
            if "sentry" in link.url and (m := _ISSUE_LINK.fullmatch(link.url))
        ),
        None,
    )


def between(window: Window) -> list[tuple[str, str]]:
    """`start` and `end` as Sentry takes them."""
    return [("start", _utc(window.start)), ("end", _utc(window.end))]


def call_text(path: str, params: Sequence[tuple[str, str]] | Mapping[str, str] = ()) -> str:
    """A call as a human may repeat it."""
    return f"GET {path}?{urlencode(params)}" if params else f"GET {path}"


def _utc(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
