"""What a worker investigates with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from analysis.kinds.watched_signals import AlertQuery
from analysis.vocabulary import Alert, Scope
from bot.answer.outcome import ReplyTarget
from bot.investigation.reading_traces import TraceReading
from bot.runtime.process_pool import ProcessPool
from bot.settings import Settings
from bot.store.case_store import CaseStore
from bot.store.store import Store
from connectors.base import Connector


@runtime_checkable
class KnowsAlerts(Protocol):
    """A connector whose vendor knows more of an alert than its webhook said."""

    @property
    def name(self) -> str:
        """The alert's source."""

    async def enrich(self, alert: Alert) -> Alert:
        """The alert with the vendor's details in its labels."""


@runtime_checkable
class KnowsRules(Protocol):
    """A connector whose server evaluates alert rules."""

    @property
    def name(self) -> str:
        """The connector's name."""

    async def rule_of(self, alert: Alert) -> AlertQuery | None:
        """The expression of the rule that sent the alert; None where the server has no such
        rule."""


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
