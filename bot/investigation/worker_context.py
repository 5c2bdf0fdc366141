"""What a worker investigates with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from analysis.vocabulary import Scope
from bot.answer.outcome import ReplyTarget
from bot.runtime.process_pool import ProcessPool
from bot.settings import Settings
from bot.store.case_store import CaseStore
from bot.store.store import Store

if TYPE_CHECKING:
    from bot.investigation.reading_traces import TraceReading
    from connectors.base import Connector


@dataclass(frozen=True)
class WorkerContext:
    """What a worker investigates with."""

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
