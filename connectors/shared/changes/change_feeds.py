"""Connectors that bring nothing but changes, from lists of records that a vendor's REST API gives:
flag services, GitOps controllers and CI servers.

A connector says which lists it reads and what a record means. Which services the changes are of,
the window, pages, limits and gaps are the same for all and live here.
"""

from __future__ import annotations

import asyncio
import base64
import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from pydantic import SecretStr

from faultline.analysis.case.rounds import REPOSITORY_OF
from faultline.analysis.errors import ConnectorError, FaultlineError
from faultline.analysis.vocabulary import Alert, ChangeKind, EvidenceKind, Scope, Window
from faultline.connectors.shared.auth.server_access import access_of
from faultline.connectors.shared.changes.code_changes import ELSEWHERE
from faultline.connectors.shared.changes.code_host import LOOKBACK, SKEW
from faultline.connectors.shared.contract.base import Check, Collected, Item, Request
from faultline.connectors.shared.http.linked_pages import (
    LinkedHttp,
    LinkedPage,
    LinkedSession,
    query_of,
)
from faultline.connectors.shared.rows.collection_builder import (
    ChangeRow,
    CollectionBuilder,
    StateRow,
    nanoseconds,
)
from faultline.connectors.shared.rows.readable_parts import ReadableParts
from faultline.connectors.shared.rows.service_names import ServiceNames, named_service
from faultline.connectors.shared.settings.connector_settings import Limits, SelfHostedSettings
from faultline.connectors.shared.settings.settings_types import Names
from faultline.connectors.shared.settings.shared_settings import SharedSettings
from faultline.connectors.shared.vendor_text import short

P = TypeVar("P")
T = TypeVar("T")
Params = list[tuple[str, str]]

KIND: EvidenceKind = "changes"
MOST_CHANGES = 300
"""Of one list, the latest."""
MOST_DETAILS = 20
MOST_WINDOWS = 16
"""Investigations whose answers are remembered for their later rounds, which follow within the
minute."""
LONGEST_TITLE, LONGEST_ID, LONGEST_NAME, LONGEST_LINK = 200, 100, 100, 2_000
USUAL_LIMITS = Limits(deadline_s=20, max_bytes=16 * 1024 * 1024, requests_per_s=5, concurrency=2)
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
    before: str = ""
    after: str = ""
    restored_by: str = ""


@dataclass(frozen=True)
class Records(Generic[T]):
    """What was read of a list, the query that replays it, and what was not read."""

    values: tuple[T, ...]
    query: str
    cut: str | None = None


@dataclass(frozen=True)
class PagedList(Generic[P, T]):
    """How a vendor pages a list whose newest records come first."""

    page: type[P]
    values: Callable[[P], Sequence[T]]
    following: Callable[[LinkedPage[P], Params], Params | None]
    """The query of the page after one, from that and its query; None after the last."""
    most_pages: int
    at: Callable[[T], datetime | None] = lambda _: None
    """When a record is from, where the query cannot say from when records are wanted."""

    async def read(
        self, session: LinkedSession, path: str, params: Params, window: Window
    ) -> Records[T]:
        """The records page by page, until one is from before the window.

        The first page that fails raises; a later one leaves what was read, and is said in `cut`.
        """
        values: list[T] = []
        requested_params: list[Params] = []
        following: Params | None = params
        cut = None
        # A vendor that names a page again would keep this loop going forever.
        while following is not None and following not in requested_params:
            if len(requested_params) == self.most_pages:
                cut = f"only the latest {len(values)} were read"
                break
            requested_params.append(following)
            try:
                page = await session.page(path, following, type=self.page)
            except FaultlineError as error:
                # Without the first page there is nothing to show, so the error is the answer.
                if not values:
                    raise
                cut = f"the rest was not read: {error}"
                break
            records = self.values(page.value)
            values += records
            oldest = self.at(records[-1]) if records else None
            is_done = not records or (oldest is not None and oldest < window.start)
            following = None if is_done else self.following(page, following)
        return Records(tuple(values), query_of(path, params), cut)


@dataclass(frozen=True)
class FeedAnswer:
    """What one list holds. `query` replays it, `link` shows it to a person."""

    changes: Sequence[VendorChange | None]
    query: str
    link: str | None = None
    cut: str | None = None
    details: Mapping[str, str] = field(default_factory=dict)
    """What else it says, as in `Item`."""
    repositories: Mapping[str, str] = field(default_factory=dict)
    """Where what runs is kept: addresses by the vendor's name of what it deploys."""
    states: Sequence[StateRow] = ()
    """What is wrong now; `service` is the vendor's name of what it deploys."""


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

    def repositories(self, answer: FeedAnswer) -> dict[str, str]:
        """Those of the services in scope, by the names under which rounds look for them."""
        addresses = {}
        for name, address in answer.repositories.items():
            if service := self.in_scope_as(name):
                addresses[f"{REPOSITORY_OF}{service}"] = address
        return addresses

    def in_scope_as(self, name: str) -> str | None:
        """The service in scope that a vendor's name is of."""
        service = named_service(name, self.candidates)
        return service if service in set(self.in_scope) else None

    def of(self, change: VendorChange) -> str | None:
        """What says it outright counts more than the title."""
        about = named_service(f"{change.about} {change.id}", self.candidates)
        owner = short(change.owner, LONGEST_NAME) if change.owner else None
        return about or named_service(change.title, self.candidates) or owner


