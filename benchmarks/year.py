"""How large does a year of incidents become, and how fast are the pages then?

    python benchmarks/year.py [--days 365] [--a-day 50] [--engine sqlite|postgresql] [--keep-all]

The real bot answers three alerts of the demo's small case. Their rows in every table, the engine's
workflows with the outputs of their steps, and their case folders are then copied, with their ids
and times shifted, for each day; beside them stand joined alerts, questions, feedback, lines of the
audit, changes and deliveries. After each day retention runs as the worker does it (`--keep-all`:
never). Prints sizes, the largest tables, times of pages, of accepting and of joining, memory and
the last pass of retention, beside those of an empty database and with the ratio; then the plans of
statements that read a large table from end to end. Case folders are copied as hard links, so the
disk needs little room; their size is that of real copies. `CPU ms` is the time of this process.
A statement with a LIMIT in the order of its table is listed as well, though it ends early.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from dbos._schemas.system_database import SystemSchema
from sqlalchemy import Engine, Table, event, insert, select
from starlette.applications import Starlette

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.acknowledgement import database
from faultline.analysis.vocabulary import Alert
from faultline.bot.operating.doctor import whole
from faultline.bot.operating.engine_rows import SCHEMA, EngineRows
from faultline.bot.operating.inspection import inspected
from faultline.bot.operating.retention import give_back
from faultline.bot.operating.sweep import Sweep
from faultline.bot.queue.engine_database import migrate_engine, system_engine
from faultline.bot.settings import Settings
from faultline.bot.store.connections import connect, database_bytes, table_sizes, unused_bytes
from faultline.bot.store.databases import engine_url, migrate, open_cases, store_url
from faultline.bot.store.store import Store
from faultline.bot.store.tables import Base, InvestigationRow
from faultline.bot.web.pages import page_routes
from tests.scenarios.bot_story import bot_story
from tests.scenarios.small_case import write_small_case

LAST = datetime(2026, 11, 20, 23, 0, tzinfo=UTC)
"""The year ends here."""
EXAMPLES = 3
JOINS, CHANGES, VISITS, DELIVERIES = 2, 100, 300, 400
"""Joined alerts of each incident; changes, lines of the audit and deliveries of each day."""
QUESTION_EVERY, JUDGEMENT_EVERY = 4, 5
"""Every fourth investigation has a question, every fifth feedback."""
SERVICES = 60
TIMES = 9
LARGE = 2_000
"""A table with more rows is not to be read from end to end by a statement of a page."""
LIMIT_MS = 150.0

ENGINE_SCHEMA = SystemSchema.workflow_status.schema
"""What stands for the schema of DBOS's tables until it is known."""

Rows = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Example:
    """One answered investigation: its rows by table, in the store and in the engine, and where its
    case lies."""

    id: str
    at: datetime
    store: Rows
    engine: Rows
    case: Path


def answered_examples(scratch: Path) -> list[Example]:
    """Have the real bot answer some alerts."""
    case = write_small_case(scratch / "case")
    with bot_story(scratch, case, "sqlite") as story:
        for number in range(EXAMPLES):
            story.page_out(f"Y{number}")
        story.wait_for(lambda: len(story.answers()) >= EXAMPLES, within_s=300, what="all answered")
        time.sleep(2)  # the engine writes the ends of workflows after the answer
    [file] = scratch.rglob("engine.sqlite")
    store, engine = (
        connect(f"sqlite:///{file.parent / n}") for n in ("faultline.sqlite", file.name)
    )
    with store.connect() as connection:
        rows = connection.execute(select(InvestigationRow.id, InvestigationRow.accepted_at)).all()
    examples = [
        Example(
            name,
            at,
            rows_about(store, Base.metadata.tables.values(), name),
            rows_about(engine, SystemSchema.metadata_obj.tables.values(), name),
            file.parent / "cases" / name,
        )
        for name, at in rows
    ]
    store.dispose()
    engine.dispose()
    return examples


