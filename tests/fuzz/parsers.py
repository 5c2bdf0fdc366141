"""Everything that reads files of others: traces, dumps, telemetry, logs, cases, runbooks, settings,
archives."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import pickle
import random
import shutil
import sqlite3
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from faultline.analysis.case.folder import read_case
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.logs.miner import group_lines
from faultline.analysis.traces.flight_recorder.reading import read_dumps
from faultline.analysis.traces.job.telemetry import diagnoses_of_files
from faultline.analysis.traces.memory_snapshot.reading import read_snapshot
from faultline.analysis.traces.nsight.export import read_export
from faultline.analysis.traces.reading.job_files import sort_job_files
from faultline.analysis.traces.reading.kineto import read_trace
from faultline.analysis.traces.reading.stack_dumps import parse_stacks
from faultline.analysis.traces.reading.wandb_run import history_rows
from faultline.analysis.traces.traceml.telemetry import read_telemetry
from faultline.bot.investigation.runbooks.runbook import FrontMatter, read_front_matter, read_keys
from faultline.bot.settings import load_settings
from faultline.trace_report.archives import ScratchFolder, unpacked
from tests.analysis.traces.flight_recorder.written_dumps import world
from tests.analysis.traces.memory_snapshot.allocator import Allocator, train
from tests.analysis.traces.nsight.test_export import _small, _write
from tests.analysis.traces.trace_texts import SEED
from tests.analysis.traces.traceml.databases import usual, write_telemetry
from tests.analysis.traces.wandb_files import history, wandb_file
from tests.fuzz.counting import Answer, Target, Try
from tests.fuzz.mutations import HOSTILE_TEXT, changed, damaged, hostile
from tests.hostile.cases import incident

Seeds = Sequence[tuple[str, bytes]]
Read = Callable[[Path], object]
RUNBOOK = """---
name: Checkout is slow
applies_to:
  services: [checkout, "pay*"]
  alerts: ["*latency*"]
owner: "@sre"
next_steps: ["look at the pool", 'roll back']
links:
  - title: Dashboard
    url: https://shop.example/d/1
---
# Prose
Look at `pool_in_use`.
"""
STACKS = """Process 4711: python train.py
Thread 4711 (idle): "MainThread"
    wait (threading.py:355)
    all_reduce (torch/distributed/distributed_c10d.py:2806)
    main (train.py:42)
