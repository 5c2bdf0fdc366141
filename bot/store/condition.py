"""The bot's health, as its store shows it: what waits, what runs, how long answers take, what
connectors reported.

Synchronous; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Engine, func, select

from faultline.bot.store.models import InvestigationRow, ProgressRow
from faultline.bot.store.sessions import reading
from faultline.bot.store.visibility import ALL, Visibility

RECENT = 200
"""Investigations whose times are summed up."""
READ_LINES = 4_000
"""Newest lines of progress that are searched for what connectors said."""
COLLECTED = "collect "
REPLIED = "reply "
MAX_NAMES = 100


@dataclass(frozen=True)
class LatestProgress:
    """The newest line about a connector, or about a reply target; `ok` where nothing was
    missing."""

    name: str
    at: datetime
    text: str
    ok: bool
    requests: int
    """How often it was asked among the lines that were read."""
    failed: int
    last_ok: datetime | None


@dataclass(frozen=True)
class Condition:
    """What the store shows."""

    counts: dict[str, int]
    waiting_since: datetime | None
    """When the oldest alert that no worker has begun with was accepted."""
    last_sign: datetime | None
    """When a worker last wrote a line of progress."""
    answer_s: tuple[float, ...]
    """Seconds from alert to answer of recent investigations, sorted."""
    connectors: tuple[LatestProgress, ...]
    places: tuple[LatestProgress, ...]


def read_condition(engine: Engine, visibility: Visibility = ALL) -> Condition:
    """Read it in one transaction, of investigations that can be seen."""
    row = InvestigationRow
    with reading(engine) as session:
        by_status = select(row.status, func.count()).where(*visibility.where()).group_by(row.status)
        counts = {status: count for status, count in session.execute(by_status).all()}  # noqa: C416
        waiting = session.scalar(
            select(func.min(row.accepted_at)).where(row.status == "accepted", *visibility.where())
        )
        times = session.execute(
            select(row.accepted_at, row.finished_at)
            .where(row.status == "done", row.finished_at.is_not(None), *visibility.where())
            .order_by(row.accepted_at.desc())
            .limit(RECENT)
        ).all()
        progress = select(ProgressRow.at, ProgressRow.stage, ProgressRow.text)
        # The subquery costs time that nobody needs where everything can be seen.
        if not visibility.is_all:
            progress = progress.where(ProgressRow.investigation_id.in_(visibility.ids()))
        newest = progress.order_by(ProgressRow.id.desc()).limit(READ_LINES)
        lines = [(at, stage, text) for at, stage, text in session.execute(newest).all()]
    return Condition(
        counts=counts,
        waiting_since=waiting,
        last_sign=lines[0][0] if lines else None,
        answer_s=tuple(sorted((end - begin) / timedelta(seconds=1) for begin, end in times if end)),
        connectors=_latest(lines, COLLECTED, lambda text: " missing: " not in text),
        places=_latest(lines, REPLIED, lambda text: text.startswith("answered in ")),
    )


def _latest(
    lines: Sequence[tuple[datetime, str, str]], prefix: str, well: Callable[[str], bool]
) -> tuple[LatestProgress, ...]:
    """By name, of lines that come newest first."""
    of: dict[str, list[tuple[datetime, str, bool]]] = defaultdict(list)
    for at, stage, text in lines:
        if stage.startswith(prefix) and (stage in of or len(of) < MAX_NAMES):
            of[stage].append((at, text, well(text)))
    return tuple(_summed_up(stage.removeprefix(prefix), of[stage]) for stage in sorted(of))


def _summed_up(name: str, lines: Sequence[tuple[datetime, str, bool]]) -> LatestProgress:
    """Of all lines of one name, the newest first."""
    at, text, ok = lines[0]
    when_ok = [at for at, _, ok in lines if ok]
    return LatestProgress(
        name=name,
        at=at,
        text=text.removeprefix(f"{name}: "),
        ok=ok,
        requests=len(lines),
        failed=len(lines) - len(when_ok),
        last_ok=when_ok[0] if when_ok else None,
    )
