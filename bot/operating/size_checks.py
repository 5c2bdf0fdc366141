"""How large everything stored is, since when it is kept, how fast it grows, and when the disk is
full at that rate."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import Engine, func, select
from sqlalchemy.engine import make_url

from faultline.analysis.errors import FaultlineError
from faultline.analysis.wording.phrases import counted
from faultline.bot.operating.inspection import CheckResult, Inspection
from faultline.bot.operating.sweep import named_at
from faultline.bot.queue.engine_database import system_engine
from faultline.bot.settings import Settings
from faultline.bot.store.case_store import MOST_LISTED, CaseStore
from faultline.bot.store.connections import TableSize, database_bytes, table_sizes, unused_bytes
from faultline.bot.store.databases import engine_url, open_cases, store_url
from faultline.bot.store.tables import InvestigationRow

CASE_STORE = "case store size"
LATELY = timedelta(days=7)
"""Growth is that of the last week, which has every weekday."""
SOON_DAYS = 30.0
LARGEST = 4
MUCH_UNUSED, UNUSED_SHARE = 256 * 2**20, 0.25
MIB = 2**20


def size_checks(inspection: Inspection) -> Iterator[CheckResult]:
    """All of them."""
    count, per_day, oldest = _investigations(inspection)
    engine = system_engine(engine_url(inspection.settings)) if inspection.rows else None
    try:
        size = database_bytes(inspection.store)
        tables = table_sizes(inspection.store)
        unused = unused_bytes(inspection.store)
        if engine is not None and inspection.embedded:
            tables, unused = tables + table_sizes(engine), unused + unused_bytes(engine)
    finally:
        if engine is not None:
            engine.dispose()
    # Free pages are what deleted rows left, so they count for no investigation.
    grows = (size - unused) / count * per_day if count else 0.0
    since = f", oldest investigation {oldest:%Y-%m-%d}" if oldest else ""
    phrase = f"{_mb(size)} with {counted(count, 'investigation')}{since}; about {_mb(grows)} a day"
    yield CheckResult("ok", "database size", f"{phrase}. Largest: {_named(tables)}")
    yield from _unused(inspection.store, size, unused)
    cases = _local_cases(inspection.settings)
    if cases is None:
        yield _bucket(open_cases(inspection.settings), inspection.now)
    case_grows = 0.0
    if cases is not None and cases.is_dir():
        case_size, case_grows, first = _folders(cases, inspection.now)
        since = f", oldest {first:%Y-%m-%d}" if first else ""
        yield CheckResult("ok", CASE_STORE, f"{_mb(case_size)}{since}; {_came(case_grows)}")
    yield from _full(inspection, grows, cases, case_grows)


def _investigations(inspection: Inspection) -> tuple[int, float, datetime | None]:
    """How many there are, how many came a day lately, and when the oldest did."""
    row = InvestigationRow
    with inspection.read() as session:
        count, oldest = session.execute(select(func.count(), func.min(row.accepted_at))).one()
        lately = select(func.count()).where(row.accepted_at >= inspection.now - LATELY)
        recent = session.scalar(lately) or 0
    # Of an installation that is younger than a week, by its age.
    age = min(LATELY, inspection.now - oldest) if oldest else LATELY
    # At least one day, or the first alerts of a new installation look like steep growth.
    return count, recent / max(1.0, age / timedelta(days=1)), oldest


def _folders(cases: Path, now: datetime) -> tuple[int, float, datetime | None]:
    """Bytes of all case folders, bytes a day of the last week's, and the time of the oldest."""
    total, lately, first = 0, 0, None
    for folder in os.scandir(cases):
        at = named_at(folder.name)
        size = _bytes_below(folder.path)
        total += size
        if at is not None:
            first = at if first is None else min(first, at)
            lately += size if at >= now - LATELY else 0
    age = min(LATELY, now - first) if first else LATELY
    return total, lately / max(1.0, age / timedelta(days=1)), first


