"""What an alert source is, once, for routes, `faultline check`, pages, metrics and settings.

A vendor that sends webhooks is one `WebhookSource`: a name, its section of the settings, and
`receive`, which proves the sender and reads the alerts. `signed_body` and `token_in_header` make
`receive` in such a way that nothing is parsed before the sender is known.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from pydantic import SecretStr
from starlette.requests import Request
from starlette.responses import Response

from faultline.bot.intake.accepted_places import placed_arrival
from faultline.bot.intake.accepting import (
    MAX_TOGETHER,
    Accept,
    FirstTime,
    Ignored,
    IntakeLimits,
    NotAccepted,
    take,
)
from faultline.bot.intake.questions.message_router import MessageRouter
from faultline.bot.intake.signatures import (
    BadSignature,
    Handler,
    Keep,
    changes_response,
    ignored_response,
    read_body,
    taken_response,
    verify_token,
    watchdog_response,
)
from faultline.bot.intake.watchdog import Watchdog
from faultline.bot.policy.values import Accepted, Arrival
from faultline.bot.runtime.instrumentation import waited_s
from faultline.bot.runtime.threads import in_thread
from faultline.bot.settings import Section, Settings, secret_variable
from faultline.bot.settings.alert_sources import DeclaredAlertSource
from faultline.bot.store.changes import ReportedChange
from faultline.bot.store.store import Store
from faultline.connectors.shared.settings.instances import Covers

if TYPE_CHECKING:
    from faultline.bot.intake.slack_events import Register

LARGE_BODY_BYTES = 256 * 1024
"""Larger ones take more than some milliseconds to read."""


@dataclass(frozen=True)
class ChangeBatch:
    """Changes instead of alerts: kept as evidence for later."""

    changes: Sequence[ReportedChange]


RequestContent = Sequence[Arrival] | Arrival | ChangeBatch | Ignored
"""What a request holds: one alert or several, changes, or why it starts nothing."""


@dataclass(frozen=True)
class WebhookRequest:
    """One request to an alert source. Its body is read when it is asked for."""

    headers: Mapping[str, str]
    read: Callable[[], Awaitable[bytes]]
    """The raw body, within limits of size and time. Raises Refused."""
    token: str = ""
    """The parameter `token` of the address."""


Receive = Callable[[WebhookRequest], Awaitable[RequestContent]]
"""Proves who sent a request, then reads it. Raises BadSignature, Refused, NotAccepted."""
VerifySignature = Callable[[bytes, str | None, Sequence[SecretStr]], None]
"""Compares a body and the header that signs it with our secrets. Raises BadSignature."""


class ReadAlerts(Protocol):
    """Reads a body whose sender is known. Never fails for what it holds: that is Ignored."""

    def __call__(self, body: bytes, settings: Settings, *, now: datetime) -> RequestContent: ...


@dataclass(frozen=True)
class Intake:
    """What the handlers of all alert sources share in one process. Only Slack's use
    the three after the limits."""

    accept: Accept
    limits: IntakeLimits
    slack_listeners: Sequence[Register] = ()
    message_router: MessageRouter | None = None
    first_time: FirstTime | None = None
    watchdog: Watchdog | None = None
    keep: Keep | None = None
    """Without it changes are refused as not stored."""
    store: Store | None = None
    """For what people do in Teams."""


@dataclass(frozen=True)
class Sender:
    """Who may send alerts: one server of a vendor, where the settings name several."""

    settings: Settings
    """As they are for this sender: its table stands as the section."""
    secrets: Sequence[SecretStr]
    covers: Covers = Covers()  # noqa: RUF009  it is frozen

    def placed(self, content: RequestContent) -> RequestContent:
        """The alerts with the places that this sender covers, where they name none: then only
        what covers the same is asked about them."""
        if isinstance(content, Ignored):
            return content
        if isinstance(content, ChangeBatch):
            return ChangeBatch([self._with_place(change) for change in content.changes])
        if isinstance(content, Arrival):
            return placed_arrival(content, self.covers)
        return [placed_arrival(arrival, self.covers) for arrival in content]

    def _with_place(self, change: ReportedChange) -> ReportedChange:
        return replace(change, place=self.covers.added_to(change.place))


def proven(senders: Sequence[Sender], verify: Callable[[Sequence[SecretStr]], None]) -> Sender:
    """The sender whose secrets fit. Raises BadSignature where none do."""
    matching_sender: Sender | None = None
    refusal: BadSignature | None = None
    for sender in senders:
        # No early return: the time taken must not tell whose secret it was.
        try:
            verify(sender.secrets)
        except BadSignature as error:
            refusal = error
        else:
            matching_sender = matching_sender or sender
    if matching_sender is not None:
        return matching_sender
    assert refusal is not None
    raise refusal


@dataclass(frozen=True, kw_only=True)
class AlertSource(DeclaredAlertSource, ABC):
    """One way for alerts to arrive. Each is listed in `faultline.bot.settings.alert_sources`."""

    title: str
    """For people: "PagerDuty webhooks"."""
    setup: str
    """For people, one sentence: what to set up at the vendor's."""
    example: str = "{url}"
    """What is pasted there; `{url}` is the address of the source's first path."""
    required: tuple[str, ...]
    """Keys of the section without which nothing is taken. The first proves the sender."""
    priority_words: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Severities, in small letters, that mean something else here than in
    `faultline.bot.policy.priority`, or that it does not know."""

    @property
    @abstractmethod
    def paths(self) -> Mapping[str, str]:
        """The HTTP paths it takes, and what metrics and logs call requests there."""

    def paths_in(self, settings: Settings) -> Mapping[str, str]:
        """Its paths by these settings, where it has more or others for several of a section."""
        return self.paths

    def pasted_paths(self, settings: Settings) -> Mapping[str, str | None]:
        """The paths that are entered at the vendor's, each with the variable that is still to be
        set for it: its first, of several the first of each."""
        missing = None if self.configured(settings) else self.missing(settings)
        return {next(iter(self.paths)): missing}

    @abstractmethod
    def handlers(self, settings: Settings, intake: Intake) -> Mapping[str, Handler]:
        """A handler for each path. They are made only where nothing is `missing`."""

    def section_of(self, settings: Settings) -> Section:
        """Its section of the settings, with the defaults where there is none."""
        section = getattr(settings, self.section, None)
        return section if isinstance(section, self.settings) else self.settings()

    def missing(self, settings: Settings) -> str | None:
        """The environment variable (also what a 404 names) that must be set first, if any."""
        missing = []
        for instance_settings in settings.per_instance(self.section):
            section = self.section_of(instance_settings)
            needed = [key for key in self.required if not getattr(section, key)]
            # One complete instance is enough to serve the source's path.
            if not needed:
                return None
            missing.append(secret_variable(self.section, needed[0], section.instance.name))
        return missing[0]

    def configured(self, settings: Settings) -> tuple[str, ...]:
        """What `faultline check` calls it where it is configured, else nothing."""
        return () if self.missing(settings) else (self.title,)


@dataclass(frozen=True, kw_only=True)
class WebhookSource(AlertSource):
    """A vendor that posts alerts to one path."""

    receive: Callable[[WebhookSource, Settings], Receive]
    """Made once for a process, so that it can keep what it fetched."""
    endpoint: str | None = None
    """The path's last part, where that is not the name."""
    answer_within_s: float | None = None
    """How long the vendor waits for the answer, where that is less than the usual limit."""
    max_body_bytes: int = 0
    """Where it sends more than `server.max_body_bytes` allows. Only for a source whose sender is
    known before its body is read."""

    @property
    def path(self) -> str:
        """Below /webhooks/, which load balancers and firewalls let through."""
        return f"/webhooks/{self.endpoint or self.name}"

    @property
    def paths(self) -> Mapping[str, str]:
        """Its one path."""
        return {self.path: self.endpoint or self.name}

    def senders(self, settings: Settings) -> Sequence[Sender]:
        """Who may send, each with what proves it: one for each instance of the section."""
        senders: list[Sender] = []
        for instance_settings in settings.per_instance(self.section):
            section = self.section_of(instance_settings)
            senders.append(
                Sender(instance_settings, self._secrets(section), section.instance.covers)
            )
        return senders

    def _secrets(self, section: Section) -> Sequence[SecretStr]:
        secrets: Sequence[SecretStr] = getattr(section, self.required[0])
        return secrets

    def handlers(self, settings: Settings, intake: Intake) -> Mapping[str, Handler]:
        """The one handler that serves every source of webhooks."""
        receive = self.receive(self, settings)
        label = self.paths[self.path]
        limits = self._limits(intake.limits)

        async def handle(request: Request) -> Response:
            began = time.monotonic() - waited_s(request.scope)
            # Its sender hears nothing before it gives up: storing it would only keep others
            # waiting, and it sends again.
            if time.monotonic() - began >= limits.accept_within_s:
                raise NotAccepted(f"the request waited for {limits.accept_within_s:g} s")

            async def read() -> bytes:
                return await read_body(request, limits)

            token = request.query_params.get("token", "")
            content = await receive(WebhookRequest(request.headers, read, token))
            if isinstance(content, Ignored):
                return ignored_response(label, content)
            if isinstance(content, ChangeBatch):
                if intake.keep is None:
                    raise NotAccepted("changes are not kept here")
                return await changes_response(content.changes, intake.keep)
            arrivals = [content] if isinstance(content, Arrival) else content
            # The alert that always fires proves that alerts arrive. It starts no investigation.
            if intake.watchdog is not None:
                arrivals = intake.watchdog.without(arrivals, datetime.now(UTC))
            if not arrivals:
                return watchdog_response()
            now = datetime.now(UTC)
            prioritised = [self._with_priority_words(_in_order(a, now)) for a in arrivals]
            return taken_response(await _take_all(prioritised, intake.accept, limits, began))

        return {self.path: handle}

    def _limits(self, usual: IntakeLimits) -> IntakeLimits:
        accept_within_s = usual.accept_within_s
        if self.answer_within_s is not None:
            accept_within_s = min(accept_within_s, self.answer_within_s)
        max_body_bytes = max(usual.max_body_bytes, self.max_body_bytes)
        return replace(usual, accept_within_s=accept_within_s, max_body_bytes=max_body_bytes)

    def _with_priority_words(self, arrival: Arrival) -> Arrival:
        if not self.priority_words:
            return arrival
        return replace(arrival, priority_words=self.priority_words)


