"""Retention: what is older than [retention] says is deleted, in small batches. What runs, waits or
is open stays."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from obstore.exceptions import BaseError
from sqlalchemy import ColumnElement, and_, delete, or_, select
from sqlalchemy.orm import Session

from faultline.bot.operating.deleting import delete_case, delete_rows, engine_work
from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.policy.values import ENDED
from faultline.bot.settings import Settings
from faultline.bot.store.admitting import JOIN_FOR
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.connections import reading
from faultline.bot.store.people_tables import (
    ApiTokenRow,
    CaptureRow,
    PersonActRow,
    QuestionRow,
    QuietThreadRow,
    RequestKeyRow,
    SessionRow,
    SlackChannelRow,
    VisitorRow,
    VisitRow,
)
from faultline.bot.store.quotas import ACTS_RETENTION, SPENDING_RETENTION
from faultline.bot.store.reports import LAST_TIME_RETENTION
from faultline.bot.store.store import Store
from faultline.bot.store.suppressed_alerts import SUPPRESSED_RETENTION
from faultline.bot.store.tables import (
    DeliveryRow,
    DeployCheckRow,
    ExecutorRow,
    GroupedAlertRow,
    InvestigationRow,
    LastTimeRow,
    LearnedCallRow,
    ModelSpendingRow,
    MuteRow,
    ProgressRow,
    ReportedChangeRow,
    SuppressedAlertRow,
)

BATCH = 200
LINES_AT_ONCE = 1_000
SHORTEST_DAYS = 1.0
SILENT_WORKER_RETENTION = timedelta(days=7)
"""`faultline.bot.queue.executor_locks.FORGET_BEATS`."""
INVESTIGATIONS_AT_ONCE = 20
NAMED_BY_TIME = re.compile(r"(\d{8})-(\d{6})-[0-9a-f]{6}")
"""`faultline.bot.store.admitting.new_investigation_id`."""
TRACE_REPORT = re.compile(r"traces-(\d{10})\d*-[0-9a-f]{12}")
"""`faultline.bot.conversation.steps`: a trace report that was not yet posted, by the second in
which it was asked for."""

log = logging.getLogger("faultline.retention")
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Sweep:
    """One look at everything. `stop` is asked between batches."""

    settings: Settings
    store: Store
    cases: CaseStore
    rows: EngineRows
    now: datetime
    stop: Stop = lambda: False

    def run(self) -> Counter[str]:
        """Delete what is due; returns the counts by kind."""
        retention, done = self.settings.retention, Counter[str]()
        parts: tuple[tuple[str, float, Callable[[datetime], int]], ...] = (
            ("engine", retention.engine_days, self.engine_rows),
            ("investigations", retention.investigations_days, self.investigations),
            ("cases", retention.cases_days, self.case_folders),
            ("conversations", retention.conversations_days, self.conversations),
            ("progress", retention.progress_days, self.progress),
            ("deliveries", retention.deliveries_days, self.deliveries),
            ("changes", retention.changes_days, self.reported_changes),
            ("calls", retention.calls_days, self.learned_calls),
            ("audit", self.settings.login.audit_days, self.audit),
            ("records", retention.investigations_days, self.records),
            ("short-lived", SHORTEST_DAYS, self.short_lived),
        )
        for name, days, delete_before in parts:
            # 0 days keeps them forever.
            if days > 0 and not self.stop():
                done[name] += delete_before(self.now - timedelta(days=days))
        # Unary plus drops the counts of 0.
        return +done

    def engine_rows(self, before: datetime) -> int:
        """Workflows that ended; the engine keeps them forever."""
        count = 0
        while not self.stop() and (ids := self.rows.ended_before(before, BATCH)):
            self.rows.delete(ids)
            count += len(ids)
        return count

    def investigations(self, before: datetime) -> int:
        """Investigations with everything that hangs on them: first what lies elsewhere, then their
        rows."""
        count, after = 0, ""
        while not self.stop():
            with reading(self.store.engine) as session:
                names = self._over(session, before, after)
                work = {name: engine_work(self.rows, session, name) for name in names}
            if not names:
                break
            # Go on after these: what cannot be deleted now must not come up again in this sweep.
            after = names[-1]
            idle = [name for name in names if not any(w.active for w in work[name])]
            gone = [
                name for name in idle if self._without_elsewhere(name, [w.id for w in work[name]])
            ]
            with Session(self.store.engine) as session, session.begin():
                delete_rows(session, gone)
            count += len(gone)
        return count

    def case_folders(self, before: datetime) -> int:
        """Folders of investigations that ended, and of those that the store does not know."""
        due = [
            name for name in self.cases.ids() if (at := named_at(name)) is not None and at < before
        ]
        count = 0
        for first in range(0, len(due), BATCH):
            if self.stop():
                break
            some = due[first : first + BATCH]
            with reading(self.store.engine) as session:
                row = InvestigationRow
                stored_ids = set(session.scalars(select(row.id).where(row.id.in_(some))))
                over = set(
                    session.scalars(select(row.id).where(row.id.in_(some), self._ended(before)))
                )
            count += sum(
                self._delete_case(name) for name in some if name in over or name not in stored_ids
            )
        return count

    def conversations(self, before: datetime) -> int:
        """Questions that were answered or abandoned."""
        row = QuestionRow
        over = select(row.id).where(row.asked_at < before, row.status != "asked").limit(BATCH)
        return self._in_batches(
            lambda s: s.scalars(over).all(), lambda ids: delete(row).where(row.id.in_(ids))
        )

    def progress(self, before: datetime) -> int:
        """Lines of investigations that ended; lines are in the order of time, so the look ends
        where they are young."""
        row, count, after = ProgressRow, 0, 0
        query = select(row.id, row.at, InvestigationRow.status).join(
            InvestigationRow, InvestigationRow.id == row.investigation_id
        )
        while not self.stop():
            with Session(self.store.engine) as session, session.begin():
                read = query.where(row.id > after).order_by(row.id).limit(LINES_AT_ONCE)
                rows = session.execute(read).all()
                ids = [id_ for id_, at, status in rows if at < before and status in ENDED]
                session.execute(delete(row).where(row.id.in_(ids)))
            count += len(ids)
            if len(rows) < LINES_AT_ONCE or rows[-1].at >= before:
                break
            after = rows[-1].id
        return count

    def reported_changes(self, before: datetime) -> int:
        """Changes that somebody reported."""
        row = ReportedChangeRow
        over = select(row.id).where(row.at < before).limit(BATCH)
        return self._in_batches(
            lambda s: s.scalars(over).all(), lambda ids: delete(row).where(row.id.in_(ids))
        )

    def learned_calls(self, before: datetime) -> int:
        """Calls between services that nobody has seen since."""
        row = LearnedCallRow
        over = select(row.id).where(row.last_seen < before).limit(BATCH)
        return self._in_batches(
            lambda s: s.scalars(over).all(), lambda ids: delete(row).where(row.id.in_(ids))
        )

    def deliveries(self, before: datetime) -> int:
        """Ids of deliveries that no vendor will send again, keys under which programs asked, and
        what they asked of deploys."""
        row, request_row, check = DeliveryRow, RequestKeyRow, DeployCheckRow
        with Session(self.store.engine) as session, session.begin():
            session.execute(delete(request_row).where(request_row.at < before))
            session.execute(delete(check).where(check.asked_at < before))
        over = (
            select(row.received_at)
            .where(row.received_at < before)
            .order_by(row.received_at)
            .limit(BATCH)
        )
        # Every row up to the last one found is due as well, so one bound deletes the batch.
        return self._in_batches(
            lambda s: s.scalars(over).all(), lambda at: delete(row).where(row.received_at <= at[-1])
        )

    def audit(self, before: datetime) -> int:
        """Lines of the audit, logins and tokens that are over, and those who have not been seen
        since."""
        row, visitor = VisitRow, VisitorRow
        over = select(row.id).where(row.at < before).limit(BATCH)
        count = self._in_batches(
            lambda s: s.scalars(over).all(), lambda ids: delete(row).where(row.id.in_(ids))
        )
        with Session(self.store.engine) as session, session.begin():
            session.execute(delete(SessionRow).where(SessionRow.expires_at < self.now))
            session.execute(delete(ApiTokenRow).where(ApiTokenRow.expires_at < before))
            # Sessions go first: whoever has one left is still signed in.
            signed_in = select(SessionRow.visitor_id)
            session.execute(
                delete(visitor).where(visitor.last_at < before, visitor.id.not_in(signed_in))
            )
        return count

    def records(self, before: datetime) -> int:
        """Captures, mutes that are over, threads that asked for silence, channels that no
        investigation is left of."""
        row, channel = InvestigationRow, SlackChannelRow
        used = select(row.id).where(row.slack_channel == channel.channel)
        with Session(self.store.engine) as session, session.begin():
            session.execute(delete(CaptureRow).where(CaptureRow.asked_at < before))
            session.execute(delete(MuteRow).where(MuteRow.until < before))
            session.execute(delete(QuietThreadRow).where(QuietThreadRow.at < before))
            # A private channel's readers are needed as long as anything from it is kept.
            session.execute(delete(channel).where(channel.at < before, ~used.exists()))
        return 0

    def short_lived(self, _before: datetime) -> int:
        """Rows kept for some days, which their writers delete as long as there are any writers."""
        now = self.now
        with Session(self.store.engine) as session, session.begin():
            silent = ExecutorRow.beat_at < now - SILENT_WORKER_RETENTION
            session.execute(delete(ExecutorRow).where(silent))
            session.execute(delete(LastTimeRow).where(LastTimeRow.at < now - LAST_TIME_RETENTION))
            session.execute(delete(PersonActRow).where(PersonActRow.at < now - ACTS_RETENTION))
            day = f"{now - SPENDING_RETENTION:%Y-%m-%d}"
            session.execute(delete(ModelSpendingRow).where(ModelSpendingRow.day < day))
        row = SuppressedAlertRow
        over = select(row.key).where(row.last_at < now - SUPPRESSED_RETENTION).limit(BATCH)
        self._in_batches(
            lambda s: s.scalars(over).all(), lambda keys: delete(row).where(row.key.in_(keys))
        )
        return 0

    def _over(self, session: Session, before: datetime, after: str) -> list[str]:
        row = InvestigationRow
        query = select(row.id).where(self._ended(before), row.id > after).order_by(row.id)
        return list(session.scalars(query.limit(INVESTIGATIONS_AT_ONCE)))

    def _ended(self, before: datetime) -> ColumnElement[bool]:
        """Ended, announced and closed: no later alert or question would need it."""
        row, member, question_row = InvestigationRow, GroupedAlertRow, QuestionRow
        joins = self.now - JOIN_FOR
        open_members = select(member.id).where(
            member.investigation_id == row.id,
            member.open_fingerprint.is_not(None),
            member.at > joins,
        )
        unanswered = select(question_row.id).where(
            question_row.investigation_id == row.id, question_row.status == "asked"
        )
        return and_(
            row.status.in_(ENDED),
            row.finished_at < before,
            row.wants_run.is_(False),
            or_(row.open_fingerprint.is_(None), row.accepted_at < joins),
            or_(row.quiet_until.is_(None), row.digested_at.is_not(None), row.quiet_until < before),
            ~open_members.exists(),
            ~unanswered.exists(),
        )

    def _without_elsewhere(self, name: str, workflows: Sequence[str]) -> bool:
        """Delete what of it lies outside of the store; whether its rows can go now."""
        if not self._delete_case(name):
            return False
        self.rows.delete(workflows)
        return True

    def _delete_case(self, name: str) -> bool:
        try:
            delete_case(self.cases, name)
        except (BaseError, OSError) as error:
            log.warning("cannot delete case folder %s: %s", name, type(error).__name__)
            return False
        return True

    def _in_batches(
        self,
        find: Callable[[Session], Sequence[object]],
        remove: Callable[[Sequence[object]], object],
    ) -> int:
        count = 0
        while not self.stop():
            with Session(self.store.engine) as session, session.begin():
                batch = find(session)
                if batch:
                    session.execute(remove(batch))  # type: ignore[call-overload]
            count += len(batch)
            if len(batch) < BATCH:
                break
        return count


def named_at(name: str) -> datetime | None:
    """When a folder was begun, by its name; None for a name in another form."""
    timed, match = NAMED_BY_TIME.fullmatch(name), TRACE_REPORT.fullmatch(name)
    try:
        if timed:
            return datetime.strptime(timed[1] + timed[2], "%Y%m%d%H%M%S").replace(tzinfo=UTC)
        return datetime.fromtimestamp(int(match[1]), UTC) if match else None
    # Digits that look like a time may be none, such as a month 13.
    except (ValueError, OverflowError, OSError):
        return None
