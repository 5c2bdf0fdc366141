"""How fast the pages are made: the list over 50,000 investigations, and an investigation with very
much in its case.

python benchmarks/pages.py    prints medians on the server, without a browser, and kilobytes as sent
"""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import polars as pl
from sqlalchemy import insert
from starlette.applications import Starlette

sys.path.insert(0, str(Path(__file__).parents[1]))

from faultline.analysis.case.folder import write_json
from faultline.analysis.case.tables import write_table
from faultline.analysis.vocabulary import (
    Alert,
    Cause,
    Claim,
    Diagnosis,
    Finding,
    Impact,
    Report,
    Scope,
    Verdict,
    Window,
)
from faultline.bot.settings import Settings
from faultline.bot.store.connections import connect
from faultline.bot.store.databases import migrate
from faultline.bot.store.people_tables import LabelRow
from faultline.bot.store.store import Store
from faultline.bot.store.tables import InvestigationRow
from faultline.bot.web.pages import page_routes

INVESTIGATIONS = 50_000
JUDGED = 5_000
FINDINGS, LOG_LINES, SPANS, CHANGES = 500, 100_000, 50_000, 200
TIMES = 15
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
SERVICES = tuple(f"service-{n}" for n in range(120))
LISTS = {
    "newest": "/",
    "one service": "/?service=service-7",
    "failed ones": "/?status=failed",
    "judged wrong": "/?judged=wrong",
    "rare combination": "/?service=service-7&status=failed&confidence=90-100",
    "nothing matches": "/?service=nobody&verdict=recovered",
    "one old day": f"/"
    f"?from={NOW - timedelta(days=300):%Y-%m-%d}&to={NOW - timedelta(days=300):%Y-%m-%d}",
    "accuracy": "/accuracy",
    "health": "/health",
}


