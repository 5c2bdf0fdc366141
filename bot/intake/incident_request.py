"""What somebody asks to have investigated, through any door but Slack: a terminal, a page, the
API."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import QUESTION_PREFIX, Alert, Window
from faultline.bot.intake.payload_fields import plain, single_line
from faultline.bot.intake.questions.follow_up_scope import span_in, window_of
from faultline.bot.intake.service_names import catalogued, mentioned
from faultline.bot.settings import Settings
from faultline.bot.store.store import Arrival, Delivery

Door = Literal["terminal", "page", "api", "mcp"]
MOST_TEXT = 2_000
SHORT = timedelta(minutes=1)
OLDEST = timedelta(days=3_660)
"""No source keeps anything for longer."""


@dataclass(frozen=True)
class IncidentRequest:
    """One request. The same `key` through the same door is the same request."""

    text: str
    key: str
    door: Door
    service: str | None = None
    since: datetime | None = None
    """When it began; unset: what the text says ("since 14:19"), or else now."""
    zone: tzinfo = UTC
    """Of times of day in the text."""
    places: Mapping[str, str] = field(default_factory=dict)
    """Where it is, by label, such as cluster: only sources that cover it are asked."""


def arrival_of(request: IncidentRequest, settings: Settings, now: datetime) -> Arrival:
    """The request as the store takes it. Raises SettingsError where nothing is asked, or about the
    future."""
    text = plain(request.text, MOST_TEXT)
    title = single_line(text)
    if not title:
        raise SettingsError("question", "is empty: say what you see, such as: checkout is slow")
    since = request.since or since_in(text, now, request.zone) or now
    # A caller's clock may be a minute ahead.
    if since > now + SHORT:
        raise SettingsError("since", "lies in the future")
    if since < now - OLDEST:
        raise SettingsError("since", "lies more than ten years back")
    service = (
        catalogued(settings, request.service) if request.service else mentioned(settings, text)
    )
    alert = Alert(
        source=request.door,
        id=request.key,
        title=title,
        started_at=since.astimezone(UTC),
        service=service,
        labels={
            **_labels(request.places),
            "fingerprint": f"{QUESTION_PREFIX}{request.door}:{request.key}",
        },
    )
    delivery = Delivery(request.door, request.key)
    return Arrival(alert=alert, delivery=delivery, question=text, by_person=True)


def _labels(places: Mapping[str, str]) -> dict[str, str]:
    return {single_line(name): single_line(value) for name, value in places.items()}


def since_in(text: str, now: datetime, zone: tzinfo = UTC) -> datetime | None:
    """When it began, by a text that says so: "since 14:19", "in the last 2 hours"."""
    span = span_in(text)
    # "A wider window" names no beginning: there is no incident yet to widen.
    if span is None or (span.since is None and span.length is None):
        return None
    return window_of(span, Window(start=now, end=now), now, zone).start
