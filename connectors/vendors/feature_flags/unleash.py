"""Unleash's event log: who switched or changed which flag, where, and from what to what.

Admin API as its published specification has it (Unleash/unleash-server-api-go, openapi.json): GET
/api/admin/search/events alone, whose window is in days.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    moment,
    person,
    with_param,
)
from faultline.connectors.shared.http.linked_pages import LinkedPage, LinkedSession
from faultline.connectors.vendors.feature_flags import UnleashSettings
from faultline.connectors.vendors.feature_flags.flag_changes import flip, state_diff, switched

EVENTS = "/api/admin/search/events"
PER_PAGE, MOST_PAGES = 200, 5
SWITCHES = {"feature-environment-enabled": True, "feature-environment-disabled": False}
TYPES = {
    **dict.fromkeys(SWITCHES, ""),
    "feature-strategy-add": "strategy added",
    "feature-strategy-update": "strategy changed",
    "feature-strategy-remove": "strategy removed",
    "strategy-order-changed": "order of strategies changed",
    "feature-variants-updated": "variants changed",
    "feature-environment-variants-updated": "variants changed",
    "feature-dependency-added": "parent flag added",
    "feature-dependency-removed": "parent flag removed",
    "feature-archived": "archived",
    "feature-revived": "revived",
    "feature-deleted": "deleted",
    "feature-import": "imported",
    "release-plan-added": "release plan added",
    "release-plan-removed": "release plan removed",
    "release-plan-milestone-started": "milestone of the release plan started",
    "segment-updated": "segment changed",
    "segment-deleted": "segment deleted",
}
"""Types of events that change what a flag gives, and how they are said."""


class UnleashEvent(msgspec.Struct):
    """One event. `data` and `preData` are its subject's states after and before."""

    id: int
    createdAt: str
    type: str
    createdBy: str = ""
    createdByUserId: int | float | None = None
    environment: str | None = None
    project: str | None = None
    featureName: str | None = None
    data: Any = None
    preData: Any = None


class UnleashEvents(msgspec.Struct):
    """GET /api/admin/search/events."""

    events: list[UnleashEvent]
    total: int


def _following(page: LinkedPage[UnleashEvents], params: Params) -> Params | None:
    # The first page is asked for without an offset.
    offset = int(dict(params).get("offset", "0")) + len(page.value.events)
    return with_param(params, "offset", offset) if offset < page.value.total else None


LOG = PagedList(
    UnleashEvents,
    lambda log: log.events,
    _following,
    MOST_PAGES,
    lambda event: moment(event.createdAt),
)


class Unleash(ChangeFeeds[UnleashSettings]):
    """Flag changes of a server, or of some of its projects."""

    name = "unleash"
    title = "Unleash"
    needs = "the root role Viewer"
    required = ("url", "token")
    login: ClassVar = {"Authorization": "{token}"}

    def feeds(self) -> Sequence[ChangeFeed]:
        """The event log."""
        return [ChangeFeed("flag changes", self._read)]

    async def _read(self, session: LinkedSession, window: Window) -> FeedAnswer:
        params = [
            ("type", f"IS_ANY_OF:{','.join(TYPES)}"),
            ("from", f"IS:{window.start:%Y-%m-%d}"),
            ("to", f"IS:{window.end:%Y-%m-%d}"),
            ("limit", str(PER_PAGE)),
        ]
        if self._section.projects:
            params.append(("project", f"IS_ANY_OF:{','.join(self._section.projects)}"))
        events = await LOG.read(session, EVENTS, params, window)
        changes = [self._change(event) for event in events.values]
        return FeedAnswer(changes, events.query, f"{self._http.base_url}/history", events.cut)

    def _change(self, event: UnleashEvent) -> VendorChange | None:
        at = moment(event.createdAt)
        subject = event.featureName or _name_in(event)
        if at is None or not subject or not self._is_of_interest(event):
            return None
        on = SWITCHES.get(event.type)
        action = switched(on) if on is not None else TYPES[event.type]
        title = flip(subject, event.environment, action)
        # The title of a switch says all of it.
        diff = None if on is not None else state_diff(event.preData, event.data)
        return VendorChange(
            at, "flag", subject, title, _author(event), self._link(event), diff=diff
        )

    def _is_of_interest(self, event: UnleashEvent) -> bool:
        return event.type in TYPES and (not event.environment or self.counts(event.environment))

    def _link(self, event: UnleashEvent) -> str | None:
        if not event.project or not event.featureName:
            return None
        # Foreign names become parts of an address.
        project, flag = quote(event.project, safe=""), quote(event.featureName, safe="")
        return f"{self._http.base_url}/projects/{project}/features/{flag}/logs"


def _name_in(event: UnleashEvent) -> str | None:
    """The name of a segment."""
    for state in (event.data, event.preData):
        name = state.get("name") if isinstance(state, dict) else None
        if isinstance(name, str) and name:
            return name
    return None


def _author(event: UnleashEvent) -> str | None:
    number = event.createdByUserId
    # JSON may write an id as a float.
    return person(event.createdBy, f"user {number:.0f}" if number is not None else None)
