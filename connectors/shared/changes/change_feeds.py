"""Connectors that bring nothing but changes, from lists of records that a vendor's REST API gives:
flag services, GitOps controllers and CI servers.

A connector says which lists it reads and what a record means. Which services the changes are of,
the window, pages, limits and gaps are the same for all and live here.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar

from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import ChangeKind, EvidenceKind, Window
from faultline.connectors.shared.changes.code_connector import ELSEWHERE
from faultline.connectors.shared.changes.code_host import LOOKBACK, SKEW
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.http.linked_pages import LinkedHttp, LinkedSession, next_params
from faultline.connectors.shared.rows.collection_builder import CollectionBuilder, nanoseconds
from faultline.connectors.shared.rows.evidence_rows import ChangeRow
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.rows.service_names import ServiceNames, named_service
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.settings.settings_types import Names
from faultline.connectors.shared.vendor_text import short

T = TypeVar("T")
Params = list[tuple[str, str]]

KIND: EvidenceKind = "changes"
MOST_CHANGES = 300
"""Of one list, the latest."""
MOST_DETAILS = 20
LONGEST_TITLE, LONGEST_ID, LONGEST_NAME, LONGEST_LINK = 200, 100, 100, 2_000
CHECKED = timedelta(hours=1)
"""`faultline check` reads what changed in that time."""
EARLIEST, LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
# Some vendors write nanoseconds; a datetime holds microseconds.
_FRACTION = re.compile(r"(\.\d{6})\d+")


@dataclass(frozen=True)
class VendorChange:
    """One change as its vendor tells it. All text is hostile."""

    at: datetime
    kind: ChangeKind
    id: str
    title: str
    author: str | None = None
    link: str | None = None
    about: str = ""
    """What may name its service besides its title: an application, a repository."""
    diff: str | None = None
    owner: str | None = None
    """The service that it is of where it names none of ours: the application itself."""


@dataclass(frozen=True)
class Records(Generic[T]):
    """What was read of a list, and what was not."""

    values: tuple[T, ...]
    cut: str | None = None


@dataclass(frozen=True)
class RecordPage(Generic[T]):
    """One page of a list, and the query of the next; None on the last."""

    values: Sequence[T]
    following: Params | None = None


@dataclass(frozen=True)
class FeedAnswer:
    """What one list holds. `query` replays it, `link` shows it to a person."""

    changes: Sequence[VendorChange | None]
    query: str
    link: str | None = None
    cut: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    """What else it says, as in `Item`."""


@dataclass(frozen=True)
class ChangeFeed:
    """One list of a vendor. `what` names it in gaps and in `faultline check`."""

    what: str
    read: Callable[[LinkedSession, Window], Awaitable[FeedAnswer]]


@dataclass
class _ServicesNamed:
    """Finds the service that a change names, of the catalogue and of the scope."""

    names: ServiceNames
    in_scope: Iterable[str]
    candidates: Mapping[str, Sequence[str]] = field(init=False)

    def __post_init__(self) -> None:
        services = dict.fromkeys((*self.in_scope, *self.names.services))
        self.candidates = {service: self.names.theirs(service) for service in services}

    def of(self, change: VendorChange) -> str | None:
        """What says it outright counts more than the title."""
        about = named_service(f"{change.about} {change.id}", self.candidates)
        owner = short(change.owner, LONGEST_NAME) if change.owner else None
        return about or named_service(change.title, self.candidates) or owner


class ChangeFeeds(ABC):
    """A connector of such lists. `needs` is the permission that reading them takes."""

    kinds: tuple[EvidenceKind, ...] = (KIND,)
    name: str
    title: str
    needs: str

    def __init__(self, http: LinkedHttp, names: ServiceNames, environments: Names = ()) -> None:
        self._http = http
        self._names = names
        self._environments = environments

    @property
    def limits(self) -> Limits:
        """Its limits."""
        return self._http.limits

    @abstractmethod
    def feeds(self) -> Sequence[ChangeFeed]:
        """The lists that it reads."""

    def counts(self, environment: str | None) -> bool:
        """Whether changes of an environment count: those of the settings, else all but those whose
        name says that no customer sees them."""
        if self._environments:
            environments = {environment.casefold() for environment in self._environments}
            return (environment or "").casefold() in environments
        return not ELSEWHERE.search(environment or "")

    async def collect(self, request: Request) -> Collected:
        """What changed before and in the incident. A list that fails is a gap, the others
        stand."""
        scope = request.scope
        # Look back before the incident, because a change may take hours to show its harm.
        window = Window(start=scope.events_from - LOOKBACK, end=scope.incident.end + SKEW)
        alert_services = (request.alert.service,) if request.alert.service else ()
        services = _ServicesNamed(self._names, (*alert_services, *scope.services))
        collection = CollectionBuilder()
        async with self._http.open() as session:
            await asyncio.gather(
                *(_collect(collection, feed, session, window, services) for feed in self.feeds())
            )
        return collection.collected()

    async def check(self) -> Check:
        """Can each list be read?"""
        now = datetime.now(UTC)
        window = Window(start=now - CHECKED, end=now)
        refusals: dict[str, str | None] = {}
        try:
            async with self._http.open() as session:
                for feed in self.feeds():
                    refusals[feed.what] = await _refusal(feed, session, window)
        except FaultlineError as error:
            return Check(self.name, False, str(error))
        refused = [what for what, refusal in refusals.items() if refusal]
        parts = ReadableParts(refusals, dict.fromkeys(refused, self.needs))
        line = f"{self.title} at {self._http.base_url}: {parts.words}; only GET is sent"
        return Check(self.name, not refused, line)


async def _collect(
    collection: CollectionBuilder,
    feed: ChangeFeed,
    session: LinkedSession,
    window: Window,
    services: _ServicesNamed,
) -> None:
    answer = await collection.fetch(KIND, feed.what, feed.read(session, window))
    if answer is None:
        return
    changes = [
        change for change in answer.changes if change and window.start <= change.at <= window.end
    ]
    # Newest first, so that the cap drops the oldest changes.
    changes.sort(key=lambda change: change.at, reverse=True)
    rows = [_row(change, services.of(change)) for change in changes[:MOST_CHANGES]]
    cut = answer.cut
    if len(changes) > MOST_CHANGES:
        cut = f"only the latest {MOST_CHANGES} of {len(changes)}"
    collection.add(KIND, [(nanoseconds(row.time), *row[1:]) for row in rows])
    details = dict(list(answer.details.items())[:MOST_DETAILS])
    item = Item(KIND, answer.query, window, answer.link, rows=len(rows), cut=cut, details=details)
    collection.items.append(item.holding(rows))


def _row(change: VendorChange, service: str | None) -> ChangeRow:
    return ChangeRow(
        change.at,
        service,
        change.kind,
        short(change.id, LONGEST_ID),
        short(change.title, LONGEST_TITLE),
        short(change.author, LONGEST_NAME) if change.author else None,
        # Drop a long link as a whole: a shortened one leads nowhere.
        change.link if change.link and len(change.link) <= LONGEST_LINK else None,
        None,
        change.diff,
    )


async def _refusal(feed: ChangeFeed, session: LinkedSession, window: Window) -> str | None:
    """Why a list cannot be read; None where it can."""
    try:
        await feed.read(session, window)
    except ConnectorError as error:
        return f"HTTP {error.status}" if error.status else error.problem
    except FaultlineError as error:
        return str(error)
    return None


async def read_records(
    read: Callable[[Params], Awaitable[RecordPage[T]]],
    params: Params,
    *,
    most_pages: int,
    is_older: Callable[[T], bool] = lambda _: False,
) -> Records[T]:
    """A list page by page, the newest first, until a record is older than what is asked about.

    The first page that fails raises; a later one leaves what was read, and is said in `cut`.
    """
    values: list[T] = []
    requested_params: list[Params] = []
    following: Params | None = params
    # A vendor that names a page again would keep this loop going forever.
    while following is not None and following not in requested_params:
        if len(requested_params) == most_pages:
            return Records(tuple(values), f"only the latest {len(values)} were read")
        requested_params.append(following)
        try:
            page = await read(following)
        except FaultlineError as error:
            # Without the first page there is nothing to show, so the error is the answer.
            if not values:
                raise
            return Records(tuple(values), f"the rest was not read: {error}")
        values += page.values
        done = not page.values or is_older(page.values[-1])
        following = None if done else page.following
    return Records(tuple(values))


def linked_pages(
    session: LinkedSession, path: str, type: type[list[T]]
) -> Callable[[Params], Awaitable[RecordPage[T]]]:
    """For `read_records`: pages that follow one another by the Link header."""

    async def read(params: Params) -> RecordPage[T]:
        page = await session.page(path, params, type=type)
        return RecordPage(page.value, next_params(page.headers))

    return read


def query_of(path: str, params: Params) -> str:
    """A call as a person may repeat it."""
    text = "&".join(f"{name}={value}" for name, value in params)
    return f"GET {path}?{text}" if text else f"GET {path}"


def moment(value: Any) -> datetime | None:
    """A time of ISO 8601, in UTC where it names no zone; None for anything else."""
    if not isinstance(value, str) or not 10 <= len(value) <= 40:
        return None
    try:
        at = datetime.fromisoformat(_FRACTION.sub(r"\1", value))
    except ValueError:
        return None
    return _plausible(at.replace(tzinfo=UTC) if at.tzinfo is None else at)


def moment_of_ms(value: Any) -> datetime | None:
    """A time in ms since 1970."""
    # In Python True is an int, and would become the first millisecond of 1970.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 5_000_000_000_000:
        return None
    return _plausible(datetime.fromtimestamp(value / 1000, UTC))


def _plausible(at: datetime) -> datetime | None:
    return at.astimezone(UTC) if EARLIEST <= at < LATEST else None


def person(*names: str | None) -> str | None:
    """The first name that is there and no e-mail address."""
    for name in names:
        # Evidence is shown to many, so no e-mail address of an employee goes into it.
        if name and name.strip() and "@" not in name:
            return name.strip()
    return None
