"""What people and programs ask for through a page or the API, on the way into the store: the same
request once, each caller within a rate, then the way that alerts take.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Literal

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import SettingsError
from faultline.analysis.vocabulary import QUESTION_PREFIX, Alert, Window
from faultline.bot.intake.accepting import Accept, IntakeLimits, NotAccepted, take
from faultline.bot.intake.payload_fields import plain, single_line
from faultline.bot.intake.questions.subjects import span_in, window_of
from faultline.bot.intake.service_names import catalogued, mentioned
from faultline.bot.intake.signatures import Refused
from faultline.bot.policy.people import HOUR, too_many_investigations
from faultline.bot.policy.values import Accepted
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.quotas import PersonActs, is_same_request
from faultline.bot.store.store import Arrival, Delivery, Store

# What somebody asks to have investigated, through any door but Slack: a terminal, a page, the API.

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
        service_from="the question" if service else None,
        labels={
            **{single_line(name): single_line(place) for name, place in request.places.items()},
            "fingerprint": f"{QUESTION_PREFIX}{request.door}:{request.key}",
        },
    )
    delivery = Delivery(request.door, request.key)
    return Arrival(alert=alert, delivery=delivery, question=text, by_person=True)


def since_in(text: str, now: datetime, zone: tzinfo = UTC) -> datetime | None:
    """When it began, by a text that says so: "since 14:19", "in the last 2 hours"."""
    span = span_in(text)
    # "A wider window" names no beginning: there is no incident yet to widen.
    if span is None or (span.since is None and span.length is None):
        return None
    return window_of(span, Window(start=now, end=now), now, zone).start


KEY_REUSED = (
    "This idempotency key was used for another request. Send a new key, or the same request again."
)


@dataclass(frozen=True)
class Requester:
    """Who asks, by a name that no other has; `most_per_hour` None: as much as they like."""

    who: str
    most_per_hour: int | None


def requester_key(requester: Requester, key: str) -> str:
    """A key as one requester means it: another's key of the same text is another key."""
    # The NUL keeps "a" with the key "bc" apart from "ab" with the key "c".
    phrase = f"{requester.who}\x00{key}"
    return hashlib.sha256(phrase.encode("utf-8", "replace")).hexdigest()[:32]


class IncidentRequests:
    """Takes requests; `accept` is that of the alerts, with the spool behind the store."""

    def __init__(self, settings: Settings, store: Store, accept: Accept) -> None:
        self._settings = settings
        self._engine = store.engine
        self._acts = PersonActs(store.engine)
        self._accept = accept

    async def start(self, request: IncidentRequest, requester: Requester, as_sent: str) -> Accepted:
        """Start an investigation, or find the one of the same key (outcome `duplicate`). A
        request that the spool took (`spooled`) has no known id yet. `as_sent` is what must be the
        same under the same key, because the time that `30m` means differs with each request.

        Raises Refused for what cannot be asked (422) or is too much (429), NotAccepted where the
        request shall be sent again.
        """
        now = datetime.now(UTC)
        try:
            arrival = arrival_of(request, self._settings, now)
        except SettingsError as error:
            raise Refused(422, f"{error}") from None
        await self.refuse_unless_new(f"{request.door} {request.key}", requester, as_sent)
        return await take(self._accept, arrival, within_s=IntakeLimits.accept_within_s)

    async def refuse_unless_new(self, key: str, requester: Requester, as_sent: str) -> None:
        """Count one more request. Raises Refused where the key was used for another one (422), and
        where it is too much (429); NotAccepted where the store cannot tell."""
        try:
            async with asyncio.timeout(IntakeLimits.accept_within_s):
                await self._refuse_unless_new(key, requester, as_sent, datetime.now(UTC))
        except TimeoutError:
            raise NotAccepted("the store did not answer in time") from None
        except SQLAlchemyError as error:
            raise NotAccepted(f"the store cannot be used ({type(error).__name__})") from error

    async def _refuse_unless_new(
        self, key: str, requester: Requester, as_sent: str, now: datetime
    ) -> None:
        most = requester.most_per_hour
        # Check the key first: a refused request does not count against the limit.
        if not await in_store(is_same_request, self._engine, key, as_sent, now):
            raise Refused(422, KEY_REUSED)
        if most is None:
            return
        if not await in_store(self._acts.count, requester.who, "investigate", key, most, HOUR):
            raise Refused(429, too_many_investigations(most))


# When something began, as people write it in one word.

_LENGTH = re.compile(r"(?P<count>\d{1,4})(?P<unit>[mhd])", re.ASCII)
NOW = "now"
_TIME_OF_DAY = re.compile(r"\d{1,2}:\d\d", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


def since_of(
    text: str, now: datetime, zone: tzinfo | None = None, name: str = "--since"
) -> datetime:
    """`now`, `30m`, `2h`, `1d`, a time of day in the zone (unset: this machine's), or an ISO time.
    Raises SettingsError about `name`."""
    word = text.strip()
    if word == NOW:
        return now
    length = _LENGTH.fullmatch(word)
    if length is not None:
        return now - timedelta(**{_UNITS[length["unit"]]: int(length["count"])})
    here = now.astimezone(zone)
    try:
        if _TIME_OF_DAY.fullmatch(word):
            hour, minute = map(int, word.split(":"))
            at = here.replace(hour=hour, minute=minute, second=0, microsecond=0)
            return at if at <= here else at - timedelta(days=1)
        at = datetime.fromisoformat(word)
        at = at if at.tzinfo is not None else at.replace(tzinfo=here.tzinfo)
        return at.astimezone(here.tzinfo)
    except (ValueError, OverflowError):
        raise SettingsError(name, "is neither 30m, 14:19 nor 2026-01-31T14:19Z") from None


def length_of(text: str, name: str) -> timedelta:
    """`15m`, `2h` or `1d`. Raises SettingsError about `name`."""
    length = _LENGTH.fullmatch(text.strip())
    if length is None:
        raise SettingsError(name, "is not a length of time, such as 15m or 2h")
    return timedelta(**{_UNITS[length["unit"]]: int(length["count"])})
