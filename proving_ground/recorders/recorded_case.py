"""From what a recorded run measured to a case folder.

Nothing is edited but names of this machine: host names become `trainer-0`, trace names lose their
folder. The change list is part of the story: the entry that moves the shard (or the objective)
bears the time at which the run did it; the others are invented company for it, at fixed offsets.
"""

from __future__ import annotations

import getpass
import gzip
import json
import re
import shutil
import socket
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl

from faultline.analysis.case.folder import write_evidence, write_json
from faultline.analysis.case.tables import write_table
from faultline.analysis.vocabulary import Alert, Evidence, EvidenceKind, Scope, Window
from proving_ground.recorders.training_job import (
    BATCH_SIZE,
    LOG_EVERY,
    PHASES,
    PROFILED_STEPS,
    WORLD_SIZE,
)

JOB = "pretrain-ranker"
HOST = "trainer-0"
SLOW_RANK = 2
INCIDENT_BEFORE_ALERT = timedelta(seconds=45)
"""How far the incident window reaches back before the alert."""
MACHINE_PATHS = re.compile(rb"/(?:tmp|root|home|usr|opt|work|var|mnt|private|Users)/")


@dataclass(frozen=True)
class Story:
    """What differs between the recordings."""

    name: str
    fault: bool
    change: str
    decoys: tuple[str, ...]


@dataclass
class Recording:
    """Moments and values of one run, as they happened. Times in ns since the epoch."""

    folder: Path
    baseline_from: int = 0
    changed: int = 0
    alerted: int = 0
    ended: int = 0
    objective_ms: float = 0.0
    observed_ms: float = 0.0

    def rows(self, rank: int) -> list[dict[str, Any]]:
        """The rank's metric rows so far; a line still being written is left out."""
        file = self.folder / f"metrics_rank{rank}.jsonl"
        text = file.read_text() if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]


STORIES = {
    s.name: s
    for s in (
        Story(
            "slow-rank",
            fault=True,
            change="cfg-4127",
            decoys=("cfg-4119", "deploy-882", "deploy-884", "flag-301"),
        ),
        Story("healthy-training", fault=False, change="mon-77", decoys=("deploy-882", "flag-301")),
    )
}


