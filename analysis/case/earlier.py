"""What memory gave to a case, earlier.json: earlier investigations as hypotheses to test again,
never as evidence.

It is written when the evidence is collected, so that the same case is analysed with the same memory
ever after.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from faultline.analysis.kinds.finding_kinds import (
    ANSWER_RECORD,
    EARLIER_INVESTIGATION,
    FLEET_RECORD,
)
from faultline.analysis.vocabulary import Frozen, UtcTime

EARLIER_FILE = "earlier.json"
KIND, RECORD, FLEET = EARLIER_INVESTIGATION.name, ANSWER_RECORD.name, FLEET_RECORD.name
"""Kinds of the findings that say what memory knows: shown beside the evidence, never as
evidence."""
MIN_JUDGED = 5
"""A share of fewer answers says too little: a coin, too, is right four times of four in one of 16
tries."""
MOST = 1_000_000
"""No count of investigations is larger."""

Why = Literal["same_alert", "same_service", "similar_words"]
"""Why an investigation was recalled: its alert was the same, its service was, or its words were
alike."""


class EarlierCause(Frozen):
    """What an earlier investigation named. `troubles` are names of faults, the
    main one first."""

    subject: str
    kind: str
    troubles: tuple[str, ...] = ()
    change: str | None = None
    change_kind: str | None = None
    summary: str = ""


class Judged(Frozen):
    """What people said of an answer: whether it was right, and the cause in their words."""

    right: bool
    cause: str = ""


class EarlierInvestigation(Frozen):
    """An investigation that ended with an answer. Times are when its alert was accepted."""

    id: str
    at: UtcTime
    fingerprint: str
    title: str
    services: tuple[str, ...] = ()
    system: str | None = None
    verdict: str
    headline: str = ""
    causes: tuple[EarlierCause, ...] = ()
    case: str | None = None
    """Where its case folder lies."""
    judged: Judged | None = None


class Recalled(Frozen):
    """An earlier investigation, and why it was recalled."""

    why: Why
    investigation: EarlierInvestigation


class AlertCount(Frozen):
    """How often the same alert was answered in this many days before this time."""

    days: int = Field(ge=1, le=100_000)
    times: int = Field(ge=0, le=MOST)


class RecordLevel(Frozen):
    """Of `of` judged answers `right` were right; their confidence lay in [level / 10, (level + 1) /
    10)."""

    level: int = Field(ge=0, le=9)
    right: int = Field(ge=0, le=MOST)
    of: int = Field(ge=0, le=MOST)


class HostIncident(Frozen):
    """An earlier investigation that blamed a machine; `part` such as `gpu3`, or ""."""

    id: str
    at: UtcTime
    job: str
    fault: str
    part: str = ""


class HostRecord(Frozen):
    """A machine that earlier answers blamed in `blamed` of the `took_part` incidents of training
    jobs on it. `by_chance` is the probability of that many if all machines are alike."""

    host: str
    took_part: int = Field(ge=1, le=MOST)
    blamed: int = Field(ge=0, le=MOST)
    by_chance: float = Field(ge=0, le=1)
    part: str = ""
    """Which part of it most of them blame."""
    incidents: tuple[HostIncident, ...] = ()
    """The newest first."""


class Earlier(Frozen):
    """The whole file. `asked_at` is when this case's own alert was accepted."""

    asked_at: UtcTime | None = None
    seen: tuple[AlertCount, ...] = ()
    """Of the shorter time first."""
    recalled: tuple[Recalled, ...] = ()
    record: tuple[RecordLevel, ...] = ()
    fleet: tuple[HostRecord, ...] = ()
    """Machines of training jobs that were blamed more than once."""


def is_telling(judged: int) -> bool:
    """Whether this many rated answers are enough to say how often they were right."""
    return judged >= MIN_JUDGED


def level_of(confidence: float) -> int:
    """The level of ten that a confidence in [0, 1] lies in."""
    # The addend absorbs rounding errors below a tenth; a confidence of 1 is in the top level.
    return min(9, max(0, int(10 * confidence + 1e-9)))
