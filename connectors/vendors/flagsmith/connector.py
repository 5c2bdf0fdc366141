"""Flagsmith's audit log: who switched or changed which flag, where, and from what to what.

Admin API as its published specification has it: GET /api/v1/projects/{id}/audit/, and the same of
one record, which says what it changed. What a record's text looks like is from Flagsmith's source
(Flagsmith/flagsmith, api/audit/constants.py); the key's header from docs.flagsmith.com, "REST API".
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.changes.change_feeds import (
    ChangeFeed,
    ChangeFeeds,
    FeedAnswer,
    Params,
    RecordPage,
    VendorChange,
    moment,
    person,
    query_of,
    read_records,
)
from faultline.connectors.shared.changes.flag_changes import flip, state_diff, switched
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession
from faultline.connectors.shared.rows.service_names import ServiceNames
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.settings_types import Names
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short
from faultline.connectors.vendors.flagsmith.settings import FlagsmithSettings

VENDOR = "flagsmith"
LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2)
"""Flagsmith allows 500 requests a minute to its Admin API (docs.flagsmith.com, "System
Limits")."""
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


def build(flagsmith_settings: FlagsmithSettings, settings: SharedSettings) -> Flagsmith | None:
    """The configured connector, or None without a key or a project."""
    if flagsmith_settings.token is None or not flagsmith_settings.projects:
        return None
    headers = {"Authorization": f"Api-Key {flagsmith_settings.token.get_secret_value()}"}
    http = LinkedHttp(
        VENDOR, flagsmith_settings.url, headers=headers, limits=flagsmith_settings.limits(LIMITS)
    )
    names = ServiceNames.of_catalogue(settings.services)
    return Flagsmith(
        http,
        names,
        flagsmith_settings.environments,
        flagsmith_settings.projects,
        flagsmith_settings.app_url,
    )


class Flagsmith(ChangeFeeds):
    """Flag changes of some projects."""

    name = VENDOR
    title = "Flagsmith"
    needs = "the project permission to view its audit log"

    def __init__(
        self,
        http: LinkedHttp,
        names: ServiceNames,
        environments: Names,
        projects: Names,
        app_url: str,
    ) -> None:
        super().__init__(http, names, environments)
        self._projects = projects
        self._app_url = app_url

    def feeds(self) -> Sequence[ChangeFeed]:
        """The audit log of each project."""
        return [self._feed(project) for project in self._projects]

    def _feed(self, project: str) -> ChangeFeed:
        path = f"/api/v1/projects/{project}/audit/"
        page = f"{self._app_url}/project/{project}/audit-log"

        async def read(session: LinkedSession, window: Window) -> FeedAnswer:
            params = [("page_size", str(PER_PAGE)), ("page", "1")]

            async def read_page(page_params: Params) -> RecordPage[FlagsmithRecord]:
                answer = await session.get(path, page_params, type=FlagsmithAudit)
                # `next` is a whole address. Only the number of its page is needed.
                following = [
                    ("page_size", str(PER_PAGE)),
                    ("page", str(int(page_params[1][1]) + 1)),
                ]
                return RecordPage(answer.results, following if answer.next else None)

            records = await read_records(
                read_page,
                params,
                most_pages=MOST_PAGES,
                is_older=lambda record: not _is_since(record, window),
            )
            flags = [
                record
                for record in records.values
                if _is_since(record, window) and self._tells(record)
            ]
            # A record in the list does not say from what to what: that takes a call each.
            details = await asyncio.gather(
                *(_details(session, f"{path}{flag.id}/") for flag in flags[:MOST_DETAILS])
            )
            changes = []
            for number, record in enumerate(flags):
                field_changes = details[number] if number < len(details) else ()
                changes.append(self._change(record, field_changes, page))
            return FeedAnswer(changes, query_of(path, params), page, records.cut)

        return ChangeFeed(f"flag changes of project {project}", read)

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


def _is_since(record: FlagsmithRecord, window: Window) -> bool:
    at = moment(record.created_date)
    return at is not None and at >= window.start


async def _details(session: LinkedSession, path: str) -> Sequence[FieldChange]:
    """What a record changed. Without it the record's own text stands."""
    try:
        return (await session.get(path, type=FlagsmithDetails)).change_details
    except FaultlineError:
        return ()