def write_case(story: Story, run: Recording, out: Path) -> None:
    """Write the whole case folder, replacing one that is there; refuse to leave this machine's
    names in it."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    alert, scope = alert_of(run), scope_of(run)
    write_json(out / "alert.json", alert)
    write_json(out / "scope.json", scope)
    tables = {
        "metrics": metrics_of(run),
        "logs": logs_of(run),
        "changes": changes_of(story, run),
        "topology": topology(),
    }
    for name, table in tables.items():
        write_table(out, name, table)
    traces = [keep_trace(run, rank, out / "traces") for rank in range(WORLD_SIZE)]
    write_evidence(out, evidence_of(tables, traces, scope), ())
    write_json(out / "label.json", label_of(story))
    refuse_machine_names(out)


def alert_of(run: Recording) -> Alert:
    """The alert as PagerDuty would have sent it when the rule fired."""
    return Alert(
        source="pagerduty",
        id="Q1TRAIN0STEP",
        title=f"Training step time above objective: {JOB}",
        started_at=moment(run.alerted),
        service=JOB,
        signal="step_time_ms",
        system="training",
        severity="critical",
        summary=f"Mean step time of {JOB} over 15 s is above {run.objective_ms:.0f} ms.",
        threshold=run.objective_ms,
        observed=run.observed_ms,
        labels={"job_name": JOB, "world_size": str(WORLD_SIZE), "cluster": "train-a"},
    )


def scope_of(run: Recording) -> Scope:
    """The incident from shortly before the alert to the end of the recording, against all of the
    run before it."""
    start = moment(run.alerted) - INCIDENT_BEFORE_ALERT
    return Scope(
        incident=Window(start=start, end=moment(run.ended)),
        baseline=(Window(start=moment(run.baseline_from), end=start),),
        services=(JOB, *(rank_name(r) for r in range(WORLD_SIZE))),
        connectors=("recorded",),
        job=JOB,
    )


def metrics_of(run: Recording) -> pl.DataFrame:
    """One row per log interval and signal: each rank's own, and the job's (mean over ranks)."""
    by_rank = [run.rows(rank) for rank in range(WORLD_SIZE)]
    rows = [
        point(row["time_ns"], rank_name(rank), signal, row[signal], rank)
        for rank, log_rows in enumerate(by_rank)
        for row in log_rows
        for signal in ("step_time_ms", *PHASES)
    ]
    for same_step in zip(*by_rank, strict=False):
        at = same_step[0]["time_ns"]
        step_ms = sum(r["step_time_ms"] for r in same_step) / WORLD_SIZE
        rows += [
            point(at, JOB, "step_time_ms", step_ms),
            point(at, JOB, "loss", sum(r["loss"] for r in same_step) / WORLD_SIZE),
            point(at, JOB, "samples_per_s", WORLD_SIZE * BATCH_SIZE / step_ms * 1e3),
        ]
    table = pl.DataFrame(rows).with_columns(
        pl.from_epoch("time", time_unit="ns").dt.replace_time_zone("UTC")
    )
    return table.filter(pl.col("time") >= moment(run.baseline_from))


def point(
    at: int, service: str, signal: str, value: float, rank: int | None = None
) -> dict[str, Any]:
    """One metric row, to four decimals."""
    unit = {"loss": "1", "samples_per_s": "1/s"}.get(signal, "ms")
    labels = (
        {"job_name": JOB} if rank is None else {"job_name": JOB, "rank": str(rank), "host": HOST}
    )
    return {
        "time": at,
        "service": service,
        "signal": signal,
        "value": round(value, 4),
        "unit": unit,
        "labels": json.dumps(labels),
    }


def logs_of(run: Recording) -> pl.DataFrame:
    """The ranks' own log lines."""
    rows = []
    for rank in range(WORLD_SIZE):
        for text in (run.folder / f"log_rank{rank}.jsonl").read_text().splitlines():
            line = json.loads(text)
            attributes = json.dumps({"job_name": JOB, "rank": rank, "host": HOST})
            rows.append({**line, "service": rank_name(rank), "attributes": attributes})
    table = pl.DataFrame(rows).rename({"time_ns": "time"})
    return table.with_columns(pl.from_epoch("time", time_unit="ns").dt.replace_time_zone("UTC"))


def changes_of(story: Story, run: Recording) -> pl.DataFrame:
    """The story's change at the moment it was made, among others."""
    at = moment(run.changed)
    shard = f"shard-{SLOW_RANK}"
    moved = {
        "id": "cfg-4127",
        "service": JOB,
        "kind": "config",
        "time": at,
        "title": f"Move {shard} of {JOB} from the node cache to the object store",
        "files": json.dumps(["config/data/placement.json"]),
        "diff": f'-  "{shard}": "node-cache"\n+  "{shard}": "object-store"',
    }
    objective = {
        "id": "mon-77",
        "service": JOB,
        "kind": "config",
        "time": at,
        "title": f"Tighten the step time objective of {JOB} to {run.objective_ms:.0f} ms",
        "files": json.dumps(["monitors/training.yaml"]),
    }
    company = [
        ("cfg-4119", JOB, "config", -118, "Raise the checkpoint interval from 500 to 1000 steps"),
        ("deploy-882", "eval-ranker", "deploy", -104, "eval-ranker 2.14.0: new held-out set"),
        ("flag-301", "feature-store", "flag", -61, "Turn on compact encoding for 10 % of reads"),
        (
            "deploy-884",
            "metrics-gateway",
            "deploy",
            20,
            "metrics-gateway 1.9.3: drop unused labels",
        ),
    ]
    rows = [moved if story.fault else objective]
    for id_, service, kind, offset, title in company:
        if id_ in story.decoys:
            when = at + timedelta(seconds=offset)
            rows.append({"id": id_, "service": service, "kind": kind, "time": when, "title": title})
    return pl.DataFrame(rows, infer_schema_length=None)


