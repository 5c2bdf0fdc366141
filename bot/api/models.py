"""What the API takes and gives. These models check requests, write answers and make the OpenAPI
document.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from starlette.requests import Request

from faultline.analysis.case.folder import Case, read_case, read_diagnosis, read_report
from faultline.analysis.deploys.verdict import DeployVerdict
from faultline.analysis.errors import EvidenceError, SettingsError
from faultline.analysis.vocabulary import (
    Cause,
    Decision,
    Evidence,
    Finding,
    Gap,
    Impact,
    Report,
    Verdict,
)
from faultline.bot.answer.replay import json_of
from faultline.bot.answer.view import answer_view
from faultline.bot.intake.incident_requests import MOST_TEXT, since_of
from faultline.bot.intake.signatures import Refused
from faultline.bot.store.listing import MAX_CAUSE
from faultline.bot.web.investigation_view import read_changes
from faultline.bot.web.series import can_chart, chart_data

Status = Literal["accepted", "running", "done", "failed", "joined"]
# Neither a database nor a terminal takes control characters.
Word = Annotated[
    str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f]+$")
]
Name = Annotated[str, StringConstraints(max_length=60, pattern=r"^[A-Za-z_][A-Za-z0-9_.]*$")]
PAGE, MOST_LISTED = 20, 100


class RequestModel(BaseModel):
    """What a caller sends; a field that nobody knows is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Shown(BaseModel):
    """What a caller gets."""

    model_config = ConfigDict(frozen=True)


class NewInvestigation(RequestModel):
    """A request to investigate."""

    question: Annotated[str, StringConstraints(min_length=1, max_length=MOST_TEXT)] = Field(
        description="What you see, such as: checkout is slow since 14:19."
    )
    service: Word | None = Field(
        default=None, description="The service; unset: the one that the question names."
    )
    since: Word | None = Field(
        default=None,
        description="When it began: 30m, 2h, 14:19 (UTC) or an ISO time. Unset: what the question "
        "says, else now.",
    )
    places: Mapping[Name, Word] = Field(
        default_factory=dict,
        max_length=10,
        description="Where it is, by label, such as cluster or region: only sources that cover it "
        "are asked.",
    )


class NewDeployCheck(RequestModel):
    """A deploy to watch."""

    service: Word
    since: Word = Field(
        default="now", description="When it was deployed: now, 10m, 14:19 (UTC) or an ISO time."
    )
    wait_minutes: float = Field(
        default=15, ge=4, le=1440, description="How long after the deploy to watch."
    )
    warm_up_minutes: float = Field(
        default=2, ge=0, le=60, description="How much of that is not judged."
    )
    baseline_hours: float = Field(
        default=6, ge=0.5, le=168, description="How much time before to compare with."
    )
    canary: Mapping[Name, Word] = Field(
        default_factory=dict,
        max_length=3,
        description="The part that got the deploy, such as version or cluster. Unset: told by "
        "which versions and pods are new.",
    )
    places: Mapping[Name, Word] = Field(
        default_factory=dict,
        max_length=10,
        description="Where it is, by label: only sources that cover it are asked.",
    )


class Feedback(RequestModel):
    """Whether an answer was right."""

    right: bool
    cause: Annotated[str, StringConstraints(max_length=MAX_CAUSE)] = Field(
        default="", description="What the cause was, in your words."
    )


class ListQuery(RequestModel):
    """Which investigations are listed, the newest first."""

    status: Status | None = None
    service: Word | None = None
    q: Word | None = Field(default=None, description="Words of the alert, the service, the cause.")
    after: Word | None = Field(default=None, description="`next` of the page before.")
    limit: int = Field(default=PAGE, ge=1, le=MOST_LISTED)


class EventsQuery(RequestModel):
    """From where progress is sent."""

    # The store's integers end there.
    after: int = Field(default=0, ge=0, lt=2**63, description="`seq` of the last line you have.")


class Started(Shown):
    """A request that was taken. `key` finds it again: send the same request with it."""

    id: str | None = Field(
        description="The investigation; null while the database is away. Send the same request "
        "with the same Idempotency-Key to learn it."
    )
    outcome: Literal["started", "duplicate", "spooled"]
    url: str | None
    key: str


class Investigation(Shown):
    """One investigation, answered or not."""

    id: str
    status: Status
    title: str
    question: str | None
    service: str | None
    source: str
    since: datetime
    accepted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    verdict: Verdict | None
    confidence: float | None
    headline: str | None = Field(description="The answer in a sentence, or why it failed.")
    url: str


class Investigations(Shown):
    """One page of the list."""

    investigations: tuple[Investigation, ...]
    next: str | None = Field(description="`after` of the next page; null on the last.")


