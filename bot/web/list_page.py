"""The list of investigations: what its address asks for, and the addresses of the pages and filters
beside it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, get_args
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from faultline.bot.intake.alert_source import AlertSource
from faultline.bot.runtime.threads import in_store
from faultline.bot.store.connections import storable
from faultline.bot.store.listing import (
    MOST_COUNTED,
    Alerts,
    Judged,
    Labels,
    Listing,
    ListingCursor,
    ListingFilter,
    choices,
)
from faultline.bot.store.store import StoredInvestigation
from faultline.bot.store.visibility import Visibility
from faultline.bot.web import text
from faultline.bot.web.answer_state import VERDICTS
from faultline.bot.web.rendering import Site
from faultline.bot.web.sessions import visibility_of

LISTED = 50
LONGEST = 200
STATUSES = {
    "accepted": "Queued",
    "running": "Running",
    "done": "Answered",
    "failed": "Failed",
    "joined": "Joined",
}
CONFIDENCES = {
    "90-100": "90 % and more",
    "70-90": "70 to 90 %",
    "50-70": "50 to 70 %",
    "0-50": "below 50 %",
}
JUDGED = {"right": "Judged right", "wrong": "Judged wrong", "yes": "Judged", "no": "Not judged"}
ALERTS = {"grouped": "Several alerts", "muted": "Muted now"}
JUST_BELOW = 1e-9
"""A range of confidence ends before the next begins."""


@dataclass(frozen=True)
class Chip:
    """A filter that is on, in words, and the address without it."""

    words: str
    without: str


@dataclass(frozen=True)
class AlertSourceView:
    """How to set up one alert source. `missing` is the variable to set first, None where it is
    set; `{url}` in the example stands for the address of `path`."""

    title: str
    setup: str
    example: str
    path: str
    missing: str | None


class ListPage:
    """The handler."""

    def __init__(self, site: Site, alert_sources: Sequence[AlertSource]) -> None:
        self.site = site
        self._alert_sources = alert_sources
        self.listing, self.labels = Listing(site.store.engine), Labels(site.store.engine)

    async def index(self, request: Request) -> Response:
        """Investigations by day, the newest first."""
        # The parameters that are ours and not empty, as the store takes text.
        names = (
            "q",
            "status",
            "verdict",
            "service",
            "source",
            "confidence",
            "from",
            "to",
            "judged",
            "alerts",
            "after",
            "before",
        )
        cleaned = {
            name: storable(request.query_params.get(name, ""), LONGEST).strip() for name in names
        }
        parameters = {name: value for name, value in cleaned.items() if value}
        return self.site.page(
            request, "index.html", **await in_store(self._read, parameters, visibility_of(request))
        )

    def _read(self, parameters: dict[str, str], visibility: Visibility) -> dict[str, Any]:
        filters, store, now = read_filter(parameters), self.site.store, datetime.now(UTC)
        listing, labels = self.listing.visible_to(visibility), self.labels.visible_to(visibility)
        after, before = (
            self._cursor(parameters.get("after"), visibility),
            self._cursor(parameters.get("before"), visibility),
        )
        page = listing.page(filters, size=LISTED, after=after, before=before)
        # An address may lead beyond the end: show the first page instead.
        if not page.ids and (after or before):
            page = listing.page(filters, size=LISTED)
        shown = store.some(page.ids, visibility)
        filtered = filters != ListingFilter()
        return {
            "days": _by_day(shown, now),
            "now": now,
            "given": defaultdict(str, parameters),
            "listed": len(shown),
            "total": listing.count(filters),
            "most": MOST_COUNTED,
            "filtered": filtered,
            "chips": chips(parameters),
            "newer": _address(parameters, before=page.newer.id) if page.newer else None,
            "older": _address(parameters, after=page.older.id) if page.older else None,
            "here": _address(parameters),
            "live": not (after or before or filters.words),
            "choices": {
                "status": STATUSES,
                "verdict": VERDICTS,
                "confidence": CONFIDENCES,
                "judged": JUDGED,
                "alerts": ALERTS,
                "service": {s: s for s in choices(listing.services(), filters.service)},
                "source": {s: s for s in choices(listing.sources(), filters.source)},
            },
            "judgements": labels.of(page.ids),
            "judged": labels.count(),
            "sources": self._sources(),
        }

    def _cursor(self, investigation_id: str | None, visibility: Visibility) -> ListingCursor | None:
        investigation = (
            self.site.store.get(investigation_id, visibility) if investigation_id else None
        )
        return ListingCursor(investigation.accepted_at, investigation.id) if investigation else None

    def _sources(self) -> list[AlertSourceView]:
        """Every alert source, and what is still to be set for it."""
        settings = self.site.settings
        views: list[AlertSourceView] = []
        for source in self._alert_sources:
            for path, missing in source.pasted_paths(settings).items():
                texts = (source.title, source.setup, source.example)
                views.append(AlertSourceView(*texts, path, missing))
        return views


def read_filter(parameters: Mapping[str, str]) -> ListingFilter:
    """What the parameters of an address ask for; what cannot be read asks for nothing."""
    low, _, high = parameters.get("confidence", "").partition("-")
    # Foreign input: only a range that the page offers is split into numbers.
    ranged = parameters.get("confidence") in CONFIDENCES
    since, until = _date(parameters.get("from")), _date(parameters.get("to"))
    return ListingFilter(
        words=parameters.get("q", ""),
        status=parameters.get("status") if parameters.get("status") in STATUSES else None,
        verdict=parameters.get("verdict") if parameters.get("verdict") in VERDICTS else None,
        service=parameters.get("service"),
        source=parameters.get("source"),
        least=int(low) / 100 if ranged else None,
        most=(1.0 if high == "100" else int(high) / 100 - JUST_BELOW) if ranged else None,
        since=since,
        # The day itself counts as a whole.
        before=until + timedelta(days=1) if until else None,
        judged=next((j for j in get_args(Judged) if j == parameters.get("judged")), None),
        alerts=next((a for a in get_args(Alerts) if a == parameters.get("alerts")), None),
    )


def chips(parameters: Mapping[str, str]) -> tuple[Chip, ...]:
    """The filters of an address that are on."""
    filters = read_filter(parameters)
    words = {
        "q": f"“{filters.words}”" if filters.words else "",
        "status": STATUSES.get(filters.status or "", ""),
        "verdict": VERDICTS[filters.verdict] if filters.verdict else "",
        "service": filters.service or "",
        "source": f"from {filters.source}" if filters.source else "",
        "confidence": CONFIDENCES.get(parameters.get("confidence", ""), ""),
        "from": f"since {text.day(filters.since)}" if filters.since else "",
        "to": f"until {text.day(filters.before - timedelta(days=1))}" if filters.before else "",
        "judged": JUDGED.get(filters.judged or "", ""),
        "alerts": ALERTS.get(filters.alerts or "", ""),
    }
    return tuple(
        Chip(word, _address({k: v for k, v in parameters.items() if k != name}))
        for name, word in words.items()
        if word
    )


def _address(parameters: Mapping[str, str], **place: str) -> str:
    values = {name: value for name, value in parameters.items() if name not in ("after", "before")}
    query = urlencode({**values, **place})
    return f"/?{query}" if query else "/"


def _date(date_text: str | None) -> datetime | None:
    try:
        day = date.fromisoformat(date_text or "")
    except ValueError:
        return None
    # Near the year 9999, adding a day or changing the zone overflows.
    return datetime.combine(day, time(), UTC) if 1970 <= day.year <= 9000 else None


def _by_day(
    shown: Sequence[StoredInvestigation], now: datetime
) -> list[tuple[str, list[StoredInvestigation]]]:
    """What is not over yet, then each day."""
    days: dict[str, list[StoredInvestigation]] = {"Now": []}
    for investigation in shown:
        running = investigation.status in ("accepted", "running")
        name = "Now" if running else _day(investigation.accepted_at, now)
        days.setdefault(name, []).append(investigation)
    return [(name, of_day) for name, of_day in days.items() if of_day]


def _day(moment: datetime, now: datetime) -> str:
    for name, day in (("Today", now), ("Yesterday", now - timedelta(days=1))):
        if moment.astimezone(UTC).date() == day.date():
            return name
    return text.day(moment)
