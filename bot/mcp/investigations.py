"""The investigations that a server speaks of: where new ones begin, and where earlier ones lie."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.bot.answer.foreign_text import one_line
from faultline.bot.intake.asked_incident import AskedIncident
from faultline.bot.intake.asked_requests import AskedRequests, Requester, own_key
from faultline.bot.intake.since import since_of
from faultline.bot.mcp.callers import Caller
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.store import Progress, Store, StoredInvestigation

Said = Callable[[str], Awaitable[None]]
LOOK_EVERY_S = 0.5
ENDED = ("done", "failed")
LINE = 300
WAITS = (
    "the database does not answer, so the request waits on disk and is investigated later; see "
    "`recent`"
)


class NoSuchInvestigation(FaultlineError):
    """The id names nothing that the caller may see."""

    def __init__(self, given: str) -> None:
        super().__init__(
            f"there is no investigation {one_line(given, 60)!r}; `recent` lists those you may see"
        )


@dataclass(frozen=True)
class Shelf:
    """Investigations, and the folders with their cases."""

    store: Store
    case_path: Callable[[str], Awaitable[Path | None]]


@dataclass(frozen=True)
class Found:
    """An investigation and where it lies."""

    investigation: StoredInvestigation
    shelf: Shelf

    @property
    def has_ended(self) -> bool:
        """Whether there is an answer, or a reason why there is none."""
        return self.investigation.status in ENDED


@dataclass
class Investigations:
    """What the tools work on. New investigations begin on the first shelf."""

    settings: Settings
    shelves: Sequence[Shelf]
    requests: AskedRequests | None
    """Takes what is asked for; None where nothing can be investigated."""
    why_none_begins: str = ""
    zone: tzinfo = UTC
    """Of times of day in questions."""

    async def begin(
        self, caller: Caller, question: str, service: str | None, since: str | None
    ) -> str:
        """Begin an investigation. Gives its id at once; raises FaultlineError."""
        if self.requests is None:
            raise SettingsError("investigate", self.why_none_begins)
        most = caller.investigations_per_hour or self.settings.people.investigations_per_hour
        requester = Requester(caller.who, most)
        now = datetime.now(UTC)
        incident = AskedIncident(
            text=question,
            key=own_key(requester, uuid.uuid4().hex),
            door="mcp",
            service=service,
            since=since_of(since, now, self.zone, "since") if since else None,
            zone=self.zone,
        )
        accepted = await self.requests.start(incident, requester, repr((question, service, since)))
        if accepted.investigation_id is None:
            raise FaultlineError(WAITS)
        return accepted.investigation_id

    async def find(self, caller: Caller, given: str) -> Found:
        """The investigation of this id. Raises NoSuchInvestigation, also where the caller may not
        see it."""
        for shelf in self.shelves:
            found = await in_store(shelf.store.get, given, caller.visibility)
            if found is not None:
                return Found(found, shelf)
        raise NoSuchInvestigation(given)

    async def latest(self, caller: Caller, most: int) -> list[Found]:
        """The newest first."""
        found: list[Found] = []
        for shelf in self.shelves:
            latest = await in_store(shelf.store.latest, most, caller.visibility)
            found += [Found(one, shelf) for one in latest]
        found.sort(key=lambda one: one.investigation.accepted_at, reverse=True)
        return found[:most]

    async def wait(self, caller: Caller, given: str, within_s: float, said: Said) -> Found:
        """The investigation once it has ended, or as it is when the time is over. Tells each line
        of progress that is written meanwhile."""
        deadline, after = time.monotonic() + within_s, 0
        while True:
            found = await self.find(caller, given)
            for line in await in_store(found.shelf.store.progress, given, after):
                await said(shown(line))
                after = line.seq
            if found.has_ended or time.monotonic() >= deadline:
                return found
            await asyncio.sleep(min(LOOK_EVERY_S, max(0.0, deadline - time.monotonic())))

    async def progress(self, found: Found) -> list[Progress]:
        """What was done so far."""
        return await in_store(found.shelf.store.progress, found.investigation.id)

    async def folder(self, caller: Caller, given: str) -> tuple[Found, Path]:
        """The case of an investigation that has ended. Raises FaultlineError where there is no
        answer yet, or none at all."""
        found = await self.find(caller, given)
        if not found.has_ended:
            raise FaultlineError("there is no answer yet; call `wait` with this id")
        if found.investigation.status == "failed":
            raise FaultlineError(one_line(found.investigation.headline or "it failed", LINE))
        folder = await found.shelf.case_path(found.investigation.id)
        if folder is None:
            raise FaultlineError("the case of this investigation was deleted")
        return found, folder


def shown(line: Progress) -> str:
    """A line of progress, which may quote a source."""
    return one_line(line.text, LINE)
