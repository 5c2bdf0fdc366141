"""Traces of a large case are read by all workers; what one of them leaves, the others finish."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from dbos import DBOS

from faultline.analysis.case.folder import json_bytes, read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.errors import BudgetExceeded
from faultline.analysis.traces.job.trace_versions import SUMMARIES, TRACES, record_name, record_of
from faultline.analysis.traces.job.training import training_findings
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation import reading_traces, trace_queue
from faultline.bot.investigation.reading_traces import KILLED, TraceReading
from faultline.bot.queue.engine import WorkerEngine
from faultline.bot.queue.engine_database import INVESTIGATIONS, WORKFLOW_INVESTIGATE, migrate_engine
from faultline.bot.settings import WorkerSettings
from faultline.bot.store.case_store import CaseStore
from faultline.bot.store.store import Store
from tests.analysis.traces.written_traces import case_of, document, job, write_trace
from tests.bot.investigation.trace_worker import READS, work
from tests.databases import store_engine
from tests.forked import ForkedProcess
from tests.s3 import open_client

RANKS = 8
LATE = {(2, step): 6_000.0 for step in range(8)}


def write_case(folder: Path) -> Path:
    """Eight ranks, one of which delays the others; a file that is no trace; a log; a trace that
    says no rank."""
    case_of(folder, job(ranks=RANKS, late_us=LATE, late_in="aten::tanh"))
    write_trace(folder / TRACES / "other.json", b'{"no": "trace"}')
    write_trace(folder / TRACES / "without-rank.json", document(job()[0], None))
    (folder / TRACES / "stdout.log").write_text("step 1 loss 2.0\n")
    return folder


def accepted(store: Store) -> str:
    alert = Alert(
        source="pagerduty", title="slow", started_at=datetime(2026, 1, 1, tzinfo=UTC), job="job-1"
    )
    found = store.accept(alert).investigation_id
    assert found is not None
    return found


def findings(case: Path) -> bytes:
    return json_bytes(training_findings(read_case(case)))


class Workers:
    """Worker processes on one database, one case store and one folder."""

    def __init__(
        self, engine_url: str, store_url: str, folder: Path, location: str, endpoint: str | None
    ) -> None:
        self._arguments = (engine_url, store_url, folder, location, endpoint)
        self._reads = folder / READS
        self.running: list[ForkedProcess] = []

    def start(self) -> ForkedProcess:
        process = ForkedProcess(work, *self._arguments)
        self.running.append(process)
        return process

    def end(self, process: ForkedProcess) -> None:
        self.running.remove(process)
        process.kill()

    def reads(self) -> list[tuple[int, str]]:
        """(worker, trace) of every record written."""
        lines = self._reads.read_text().splitlines() if self._reads.exists() else []
        return [(int(line.split(" ", 1)[0]), line.split(" ", 1)[1]) for line in lines]


def wait_for(condition: Callable[[], bool], within_s: float = 240.0) -> None:
    ends = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.05)


def enqueue(engine_url: str, investigation: str) -> None:
    from dbos import DBOSClient

    from faultline.bot.queue.engine_database import APPLICATION_VERSION, system_engine

    engine = system_engine(engine_url)
    client = DBOSClient(system_database_engine=engine)
    client.enqueue(
        {
            "workflow_name": WORKFLOW_INVESTIGATE,
            "queue_name": INVESTIGATIONS,
            "workflow_id": investigation,
            "app_version": APPLICATION_VERSION,
        },
        investigation,
    )
    client.destroy()
    engine.dispose()


@pytest.fixture
def ended() -> Iterator[list[Workers]]:
    """Workers that are ended with the test."""
    started: list[Workers] = []
    yield started
    for workers in started:
        for process in list(workers.running):
            workers.end(process)


def test_what_a_killed_worker_leaves_another_finishes(
    postgres_url: str, tmp_path: Path, ended: list[Workers]
) -> None:
    # tests/bot/queue/test_engine.py tests how an engine on SQLite takes over work.
    engine = store_engine(postgres_url)
    store = Store(engine)
    investigation = accepted(store)
    case = write_case(tmp_path / "cases" / investigation)
    expected = json_bytes(diagnose(read_case(case)))
    migrate_engine(postgres_url)
    workers = Workers(postgres_url, postgres_url, tmp_path, str(tmp_path / "cases"), None)
    ended.append(workers)
    first, _ = workers.start(), workers.start()
    enqueue(postgres_url, investigation)
    wait_for(
        lambda: len({worker for worker, _ in workers.reads()}) == 2 or len(workers.reads()) == RANKS
    )
    workers.end(first)
    wait_for((case / "findings.json").exists)
    assert (case / "findings.json").read_bytes() == expected
    traces = {p.relative_to(case / TRACES).as_posix() for p in case.rglob("traces/*")}
    read = Counter(trace for _, trace in workers.reads())
    assert set(read) == traces
    assert sum(read.values()) <= len(traces) + 2, (
        "only what the killed worker had in hand may be read again"
    )
    assert max(read.values()) <= 2
    lines = [line.text for line in store.progress(investigation) if line.stage == "traces"]
    assert lines[0].startswith("11 traces of")
    assert lines[-1] == "11 of 11 ranks read"
    assert len(lines) <= reading_traces.LINES + 1
    engine.dispose()


def test_cases_in_s3_are_read_one_file_at_a_time(
    tmp_path: Path, s3: str, ended: list[Workers]
) -> None:
    with open_client(s3) as client:
        client.create_bucket(Bucket="cases")
    cases = CaseStore("s3://cases/faultline", endpoint_url=s3)
    store_url, engine_url = (
        f"sqlite:///{tmp_path}/faultline.sqlite",
        f"sqlite:///{tmp_path}/engine.sqlite",
    )
    store = Store(store_engine(store_url))
    investigation = accepted(store)
    folder = write_case(tmp_path / "written")
    expected = json_bytes(diagnose(read_case(folder)))
    cases.put(investigation, "alert.json", folder / "alert.json")
    cases.put_folder(investigation, TRACES, folder / TRACES)
    migrate_engine(engine_url)
    workers = Workers(engine_url, store_url, tmp_path, "s3://cases/faultline", s3)
    ended.append(workers)
    workers.start()
    enqueue(engine_url, investigation)
    wait_for(lambda: cases.get(investigation, "findings.json") is not None)
    assert cases.get(investigation, "findings.json") == expected
    names = cases.names(investigation, SUMMARIES)
    assert len(names) == len(list((folder / TRACES).iterdir()))
    with cases.checkout(investigation) as copy:
        for path in (copy / TRACES).glob("*.json*"):
            path.unlink()
        assert findings(copy) == findings(folder), "the records alone tell what the traces told"
    store.engine.dispose()


def reading_of(tmp_path: Path, **settings: float) -> tuple[TraceReading, CaseStore]:
    cases = CaseStore(tmp_path / "cases")
    case_of(tmp_path / "cases" / "I1", job(late_us=LATE))
    return TraceReading(cases, WorkerSettings(trace_processes=1, **settings)), cases  # type: ignore[arg-type]


async def silent(_key: str, _said: str) -> None:
    return None


def test_a_small_case_is_not_put_on_the_queue(tmp_path: Path) -> None:
    reading, cases = reading_of(tmp_path)
    assert asyncio.run(reading.read_all("I1", silent)) == []
    assert cases.names("I1", SUMMARIES) == []


@pytest.mark.parametrize("cause", ["time", "killed"])
def test_a_rank_that_cannot_be_read_within_its_bounds_is_named(
    cause: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def yes(_run: str) -> bool:
        return True

    async def killed(*_: object) -> bytes:
        raise BudgetExceeded("memory", "an analysis process")

    monkeypatch.setattr(trace_queue, "is_awaited", yes)
    reading, cases = reading_of(tmp_path, trace_deadline_s=0.000_1)
    if cause == "killed":
        monkeypatch.setattr(reading._pool, "run", killed)
    name = "rank3.pt.trace.json.gz"
    assert asyncio.run(reading.read("I1", name, "run")) == "recorded"
    reading.close()
    said = KILLED if cause == "killed" else "was not read within 0.0001 s"
    *_, finding = training_findings(read_case(tmp_path / "cases" / "I1"))
    assert (finding.kind, finding.sentence) == ("trace_unreadable", f"{name}: {said}")
    record = record_of(cases.get("I1", record_name(name)) or b"", name)
    assert record is not None
    assert record.passing
    traces = cases.listed("I1", TRACES)
    assert set(asyncio.run(reading._ready("I1", traces, "run"))) == {name}
    assert asyncio.run(reading._ready("I1", traces, "another run")) == {}, "another run tries again"


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_nobody_reads_for_an_investigation_that_was_cancelled(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/engine.sqlite"
    migrate_engine(url)
    reading, cases = reading_of(tmp_path)
    engine = WorkerEngine(url, tmp_path, concurrency=1, polling_interval_s=0.05)
    running, left = threading.Event(), threading.Event()

    @DBOS.workflow(name=WORKFLOW_INVESTIGATE)
    async def investigate(_investigation: str) -> None:
        running.set()
        await DBOS.sleep_async(600)

    trace_queue.register_trace_workflow(reading.read)
    engine.launch(on_lock_lost=left.set, more_queues={trace_queue.TRACES_QUEUE: 2})
    try:
        engine.enqueue("I1")
        assert running.wait(60)
        DBOS.cancel_workflow("I1")
        names = list(cases.listed("I1", TRACES))
        asyncio.run(trace_queue.put("I1", names, "I1", 0))
        wait_for(lambda: not asyncio.run(trace_queue.left("I1", 0)))
        said = {s.output for s in DBOS.list_workflows(workflow_id_prefix="I1:traces:")}
    finally:
        engine.take_no_more(0)
        for thread in [t for t in threading.enumerate() if t.name == "engine-ending"]:
            thread.join()
        DBOS.destroy(destroy_registry=True)
        reading.close()
    assert said == {"not wanted any more"}
    assert cases.names("I1", SUMMARIES) == []
    assert os.listdir(tmp_path / "cases" / "I1" / TRACES)
