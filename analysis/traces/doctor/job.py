"""What the rules judge: one summary per rank, compared once, and what the job's other files say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from faultline.analysis.traces.across_ranks.comparison import RankComparison, compare
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.step_breakdown import RankSteps
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis


@dataclass(frozen=True)
class TrainingJob:
    """One job: its ranks' summaries (any number, several of one rank too), and what other files of
    it told."""

    summaries: tuple[RankSummary, ...]
    file_diagnoses: tuple[JobDiagnosis, ...] = ()
    """Diagnoses from flight recorder dumps, stack dumps, metrics and logs (`hang_diagnoses`)."""
    unread: int = 0
    """Trace files that could not be read."""

    @cached_property
    def comparison(self) -> RankComparison | None:
        """None without a trace."""
        return compare(self.summaries) if self.summaries else None

    @property
    def compared(self) -> RankComparison | None:
        """The comparison, where ranks can be blamed by it."""
        return (
            self.comparison if self.comparison is not None and self.comparison.comparable else None
        )

    @property
    def ranks(self) -> tuple[RankSummary, ...]:
        """One summary per rank, by rank: the latest of each."""
        return self.comparison.job.ranks if self.comparison else ()

    @property
    def steps_of_ranks(self) -> tuple[RankSteps, ...]:
        """Where the common steps of every rank went."""
        return self.comparison.steps if self.comparison else ()

    @property
    def count(self) -> int:
        """Ranks with a trace."""
        return len(self.ranks)

    @property
    def step_count(self) -> int:
        """Steps that every rank recorded; 0 where the profiler marked none."""
        return len(self.comparison.job.steps) if self.comparison else 0

    @property
    def step_ns(self) -> float:
        """Mean step of the ranks, as the table of ranks and the bar below it show it; without steps
        the mean length of the ranks' traces. A mean, because times per step are means, too, and
        shares of it have to add up."""
        lengths = [float(s.length.mean()) for s in self.steps_of_ranks if len(s)]
        return fmean(lengths) if lengths else mean_step_ns(self.ranks)

    @property
    def has_steps(self) -> bool:
        """Whether at least two steps were recorded: the least from which anything can be called
        usual."""
        return bool(self.ranks) and all(s.facts.steps >= 2 for s in self.ranks)

    def where(self, numbers: Iterable[int]) -> list[RankSummary]:
        """The summaries of these ranks."""
        requested_numbers = set(numbers)
        return [s for s in self.ranks if s.rank in requested_numbers]


def mean_step_ns(ranks: Sequence[RankSummary]) -> float:
    """Mean over these ranks of their mean steps (of the length of the trace, where it has no
    steps)."""
    lengths = [
        float((s.steps.end - s.steps.start).mean()) if len(s.steps) else s.facts.window_ns
        for s in ranks
    ]
    # fmean refuses an empty list.
    return fmean(lengths or [0.0])


def job_of(
    summaries: Sequence[RankSummary], file_diagnoses: Sequence[JobDiagnosis] = (), unread: int = 0
) -> TrainingJob:
    """A job of these summaries."""
    return TrainingJob(tuple(summaries), tuple(file_diagnoses), unread)
