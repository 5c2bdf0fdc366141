"""Deleting investigations with everything of them that is ours: `faultline delete ID`, and what
retention finds. What others have of them stays with them."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from obstore.exceptions import BaseError
from sqlalchemy import delete, select, update
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.phrases import counted
from faultline.bot.operating.engine_rows import EngineRows, Workflow
from faultline.bot.operating.inspection import Inspection, inspected
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.databases import first_line, open_cases
from faultline.bot.store.people_tables import FollowUpRow, QuestionRow
from faultline.bot.store.store import NO_POST
from faultline.bot.store.tables import (
    DeliveryRow,
    InvestigationRow,
    LearnedCallRow,
    PostRow,
    ProgressRow,
    RememberedRow,
    SuppressedAlertRow,
)
from faultline.bot.store.visitors import AuditEntry, AuditLog

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


DELETED = "deleted"


def delete_investigation(settings: Settings, name: str, *, sure: bool) -> None:
    """Delete it, or without `sure` say what would be. Raises FaultlineError for one that runs, or
    that nobody knows."""
    with inspected(settings) as inspection:
        if inspection.rows is None:
            raise FaultlineError(f"the engine's tables cannot be read: {inspection.no_rows}")
        with inspection.read() as session:
            row = session.get(InvestigationRow, name)
            work = engine_work(inspection.rows, session, name)
            posts = posts_of(session, name)
            contents = _has(session, name, row is not None, work)
        folder = open_cases(settings)
        if row is None and not work and name not in folder.ids():
            raise FaultlineError(f"no investigation {name!r}")
        _refuse_running(inspection, name, work)
        if not sure:
            sys.stdout.write(
                f"would delete {name}: {contents}\n{_stays(posts)}Say --yes to delete it.\n"
            )
            return
        # The rows of the store go last: until then the command can be run again after a failure.
        inspection.rows.delete([w.id for w in work])
        try:
            delete_case(folder, name)
        except (BaseError, OSError) as error:
            raise FaultlineError(
                f"the case folder could not be deleted: {str(error).splitlines()[0][:200]}"
            ) from error
        _delete_rows(inspection, name)
    sys.stdout.write(f"deleted {name}: {contents}\n{_stays(posts)}")


def _delete_rows(inspection: Inspection, name: str) -> None:
    try:
        with Session(inspection.store) as session, session.begin():
            delete_rows(session, [name])
        who = _operator()
        entry = AuditEntry(who, who, "admin", DELETED, name, "command line", 200)
        AuditLog(
            inspection.store, retention=timedelta(days=inspection.settings.login.audit_days)
        ).write(entry, datetime.now(UTC))
    except SQLAlchemyError as error:
        raise FaultlineError(
            f"its rows could not be deleted ({first_line(error)}); run the command again"
        ) from error


def _refuse_running(inspection: Inspection, name: str, work: list[Workflow]) -> None:
    living = inspection.executors()
    for workflow in work:
        taken = (
            workflow.status == "PENDING" and workflow.executor and living.lives(workflow.executor)
        )
        # A living worker may begin what is queued at any moment.
        if taken or (workflow.active and workflow.status != "PENDING" and living.count):
            raise FaultlineError(
                f"{name} is being worked on ({workflow.id}); wait until it ends, or stop the "
                f"workers first"
            )


def _has(session: Session, name: str, has_row: bool, work: list[Workflow]) -> str:
    """What there is of it, in words."""
    lines = len(
        session.scalars(select(ProgressRow.id).where(ProgressRow.investigation_id == name)).all()
    )
    row_count = len(
        session.scalars(select(QuestionRow.id).where(QuestionRow.investigation_id == name)).all()
    )
    remembered = (
        session.scalar(select(RememberedRow.id).where(RememberedRow.investigation_id == name))
        is not None
    )
    further = session.scalars(
        select(FollowUpRow.investigation_id).where(FollowUpRow.parent_id == name)
    ).all()
    parts = [
        "its case folder",
        "its row" if has_row else "no row",
        counted(lines, "line") + " of progress",
        counted(row_count, "question"),
        counted(len(work), "workflow") + " of the engine",
        *(["what is remembered of it"] if remembered else []),
    ]
    phrase = f"; {', '.join(further)}, started from it, stays" if further else ""
    return ", ".join(parts) + phrase


def _stays(posts: list[str]) -> str:
    """What is not ours to delete."""
    at_vendors = (
        f"stays at vendors: {'; '.join(posts)}. "
        if posts
        else "nothing of it is known at vendors. "
    )
    return (
        at_vendors + "Later cases that quote it keep that quotation; backups keep what they hold.\n"
    )


def _operator() -> str:
    try:
        return f"{getpass.getuser()} (command line)"
    except (KeyError, OSError):  # a container's user without a name
        return "command line"
