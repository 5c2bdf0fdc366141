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
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.intake.incident_requests import (
    IncidentRequest,
    IncidentRequests,
    Requester,
    requester_key,
    since_of,
)
from faultline.bot.mcp.callers import Caller
from faultline.bot.policy.values import ENDED
from faultline.bot.runtime.threads import in_store
from faultline.bot.settings import Settings
from faultline.bot.store.store import Progress, Store, StoredInvestigation

ProgressReporter = Callable[[str], Awaitable[None]]
LOOK_EVERY_S = 0.5
LINE = 300
WAITS = (
    "the database does not answer, so the request waits on disk and is investigated later; see "
    "`recent`"
)


class NoSuchInvestigation(FaultlineError):
    """The id names nothing that the caller may see."""

    def __init__(self, id_: str) -> None:
        super().__init__(
            f"there is no investigation {single_line(id_, 60)!r}; `recent` lists those you may see"
        )


@dataclass(frozen=True)
class Shelf:
    """Investigations, and the folders with their cases."""

    store: Store
    case_path: Callable[[str], Awaitable[Path | None]]


@dataclass(frozen=True)
class InvestigationHandle:
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
    requests: IncidentRequests | None
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
        incident = IncidentRequest(
            text=question,
            # Agents send no key, so each call starts an investigation.
            key=requester_key(requester, uuid.uuid4().hex),
            door="mcp",
            service=service,
            since=since_of(since, now, self.zone, "since") if since else None,
            zone=self.zone,
        )
        accepted = await self.requests.start(incident, requester, repr((question, service, since)))
        if accepted.investigation_id is None:
            raise FaultlineError(WAITS)
        return accepted.investigation_id

    async def find(self, caller: Caller, investigation_id: str) -> InvestigationHandle:
        """The investigation of this id. Raises NoSuchInvestigation, also where the caller may not
        see it."""
        for shelf in self.shelves:
            investigation = await in_store(shelf.store.get, investigation_id, caller.visibility)
            if investigation is not None:
                return InvestigationHandle(investigation, shelf)
        raise NoSuchInvestigation(investigation_id)

    async def latest(self, caller: Caller, most: int) -> list[InvestigationHandle]:
        """The newest first."""
        handles: list[InvestigationHandle] = []
        for shelf in self.shelves:
            latest = await in_store(shelf.store.latest, most, caller.visibility)
            handles += [InvestigationHandle(investigation, shelf) for investigation in latest]
        # Each shelf is in order by itself, but not all of them together.
        handles.sort(key=lambda handle: handle.investigation.accepted_at, reverse=True)
        return handles[:most]

    async def wait(
        self,
        caller: Caller,
        investigation_id: str,
        within_s: float,
        report_progress: ProgressReporter,
    ) -> InvestigationHandle:
        """The investigation once it has ended, or as it is when the time is over. Tells each line
        of progress that is written meanwhile."""
        deadline, after = time.monotonic() + within_s, 0
        while True:
            handle = await self.find(caller, investigation_id)
            for line in await in_store(handle.shelf.store.progress, investigation_id, after):
                await report_progress(shown(line))
                after = line.seq
            if handle.has_ended or time.monotonic() >= deadline:
                return handle
            # Never sleep past the deadline.
            await asyncio.sleep(min(LOOK_EVERY_S, max(0.0, deadline - time.monotonic())))

    async def progress(self, handle: InvestigationHandle) -> list[Progress]:
        """What was done so far."""
        return await in_store(handle.shelf.store.progress, handle.investigation.id)

    async def folder(
        self, caller: Caller, investigation_id: str
    ) -> tuple[InvestigationHandle, Path]:
        """The case of an investigation that has ended. Raises FaultlineError where there is no
        answer yet, or none at all."""
        handle = await self.find(caller, investigation_id)
        if not handle.has_ended:
            raise FaultlineError("there is no answer yet; call `wait` with this id")
        if handle.investigation.status in ("failed", "joined"):
            raise FaultlineError(single_line(handle.investigation.headline or "it failed", LINE))
        folder = await handle.shelf.case_path(handle.investigation.id)
        if folder is None:
            raise FaultlineError("the case of this investigation was deleted")
        return handle, folder


def shown(line: Progress) -> str:
    """A line of progress, which may quote a source."""
    return single_line(line.text, LINE)