def _bucket(cases: CaseStore, now: datetime) -> CheckResult:
    """The size of the cases in a bucket: within a bounded number of requests, and the last week's
    on their own, because the newest are listed last."""
    try:
        everything = cases.sizes()
        # Folder names begin with the time, so the listing can start a week back.
        week = cases.sizes(after=f"{now - LATELY:%Y%m%d-%H%M%S}")
    except FaultlineError as error:
        return CheckResult("note", CASE_STORE, f"not known: {error}", "")
    dated = [at for name in everything.by_case if (at := named_at(name)) is not None]
    first = min(dated, default=None)
    lately = sum(size for name, size in week.by_case.items() if named_at(name) is not None)
    age = min(LATELY, now - first) if first else LATELY
    grows = lately / max(1.0, age / timedelta(days=1))
    size = _mb(sum(everything.by_case.values()))
    phrase = (
        f"more than {size} (only {MOST_LISTED:,} files were listed)" if everything.cut else size
    )
    since = f", oldest {first:%Y-%m-%d}" if first else ""
    more = "at least " if week.cut else ""
    return CheckResult("ok", CASE_STORE, f"{phrase}{since}; {more}{_came(grows)}")


def _came(a_day: float) -> str:
    return f"{_mb(a_day)} a day came in the last week"


def _bytes_below(path: str) -> int:
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.stat(os.path.join(folder, name)).st_size
            except FileNotFoundError:  # retention, or the investigation itself, was faster
                continue
    return total


def _unused(store: Engine, size: int, unused: int) -> Iterator[CheckResult]:
    if unused < MUCH_UNUSED or unused < UNUSED_SHARE * size:
        return
    phrase = f"{_mb(unused)} of the files are unused; what comes next fills them before they grow"
    todo = (
        f"retention gives them back, if this release made the file; else stop the bot once and run"
        f" `sqlite3 {store.url.database} 'PRAGMA auto_vacuum=2; VACUUM'`"
    )
    yield CheckResult("note", "database size", phrase, todo)


def _full(
    inspection: Inspection, grows: float, cases: Path | None, case_grows: float
) -> Iterator[CheckResult]:
    """When each disk of this machine is full; the database's and the cases' may be the same."""
    growth: dict[int, tuple[Path, float]] = {}
    places: list[tuple[Path, float]] = []
    if inspection.embedded:
        file = Path(make_url(store_url(inspection.settings)).database or "")
        places.append((file.parent, grows))
    if cases is not None and cases.is_dir():
        places.append((cases, case_grows))
    for place, more in places:
        # Two places on one disk fill it together.
        disk = place.stat().st_dev
        growth[disk] = (place, growth.get(disk, (place, 0.0))[1] + more)
    for place, more in growth.values():
        if more <= 0:
            continue
        days = shutil.disk_usage(place).free / more
        retention = inspection.settings.retention
        longest = max(
            retention.investigations_days, retention.cases_days, retention.deliveries_days
        )
        forever = 0 in (retention.investigations_days, retention.cases_days)
        when = f"{days:.0f} days" if days < 3_650 else "more than ten years"
        phrase = f"{place}: full in {when} at {_mb(more)} a day"
        if not forever:
            phrase += f"; retention stops the growth after {longest:.0f} days"
        soon = days < SOON_DAYS
        todo = "shorten retention.cases_days first, or enlarge the disk" if soon else ""
        yield CheckResult("wrong" if soon else "ok", "disk", phrase, todo)


def _local_cases(settings: Settings) -> Path | None:
    cases = settings.store.cases or str(settings.store.directory / "cases")
    return None if cases.startswith("s3://") else Path(cases).absolute()


def _named(tables: list[TableSize]) -> str:
    largest = sorted(tables, key=lambda table: (table.bytes or 0, table.rows), reverse=True)[
        :LARGEST
    ]
    parts = [
        f"{table.name} {table.rows:,} rows" + (f" ({_mb(table.bytes)})" if table.bytes else "")
        for table in largest
    ]
    return ", ".join(parts)


def _mb(size: float) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.1f} MB"