def rows_about(engine: Engine, tables: Any, name: str) -> Rows:
    """The rows of each table that hold the id in any column."""
    rows_by_table: Rows = {}
    options = {ENGINE_SCHEMA: None}
    with engine.connect().execution_options(schema_translate_map=options) as connection:
        for table in tables:
            rows = [dict(row) for row in connection.execute(select(table)).mappings()]
            mine = [row for row in rows if name in json.dumps(row, default=str)]
            if mine:
                rows_by_table[table.name] = mine
    return rows_by_table


def moved(row: dict[str, Any], example: Example, name: str, by: timedelta) -> dict[str, Any]:
    """A row as another investigation would have left it: other ids, times later by so much."""
    ms = int(by / timedelta(milliseconds=1))
    changed: dict[str, Any] = {}
    for key, value in row.items():
        if isinstance(value, datetime):
            changed[key] = value + by
        elif isinstance(value, str):
            changed[key] = value.replace(example.id, name)
        elif isinstance(value, (dict, list)):
            changed[key] = json.loads(json.dumps(value).replace(example.id, name))
        elif isinstance(value, int) and value > 10**12:  # ms since 1970
            changed[key] = value + ms
        else:
            changed[key] = value
    return changed


@dataclass
class Year:
    """An installation that is filled day by day."""

    settings: Settings
    store: Store
    engine: Engine
    examples: list[Example]
    a_day: int
    case_bytes: int = 0
    swept_s: list[float] = field(default_factory=list)

    def day(self, start: datetime) -> None:
        """One day of incidents, and what people and vendors do beside."""
        ours: Rows = {}
        engine: Rows = {}
        for number in range(self.a_day):
            at = start + timedelta(days=1) * number / self.a_day
            name = f"{at:%Y%m%d-%H%M%S}-{number:06x}"
            example = self.examples[number % len(self.examples)]
            for rows, example_rows in ((ours, example.store), (engine, example.engine)):
                for table, table_rows in example_rows.items():
                    for row in table_rows:
                        rows.setdefault(table, []).append(
                            moved(row, example, name, at - example.at)
                        )
            self._vary_rows(ours, name, number, at)
            self._link(example, name)
        self._beside(ours, start)
        _insert(self.store.engine, Base.metadata.tables, ours)
        tables = {table.name: table for table in SystemSchema.metadata_obj.tables.values()}
        _insert(self.engine, tables, engine)

    def _vary_rows(self, rows: Rows, name: str, number: int, at: datetime) -> None:
        """What the copied rows need to differ in, and what belongs to an investigation beside."""
        service = f"service-{number * 7 % SERVICES}"
        investigation = rows["investigations"][-1]
        investigation |= {
            "fingerprint": f"f{service}{number}",
            "open_fingerprint": None,
            "status": "done",
        }
        investigation["alert"] = investigation["alert"] | {
            "service": service,
            "title": f"p99 latency of {service}",
        }
        investigation["finished_at"] = investigation["finished_at"] or at + timedelta(seconds=20)
        for row in rows.get("remembered", [])[-1:]:
            row |= {"fingerprint": investigation["fingerprint"], "alike": service}
        for n, row in enumerate(rows.get("deliveries", [])):
            if row["investigation_id"] == name:
                row["delivery_id"] = f"{name}-{n}"
        rows.setdefault("grouped_alerts", []).extend(
            {
                "investigation_id": name, "fingerprint": f"j{n}{investigation['fingerprint']}",
                "open_fingerprint": None, "alert": investigation["alert"],
                "why": "the same service",
                "at": at, "repeats": 0, "resolved_at": at,
            }
            for n in range(JOINS)
        )  # fmt: skip
        if number % JUDGEMENT_EVERY == 0:
            rows.setdefault("labels", []).append(
                {"investigation_id": name, "is_right": number % 2 == 0, "cause": "a deploy",
                 "who": "U1", "at": at}
            )  # fmt: skip
        if number % QUESTION_EVERY == 0:
            question = {
                "id": f"C1:{name}", "event_id": name, "kind": "question", "surface": "thread",
                "text": "why?", "who": "U1", "channel": "C1", "thread": name, "ts": name,
                "about_channel": None, "investigation_id": name, "status": "answered",
                "asked_at": at, "dispatched_at": at, "answered_at": at,
                "answer": {"text": "x" * 1_500},
            }  # fmt: skip
            rows.setdefault("questions", []).append(question)
            rows.setdefault("question_posts", []).append(
                {"key": f"q{name}", "question_id": question["id"], "owner": "w", "attempted_at": at,
                 "ref": name}
            )  # fmt: skip

    def _beside(self, rows: Rows, start: datetime) -> None:
        step = timedelta(days=1) / max(VISITS, DELIVERIES)
        name = rows["investigations"][-1]["id"]
        rows["visits"] = [
            {"at": start + n * step, "who": f"U{n % 40}", "name": "Ann", "role": "viewer",
             "action": "looked", "investigation_id": name, "address": "10.0.0.1", "status": 200,
             "note": ""}
            for n in range(VISITS)
        ]  # fmt: skip
        rows.setdefault("deliveries", []).extend(
            {"source": "pagerduty", "delivery_id": f"{start:%Y%m%d}-{n}", "investigation_id": name,
             "received_at": start + n * step}
            for n in range(DELIVERIES)
        )  # fmt: skip
        rows["reported_changes"] = [
            {"id": f"{start:%Y%m%d}-{n}", "at": start + n * step, "received_at": start + n * step,
             "service": f"service-{n % SERVICES}", "kind": "deploy", "title": f"v{n}",
             "author": "Ann", "link": "", "files": "x" * 400, "diff": "y" * 2_000, "place": {}}
            for n in range(CHANGES)
        ]  # fmt: skip

    def _link(self, example: Example, name: str) -> None:
        folder = self.settings.store.directory / "cases" / name
        for file in example.case.rglob("*"):
            if file.is_file():
                target = folder / file.relative_to(example.case)
                target.parent.mkdir(parents=True, exist_ok=True)
                os.link(file, target)

    def sweep(self, now: datetime) -> None:
        """One pass of retention, as the worker makes it."""
        began = time.perf_counter()
        cases = open_cases(self.settings)
        Sweep(self.settings, self.store, cases, EngineRows(self.engine), now).run()
        for engine in (self.store.engine, self.engine):
            give_back(engine)
        self.swept_s.append(time.perf_counter() - began)


