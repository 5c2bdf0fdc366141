"""Judged answers with what they were about, for the accuracy page.

Synchronous; callers on an event loop use `in_store`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Engine, select

from faultline.bot.policy.people import without_mentions
from faultline.bot.store.labels import COUNTED, newest_ids
from faultline.bot.store.listing import raw_alert_field, text_of
from faultline.bot.store.models import InvestigationRow, LabelRow
from faultline.bot.store.sessions import reading
from faultline.bot.store.visibility import ALL, Visibility


@dataclass(frozen=True)
class JudgedAnswer:
    """An answer, and what somebody said of it. `cause` is in the judge's words, or empty."""

    id: str
    at: datetime
    """When its alert was accepted."""
    title: str
    service: str
    source: str
    verdict: str
    confidence: float
    headline: str
    right: bool
    cause: str
    judged_at: datetime


def judged_answers(
    engine: Engine, limit: int = COUNTED, *, visibility: Visibility = ALL
) -> list[JudgedAnswer]:
    """The newest judged answers that can be seen; of each the judgement that holds."""
    row, label = InvestigationRow, LabelRow
    alert = [raw_alert_field(engine, name) for name in ("title", "service", "source")]
    query = (
        select(row.id, row.accepted_at, *alert, row.verdict, row.confidence, row.headline)
        .add_columns(label.right, label.cause, label.at)
        .join(label, label.investigation_id == row.id)
        .where(label.id.in_(newest_ids()), *visibility.where())
        .order_by(row.accepted_at.desc(), row.id.desc())
        .limit(limit)
    )
    with reading(engine) as session:
        return [_judged(*row) for row in session.execute(query)]


def _judged(
    id_: str,
    at: datetime,
    title: Any,
    service: Any,
    source: Any,
    verdict: str | None,
    confidence: float | None,
    headline: str | None,
    right: bool,
    cause: str,
    judged_at: datetime,
) -> JudgedAnswer:
    return JudgedAnswer(
        id_,
        at,
        text_of(title),
        text_of(service),
        text_of(source),
        verdict or "",
        confidence or 0.0,
        headline or "",
        right,
        without_mentions(cause),
        judged_at,
    )