def signed_body(
    header: str, verify: VerifySignature, read: ReadAlerts
) -> Callable[[WebhookSource, Settings], Receive]:
    """For a vendor that signs the body: it is read, verified, and only then parsed."""

    def made(source: WebhookSource, settings: Settings) -> Receive:
        senders = source.senders(settings)

        async def receive(request: WebhookRequest) -> RequestContent:
            body = await request.read()
            signature = request.headers.get(header)
            sender = proven(senders, partial(verify, body, signature))
            return sender.placed(read(body, sender.settings, now=datetime.now(UTC)))

        return receive

    return made


def token_in_header(read: ReadAlerts) -> Callable[[WebhookSource, Settings], Receive]:
    """For a vendor that sends a token of ours in `Authorization`, as Bearer or as Basic."""
    return partial(_with_token, read, _header)


def token_in_address(read: ReadAlerts) -> Callable[[WebhookSource, Settings], Receive]:
    """For a vendor that lets its user set nothing but the address: the token is its parameter
    `token`, unless there is a header."""
    return partial(_with_token, read, _header_or_address)


def _header(request: WebhookRequest) -> str | None:
    return request.headers.get("authorization")


def _header_or_address(request: WebhookRequest) -> str | None:
    return _header(request) or f"Bearer {request.token}"


