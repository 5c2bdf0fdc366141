"""`faultline delete ID`: one investigation goes everywhere, and the audit says who asked for
that."""

from __future__ import annotations

import getpass
import sys
from datetime import UTC, datetime, timedelta

from obstore.exceptions import BaseError
from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.phrases import counted
from faultline.bot.operating.engine_rows import Workflow
from faultline.bot.operating.inspection import Inspection, inspected
from faultline.bot.operating.removing import delete_case, delete_rows, engine_work, posts_of
from faultline.bot.settings import Settings
from faultline.bot.store.databases import first_line, open_cases
from faultline.bot.store.people_tables import FollowUpRow, QuestionRow
from faultline.bot.store.tables import InvestigationRow, ProgressRow, RememberedRow
from faultline.bot.store.visitors import AuditEntry, AuditLog

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
