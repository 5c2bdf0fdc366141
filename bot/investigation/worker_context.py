"""What a worker investigates with."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Scope
from faultline.bot.answer.outcome import ReplyTarget
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.runtime.threads import in_store, in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import Store, StoredInvestigation

if TYPE_CHECKING:
    from faultline.bot.investigation.reading_traces import TraceReading
    from faultline.connectors.shared.contract.base import Connector

R = TypeVar("R")


@dataclass(frozen=True)
class WorkerContext:
    """What a worker investigates with. Its methods do not block the event loop."""

    settings: Settings
    store: Store
    cases: CaseStore
    connectors: Sequence[Connector]
    reply_targets: Sequence[ReplyTarget]
    pool: ProcessPool
    recorded: Scope | None = None
    traces: TraceReading | None = None
    """Reads the traces of large cases beside the analysis; without it, the analysis reads them one
    by one."""

    async def investigation(self, investigation_id: str) -> StoredInvestigation:
        """As it is stored now. Raises FaultlineError where there is none."""
        investigation = await in_store(self.store.get, investigation_id)
        if investigation is None:
            raise FaultlineError(f"investigation {investigation_id} is not in the store")
        return investigation

    async def put(self, investigation_id: str, name: str, data: bytes) -> None:
        """Write a file of the case."""
        await in_thread(self.cases.put, investigation_id, name, data)

    async def say(self, investigation_id: str, stage: str, text: str) -> None:
        """A line of progress. A stage is `name` or `name:what`. Each is kept once."""
        # The stage is the key, so that a step that is repeated writes its line once.
        await in_store(
            self.store.add_progress, investigation_id, stage.split(":")[0], text, key=stage
        )

    @asynccontextmanager
    async def checkout(
        self, investigation_id: str, without: Sequence[str] = ()
    ) -> AsyncIterator[Path]:
        """The case as a local folder; copied from S3 in a thread, so that no other investigation
        waits for that."""
        checkout = self.cases.checkout(investigation_id, without)
        folder = await in_thread(checkout.__enter__)
        try:
            yield folder
        finally:
            await in_thread(checkout.__exit__, None, None, None)

    async def in_process(
        self, investigation_id: str, function: Callable[[Path], R], folder: Path
    ) -> R:
        """Work on the case in a pooled process, the most urgent first."""
        investigation = await self.investigation(investigation_id)
        return await self.pool.run(function, folder, priority=investigation.priority)