def fill(store: Store) -> str:
    """Many investigations, some judged; gives the id of an old one."""
    rnd, rows = random.Random(1), []
    for n in range(INVESTIGATIONS):
        at = NOW - timedelta(minutes=10 * n)
        alert = Alert(
            source=rnd.choice(("pagerduty", "datadog", "alertmanager")),
            title=f"p99 latency of {n % 977}",
            started_at=at,
            service=rnd.choice(SERVICES),
            labels={"note": "x" * 400},
        )
        rows.append(
            {
                "id": f"{at:%Y%m%d-%H%M%S}-{n:06x}",
                "fingerprint": alert.fingerprint,
                "alert": alert.model_dump(mode="json"),
                "status": rnd.choices(("done", "failed"), (97, 3))[0],
                "repeats": 0,
                "accepted_at": at,
                "dispatched_at": at,
                "verdict": rnd.choice([v.value for v in Verdict]),
                "confidence": round(rnd.random(), 2),
                "headline": f"headline {n}",
            }
        )
    labels = [
        {
            "investigation_id": row["id"],
            "is_right": rnd.random() < 0.7,
            "cause": "",
            "who": "",
            "at": NOW,
        }
        for row in rows[:: INVESTIGATIONS // JUDGED]
    ]
    with store.engine.begin() as connection:
        connection.execute(insert(InvestigationRow), rows)
        connection.execute(insert(LabelRow), labels)
    return str(rows[INVESTIGATIONS * 9 // 10]["id"])


def large_case(folder: Path) -> Alert:
    """A case with very much of everything."""
    folder.mkdir(parents=True)
    rnd = random.Random(2)
    alert = Alert(source="datadog", title="everything is slow", started_at=NOW, service="service-0")
    incident = Window(start=NOW - timedelta(minutes=30), end=NOW + timedelta(minutes=5))
    before = Window(start=NOW - timedelta(minutes=150), end=incident.start)
    write_json(folder / "alert.json", alert)
    write_json(
        folder / "scope.json", Scope(incident=incident, baseline=(before,), services=SERVICES[:20])
    )
    times = [before.start + timedelta(seconds=155 * 60 * n / LOG_LINES) for n in range(LOG_LINES)]
    lines = [f"ERROR pool of {n % 50} exhausted after {n} ms, {'x' * 80}" for n in range(LOG_LINES)]
    logs = {
        "time": times,
        "service": [SERVICES[n % 20] for n in range(LOG_LINES)],
        "message": lines,
    }
    levels = ["ERROR" if n % 9 == 0 else "INFO" for n in range(LOG_LINES)]
    write_table(folder, "logs", pl.DataFrame(logs).with_columns(pl.Series("level", levels)))
    write_table(folder, "spans", _spans(before.start))
    changes = [
        (NOW - timedelta(minutes=n), SERVICES[n % 20], "deploy", f"v{n}", "a change")
        for n in range(CHANGES)
    ]
    write_table(
        folder,
        "changes",
        pl.DataFrame(changes, schema=["time", "service", "kind", "id", "title"], orient="row"),
    )
    findings = tuple(_finding(n, rnd) for n in range(1, FINDINGS + 1))
    causes = tuple(
        Cause(
            rank=n,
            subject=SERVICES[n],
            kind="bad_deploy",
            confidence=0.5,
            summary="x" * 200,
            findings=("F1", "F2"),
        )
        for n in range(1, 11)
    )
    impact = Impact(sentence="Everything is slow.", services=SERVICES[:20], findings=("F3",))
    diagnosis = Diagnosis(
        verdict=Verdict.CAUSE_FOUND, confidence=0.9, causes=causes, findings=findings, impact=impact
    )
    write_json(folder / "findings.json", diagnosis)
    write_json(
        folder / "report.json",
        Report(headline="x" * 100, claims=(Claim(text="x" * 200, findings=("F1",)),)),
    )
    return alert


def _spans(start: datetime) -> pl.DataFrame:
    rows = []
    for n in range(SPANS):
        trace, place = divmod(n, 100)
        parent = f"{trace}-{(place - 1) // 2}" if place else None
        at = start + timedelta(seconds=155 * 60 * trace * 100 / SPANS, microseconds=10 * place)
        rows.append(
            (
                f"t{trace}",
                f"{trace}-{place}",
                parent,
                SERVICES[place % 20],
                "call",
                at,
                1e5 / (place + 1),
            )
        )
    names = ["trace_id", "span_id", "parent_id", "service", "operation", "start", "duration_us"]
    return pl.DataFrame(rows, schema=names, orient="row", infer_schema_length=None)


def _finding(n: int, rnd: random.Random) -> Finding:
    service = SERVICES[n % 20]
    table = ("metrics", "logs", "spans")[n % 3]
    return Finding(
        id=f"F{n}",
        kind=("metric_shift", "log_new", "span_own_time")[n % 3],
        subject=service,
        signal=f"signal_{n}",
        onset=NOW - timedelta(seconds=n),
        effect=3.0,
        effect_unit="x",
        strength=rnd.random(),
        sentence=f"{service} signal_{n} rose from 1 to 3 ms (3x).",
        numbers={"before": 1, "after": 3, "ratio": 3},
        evidence=("E1",),
        series={"table": table, "service": service},
        details={
            "template": "ERROR pool of <*> exhausted after <*> ms, <*>",
            "example": lines_of(n),
        },
    )


def lines_of(n: int) -> str:
    """A log line."""
    return f"ERROR pool of {n} exhausted after {n} ms"


async def measured(app: Starlette, path: str) -> tuple[list[float], list[float], int]:
    """Milliseconds of each time, those of the processor alone, and the bytes of the answer."""
    took, worked, size = [], [], 0
    transport = httpx.ASGITransport(app=app, client=("127.0.0.1", 1))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8080", timeout=60
    ) as client:
        for _ in range(TIMES):
            began, busy = time.perf_counter(), time.process_time()
            answer = await client.get(path)
            took.append(1000 * (time.perf_counter() - began))
            worked.append(1000 * (time.process_time() - busy))
            assert answer.status_code == 200, (path, answer.status_code)
            size = len(answer.content)
    return took, worked, size


def main() -> None:
    """Print all figures."""
    with tempfile.TemporaryDirectory() as scratch:
        engine = connect(f"sqlite:///{scratch}/store.db")
        migrate(engine)
        store, cases = Store(engine), Path(scratch) / "cases"
        old = fill(store)
        accepted = (
            store.accept(
                large_case(cases / "large"), now=NOW + timedelta(minutes=5)
            ).investigation_id
            or ""
        )
        (cases / "large").rename(cases / accepted)
        store.finish(accepted, "done", verdict="cause_found", confidence=0.9, headline="x" * 100)

        async def case_path(investigation_id: str) -> Path | None:
            folder = cases / investigation_id
            return folder if folder.is_dir() else None

        app = Starlette(routes=page_routes(Settings(), store, case_path))
        investigation = f"/investigations/{accepted}"
        pages = LISTS | {"deep page": f"/?after={old}", "investigation": investigation}
        pages |= {
            "finding: lines": f"{investigation}/findings/F1",
            "finding: spans": f"{investigation}/findings/F2",
        }
        print(
            f"{INVESTIGATIONS:,} investigations; {FINDINGS} findings, {LOG_LINES:,} lines, "
            f"{SPANS:,} spans"
        )
        for name, path in pages.items():
            took, worked, size = asyncio.run(measured(app, path))
            middle, busy = statistics.median(took), statistics.median(worked)
            print(
                f"{name:18} {middle:8.1f} ms {busy:8.1f} ms of the processor {size / 1000:8.1f} kB"
            )


if __name__ == "__main__":
    main()