def _insert(engine: Engine, tables: Any, rows: Rows) -> None:
    schema = None if engine.dialect.name == "sqlite" else SCHEMA
    order = [table for table in Base.metadata.sorted_tables if table.name in rows]
    order += [t for n, t in tables.items() if n in rows and t not in order]
    order.sort(key=lambda table: table.name not in ("workflow_status", "investigations"))
    with engine.execution_options(
        schema_translate_map={ENGINE_SCHEMA: schema}
    ).begin() as connection:
        for table in order:
            values = [
                {k: v for k, v in row.items() if not _made_by_the_database(table, k)}
                for row in rows[table.name]
            ]
            connection.execute(insert(table), values)


def _made_by_the_database(table: Table, name: str) -> bool:
    column = table.c[name]
    return bool(column.primary_key and name == "id" and column.type.python_type is int)


@contextlib.contextmanager
def installation(
    directory: Path, address: str, examples: list[Example], a_day: int
) -> Iterator[Year]:
    """An empty one."""
    directory.mkdir()
    store_settings: dict[str, object] = {"directory": directory}
    if address != "sqlite":
        store_settings["database"] = address
    settings = Settings.model_validate({"store": store_settings})
    migrate(connect(store_url(settings)))
    migrate_engine(engine_url(settings))
    open_cases(settings)
    store, engine = connect(store_url(settings)), system_engine(engine_url(settings))
    try:
        yield Year(settings, Store(store), engine, examples, a_day)
    finally:
        store.dispose()
        engine.dispose()


