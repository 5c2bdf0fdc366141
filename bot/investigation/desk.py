"""What a worker investigates with, how an investigation ended, and the places that are told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from analysis.vocabulary import Alert, Diagnosis, Evidence, Gap, Report, Scope
from bot.case_store import CaseStore
from bot.investigation.analyzing import AnalysisPool
from bot.investigation.reading_traces import TraceReading
from bot.settings import Settings
from bot.store.store import Investigation, Store
from connectors.base import Connector


@runtime_checkable
class KnowsAlerts(Protocol):
    """A connector whose vendor knows more of an alert than its webhook said."""

    @property
    def name(self) -> str:
        """The alert's source."""

    async def enrich(self, alert: Alert) -> Alert:
        """The alert with the vendor's details in its labels."""


@dataclass(frozen=True)
class Answer:
    """What an investigation that ended with a report says."""

    diagnosis: Diagnosis
    report: Report
    evidence: Sequence[Evidence]
    gaps: Sequence[Gap]
    chart: bytes | None


@dataclass(frozen=True)
class Outcome:
    """How an investigation ended, as replies need it; without an answer it failed."""

    investigation: Investigation
    answer: Answer | None


class Place(Protocol):
    """Somewhere an answer is posted: one message, once, edited in place."""

    @property
    def name(self) -> str:
        """Its name, in post keys and progress lines."""

    def wanted(self, investigation: Investigation) -> bool:
        """Whether this investigation is to be answered there."""

    async def announce(self, investigation: Investigation) -> None:
        """Say that the investigation has begun, where the place has such a message."""

    async def preview(self, outcome: Outcome) -> None:
        """Edit the announcement into the answer so far, where the place has one; `answer` follows."""

    async def answer(self, outcome: Outcome) -> None:
        """Post the answer, or edit the announcement into it."""


@dataclass(frozen=True)
class Desk:
    """What a worker investigates with."""

    settings: Settings
    store: Store
    cases: CaseStore
    connectors: Sequence[Connector]
    places: Sequence[Place]
    pool: AnalysisPool
    recorded: Scope | None = None
    traces: TraceReading | None = None
    """Reads the traces of large cases beside the analysis; without it, the analysis reads them one by one."""
