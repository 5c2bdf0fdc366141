"""Where the time of a training step goes, rank by rank, as data: a slow rank beside those that wait
for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from faultline.analysis.kinds.finding_details import StragglerDetails
from faultline.analysis.vocabulary import Diagnosis, Finding
from faultline.analysis.wording.amounts import MILLISECONDS, amount
from faultline.analysis.wording.names import change_name
from faultline.analysis.wording.phrases import counted

MOST_RANKS = 8
"""Ranks with a bar; of a larger job the slow one and those most and least like it."""
MOST_PHASES = 8
WAITING = "waiting"
OTHER = "other"
LEAST_SHARE = 0.01
"""What is less of a step than this is not seen in a bar."""
_PHASE = " ms"
_NO_PHASE = frozenset({"step ms", "waits ms"})


@dataclass(frozen=True)
class StepPart:
    """A phase of the step, in milliseconds: "data loading", or `WAITING` for other ranks."""

    phase: str
    ms: float


@dataclass(frozen=True)
class RankBar:
    """One rank's step."""

    rank: int
    parts: tuple[StepPart, ...]
    slow: bool = False

    @property
    def total(self) -> float:
        """The whole step in milliseconds."""
        return sum(part.ms for part in self.parts)


@dataclass(frozen=True)
class StepBars:
    """The bars in the order of ranks. `left_out` ranks are much like those that are drawn."""

    bars: tuple[RankBar, ...]
    phases: tuple[str, ...]
    slow_phase: str
    """The phase in which the slow rank loses its time."""
    left_out: int
    change: str | None
    words: str
    """The picture for those who do not see it."""

    @property
    def longest(self) -> float:
        """The longest step in milliseconds."""
        return max(bar.total for bar in self.bars)


def step_bars_of(diagnosis: Diagnosis) -> StepBars | None:
    """The bars of the rank that the answer blames; None where it blames none."""
    cause = diagnosis.first_cause
    if cause is None:
        return None
    cited = set(cause.findings)
    for finding in diagnosis.findings:
        details = StragglerDetails.of(finding)
        if finding.id in cited and details is not None and details.rank is not None:
            return _bars(finding, details, details.rank, cause.change)
    return None


def _bars(
    finding: Finding, details: StragglerDetails, slow: int, change: str | None
) -> StepBars | None:
    bars = [bar for row in details.per_rank if (bar := _bar(row, slow)) is not None]
    if not any(bar.slow for bar in bars):
        # The table of a large job has only its first ranks.
        bars += _slow_and_typical(details, slow, alone=bool(bars))
    if not bars or max(bar.total for bar in bars) <= 0:
        return None
    drawn = _interesting(bars)
    phases = _phases(drawn)
    slow_phase = details.phase or ""
    rank_count = max(len(details.ranks), len(bars))
    return StepBars(
        bars=tuple(drawn),
        phases=phases,
        slow_phase=slow_phase,
        left_out=rank_count - len(drawn) if details.per_rank else 0,
        change=change_name(change) if change else None,
        words=_words(finding, drawn),
    )


def _bar(row: Mapping[str, object], slow: int) -> RankBar | None:
    """A row of the finding's table; None where it is not one of a rank with phases."""
    rank = row.get("rank")
    if not isinstance(rank, int) or rank < 0:
        return None
    parts = []
    for name, value in row.items():
        ms = _number(value)
        if name.endswith(_PHASE) and name not in _NO_PHASE and ms > 0:
            parts.append(StepPart(name.removesuffix(_PHASE), ms))
    if not parts:
        return None
    parts = parts[:MOST_PHASES]
    waits, whole = _number(row.get("waits ms")), _number(row.get("step ms"))
    named = sum(part.ms for part in parts)
    if waits > 0:
        parts.append(StepPart(WAITING, waits))
    rest = whole - named - waits
    if rest > LEAST_SHARE * whole:
        parts.append(StepPart(OTHER, rest))
    return RankBar(rank, tuple(parts), slow=rank == slow)


def _number(value: object) -> float:
    """A finite amount of time; 0 for anything else."""
    # In Python a bool is an int.
    if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 < value < 1e12:
        return float(value)
    return 0.0


def _slow_and_typical(details: StragglerDetails, slow: int, *, alone: bool) -> list[RankBar]:
    """The slow rank's bar, and unless it shall be `alone` that of another rank by the others'
    median, which waits for the rest."""
    step_parts = [StepPart(name, ms) for name, ms in details.phases_ms.items() if _number(ms)]
    if step_parts and alone:
        return [RankBar(slow, tuple(step_parts), slow=True)]
    parts = [StepPart(name, ms) for name, ms in details.others_phases_ms.items() if _number(ms)]
    other = next((rank for rank in details.ranks if rank != slow), None)
    if not step_parts or not parts or other is None:
        return []
    # Ranks step together: the others wait for as long as the slow one takes longer.
    waits = sum(part.ms for part in step_parts) - sum(part.ms for part in parts)
    if waits > 0:
        parts.append(StepPart(WAITING, waits))
    bars = [RankBar(slow, tuple(step_parts), slow=True), RankBar(other, tuple(parts))]
    return sorted(bars, key=lambda bar: bar.rank)


def _interesting(bars: Sequence[RankBar]) -> list[RankBar]:
    """All of a small job; of a large one the slow rank, those beside it that wait least, and the
    first ones."""
    if len(bars) <= MOST_RANKS:
        chosen = list(bars)
    else:
        # Ranks that hardly wait are nearly as slow.
        by_wait = sorted(
            bars,
            key=lambda bar: (
                not bar.slow,
                sum(part.ms for part in bar.parts if part.phase == WAITING),
                bar.rank,
            ),
        )
        chosen = by_wait[: MOST_RANKS // 2]
        rest = [bar for bar in sorted(bars, key=lambda bar: bar.rank) if bar not in chosen]
        chosen += rest[: MOST_RANKS - len(chosen)]
    return sorted(chosen, key=lambda bar: bar.rank)


def _phases(bars: Sequence[RankBar]) -> tuple[str, ...]:
    """All phases that are drawn, in the order of the step; waiting and the rest last."""
    phases = dict.fromkeys(part.phase for bar in bars for part in bar.parts)
    last = [phase for phase in (WAITING, OTHER) if phase in phases]
    return (*(phase for phase in phases if phase not in last), *last)


def _words(finding: Finding, bars: Sequence[RankBar]) -> str:
    sentences = [finding.sentence.rstrip(".")]
    for bar in bars:
        parts = ", ".join(f"{part.phase} {amount(part.ms, MILLISECONDS)}" for part in bar.parts)
        sentences.append(f"rank {bar.rank}: {parts}")
    return "; ".join(sentences)


def more_ranks(bars: StepBars) -> str:
    """What stands below the bars of a larger job; empty where all ranks are drawn."""
    return f"… {counted_ranks(bars.left_out)} like these" if bars.left_out else ""


def counted_ranks(number: int) -> str:
    """`1 more rank`, `1,016 more ranks`."""
    # `counted` writes no thousands separators.
    return counted(number, "more rank").replace(str(number), f"{number:,}", 1)