def figures(year: Year, now: datetime) -> dict[str, float]:
    """Milliseconds of each page and statement; MB of everything."""
    with year.store.engine.connect() as connection:
        newest = connection.scalar(
            select(InvestigationRow.id)
            .where(InvestigationRow.status == "done")
            .order_by(InvestigationRow.accepted_at.desc())
            .limit(1)
        )
    pages = {
        "list": "/",
        "search": "/?words=latency",
        "rare search": "/?words=nobody",
        "service": "/?service=service-7",
        "accuracy": "/accuracy",
        "health": "/health",
    }
    if newest:
        pages["investigation"] = f"/investigations/{newest}"
    before = resident_mb()
    measurements = asyncio.run(_pages(year, pages))
    measurements["memory that the pages took, MB"] = resident_mb() - before
    measurements["doctor, ms"] = _took(lambda: _doctor(year.settings), times=1)
    counter = iter(range(10**6))

    def accept() -> None:
        n = next(counter)
        alert = Alert(source="pagerduty", title=f"new {n}", started_at=now, service=f"fresh-{n}")
        year.store.accept(alert, now=now)

    accept()  # the first one compiles its statements
    measurements["accept, ms"] = _took(accept)
    alert = Alert(source="pagerduty", title="new 0", started_at=now, service="fresh-0")
    measurements["join, ms"] = _took(lambda: year.store.accept(alert, now=now))
    size = database_bytes(year.store.engine)
    measurements["database, MB"] = size / 1e6
    unused = unused_bytes(year.store.engine) + unused_bytes(year.engine)
    measurements["of it unused, MB"] = unused / 1e6
    measurements["case store, MB"] = open_cases(year.settings).total_bytes() / 1e6
    measurements["retention pass, ms"] = 1000 * (year.swept_s[-1] if year.swept_s else 0.0)
    return measurements


async def _pages(year: Year, pages: dict[str, str]) -> dict[str, float]:
    cases = year.settings.store.directory / "cases"

    async def case_path(name: str) -> Path | None:
        return cases / name if (cases / name).is_dir() else None

    app = Starlette(routes=page_routes(year.settings, year.store, case_path))
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    medians = {}
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8080", timeout=60
    ) as client:
        for name, path in pages.items():
            took, worked = [], []
            for _ in range(TIMES):
                began, busy = time.perf_counter(), time.process_time()
                answer = await client.get(path)
                took.append(1000 * (time.perf_counter() - began))
                worked.append(1000 * (time.process_time() - busy))
                if answer.status_code != 200:
                    raise RuntimeError(f"{path}: {answer.status_code}")
            medians[f"{name}, ms"] = statistics.median(took)
            medians[f"{name}, CPU ms"] = statistics.median(worked)
    return medians


def _doctor(settings: Settings) -> None:
    with inspected(settings) as inspection:
        whole(inspection)


def _took(what: Callable[[], object], times: int = TIMES) -> float:
    durations = []
    for _ in range(times):
        began = time.perf_counter()
        what()
        durations.append(1000 * (time.perf_counter() - began))
    return statistics.median(durations)


