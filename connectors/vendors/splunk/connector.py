"""Splunk: lines of the services in scope, errors first, and how many were logged, by searches of
Splunk Enterprise or Splunk Cloud Platform.

Both windows are asked the same questions, so that what differs is the system.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import EvidenceKind, Window
from faultline.connectors.shared.auth.server_access import ServerAccess, access_of
from faultline.connectors.shared.contract.base import Check, Collected, Item, Missing, Request
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder
from faultline.connectors.shared.rows.log_windows import (
    CountGrid,
    LinePage,
    lines_of_window,
    log_windows,
)
from faultline.connectors.shared.rows.service_names import ServiceNames, in_scope
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.transport.transport import Timeouts
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.splunk import SplunkSettings, searches
from faultline.connectors.vendors.splunk import rows as tables
from faultline.connectors.vendors.splunk.searches import LineSearches
from faultline.connectors.vendors.splunk.session import (
    MOST_S,
    SearchAnswer,
    SplunkHttp,
    SplunkSession,
)

LIMITS = Limits(deadline_s=45, max_bytes=64 * 1024 * 1024, requests_per_s=4, concurrency=3)
"""A role may run three searches at once unless it is given more (authorize.conf, srchJobsQuota)."""
MOST_SERVICES = 5
ERRORS, SAMPLE = 1000, 300
"""Lines of one search."""


def build(splunk_settings: SplunkSettings, settings: SharedSettings) -> SplunkConnector | None:
    """The configured connector, or None without a URL."""
    if splunk_settings.url is None:
        return None
    return SplunkConnector(
        splunk_settings.url,
        access_of(splunk_settings, "splunk"),
        LineSearches(
            splunk_settings.indexes, splunk_settings.service_fields, splunk_settings.level_fields
        ),
        names=ServiceNames.of_catalogue(settings.services),
        web=splunk_settings.web_url,
        limits=splunk_settings.limits(LIMITS),
    )


class SplunkConnector:
    """Lines of each service in scope and their counts."""

    name = "splunk"
    kinds: tuple[EvidenceKind, ...] = ("logs", "metrics")
    follows = ("service",)

    def __init__(
        self,
        url: str,
        access: ServerAccess,
        texts: LineSearches,
        *,
        names: ServiceNames,
        web: str | None = None,
        limits: Limits = LIMITS,
    ) -> None:
        # A search answers nothing before it is over.
        timeouts = Timeouts(read_s=MOST_S + 2)
        self._http = SplunkHttp(self.name, url, access=access, limits=limits, timeouts=timeouts)
        self._texts = texts
        self._names = names
        self._web = web
        self.limits = limits

    async def collect(self, request: Request) -> Collected:
        """Counts and lines of all windows. A search that fails becomes a gap, the others stand."""
        collection = CollectionBuilder()
        services, more = in_scope(request, MOST_SERVICES)
        collection.unasked("logs", bool(services), more)
        if not services:
            return collection.collected()
        async with self._http.open() as session:
            asking = _Asking(session, collection, self._texts, self._names, self._web, request)
            await asyncio.gather(*(asking.of_service(service) for service in services))
        return collection.collected()

    async def check(self) -> Check:
        """Reachable, and can the indexes be searched?"""
        try:
            async with self._http.open() as session:
                info = await session.get(
                    "/services/server/info", [("output_mode", "json")], type=_ServerInfo
                )
                indexes = ", ".join(self._texts.indexes)
                now = info.entry[0].content if info.entry else _ServerContent()
                # One line is enough, and `head` ends the search early.
                newest = " OR ".join(f"index={name}" for name in self._texts.indexes)
                answer = await session.now(f"search {newest} | head 1")
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        can = "can be searched" if answer.results else "hold no line of the last hour"
        line = f"Splunk {short(now.version, 40)} at {self._http.base_url}: {indexes} {can}"
        line += "; only reading searches are sent; what else the token may do is not asked"
        return Check(
            self.name,
            bool(answer.results) or answer.trouble is None,
            line + (f"; Splunk says: {answer.trouble}" if answer.trouble else ""),
        )


class _ServerContent(msgspec.Struct):
    version: str = ""


class _ServerEntry(msgspec.Struct):
    content: _ServerContent = msgspec.field(default_factory=_ServerContent)


class _ServerInfo(msgspec.Struct):
    entry: list[_ServerEntry] = []


@dataclass(frozen=True)
class _Asking:
    """The searches of one collection."""

    session: SplunkSession
    collection: CollectionBuilder
    texts: LineSearches
    names: ServiceNames
    web: str | None
    request: Request

    async def of_service(self, service: str) -> None:
        """Its counts, its errors and a sample of all its lines, of each window."""
        every = self.texts.of(self.names.theirs(service))
        windows = log_windows(self.request.scope)
        by_level = [await self.counts(service, every, window) for window in windows]
        level_flags = [flag for flag in by_level if flag is not None]
        if by_level and not level_flags:
            reason = "no line names it: see splunk.service_fields, and aliases in the catalogue"
            self.collection.missing.append(Missing("logs", service, reason, unknown=True))
            return
        failing = self.texts.errors(every, by_level=any(level_flags))
        line_searches: list[tuple[str, int, str | None]] = [
            (failing, ERRORS, None),
            (every, SAMPLE, None),
        ]
        if (words := self.request.scope.log_words) is not None:
            line_searches.append((searches.saying(every, words.words), SAMPLE, words.by))
        for window in windows:
            for search, limit, by in line_searches:
                await self.lines(service, search, limit, by, window)

    async def counts(self, service: str, every: str, window: Window) -> bool | None:
        """Lines per minute as metrics. Says whether lines have a level; None where there are no
        lines."""
        grid = CountGrid.of(window)
        search = self.texts.counts(every, grid)
        answer = await self.collection.fetch("metrics", search, self.session.search(search, window))
        if answer is None:
            # Not known, so its lines are asked for.
            return False
        rows, has_level = tables.count_rows(answer.results, service, grid)
        if self.is_cut("metrics", search, answer):
            # Counts of a part would look like a drop.
            return has_level
        if rows:
            self.collection.add("metrics", rows)
            item = Item("metrics", search, window, self.link(search, window), rows=len(rows))
            self.collection.items.append(item.holding(rows))
        return has_level if rows else None

    async def lines(
        self, service: str, search: str, limit: int, by: str | None, window: Window
    ) -> None:
        """The first lines of a window and, where there are more, some of each part of the rest."""

        async def page(part: Window, count: int) -> LinePage | None:
            text = searches.first(search, count)
            answer = await self.collection.fetch("logs", search, self.session.search(text, part))
            if answer is None:
                return None
            self.is_cut("logs", search, answer)
            levels = self.texts.level_fields
            return await asyncio.to_thread(tables.line_page, answer.results, service, levels)

        lines = await lines_of_window(page, window, limit)
        if lines is None or not lines.rows:
            return
        link = self.link(search, window)
        self.collection.keep("logs", search, window, lines.rows, link, cut=lines.cut, by=by)

    def is_cut(self, kind: EvidenceKind, search: str, answer: SearchAnswer) -> bool:
        """Whether a part may be missing, which is then a gap."""
        if answer.partial:
            self.collection.missing.append(Missing(kind, search, answer.partial))
        return answer.partial is not None

    def link(self, search: str, window: Window) -> str | None:
        """None without Splunk Web."""
        return searches.link(self.web, search, window) if self.web else None
