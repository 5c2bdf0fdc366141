"""The engine's own tables, read for people: which workflows there are, in which step, at which
worker.

Names and columns as DBOS documents them (https://docs.dbos.dev/explanations/system-tables); times
are ms since 1970. What a step took or gave is not read: it may hold what an alert says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from dbos import DBOSClient
from sqlalchemy import (
    ColumnElement,
    Engine,
    Row,
    Select,
    TableClause,
    column,
    func,
    or_,
    select,
    table,
)

ACTIVE = ("PENDING", "ENQUEUED", "DELAYED")
SCHEMA = "dbos"
"""Where DBOS keeps its tables on PostgreSQL."""
AT_ONCE = 200
MOST = 5_000

_STATUS_COLUMNS = (
    "workflow_uuid",
    "status",
    "name",
    "executor_id",
    "queue_name",
    "created_at",
    "updated_at",
    "started_at_epoch_ms",
    "completed_at",
    "application_version",
)
_STEP_COLUMNS = (
    "workflow_uuid",
    "function_id",
    "function_name",
    "started_at_epoch_ms",
    "completed_at_epoch_ms",
    "error",
)


@dataclass(frozen=True)
class Workflow:
    """One workflow. `id` is that of its investigation, or begins with it and a colon."""

    id: str
    status: str
    name: str
    executor: str | None
    queue: str | None
    created_at: datetime
    updated_at: datetime
    started_at: datetime | None
    version: str | None

    @property
    def active(self) -> bool:
        """Whether it has not ended."""
        return self.status in ACTIVE


@dataclass(frozen=True)
class Step:
    """A step that was done (the engine writes it down when it ends)."""

    number: int
    name: str
    started_at: datetime | None
    completed_at: datetime | None
    failed: bool


@dataclass(frozen=True)
class QueueBacklog:
    """One queue: what waits, what has begun, and since when the oldest waits."""

    queue: str
    enqueued: int
    pending: int
    oldest: datetime | None


class EngineRows:
    """Reads the tables; deletes rows of workflows through DBOS itself."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.schema = schema = None if engine.dialect.name == "sqlite" else SCHEMA
        self._status = table(
            "workflow_status", *(column(c) for c in _STATUS_COLUMNS), schema=schema
        )
        self._steps = table("operation_outputs", *(column(c) for c in _STEP_COLUMNS), schema=schema)

    def of(self, name: str) -> list[Workflow]:
        """The workflows of an investigation, the oldest first."""
        s = self._status.c
        query = (
            self._workflows().where(_belongs(self._status, name)).order_by(s.created_at).limit(MOST)
        )
        return self._read(query)

    def active(self, limit: int = MOST) -> list[Workflow]:
        """All that have not ended, the oldest first."""
        s = self._status.c
        return self._read(
            self._workflows().where(s.status.in_(ACTIVE)).order_by(s.created_at).limit(limit)
        )

    def queues(self) -> list[QueueBacklog]:
        """Queues with anything in them, by name."""
        s = self._status.c
        query = (
            select(s.queue_name, s.status, func.count(), func.min(s.created_at))
            .where(s.status.in_(ACTIVE))
            .group_by(s.queue_name, s.status)
        )
        counts_by_queue: dict[str, dict[str, tuple[int, int]]] = {}
        with self._engine.connect() as connection:
            for queue, status, count, oldest in connection.execute(query):
                counts_by_queue.setdefault(queue or "", {})[status] = (count, oldest)
        none = (0, 0)
        return [
            QueueBacklog(
                queue,
                of.get("ENQUEUED", none)[0] + of.get("DELAYED", none)[0],
                of.get("PENDING", none)[0],
                _time(of["ENQUEUED"][1]) if "ENQUEUED" in of else None,
            )
            for queue, of in sorted(counts_by_queue.items())
        ]

    def steps(self, workflow_id: str) -> list[Step]:
        """The steps that are done, in their order."""
        s = self._steps.c
        query = (
            select(
                s.function_id,
                s.function_name,
                s.started_at_epoch_ms,
                s.completed_at_epoch_ms,
                # Only whether it failed: the error's text may quote an alert.
                s.error.is_not(None).label("failed"),
            )
            .where(s.workflow_uuid == workflow_id)
            .order_by(s.function_id)
            .limit(MOST)
        )
        with self._engine.connect() as connection:
            return [
                Step(number, name, _time(begun), _time(done), bool(failed))
                for number, name, begun, done, failed in connection.execute(query)
            ]

    def ended_before(self, before: datetime, limit: int) -> list[str]:
        """Ids of workflows that ended before then."""
        s, at = self._status.c, int(before.timestamp() * 1000)
        ended = func.coalesce(s.completed_at, s.updated_at)
        query = (
            select(s.workflow_uuid)
            .where(s.status.not_in(ACTIVE), ended < at)
            .order_by(s.created_at)
            .limit(limit)
        )
        with self._engine.connect() as connection:
            return list(connection.scalars(query))

    def delete(self, ids: Sequence[str]) -> None:
        """Delete workflows with all that the engine keeps of them."""
        # Through DBOS, which knows every table that holds a part of a workflow.
        client = DBOSClient(system_database_engine=self._engine)
        left = iter(ids)
        while batch := list(islice(left, AT_ONCE)):
            client.delete_workflows(batch)

    def _workflows(self) -> Select[Any]:
        s = self._status.c
        return select(
            s.workflow_uuid,
            s.status,
            s.name,
            s.executor_id,
            s.queue_name,
            s.created_at,
            s.updated_at,
            s.started_at_epoch_ms,
            s.application_version,
        )

    def _read(self, query: Select[Any]) -> list[Workflow]:
        with self._engine.connect() as connection:
            return [_workflow(row) for row in connection.execute(query)]


def investigation_of(workflow_id: str) -> str:
    """The id that a workflow's begins with; empty for a question's."""
    first, _, _ = workflow_id.partition(":")
    return "" if first == "question" else first


def _belongs(of: TableClause, name: str) -> ColumnElement[bool]:
    # `autoescape`: `_` and `%` in an id are no wildcards.
    return or_(
        of.c.workflow_uuid == name, of.c.workflow_uuid.startswith(f"{name}:", autoescape=True)
    )


def _workflow(row: Row[Any]) -> Workflow:
    id_, status, name, executor, queue, created, updated, started, version = tuple(row)
    return Workflow(
        str(id_),
        str(status),
        str(name or ""),
        str(executor) if executor else None,
        str(queue) if queue else None,
        _time(created) or datetime.fromtimestamp(0, UTC),
        _time(updated) or datetime.fromtimestamp(0, UTC),
        _time(started),
        str(version) if version else None,
    )


def _time(ms: object) -> datetime | None:
    return datetime.fromtimestamp(int(ms) / 1000, UTC) if isinstance(ms, int) else None