def resident_mb() -> float:
    """Of this process, which serves the pages."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6


def full_scans(year: Year, act: Callable[[], object]) -> set[str]:
    """Statements that read a large table from end to end while `act` runs: the plan's line, with
    the statement."""
    statements: dict[str, Any] = {}

    @event.listens_for(year.store.engine, "before_cursor_execute")
    def _note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_more: Any) -> None:
        if statement.lstrip().upper().startswith(("SELECT", "UPDATE", "DELETE")):
            statements.setdefault(statement, parameters)

    try:
        act()
    finally:
        event.remove(year.store.engine, "before_cursor_execute", _note)
    large = {
        table_size.name for table_size in table_sizes(year.store.engine) if table_size.rows > LARGE
    }
    sqlite = year.store.engine.dialect.name == "sqlite"
    explain = "EXPLAIN QUERY PLAN " if sqlite else "EXPLAIN "
    scan = re.compile(r"^SCAN (\w+)$" if sqlite else r"Seq Scan on (\w+)")
    scans = set()
    for statement, parameters in statements.items():
        with year.store.engine.connect() as connection:
            try:
                plan = connection.exec_driver_sql(explain + statement, parameters).all()
            finally:
                connection.rollback()
        for row in plan:
            line = str(row[-1])
            hit = scan.search(line)
            if hit and hit[1] in large:
                scans.add(f"{line.strip()}: {' '.join(statement.split())[:300]}")
    return scans


def fill(year: Year, days: int, *, sweeps: bool) -> None:
    """The days up to `LAST`, with retention after each where it `sweeps`."""
    first = LAST - timedelta(days=days)
    for number in range(days):
        start = first + timedelta(days=number)
        year.day(start)
        if number % 30 == 29:
            sys.stderr.write(f"{number + 1} days\n")
        if sweeps:
            year.sweep(start + timedelta(days=1))


def print_figures(empty: Mapping[str, float], full: Mapping[str, float]) -> None:
    """Those of the empty installation beside those of the full one."""
    print(f"{'':34}{'empty':>12}{'full':>12}{'ratio':>9}")
    for name, value in full.items():
        was = empty.get(name, 0.0)
        ratio = f"{value / was:.1f}" if was > 0 else ""
        print(f"{name:34}{was:12.1f}{value:12.1f}{ratio:>9}")


def print_tables(engines: Sequence[Engine]) -> None:
    """The largest tables."""
    tables = [table for engine in engines for table in table_sizes(engine)]
    tables.sort(key=lambda table: (table.bytes or 0, table.rows), reverse=True)
    for table in tables[:8]:
        size = f"  {table.bytes / 1e6:.1f} MB" if table.bytes else ""
        print(f"  {table.name:28}{table.rows:>12,} rows{size}")


def run(scratch: Path, options: argparse.Namespace, address: str) -> int:
    """Fill and print; how many pages are slower than they should be."""
    (scratch / "examples").mkdir()
    examples = answered_examples(scratch / "examples")
    with installation(scratch / "year", address, examples, options.a_day) as year:
        empty = figures(year, LAST)
        fill(year, options.days, sweeps=not options.keep_all)
        if address != "sqlite":
            with year.store.engine.connect().execution_options(
                isolation_level="AUTOCOMMIT"
            ) as connection:
                connection.exec_driver_sql("ANALYZE")
        now = LAST + timedelta(minutes=1)
        full: dict[str, float] = {}
        scans = full_scans(year, lambda: full.update(figures(year, now)))
        retention = "everything kept" if options.keep_all else "default retention"
        print(
            f"{options.engine}, {options.days} days of {options.a_day} incidents, {retention};"
            f" load {os.getloadavg()[0]:.1f}"
        )
        print_figures(empty, full)
        # On PostgreSQL both are one database.
        engines = [year.store.engine, year.engine] if address == "sqlite" else [year.store.engine]
        print_tables(engines)
        for line in sorted(scans):
            print(f"  reads it all: {line}")
        slow = [n for n, ms in full.items() if n.endswith(" ms") and ms > LIMIT_MS]
        slow = [n for n in slow if n not in ("doctor, ms", "retention pass, ms")]
        print(f"slower than {LIMIT_MS:g} ms: {', '.join(slow) or 'none'}")
        return len(slow)


def main() -> None:
    """Run as the options say."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--days", type=int, default=365)
    parser.add_argument("--a-day", type=int, default=50)
    parser.add_argument("--keep-all", action="store_true", help="run no retention")
    parser.add_argument("--engine", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch, database(options.engine) as address:
        run(Path(scratch), options, address)


if __name__ == "__main__":
    main()
