"""Flagsmith's audit log: who switched or changed which flag, where, and from what to what.

Admin API as its published specification has it: GET /api/v1/projects/{id}/audit/, and the same of
one record, which says what it changed. What a record's text looks like is from Flagsmith's source
(Flagsmith/flagsmith, api/audit/constants.py); the key's header from docs.flagsmith.com, "REST API".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar
from urllib.parse import quote

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    PagedList,
    VendorChange,
    moment,
    next_number,
    person,
)
from faultline.connectors.shared.http.linked_pages import LinkedSession
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.feature_flags import FlagsmithSettings
from faultline.connectors.vendors.feature_flags.flag_changes import flip, state_diff, switched

PER_PAGE, MOST_PAGES = 100, 5
MOST_DETAILS = 20
"""Records of a project of which is asked what they changed, the latest."""
# A new flag or a change request switches nothing yet.
_OF_A_FLAG = re.compile(r"^(?!New |Change Request)(?=.*\b(?:flag|feature|remote config)\b)", re.I)
_USER_OVERRIDE = re.compile(r"\bidentity\b", re.I)
_FLAG = re.compile(
    r"feature '(?P<quoted>.+?)'(?: and |$)"
    r"|(?:feature|flag|created|updated|deleted): (?P<plain>\S+)",
    re.I,
)


class FlagsmithUser(msgspec.Struct):
    """Who did it."""

    id: int | None = None
    first_name: str = ""
    last_name: str = ""


class FlagsmithEnvironment(msgspec.Struct):
    """Where it was done; absent for a flag as a whole."""

    id: int | None = None
    name: str = ""


class FlagsmithRecord(msgspec.Struct):
    """One record of the audit log."""

    id: int
    created_date: str
    log: str
    author: FlagsmithUser | None = None
    environment: FlagsmithEnvironment | None = None

    @property
    def flag(self) -> str | None:
        """The flag that it is about; None for anything else, and for what is for one user."""
        if not _OF_A_FLAG.match(self.log) or _USER_OVERRIDE.search(self.log):
            return None
        match = _FLAG.search(self.log)
        return (match["quoted"] or match["plain"]) if match else None

    @property
    def by(self) -> str | None:
        """The author's name."""
        if self.author is None:
            return None
        full = f"{self.author.first_name} {self.author.last_name}"
        return person(full, f"user {self.author.id}" if self.author.id else None)


class FlagsmithAudit(msgspec.Struct):
    """GET /api/v1/projects/{id}/audit/."""

    results: list[FlagsmithRecord]
    next: str | None = None


class FieldChange(msgspec.Struct):
    """One field of what was changed."""

    field: str = ""
    old: Any = None
    new: Any = None


class FlagsmithDetails(msgspec.Struct):
    """GET /api/v1/projects/{id}/audit/{id}/."""

    change_details: list[FieldChange] = msgspec.field(default_factory=list)


# `next` is a whole address. Only that there is one is needed.
LOG = PagedList(
    FlagsmithAudit,
    lambda log: log.results,
    lambda page, params: next_number(params) if page.value.next else None,
    MOST_PAGES,
    lambda record: moment(record.created_date),
)


class Flagsmith(ChangeFeeds[FlagsmithSettings]):
    """Flag changes of some projects."""

    name = "flagsmith"
    title = "Flagsmith"
    needs = "the project permission to view its audit log"
    required = ("token", "projects")
    login: ClassVar = {"Authorization": "Api-Key {token}"}
    # Flagsmith allows 500 requests a minute to its Admin API (docs.flagsmith.com, "System
    # Limits"), more than the usual limits.

    def feeds(self) -> Sequence[ChangeFeed]:
        """The audit log of each project."""
        return [
            ChangeFeed(f"flag changes of project {project}", partial(self._read, project))
            for project in self._section.projects
        ]

    async def _read(self, project: str, session: LinkedSession, window: Window) -> FeedAnswer:
        path = f"/api/v1/projects/{project}/audit/"
        page = f"{self._section.app_url}/project/{project}/audit-log"
        params = [("page_size", str(PER_PAGE)), ("page", "1")]
        records = await LOG.read(session, path, params, window)
        flags = []
        for record in records.values:
            at = moment(record.created_date)
            if at is not None and at >= window.start and self._tells(record):
                flags.append(record)
        # A record in the list does not say from what to what: that takes a call each.
        details = await asyncio.gather(
            *(_details(session, f"{path}{flag.id}/") for flag in flags[:MOST_DETAILS])
        )
        changes = []
        for number, record in enumerate(flags):
            field_changes = details[number] if number < len(details) else ()
            changes.append(self._change(record, field_changes, page))
        return FeedAnswer(changes, records.query, page, records.cut)

    def _tells(self, record: FlagsmithRecord) -> bool:
        environment = record.environment
        return record.flag is not None and (environment is None or self.counts(environment.name))

    def _change(
        self, record: FlagsmithRecord, field_changes: Sequence[FieldChange], page: str
    ) -> VendorChange | None:
        at, flag = moment(record.created_date), record.flag
        if at is None or flag is None:
            return None
        # A change of `enabled` is a flip, whose wording the analysis of changes reads.
        switch = [
            field_change
            for field_change in field_changes
            if field_change.field == "enabled" and isinstance(field_change.new, bool)
        ]
        action = switched(bool(switch[0].new)) if switch else short(record.log, 140)
        old = {field_change.field: field_change.old for field_change in field_changes}
        diff = state_diff(
            old, {field_change.field: field_change.new for field_change in field_changes}
        )
        link = f"{page}?search={quote(flag, safe='')}"
        where = record.environment.name if record.environment else None
        return VendorChange(at, "flag", flag, flip(flag, where, action), record.by, link, diff=diff)


async def _details(session: LinkedSession, path: str) -> Sequence[FieldChange]:
    """What a record changed. Without it the record's own text stands."""
    try:
        return (await session.get(path, type=FlagsmithDetails)).change_details
    except FaultlineError:
        return ()