class Answer(Shown):
    """The answer, as `faultline ask --json` prints it."""

    id: str
    verdict: Verdict
    confidence: float
    headline: str
    decision: Decision | None = Field(
        default=None,
        description="Who decided; only where a model gave a verdict.",
        exclude_if=lambda decision: decision is None,
    )
    causes: tuple[Cause, ...]
    findings: tuple[Finding, ...]
    impact: Impact
    missing: tuple[str, ...]
    gaps: tuple[Gap, ...]


class Findings(Shown):
    """What code established, in the order of the diagnosis."""

    findings: tuple[Finding, ...]


class Curve(Shown):
    """One line of values; null where nothing was recorded."""

    label: str
    times: tuple[float, ...] = Field(description="Seconds since 1970.")
    values: tuple[float | None, ...]


class Values(Shown):
    """The recorded rows behind a finding, thinned to at most 2,000 points without losing a
    spike."""

    unit: str
    rows: int = Field(description="How many rows there are.")
    curves: tuple[Curve, ...]
    left_out: int = Field(description="Curves that are not given.")
    baseline: tuple[tuple[float, float], ...] = Field(description="In seconds since 1970.")
    incident: tuple[float, float]
    onset: float | None
    threshold: float | None


class FindingWithEvidence(Shown):
    """One finding, what was asked of whom to establish it, and the values."""

    finding: Finding
    evidence: tuple[Evidence, ...]
    unknown_evidence: tuple[str, ...] = Field(description="Ids that the case does not hold.")
    values: Values | None = Field(description="null where it rests on no series.")


class FeedbackKept(Shown):
    """Feedback as it is kept."""

    right: bool
    cause: str
    who: str
    at: datetime


class DeployCheck(Shown):
    """A deploy that is watched, and the last verdict on it."""

    id: str
    key: str | None = Field(description="The idempotency key; only in the answer to a request.")
    status: Literal["watching", "decided", "failed"]
    service: str
    asked_at: datetime
    next_look_at: datetime | None
    verdict: DeployVerdict | None = Field(description="null before the first look.")
    markdown: str | None = Field(description="The verdict as a comment for a pull request.")


class Refusal(Shown):
    """Why a request was not answered, in one line."""

    error: str


# What several operations read of a request.

_KEY = re.compile(r"[!-~]{1,200}")


def key_of(request: Request) -> str:
    """Its idempotency key, or a new one. Raises Refused."""
    key = request.headers.get("idempotency-key") or uuid.uuid4().hex
    if not _KEY.fullmatch(key):
        raise Refused(422, "Idempotency-Key: 1 to 200 visible ASCII characters")
    return key


def since_time(since: str | None) -> datetime | None:
    """The time that a caller gives, in UTC. Raises Refused."""
    if since is None:
        return None
    try:
        return since_of(since, datetime.now(UTC), UTC, "since")
    except SettingsError as error:
        raise Refused(422, f"{error}") from None


# Answers and findings from a case folder, as the API gives them.
#
# Blocking: callers on an event loop use `in_thread`.


def read_answer(investigation_id: str, folder: Path) -> Answer:
    """The stored answer. Raises EvidenceError."""
    case, diagnosis = read_case(folder), read_diagnosis(folder)
    view = answer_view(
        case.alert, diagnosis, _report(folder), gaps=case.gaps, evidence=case.evidence
    )
    return Answer.model_validate({"id": investigation_id, **json_of(view)})


def read_findings(folder: Path) -> Findings:
    """All findings. Raises EvidenceError."""
    return Findings(findings=read_diagnosis(folder).findings)


def read_finding(folder: Path, finding_id: str) -> FindingWithEvidence | None:
    """One finding with what it rests on; None where there is none of this id. Raises
    EvidenceError."""
    case, diagnosis = read_case(folder), read_diagnosis(folder)
    finding = next((finding for finding in diagnosis.findings if finding.id == finding_id), None)
    if finding is None:
        return None
    items = {evidence.id: evidence for evidence in case.evidence}
    return FindingWithEvidence(
        finding=finding,
        evidence=tuple(items[name] for name in finding.evidence if name in items),
        unknown_evidence=tuple(name for name in finding.evidence if name not in items),
        values=_values(case, finding),
    )


def _values(case: Case, finding: Finding) -> Values | None:
    if not can_chart(finding):
        return None
    try:
        return Values.model_validate(chart_data(case, finding, read_changes(case)))
    except EvidenceError:
        return None


def _report(folder: Path) -> Report | None:
    try:
        return read_report(folder)
    except EvidenceError:
        # A case may have lost its report: then the diagnosis speaks for itself.
        return None
