"""One answer held against the truth.

The place of the true subject among the causes gives AC@k, whatever the verdict. The *answer* is
right when the verdict names a cause and the first cause is the true subject, or when the verdict is
the label's own ("no active incident", "not enough evidence"): that is what the stated confidence is
about. "No change is to blame" is decided by the first cause alone: further causes without a change
are no second answer. An answer that nothing is wrong blames no change.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from faultline.analysis.vocabulary import Cause, Diagnosis, Verdict
from faultline.analysis.wording.phrases import plain
from faultline.evaluation.case_setting import DEFAULT_SETTING, CaseSetting
from faultline.evaluation.labels import NO_CHANGE, CaseLabel

NAMES_A_CAUSE = frozenset({Verdict.CAUSE_FOUND, Verdict.RECOVERED})
SHOWN_CAUSES = 5
CHANGES_READ = 3
"""Causes whose change is compared with the culprit change."""
MAX_WHY = 400


@dataclass(frozen=True)
class Grade:
    """One case: the truth, the answer, and what of it is right; None is what the label does not
    tell.

    `rank` is the place of the true subject among the causes, from 1; None when it is not among
    them.
    """

    case: str
    system: str
    fault: str = "unnamed"
    label: CaseLabel | None = None
    rank: int | None = None
    causes: tuple[str, ...] = ()
    verdict: Verdict | None = None
    confidence: float | None = None
    right: bool | None = None
    change: str | None = None
    change_rank: int | None = None
    decoys: tuple[str, ...] = ()
    """Decoys that the first three causes blame."""
    decoy_first: bool = False
    """Whether the first cause blames a decoy."""
    cpu_s: float = 0.0
    answer_why: str = ""
    truth_why: str = ""
    setting: CaseSetting = DEFAULT_SETTING
    path_shown: bool | None = None
    """Whether the answer names every hop from the alert to the culprit, and the culprit first; None
    where no such path is known."""
    baselines: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """What simple methods named on the same case, by method."""
    problem: str | None = None
    """Why there is no answer, or why it is not graded."""

    @property
    def subject(self) -> str | None:
        """The true subject."""
        return self.label.subject or None if self.label else None

    @property
    def culprit(self) -> str | None:
        """The change that is to blame, or "none"."""
        return self.label.change or None if self.label else None

    @property
    def verdict_right(self) -> bool | None:
        """Whether the verdict is the label's."""
        expected = self.label.verdict if self.label else None
        return None if expected is None else self.verdict is expected

    @property
    def cluster(self) -> tuple[str, str, str]:
        """Cases alike in these are hardly independent tests."""
        return self.system, self.subject or "", self.fault

    def hit(self, k: int) -> bool:
        """Whether the true subject is among the first k causes."""
        return self.rank is not None and self.rank <= k

    def change_hit(self, k: int) -> bool:
        """Whether the culprit change is among those of the first k causes."""
        return self.change_rank is not None and self.change_rank <= k


def grade(case: str, system: str, label: CaseLabel, diagnosis: Diagnosis, cpu_s: float) -> Grade:
    """Hold the diagnosis against the label; `cpu_s` is what the answer took."""
    causes = diagnosis.causes
    subjects = [cause.subject for cause in causes]
    rank = subjects.index(label.subject) + 1 if label.subject in subjects else None
    blamed = [cause.change or NO_CHANGE for cause in causes[:CHANGES_READ]] or [NO_CHANGE]
    # A verdict that nothing is wrong blames no change, whatever the causes name.
    if diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT:
        blamed = [NO_CHANGE]
    decoys = set(label.decoys)
    return Grade(
        case=case,
        system=system,
        fault=label.fault_class,
        label=label,
        rank=rank,
        causes=tuple(subjects[:SHOWN_CAUSES]),
        verdict=diagnosis.verdict,
        confidence=diagnosis.confidence,
        right=_right(label, diagnosis.verdict, rank),
        change=blamed[0],
        change_rank=_change_rank(label.change, blamed),
        decoys=tuple(dict.fromkeys(c for c in blamed if c in decoys)),
        decoy_first=blamed[0] in decoys,
        cpu_s=cpu_s,
        answer_why=plain(causes[0].summary, MAX_WHY) if causes else "no cause is named",
        truth_why=_for_the_truth(label.subject, diagnosis, causes)
        if label.subject and rank != 1
        else "",
    )


def _right(label: CaseLabel, verdict: Verdict, rank: int | None) -> bool | None:
    if label.subject and verdict in NAMES_A_CAUSE:
        return rank == 1
    if label.verdict is not None:
        return verdict is label.verdict
    return False if label.subject else None


def _change_rank(culprit: str | None, blamed: Sequence[str]) -> int | None:
    # Further causes without a change are no second answer to "no change".
    if culprit == NO_CHANGE:
        return 1 if blamed[0] == NO_CHANGE else None
    return blamed.index(culprit) + 1 if culprit in blamed else None


def _for_the_truth(subject: str, diagnosis: Diagnosis, causes: Sequence[Cause]) -> str:
    """What the analysis has to say for the true subject where it did not come first."""
    for cause in causes:
        if cause.subject == subject:
            return plain(cause.summary, MAX_WHY)
    # The first sentences are the strongest, since findings are sorted by strength.
    sentences = [finding.sentence for finding in diagnosis.findings if finding.subject == subject]
    return plain(" ".join(sentences[:3]), MAX_WHY) if sentences else "nothing was found about it"
