"""An installation with both databases, and the engine's rows as the engine would have left them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, text
from sqlalchemy.orm import Session

from faultline.analysis.vocabulary import Alert
from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.operating.inspection import CheckResult, Executors, inspected
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import ReplyTo, Store
from faultline.bot.store.tables import InvestigationRow

NOW = datetime.now(UTC)
LIVING = "worker-1-living"
DEAD = "worker-2-dead"


@dataclass
class Installation:
    """What a test works on."""

    settings: Settings
    store: Store
    engine: Engine
    cases: CaseStore

    @property
    def rows(self) -> EngineRows:
        """The engine's tables."""
        return EngineRows(self.engine)

    def alert(
        self, title: str = "checkout p99 above 800 ms", *, ago: timedelta = timedelta(minutes=1)
    ) -> str:
        """Accept one; the id of its investigation."""
        at = NOW - ago
        alert = Alert(source="pagerduty", title=title, started_at=at, service="checkout")
        accepted = self.store.accept(
            alert, reply_to=ReplyTo(pagerduty_incident=f"P{abs(hash(title)) % 10_000}"), now=at
        )
        assert accepted.investigation_id is not None
        return accepted.investigation_id

    def change(self, name: str, **values: object) -> None:
        """Set columns of an investigation."""
        with Session(self.store.engine) as session, session.begin():
            row = session.get_one(InvestigationRow, name)
            for key, value in values.items():
                setattr(row, key, value)

    def ended(self, name: str, *, ago: timedelta) -> None:
        """It was answered that long ago, and its alert is resolved."""
        at = NOW - ago
        self.change(
            name, status="done", accepted_at=at, dispatched_at=at, started_at=at, finished_at=at,
            open_fingerprint=None,
            headline="the cache is cold", verdict="cause_found", confidence=0.9,
        )  # fmt: skip

    def workflow(
        self,
        workflow_id: str,
        status: str = "PENDING",
        *,
        executor: str | None = LIVING,
        queue: str = "investigations",
        name: str = "investigate",
        ago: timedelta = timedelta(minutes=10),
    ) -> None:
        """A row of the engine."""
        at = int((NOW - ago).timestamp() * 1000)
        given = {"id": workflow_id, "s": status, "n": name, "e": executor, "q": queue, "at": at}
        given["done"] = None if status in ("PENDING", "ENQUEUED") else at
        columns = (
            "workflow_uuid, status, name, executor_id, queue_name, created_at, updated_at, "
            "started_at_epoch_ms"
        )
        with self.engine.begin() as connection:
            connection.execute(
                text(
                    f"INSERT INTO {self._prefix}workflow_status ({columns}, completed_at, priority)"
                    " VALUES (:id, :s, :n, :e, :q, :at, :at, :at, :done, 0)"
                ),
                given,
            )

    def step(
        self, workflow_id: str, number: int, name: str, *, ago: timedelta = timedelta(minutes=9)
    ) -> None:
        """A step that the engine wrote down as done."""
        at = int((NOW - ago).timestamp() * 1000)
        columns = (
            "workflow_uuid, function_id, function_name, started_at_epoch_ms, completed_at_epoch_ms"
        )
        with self.engine.begin() as connection:
            connection.execute(
                text(
                    f"INSERT INTO {self._prefix}operation_outputs ({columns}, retention_timestamp)"
                    " VALUES (:id, :n, :name, :at, :at, :at)"
                ),
                {"id": workflow_id, "n": number, "name": name, "at": at},
            )

    def worker(self, name: str, *, silent_s: float, role: str = "worker") -> None:
        """The row of a worker on web-2, whose last sign of life was that long ago."""
        with self.engine.begin() as connection:
            connection.execute(
                text(
                    "INSERT INTO executors (id, epoch, host, role, beat_at) VALUES (:id, 1,"
                    " 'web-2', :role, clock_timestamp() - make_interval(secs => :silent))"
                ),
                {"id": name, "role": role, "silent": silent_s},
            )

    def doctor(self, name: str | None = None) -> list[CheckResult]:
        """What the doctor finds."""
        from faultline.bot.operating.doctor import whole
        from faultline.bot.operating.story import story

        with inspected(self.settings, NOW) as inspection:
            return list(story(inspection, name) if name else whole(inspection))

    def wrong(self, name: str | None = None) -> dict[str, str]:
        """What is wrong, by what it is about."""
        return {
            one.about: f"{one.what} -> {one.todo}"
            for one in self.doctor(name)
            if one.state == "wrong"
        }

    @property
    def _prefix(self) -> str:
        return "" if self.engine.dialect.name == "sqlite" else "dbos."


def only_living(*names: str) -> Executors:
    """These workers are alive."""
    return Executors(names=frozenset(names))


def make_case(installation: Installation, name: str) -> Path:
    """A case folder with a file in it."""
    installation.cases.put(name, "alert.json", b"{}")
    return Path(installation.cases.location) / name
