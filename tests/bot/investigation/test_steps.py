"""What happens to an investigation when things around it break."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from dbos import DBOS
from sqlalchemy import event

from faultline.analysis.case.folder import json_bytes, read_case, read_diagnosis
from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Alert, Report
from faultline.bot.answer.outcome import Outcome
from faultline.bot.answer.view import answer_view
from faultline.bot.investigation.analyzing import analyze_case
from faultline.bot.investigation.asking_model import ask_model
from faultline.bot.investigation.steps import RECOVERIES, InvestigationSteps
from faultline.bot.investigation.worker_context import WorkerContext
from faultline.bot.investigation.workflow import register_workflows
from faultline.bot.queue.engine import WorkerEngine
from faultline.bot.queue.engine_database import migrate_engine
from faultline.bot.runtime.process_pool import ProcessPool
from faultline.bot.runtime.threads import ByNeed, in_thread
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.quotas import ModelSpending
from faultline.bot.store.store import ReplyTo, Store, StoredInvestigation
from faultline.connectors.vendors.recorded.connector import RecordedConnector
from tests.databases import store_engine
from tests.scenarios.small_case import write_small_case


class Notebook:
    """A place that writes answers down, at the second try."""

    name = "notebook"

    def __init__(self) -> None:
        self.answers: list[Outcome] = []
        self.tries = 0

    def expects_answer(self, investigation: StoredInvestigation) -> bool:
        return True

    async def announce(self, investigation: StoredInvestigation) -> None:
        return None

    async def preview(self, outcome: Outcome) -> None:
        return None

    async def answer(self, outcome: Outcome) -> None:
        self.tries += 1
        if self.tries == 1:
            raise OSError("no space left on device")
        self.answers.append(outcome)


class Deaf(Notebook):
    """A place that takes what it is given and never says so."""

    name = "deaf"

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def announce(self, investigation: StoredInvestigation) -> None:
        self.asked.append("announce")
        await asyncio.Event().wait()

    async def preview(self, outcome: Outcome) -> None:
        self.asked.append("preview")
        await asyncio.Event().wait()

    async def answer(self, outcome: Outcome) -> None:
        self.asked.append("answer")
        await asyncio.Event().wait()


def a_desk(folder: Path, pool: ProcessPool) -> WorkerContext:
    engine = store_engine(f"sqlite:///{folder}/faultline.sqlite")

    @event.listens_for(engine, "connect")
    def _impatient(connection: sqlite3.Connection, _record: Any) -> None:
        connection.execute("PRAGMA busy_timeout=50")

    connector = RecordedConnector(write_small_case(folder / "case"))
    return WorkerContext(
        settings=Settings(),
        store=Store(engine),
        cases=CaseStore(folder / "cases"),
        connectors=[connector],
        reply_targets=[Notebook()],
        pool=pool,
        recorded=connector.scope(),
    )


@pytest.fixture
def context(tmp_path: Path, pool: ProcessPool) -> Iterator[WorkerContext]:
    """A context with one recorded connector."""
    context = a_desk(tmp_path, pool)
    yield context
    context.store.engine.dispose()


def accepted(context: WorkerContext, service: str = "checkout") -> str:
    alert = Alert(
        source="pagerduty",
        title=f"{service} is slow",
        started_at=datetime.now(UTC),
        service=service,
    )
    found = context.store.accept(alert).investigation_id
    assert found is not None
    return found


def test_a_connector_taken_out_of_the_settings_is_a_gap(context: WorkerContext) -> None:
    async def story() -> None:
        opened = await InvestigationSteps(context).open(investigation)
        after_restart = InvestigationSteps(replace(context, connectors=[]))
        await after_restart.collect(investigation, "recorded", opened)
        await after_restart.assemble(investigation, opened)

    investigation = accepted(context)
    asyncio.run(story())
    with context.cases.checkout(investigation) as folder:
        gaps = read_case(folder).gaps
    assert gaps
    assert {gap.reason for gap in gaps} == {"is not configured any more"}


def test_an_investigation_that_ends_its_workers_is_given_up(context: WorkerContext) -> None:
    async def story() -> int:
        opened = await InvestigationSteps(context).open(investigation)
        for taken_up in range(RECOVERIES + 5):
            try:
                await InvestigationSteps(context).collect(investigation, "recorded", opened)
            except FaultlineError:
                return taken_up
        return -1

    investigation = accepted(context)
    assert asyncio.run(story()) == RECOVERIES


def test_workers_that_stopped_in_order_do_not_count_against_an_investigation(
    context: WorkerContext,
) -> None:
    async def story() -> None:
        opened = await InvestigationSteps(context).open(investigation)
        for _ in range(RECOVERIES + 5):
            steps = InvestigationSteps(context)
            await steps.collect(investigation, "recorded", opened)
            steps.release()

    investigation = accepted(context)
    asyncio.run(story())
    stages = [line.stage for line in context.store.progress(investigation)]
    assert (stages.count("worker"), stages.count("handover")) == (RECOVERIES + 5, RECOVERIES + 5)


def test_lists_know_what_the_answer_blames_and_whether_it_says_why(context: WorkerContext) -> None:
    async def story() -> None:
        steps = InvestigationSteps(context)
        opened = await steps.open(investigation)
        await steps.collect(investigation, "recorded", opened)
        await steps.assemble(investigation, opened)
        analyzed = await steps.analyze(investigation)
        headline = await steps.write(investigation, opened)
        await steps.finish(investigation, analyzed, headline)

    investigation = accepted(context)
    asyncio.run(story())
    stored = context.store.get(investigation)
    assert stored is not None
    with context.cases.checkout(investigation) as folder:
        alert, diagnosis = read_case(folder).alert, read_diagnosis(folder)
    said = answer_view(alert, diagnosis, None)
    assert said.cause is not None
    assert (stored.culprit, stored.explained) == (said.cause.subject, said.explained)


def test_a_model_whose_budget_of_the_day_is_used_up_is_not_asked_and_the_answer_says_so(
    context: WorkerContext,
) -> None:
    async def story() -> Report:
        steps = InvestigationSteps(context)
        opened = await steps.open(investigation)
        await steps.collect(investigation, "recorded", opened)
        await steps.assemble(investigation, opened)
        with context.cases.checkout(investigation) as folder:
            found = json_bytes(analyze_case(folder))
        await in_thread(context.cases.put, investigation, "findings.json", found)
        _, report = await ask_model(context, investigation, said)
        return report

    async def said(stage: str, text: str) -> None:
        told.append(text)

    told: list[str] = []
    model = {"name": "m", "base_url": "http://127.0.0.1:9/v1", "max_tokens_per_channel_day": 5000}
    context = replace(context, settings=Settings.model_validate({"model": model}))
    alert = Alert(source="slack", title="slow", started_at=datetime.now(UTC), service="checkout")
    accepted_one = context.store.accept(alert, reply_to=ReplyTo(slack_channel="C7"))
    investigation = accepted_one.investigation_id or ""
    ModelSpending(context.store.engine).add("C7", 5000, 0.0)
    report = asyncio.run(story())
    why = "the model's budget for this channel today is used up (5,000 tokens)"
    assert report.written_by == "built-in"
    assert told == [f"m was not asked: {why}; the built-in report stands"]


@contextmanager
def working(context: WorkerContext, url: str, directory: Path) -> Iterator[WorkerEngine]:
    """A worker in this process."""
    engine = WorkerEngine(url, directory, concurrency=1, polling_interval_s=0.1)
    register_workflows(ByNeed(lambda: InvestigationSteps(context)))
    engine.launch(
        on_lock_lost=threading.Event().set, places=[place.name for place in context.reply_targets]
    )
    try:
        yield engine
    finally:
        engine.stop()
        DBOS.destroy(destroy_registry=True)


def wait_for(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 40
    while not happened() and time.monotonic() < deadline:
        time.sleep(0.1)


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_place_that_never_answers_keeps_no_other_and_no_investigation_waiting(
    context: WorkerContext, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/engine.sqlite"
    migrate_engine(url)
    deaf, place = Deaf(), Notebook()
    model = {"name": "m", "base_url": "http://127.0.0.1:9/v1"}
    context = replace(
        context, reply_targets=[deaf, place], settings=Settings.model_validate({"model": model})
    )
    first, second = accepted(context), accepted(context, "search")
    with working(context, url, tmp_path) as engine:  # one investigation at a time
        engine.enqueue(first)
        engine.enqueue(second)
        wait_for(lambda: len(place.answers) == 2 and deaf.asked.count("answer") == 2)
    assert {outcome.investigation.id for outcome in place.answers} == {first, second}
    assert sorted(deaf.asked) == ["announce", "announce", "answer", "answer", "preview", "preview"]


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_store_that_is_locked_and_a_place_that_breaks_delay_the_answer_only(
    context: WorkerContext, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/engine.sqlite"
    migrate_engine(url)
    investigation = accepted(context)
    locked = sqlite3.connect(
        tmp_path / "faultline.sqlite", check_same_thread=False, isolation_level=None
    )
    locked.execute("BEGIN IMMEDIATE")
    place = context.reply_targets[0]
    assert isinstance(place, Notebook)
    with working(context, url, tmp_path) as engine:
        engine.enqueue(investigation)
        time.sleep(2.0)
        locked.execute("COMMIT")
        wait_for(lambda: bool(place.answers))
    locked.close()
    assert [outcome.answer is not None for outcome in place.answers] == [True]
    assert place.tries == 2
