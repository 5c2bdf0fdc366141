"""How an investigation ended, and the reply targets that are notified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from faultline.analysis.vocabulary import Alert, Diagnosis, Evidence, Gap, Report
from faultline.bot.store.messages import DueDigest
from faultline.bot.store.store import StoredInvestigation

if TYPE_CHECKING:
    from faultline.analysis.case.folder import Case
    from faultline.bot.answer.view import AnswerView


@dataclass(frozen=True)
class Answer:
    """What an investigation that ended with a report says."""

    diagnosis: Diagnosis
    report: Report
    evidence: Sequence[Evidence]
    gaps: Sequence[Gap]
    chart: bytes | None
    case: Case | None = None
    """What it is about, for whoever draws it another way."""

    def view(self, alert: Alert) -> AnswerView:
        """What it says, for whoever shows it."""
        # Late: the server counts what was posted, and writes no answer.
        from faultline.bot.answer.view import answer_view

        if self.case is not None:
            # What the investigation learned of its alert stands in the case.
            alert = alert.model_copy(update={"notes": self.case.alert.notes})
        return answer_view(
            alert, self.diagnosis, self.report, gaps=self.gaps, evidence=self.evidence
        )


@dataclass(frozen=True)
class Outcome:
    """How an investigation ended, as replies need it; without an answer it failed."""

    investigation: StoredInvestigation
    answer: Answer | None


class ReplyTarget(Protocol):
    """Somewhere an answer is posted: one message, once, edited in place."""

    @property
    def name(self) -> str:
        """Its name, in post keys and progress lines."""

    def expects_answer(self, investigation: StoredInvestigation) -> bool:
        """Whether this investigation is to be answered there."""

    async def announce(self, investigation: StoredInvestigation) -> None:
        """Say that the investigation has begun, where the target has such a message."""

    async def preview(self, outcome: Outcome) -> None:
        """Edit the announcement into the answer so far, where the target has one; `answer`
        follows."""

    async def answer(self, outcome: Outcome) -> None:
        """Post the answer, or edit the announcement into it."""


@runtime_checkable
class PointsFromJoined(Protocol):
    """A reply target where each alert has its own place, such as an incident: from the places
    of alerts that joined it points to the answer, after it has posted that."""

    def has_joined(self, investigation: StoredInvestigation) -> bool:
        """Whether alerts joined that have places there."""

    async def point_from_joined(self, outcome: Outcome) -> None:
        """Post what is missing there, each once. Raises ConnectorError."""


@runtime_checkable
class PostsDigests(Protocol):
    """A reply target whose channels get a digest after quiet hours."""

    @property
    def name(self) -> str:
        """The target's name."""

    @property
    def posts_digests(self) -> bool:
        """Whether it has channels."""

    async def post_digest(
        self, digest: DueDigest, investigations: Sequence[StoredInvestigation]
    ) -> None:
        """Post it once, in its own channels among those of the digest. Raises ConnectorError."""