class FeedSection(Protocol):
    """What the settings of such a vendor have at least."""

    @property
    def url(self) -> str | None: ...
    @property
    def token(self) -> SecretStr | None: ...
    def limits(self, usual: Limits) -> Limits: ...


S = TypeVar("S", bound=FeedSection)


class ChangeFeeds(ABC, Generic[S]):
    """A connector of such lists: each vendor says what is its own."""

    kinds: tuple[EvidenceKind, ...] = (KIND,)
    follows = ("service",)
    name: ClassVar[str]
    title: ClassVar[str]
    needs: ClassVar[str]
    """The permission that reading its lists takes."""
    usual_limits: ClassVar[Limits] = USUAL_LIMITS
    login: ClassVar[Mapping[str, str]] = {"Authorization": "Bearer {token}"}
    """The headers that a token is sent in. `{basic}` is the token as the password of an empty user
    name (Basic authentication)."""
    required: ClassVar[Sequence[str]] = ("token",)
    """The keys without which it is not configured."""

    @classmethod
    def build(cls, section: S, settings: SharedSettings) -> Self | None:
        """The configured connector, or None without the required keys. Raises SettingsError."""
        if any(getattr(section, key) in (None, ()) for key in cls.required):
            return None
        return cls(section, ServiceNames.of_catalogue(settings.services))

    def __init__(self, section: S, names: ServiceNames) -> None:
        self._section = section
        self._names = names
        # Not every vendor tells environments apart.
        self._environments: Names = getattr(section, "environments", ())
        self._http = self._server(section.url)
        self._answers: dict[Window, list[FeedAnswer]] = {}

    def _server(self, url: str | None) -> LinkedHttp:
        """A server of the vendor, asked with the credential of the section."""
        limits = self._section.limits(self.usual_limits)
        if isinstance(self._section, SelfHostedSettings):
            access = access_of(self._section, self.name)
            return LinkedHttp(self.name, url, limits=limits, access=access)
        token = self._section.token.get_secret_value() if self._section.token else ""
        basic = base64.b64encode(f":{token}".encode()).decode()
        headers = {
            name: value.format(token=token, basic=basic) for name, value in self.login.items()
        }
        return LinkedHttp(self.name, url, limits=limits, headers=headers)

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
        stand. The lists hold the changes of all services, so a later round reads none of them
        again: it names the services that it is about in what was read."""
        scope = request.scope
        # Look back before the incident, because a change may take hours to show its harm.
        window = Window(start=scope.events_from - LOOKBACK, end=scope.incident.end + SKEW)
        services = self._services_of(request.alert, scope)
        collection = CollectionBuilder()
        answers = self._answers.get(window) if request.earlier else None
        if answers is not None:
            earlier = [self._services_of(alert, scope) for alert, scope in request.earlier]
            for answer in answers:
                newly_named = []
                for change in changes_in(answer, window):
                    service = services.of(change)
                    if service and all(named.of(change) != service for named in earlier):
                        newly_named.append(change)
                if newly_named:
                    _add(collection, replace(answer, changes=newly_named), window, services)
            return collection.collected()
        async with self._http.open() as session:
            reads = [
                collection.fetch(KIND, feed.what, feed.read(session, window))
                for feed in self.feeds()
            ]
            answers = [answer for answer in await asyncio.gather(*reads) if answer is not None]
        for answer in answers:
            _add(collection, answer, window, services)
        while len(self._answers) >= MOST_WINDOWS:
            del self._answers[next(iter(self._answers))]
        self._answers[window] = answers
        return collection.collected()

    def _services_of(self, alert: Alert, scope: Scope) -> _ServicesNamed:
        alert_services = (alert.service,) if alert.service else ()
        return _ServicesNamed(self._names, (*alert_services, *scope.services))

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


def changes_in(answer: FeedAnswer, window: Window) -> list[VendorChange]:
    """Its changes within the window, the newest first."""
    changes = [
        change for change in answer.changes if change and window.start <= change.at <= window.end
    ]
    return sorted(changes, key=lambda change: change.at, reverse=True)


def _add(
    collection: CollectionBuilder, answer: FeedAnswer, window: Window, services: _ServicesNamed
) -> None:
    # The newest come first, so that the cap drops the oldest changes.
    changes = changes_in(answer, window)
    rows = [_row(change, services.of(change)) for change in changes[:MOST_CHANGES]]
    cut = answer.cut
    if len(changes) > MOST_CHANGES:
        cut = f"only the latest {MOST_CHANGES} of {len(changes)}"
    collection.add(KIND, [(nanoseconds(row.time), *row[1:]) for row in rows])
    details = services.repositories(answer) | dict(list(answer.details.items())[:MOST_DETAILS])
    item = Item(KIND, answer.query, window, answer.link, rows=len(rows), cut=cut, details=details)
    collection.items.append(item.holding(rows))
    states = []
    for state in answer.states:
        if service := services.in_scope_as(state.service or ""):
            row = state._replace(service=service, query=answer.query)._asdict()
            row["since"] = None if state.since is None else nanoseconds(state.since)
            states.append(tuple(row.values()))
    if collection.add("states", states):
        collection.items.append(Item("states", answer.query, window, answer.link, rows=len(states)))


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
        change.before or None,
        change.after or None,
        change.restored_by or None,
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


def with_param(params: Params, name: str, value: object) -> Params:
    """The query with this value of a parameter."""
    return [*(param for param in params if param[0] != name), (name, str(value))]


def next_number(params: Params) -> Params:
    """The query of the next page, where pages have numbers."""
    return with_param(params, "page", int(dict(params)["page"]) + 1)


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
