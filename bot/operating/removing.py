"""Deleting: investigations with everything of them that is ours. What others have of it stays with
them."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import delete, select, update
from sqlalchemy.orm import Session

from faultline.bot.operating.engine_rows import EngineRows, Workflow
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.people_tables import QuestionRow
from faultline.bot.store.store import NO_POST
from faultline.bot.store.tables import (
    DeliveryRow,
    InvestigationRow,
    LearnedCallRow,
    PostRow,
    SuppressedAlertRow,
)

AT_ONCE = 50


def delete_rows(session: Session, names: Sequence[str]) -> None:
    """Delete investigations from the store, inside a transaction; progress, posts, judgements, what
    is remembered, calls that no other saw later and what was asked go with them. Deliveries stay,
    without their names: a late second one is still known as one."""
    mine = DeliveryRow.investigation_id.in_(names)
    session.execute(update(DeliveryRow).where(mine).values(investigation_id=None))
    for name in names:
        rate_limited = SuppressedAlertRow.key.startswith(f"surplus:{name}:", autoescape=True)
        session.execute(delete(SuppressedAlertRow).where(rate_limited))
    learned = LearnedCallRow.investigation_id.in_(names)
    session.execute(delete(LearnedCallRow).where(learned))
    # The foreign keys delete progress, posts and judgements along with the row.
    session.execute(delete(InvestigationRow).where(InvestigationRow.id.in_(names)))


def engine_work(rows: EngineRows, session: Session, name: str) -> list[Workflow]:
    """The engine's workflows of an investigation and of the questions about it."""
    requested_rows = session.scalars(
        select(QuestionRow.id).where(QuestionRow.investigation_id == name)
    ).all()
    return [
        *rows.of(name),
        *(w for requested_row in requested_rows for w in rows.of(f"question:{requested_row}")),
    ]


def delete_case(cases: CaseStore, name: str) -> None:
    """Delete a case folder; one that is gone already is no failure."""
    cases.delete(name, "")


def posts_of(session: Session, name: str) -> list[str]:
    """What was posted at vendors, which stays there: place and reference."""
    query = select(PostRow.key, PostRow.ref).where(
        PostRow.investigation_id == name, PostRow.ref != NO_POST
    )
    return [
        f"{key.removeprefix(f'{name}:')} {ref}"
        for key, ref in session.execute(query.order_by(PostRow.key))
    ]