"""
LOG = """[rank0]: Traceback (most recent call last):
[rank0]:   File "/job/train.py", line 42, in main
[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
[rank1]:[E ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7)
2026-11-21 10:00:00,123 INFO step 12 loss 3.14 id 5f2c-9a 10.0.0.7:8080
"""  # noqa: E501
TOML = b"""[server]
port = 8080
public_url = "https://f.example"
[services.checkout]
aliases = ["basket"]
[[alerts.rules]]
title = ["*test*"]
investigate = false
"""


def targets() -> list[Target]:
    """One for each kind of file."""
    files: list[tuple[str, float, Callable[[Path], Seeds], Read]] = [
        ("profiler trace", 1.0, lambda _: [("t.json", SEED)], read_trace),
        ("profiler trace, gzip", 1.0, lambda _: [("t.json.gz", gzip.compress(SEED))], read_trace),
        ("flight recorder", 1.0, _dumps, lambda path: read_dumps([path])),
        ("memory snapshot", 0.6, _snapshots, read_snapshot),
        ("Nsight export", 0.4, _exports, read_export),
        ("TraceML telemetry", 0.4, _telemetry, read_telemetry),
        ("wandb run", 0.6, _runs, lambda path: list(history_rows(path))),
        ("job folder", 0.4, _job, lambda path: diagnoses_of_files(sort_job_files([path]))),
        ("archive", 1.0, _archives, _unpack),
        (
            "settings",
            0.6,
            lambda _: [("faultline.toml", TOML)],
            lambda path: load_settings(path, {}),
        ),
    ]
    found = [
        Target(name, share, partial(_files, seeds, read)) for name, share, seeds, read in files
    ]
    texts: list[tuple[str, float, str, Callable[[str], object]]] = [
        ("runbook", 1.0, RUNBOOK, _runbook),
        ("stack dump", 0.6, STACKS, parse_stacks),
        ("log templates", 0.6, LOG, lambda text: group_lines(text.splitlines())),
    ]
    found += [Target(name, share, partial(_texts, seed, read)) for name, share, seed, read in texts]
    return [*found, Target("case folder", 0.8, _cases)]


@contextlib.contextmanager
def _files(seeds_of: Callable[[Path], Seeds], read: Read, scratch: Path) -> Iterator[Try]:
    scratch.mkdir(parents=True, exist_ok=True)
    seeds = seeds_of(scratch)

    def one(rng: random.Random) -> Answer:
        name, content = rng.choice(seeds)
        path = scratch / "now" / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(_bad(rng, name, content))
        try:
            read(path)
        finally:
            path.unlink()
        return "accepted"

    yield one


def _bad(rng: random.Random, name: str, content: bytes) -> bytes:
    """A damaged file; JSON and pickles are half of the time whole, and say something else."""
    if rng.random() < 0.5:
        with contextlib.suppress(
            ValueError,
            pickle.UnpicklingError,
            OverflowError,
            TypeError,
            RecursionError,
            struct.error,
        ):
            if name.endswith(".json"):
                return json.dumps(changed(rng, json.loads(content))).encode()
            if name.endswith(".gz"):
                return gzip.compress(damaged(rng, gzip.decompress(content)))
            if content[:1] == b"\x80":  # our own pickle
                return pickle.dumps(
                    changed(rng, pickle.loads(content)), protocol=rng.choice((2, 4))
                )
    return damaged(rng, content)


@contextlib.contextmanager
def _texts(seed: str, read: Callable[[str], object], _scratch: Path) -> Iterator[Try]:
    def one(rng: random.Random) -> Answer:
        text = damaged(rng, seed.encode()).decode("utf-8", "replace")
        if rng.random() < 0.5:
            at = rng.randrange(len(text) + 1)
            text = text[:at] + rng.choice(HOSTILE_TEXT) * rng.choice((1, 1, 3)) + text[at:]
        read(text)
        return "accepted"

    yield one


@contextlib.contextmanager
def _cases(scratch: Path) -> Iterator[Try]:
    """A case of which one file is damaged, or one field of one table hostile; now and then it is
    diagnosed too."""
    good = scratch / "good"
    good.mkdir(parents=True, exist_ok=True)
    incident(good, lambda field: "weekly numbers")
    names = sorted(p.name for p in good.iterdir() if p.is_file())
    tables = (
        "metrics",
        "logs",
        "spans",
        "changes",
        "topology",
        "monitors",
        "earlier",
        "runbooks",
        "observations",
    )

    def one(rng: random.Random) -> Answer:
        bad = scratch / "bad"
        shutil.copytree(good, bad)
        try:
            name = rng.choice(names)
            content = (bad / name).read_bytes()
            (bad / name).write_bytes(_bad(rng, name, content))
            if rng.random() < 0.2:
                table = rng.choice(tables[:6])
                (bad / f"{table}.parquet").unlink(missing_ok=True)
                row = json.dumps(
                    {"time": hostile(rng), "service": hostile(rng), "value": hostile(rng)}
                )
                (bad / f"{table}.{rng.choice(('jsonl', 'csv'))}").write_text(
                    row * 3, errors="replace"
                )
            case = read_case(bad)
            for table in tables:
                getattr(case, table)
            if rng.random() < 0.02:
                diagnose(case)
        finally:
            shutil.rmtree(bad)
        return "accepted"

    yield one


def _runbook(text: str) -> None:
    found = read_front_matter(text)
    if isinstance(found, FrontMatter):
        read_keys(found)


def _unpack(path: Path) -> None:
    scratch = ScratchFolder(path.parent / "out", 64 << 20)
    try:
        for _, copy in unpacked(path, scratch):
            assert copy.resolve().is_relative_to(scratch.folder.resolve()), (
                "a member left the folder"
            )
    finally:
        shutil.rmtree(scratch.folder, ignore_errors=True)


def _dumps(_: Path) -> Seeds:
    ranks = world(2)
    dump = ranks[0].dump()
    return [
        ("rank_0", pickle.dumps(dump, protocol=2)),
        ("rank_0.fr_trace.json", json.dumps(dump, default=str).encode()),
    ]


def _snapshots(_: Path) -> Seeds:
    allocator = Allocator()
    train(allocator, 3)
    return [("snapshot.pickle", pickle.dumps(allocator.snapshot(), protocol=4))]


def _exports(scratch: Path) -> Seeds:
    return [("nsys.sqlite", _write(scratch / "seed.sqlite", _small()).read_bytes())]


def _telemetry(scratch: Path) -> Seeds:
    path = write_telemetry(scratch / "telemetry", lambda rank, step: usual(), ranks=2, steps=5)
    with sqlite3.connect(path) as connection:
        connection.execute("VACUUM")
    return [("telemetry", path.read_bytes())]


def _runs(_: Path) -> Seeds:
    records = [history(step, {"loss": "3.14", "note": '"text"'}) for step in range(40)]
    return [("run-1.wandb", wandb_file(records))]


def _job(scratch: Path) -> Seeds:
    seeds = [*_dumps(scratch), *_snapshots(scratch), *_runs(scratch)]
    seeds += [("rank0_stacks.txt", STACKS.encode()), ("rank0.log", LOG.encode() * 20)]
    return [*seeds, ("metrics.jsonl", b'{"step": 1, "loss": 3.1, "rank": 0}\n' * 40)]


def _archives(_: Path) -> Seeds:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w", zipfile.ZIP_DEFLATED) as out:
        for name in ("rank0_trace.json", "../../evil", "/etc/passwd", "a/b/c"):
            out.writestr(name, SEED)
    seeds: list[tuple[str, bytes]] = [("a.zip", zipped.getvalue())]
    for mode, name in (
        ("w", "a.tar"),
        ("w:gz", "a.tar.gz"),
        ("w:xz", "a.tar.xz"),
        ("w:bz2", "a.tar.bz2"),
    ):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode=mode) as tar:  # type: ignore[call-overload]
            for member in ("rank0_trace.json", "../../evil"):
                info = tarfile.TarInfo(member)
                info.size = len(SEED)
                tar.addfile(info, io.BytesIO(SEED))
            for kind in (tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE):
                link = tarfile.TarInfo("link")
                link.type, link.linkname = kind, "/etc/passwd"
                tar.addfile(link)
        seeds.append((name, packed.getvalue()))
    return seeds
