"""How much bad input was tried, and what came of it: `python -m benchmarks.security_report
[--inputs N] [--seed S]`.

Every alert source, every reader of foreign files, every place that shows foreign text, every page.
A crash is an exception that is none of ours, an answer of 5xx, more than 10 s of processor time, or
a GiB of memory for one input; a wrong accept is something taken without proof of its sender, a page
shown to a stranger, or live mark-up. Inputs are made from the seed alone: a failure names its own,
and `--only TARGET` runs one target. Exits with 1 where either count is not 0.

With `--schemathesis PROGRAM` its runner also reads docs/openapi.yaml and asks the pages over real
HTTP.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import uvicorn

from tests.fuzz import alert_sources, pages, parsers, places
from tests.fuzz.counting import Tally, Target, tried

INPUTS = 12_000
MODULES = (alert_sources, parsers, places, pages)


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=INPUTS, help="in all, about")
    parser.add_argument("--seed", type=int, default=8)
    parser.add_argument("--processes", type=int, default=min(4, os.cpu_count() or 1))
    parser.add_argument("--only", default="", help="targets whose names hold this")
    parser.add_argument(
        "--schemathesis",
        default="",
        help="its program, such as .tools/schemathesis/bin/schemathesis",
    )
    args = parser.parse_args()
    targets = [t for module in MODULES for t in module.targets() if args.only in t.name]
    began = time.monotonic()
    per_share = args.inputs / sum(t.share for t in targets)
    work = [(t.name, max(1, round(per_share * t.share)), args.seed) for t in targets]
    tallies = []
    context = get_context("spawn")
    # not a multiprocessing.Pool: its daemons may have no children, and some pages start
    # processes
    with ProcessPoolExecutor(args.processes, context, initializer=_quiet) as pool:
        for done in as_completed([pool.submit(_run_target, task) for task in work]):
            tally = done.result()
            phrase = (
                f"{tally.inputs:,} inputs, {tally.crashes} crashes, {tally.wrong_accepts} "
                f"wrong accepts"
            )
            print(f"{tally.target}: {phrase}", file=sys.stderr, flush=True)
            tallies.append(tally)
    if args.schemathesis:
        tallies.append(_schemathesis(args.schemathesis, args.seed))
    _print(tallies, time.monotonic() - began, args.seed)
    return 1 if any(tally.crashes or tally.wrong_accepts for tally in tallies) else 0


def _quiet() -> None:
    logging.disable(logging.CRITICAL)


def _run_target(work: tuple[str, int, int]) -> Tally:
    name, inputs, seed = work
    target: Target = next(t for module in MODULES for t in module.targets() if t.name == name)
    with tempfile.TemporaryDirectory() as scratch:
        return tried(target, inputs, seed, Path(scratch))


def _schemathesis(program: str, seed: int) -> Tally:
    """Its runner against the pages on loopback; the cases that it counts, and its failures of a
    server."""
    tally = Tally("schemathesis on openapi.yaml")
    with tempfile.TemporaryDirectory() as folder, pages.site(Path(folder)) as (app, _):
        http = uvicorn.Server(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_level="error", lifespan="off")
        )
        thread = threading.Thread(target=http.run, daemon=True)
        thread.start()
        while not http.started:
            time.sleep(0.05)
        port = http.servers[0].sockets[0].getsockname()[1]
        report = Path(folder) / "report.ndjson"
        command = [
            program,
            "run",
            str(pages.DOCUMENT),
            "--url",
            f"http://127.0.0.1:{port}",
            "--seed",
            str(seed),
        ]
        command += [
            "--checks",
            "not_a_server_error,response_headers_conformance",
            "--max-examples",
            "25",
        ]
        command += [
            "--header",
            f"Authorization: Bearer {pages.TOKEN}",
            "--phases",
            "fuzzing,coverage",
        ]
        command += [
            "--exclude-path-regex",
            "/(webhooks|slack)/|/events$|/replay$|/login/",
            "--generation-database",
            "none",
        ]
        command += ["--report", "ndjson", "--report-ndjson-path", str(report), "--no-color"]
        ran = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=900, cwd=folder
        )
        _count(report, tally)
        if ran.returncode != 0:
            tally.failed(str(seed), ran.stdout[-1_500:] + ran.stderr[-300:])
        http.should_exit = True
        thread.join(10)
    return tally


def _count(report: Path, tally: Tally) -> None:
    """Requests in the report's events: each that was sent is an interaction."""
    if not report.exists():
        return
    for line in report.read_text().splitlines():
        for event in json.loads(line).values():
            recorded = (
                event.get("recorder", {}).get("interactions", {}) if isinstance(event, dict) else {}
            )
            for interaction in recorded.values():
                answer = (interaction.get("response") or {}).get("status_code", 0)
                tally.inputs += 1
                tally.answers["accepted" if 200 <= answer < 300 else "refused"] += 1


def _print(tallies: Sequence[Tally], seconds: float, seed: int) -> None:
    head = ("inputs", "accepted", "refused", "crashes", "wrong accepts", "slowest")
    print(
        f"{'target':<30} {head[0]:>7} {head[1]:>9} {head[2]:>8} {head[3]:>8} {head[4]:>14} "
        f"{head[5]:>9}"
    )
    for tally in sorted(tallies, key=lambda tally: tally.target):
        taken, refused = tally.answers["accepted"], tally.answers["refused"]
        print(
            f"{tally.target:<30} {tally.inputs:>7,} {taken:>9,} {refused:>8,} {tally.crashes:>8} "
            f"{tally.wrong_accepts:>14}"
            f" {tally.slowest_s:>7.2f} s"
        )
    total = [
        sum(tally.inputs for tally in tallies),
        sum(t.crashes for t in tallies),
        sum(t.wrong_accepts for t in tallies),
    ]
    print(
        f"{total[0]:,} inputs, {total[1]} crashes, {total[2]} wrong accepts; seed {seed}, "
        f"{seconds:.0f} s"
    )
    for tally in tallies:
        for failure in tally.failures:
            print(failure, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
