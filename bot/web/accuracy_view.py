"""How often answers were right, by what people said of them: in all, by promised confidence, over
time, by kind.

A share of few answers says little, so each comes with its interval: Wilson's score interval at 95 %
(E. B. Wilson, Probable Inference, the Law of Succession, and Statistical Inference, JASA 22, 1927),
which holds for small counts too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from faultline.analysis.case.earlier import level_of
from faultline.bot.answer.shares import Share
from faultline.bot.store.listing import NO_ANSWER
from faultline.bot.store.reports import JudgedAnswer
from faultline.bot.web.answer_state import VERDICTS

ENOUGH = 30
"""With fewer judged answers the interval of a share is wider than a third, and the page says so
first."""
MAX_GROUPS = 12
MAX_PERIODS = 24
WEEKS_UNTIL = timedelta(weeks=16)
"""A record of up to this length is shown by weeks, a longer one by months."""
MAX_WRONG = 50
SIDE = 300
"""Width and height of the diagram's square, in its own units."""


@dataclass(frozen=True)
class Bucket:
    """Answers of one tenth of confidence: what they promised on average, and how many were
    right."""

    label: str
    promised: float
    share: Share

    @property
    def too_sure(self) -> bool:
        """Whether more was promised than the interval allows."""
        return not self.share.few and self.promised > self.share.high

    @property
    def x(self) -> float:
        """In the diagram."""
        return round(SIDE * self.promised, 1)

    @property
    def y(self) -> float:
        """In the diagram, where 0 is on top."""
        return round(SIDE * (1 - self.share.share), 1)

    @property
    def whisker(self) -> tuple[float, float]:
        """Upper and lower end of the interval in the diagram."""
        return round(SIDE * (1 - self.share.high), 1), round(SIDE * (1 - self.share.low), 1)


@dataclass(frozen=True)
class Group:
    """Answers that have something in common."""

    name: str
    share: Share


@dataclass(frozen=True)
class Accuracy:
    """The whole page."""

    judged: int
    without_answer: int
    """Judged ones whose verdict was that the evidence names no cause: they promise nothing, and are
    not counted."""
    all: Share
    promised: float
    buckets: tuple[Bucket, ...]
    periods: tuple[Group, ...]
    by: tuple[tuple[str, tuple[Group, ...]], ...]
    wrong: tuple[JudgedAnswer, ...]

    @property
    def enough(self) -> bool:
        """Whether the record says something about the next answer."""
        return self.all.of >= ENOUGH

    @property
    def most_in_period(self) -> int:
        """The largest count of a period, for the bars' scale."""
        return max((p.share.of for p in self.periods), default=1)


def accuracy_of(judged: Sequence[JudgedAnswer]) -> Accuracy:
    """Count the judged answers, which come newest first."""
    answers = [a for a in judged if a.verdict != NO_ANSWER]
    return Accuracy(
        judged=len(judged),
        without_answer=len(judged) - len(answers),
        all=_share(answers),
        promised=sum(a.confidence for a in answers) / len(answers) if answers else 0.0,
        buckets=tuple(_buckets(answers)),
        periods=tuple(_periods(answers)),
        by=(
            (
                "verdict",
                _groups(answers, lambda a: VERDICTS.get(a.verdict, a.verdict)),
            ),
            ("service", _groups(answers, lambda a: a.service or "no service")),
            ("source", _groups(answers, lambda a: a.source)),
        ),
        wrong=tuple(a for a in judged if not a.right)[:MAX_WRONG],
    )


def _share(answers: Sequence[JudgedAnswer]) -> Share:
    return Share(sum(a.right for a in answers), len(answers))


def _buckets(answers: Iterable[JudgedAnswer]) -> Iterable[Bucket]:
    by_level: dict[int, list[JudgedAnswer]] = defaultdict(list)
    for answer in answers:
        by_level[level_of(answer.confidence)].append(answer)
    for level, members in sorted(by_level.items()):
        promised = sum(a.confidence for a in members) / len(members)
        yield Bucket(f"{10 * level} to {10 * level + 10} %", promised, _share(members))


def _periods(answers: Sequence[JudgedAnswer]) -> list[Group]:
    """Weeks, or months of a long record, oldest first; those without judged answers in between
    included."""
    if not answers:
        return []
    # Answers come newest first.
    first, last = answers[-1].at, answers[0].at
    start, form = (_monday, "%-d %b") if last - first <= WEEKS_UNTIL else (_month, "%b %Y")
    within: dict[datetime, list[JudgedAnswer]] = defaultdict(list)
    for answer in answers:
        within[start(answer.at)].append(answer)
    begins = [start(last)]
    while begins[-1] > start(first) and len(begins) < MAX_PERIODS:
        # The day before a period begins lies in the period before it.
        begins.append(start(begins[-1] - timedelta(days=1)))
    return [Group(f"{begin:{form}}", _share(within[begin])) for begin in reversed(begins)]


def _monday(at: datetime) -> datetime:
    day = at.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return day - timedelta(days=day.weekday())


def _month(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def _groups(
    answers: Iterable[JudgedAnswer], name: Callable[[JudgedAnswer], str]
) -> tuple[Group, ...]:
    members: dict[str, list[JudgedAnswer]] = defaultdict(list)
    for answer in answers:
        members[name(answer)].append(answer)
    groups = sorted(
        (Group(key, _share(of)) for key, of in members.items()), key=lambda g: (-g.share.of, g.name)
    )
    return tuple(groups[:MAX_GROUPS])
