"""LaunchDarkly's audit log: who switched or changed which flag, and where.

REST API v2 as its published specification has it (launchdarkly/api-client-go, api/openapi.yaml):
GET /api/v2/auditlog alone, which gives 20 entries a page, the newest first.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    PagedList,
    Params,
    VendorChange,
    moment_of_ms,
    person,
)
from faultline.connectors.shared.http.linked_pages import LinkedPage, LinkedSession, query_in
from faultline.connectors.shared.rows.collection_builder import epoch_ms
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.feature_flags import LaunchDarklySettings
from faultline.connectors.vendors.feature_flags.flag_changes import flip, switched

AUDIT_LOG = "/api/v2/auditlog"
PER_PAGE, MOST_PAGES = 20, 15
MOST_ENVIRONMENTS = 10
SWITCHES = {"turned on the flag": True, "turned off the flag": False}
EVERYWHERE = frozenset({"deleteFlag", "updateGlobalArchived", "updateFlagVariations"})
"""Actions on a flag as a whole that change what is served; the others describe it."""
# `proj/shop:env/production:flag/new-cart`; tags may follow a name after a semicolon.
_FLAG = re.compile(r"proj/([^:;/]+)[^:]*:env/([^:;/]+)[^:]*:flag/([^:;/]+)")


class Access(msgspec.Struct):
    """One action on one resource."""

    action: str = ""
    resource: str = ""


class Named(msgspec.Struct):
    """A member, a token or an app, with the names that each of them has."""

    id: str = msgspec.field(name="_id", default="")
    name: str = ""
    firstName: str = ""
    lastName: str = ""


class AuditEntry(msgspec.Struct):
    """One entry of the audit log. `date` is in ms since 1970."""

    date: int
    accesses: list[Access] = msgspec.field(default_factory=list)
    titleVerb: str = ""
    shortDescription: str = ""
    member: Named | None = None
    token: Named | None = None
    app: Named | None = None

    @property
    def author(self) -> str | None:
        """A member's name, else that of the token or the app that did it."""
        if self.member is not None:
            full = f"{self.member.firstName} {self.member.lastName}"
            return person(full, self.member.id)
        for actor in (self.token, self.app):
            if actor is not None:
                return person(actor.name, actor.id)
        return None


class AuditLog(msgspec.Struct):
    """GET /api/v2/auditlog."""

    items: list[AuditEntry]
    links: dict[str, Any] = msgspec.field(name="_links", default_factory=dict)


def _following(page: LinkedPage[AuditLog], _: Params) -> Params | None:
    link = page.value.links.get("next")
    return query_in(link.get("href")) if isinstance(link, dict) else None


LOG = PagedList(AuditLog, lambda log: log.items, _following, MOST_PAGES)


class LaunchDarkly(ChangeFeeds[LaunchDarklySettings]):
    """Flag changes of an account, or of some projects."""

    name = "launchdarkly"
    title = "LaunchDarkly"
    needs = "a token with the role Reader"
    # Pin the shapes: otherwise the default version of the token applies.
    login: ClassVar = {"Authorization": "{token}", "LD-API-Version": "20240415"}
    # LaunchDarkly limits each route by itself and says so in headers and by 429 with `Retry-After`
    # (launchdarkly.com/docs/api, "Rate limiting"); the usual limits stay well below.

    def feeds(self) -> Sequence[ChangeFeed]:
        """The audit log of each project."""
        if not self._section.projects:
            return [ChangeFeed("flag changes", partial(self._read, "*"))]
        return [
            ChangeFeed(f"flag changes of {project}", partial(self._read, project))
            for project in self._section.projects
        ]

    async def _read(self, project: str, session: LinkedSession, window: Window) -> FeedAnswer:
        params = [
            ("spec", f"proj/{project}:env/*:flag/*"),
            ("after", str(epoch_ms(window.start))),
            ("before", str(epoch_ms(window.end))),
            ("limit", str(PER_PAGE)),
        ]
        entries = await LOG.read(session, AUDIT_LOG, params, window)
        changes = [change for entry in entries.values for change in self._changes(entry)]
        return FeedAnswer(changes, entries.query, cut=entries.cut)

    def _changes(self, entry: AuditEntry) -> Iterable[VendorChange]:
        """One for each environment in which the entry changed a flag."""
        at = moment_of_ms(entry.date)
        if at is None:
            return
        # An entry lists each action by itself: report a flag once for each environment.
        done: dict[tuple[str, str, str], None] = {}
        for access in entry.accesses:
            match = _FLAG.match(access.resource)
            # An environment of `*` stands for the flag as a whole.
            if match and (match[2] != "*" or access.action in EVERYWHERE):
                done[match[1], match[2], match[3]] = None
        for project, environment, flag in list(done)[:MOST_ENVIRONMENTS]:
            if environment == "*" or self.counts(environment):
                yield self._change(entry, at, project, environment, flag)

    def _change(
        self, entry: AuditEntry, at: datetime, project: str, environment: str, flag: str
    ) -> VendorChange:
        on = SWITCHES.get(entry.titleVerb.strip())
        action = switched(on) if on is not None else short(entry.titleVerb, 80) or "changed"
        if on is None and entry.shortDescription:
            action += f" ({short(entry.shortDescription, 100)})"
        if environment == "*":
            title = flip(flag, "all environments", action)
            return VendorChange(at, "flag", flag, title, entry.author)
        page = f"/{quote(project)}/{quote(environment)}/features/{quote(flag)}"
        link = self._http.base_url + page
        return VendorChange(at, "flag", flag, flip(flag, environment, action), entry.author, link)