def topology() -> pl.DataFrame:
    """The job calls its ranks."""
    return pl.DataFrame([{"caller": JOB, "callee": rank_name(rank)} for rank in range(WORLD_SIZE)])


def keep_trace(run: Recording, rank: int, folder: Path) -> Path:
    """Copy one rank's profiler trace; only the host's name and the trace's own path are
    replaced."""
    folder.mkdir(exist_ok=True)
    name = f"rank{rank}.pt.trace.json.gz"
    text = gzip.decompress((run.folder / name).read_bytes()).decode()
    text = re.sub(r'("host_name":\s*)"[^"]*"', rf'\g<1>"{HOST}"', text)
    text = re.sub(r'("traceName":\s*)"[^"]*"', rf'\g<1>"rank{rank}.pt.trace.json"', text)
    (folder / name).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    return folder / name


def evidence_of(
    tables: dict[str, pl.DataFrame], traces: list[Path], scope: Scope
) -> list[Evidence]:
    """One item per table, and one for the traces."""
    window = Window(start=scope.baseline[0].start, end=scope.incident.end)
    queries: list[tuple[EvidenceKind, str]] = [
        ("metrics", f"per-rank and job metrics of {JOB}, every {LOG_EVERY} steps"),
        ("logs", f"log lines of all ranks of {JOB}"),
        ("changes", "changes of all services"),
        ("topology", f"ranks of {JOB}"),
    ]
    items = [
        Evidence(
            id=f"E{number}",
            kind=kind,
            source="recorded",
            query=query,
            window=window,
            file=f"{kind}.parquet",
            rows=tables[kind].height,
        )
        for number, (kind, query) in enumerate(queries, start=1)
    ]
    size = sum(t.stat().st_size for t in traces)
    query = f"profiler traces of {JOB}, {PROFILED_STEPS} steps on each of {WORLD_SIZE} ranks"
    return [
        *items,
        Evidence(id="E5", kind="traces", source="recorded", query=query, file="traces", bytes=size),
    ]


def label_of(story: Story) -> dict[str, Any]:
    """The truth, which no investigation reads."""
    common = {
        "dataset": "demo",
        "origin": f"demo/{story.name}",
        "decoys": list(story.decoys),
        "system": "training",
    }
    if not story.fault:
        return {
            **common,
            "subject": None,
            "verdict": "no_active_incident",
            "change": "none",
            "fault": "none",
        }
    return {
        **common,
        "subject": f"rank {SLOW_RANK}",
        "service": rank_name(SLOW_RANK),
        "change": story.change,
        "fault": "straggler_input",
        "scope": "rank",
        "signals": ["data_ms"],
        "verdict": "cause_found",
        "injected": f"shard-{SLOW_RANK} is read from an object store, one request per sample, and "
        f"not from memory",
        "fix": "put the shard back into the node cache",
    }


def refuse_machine_names(out: Path) -> None:
    """Fail, and remove the case, when anything in it names this machine, its user or its
    folders."""
    names = [n.encode() for n in {socket.gethostname(), getpass.getuser()} if len(n) > 3]
    for file in (p for p in out.rglob("*") if p.is_file()):
        for content in contents_of(file):
            match = MACHINE_PATHS.search(content) or next((n for n in names if n in content), None)
            if match:
                shutil.rmtree(out)
                raise SystemExit(f"{file.name} names this machine ({match!r}); nothing was written")


def contents_of(file: Path) -> list[bytes]:
    """The file's text, unpacked."""
    if file.suffix == ".gz":
        return [gzip.decompress(file.read_bytes())]
    if file.suffix == ".parquet":
        return [pl.read_parquet(file).write_json().encode()]
    return [file.read_bytes()]


def rank_name(rank: int) -> str:
    """The service name under which one rank's signals and logs are kept."""
    return f"{JOB}/rank {rank}"


def moment(ns: int) -> datetime:
    """Nanoseconds since the epoch as a UTC time, to the microsecond."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=ns // 1000)