def _with_token(
    read: ReadAlerts,
    authorization: Callable[[WebhookRequest], str | None],
    source: WebhookSource,
    settings: Settings,
) -> Receive:
    senders = source.senders(settings)
    large_body_lock = asyncio.Lock()

    async def receive(request: WebhookRequest) -> RequestContent:
        # The token needs no body, so what a stranger sends is not even read.
        sender = proven(senders, partial(verify_token, source.name, authorization(request)))
        body = await request.read()
        now = datetime.now(UTC)
        if len(body) <= LARGE_BODY_BYTES:
            return sender.placed(read(body, sender.settings, now=now))
        # Read beside other requests, and one at a time, as it takes many times its size in memory.
        async with large_body_lock:
            return sender.placed(await in_thread(read, body, sender.settings, now=now))

    return receive


def _in_order(arrival: Arrival, now: datetime) -> Arrival:
    """The arrival with a time that is not in the future: behind such a time, what comes later with
    a right one would count as older."""
    delivery = arrival.delivery
    if delivery is None or delivery.at is None or delivery.at <= now:
        return arrival
    return replace(arrival, delivery=replace(delivery, at=now))


async def _take_all(
    arrivals: Sequence[Arrival], accept: Accept, limits: IntakeLimits, began: float
) -> Sequence[Accepted]:
    """As many together as the store writes in one transaction, then the next, so that a storm too
    large for one answer gets further with each retry. Raises NotAccepted."""
    deadline = began + limits.group_within_s
    taken: list[Accepted] = []
    for start in range(0, len(arrivals), MAX_TOGETHER):
        if time.monotonic() >= deadline:
            raise NotAccepted(
                f"{len(taken)} of {len(arrivals)} alerts stored within {limits.group_within_s:g} s"
            )
        together = [
            take(accept, arrival, within_s=limits.accept_within_s)
            for arrival in arrivals[start : start + MAX_TOGETHER]
        ]
        # Wait for all of them before raising: what was stored is a duplicate at the retry.
        for outcome in await asyncio.gather(*together, return_exceptions=True):
            if isinstance(outcome, BaseException):
                raise outcome
            taken.append(outcome)
    return taken
