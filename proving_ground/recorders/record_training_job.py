"""Record a case folder from a real distributed training job: `python -m
proving_ground.recorders.record_training_job slow-rank`.

The job runs four DDP ranks on this machine. After the baseline, `slow-rank` moves one rank's shard
out of the node cache; `healthy-training` injects nothing and sets the alert's objective below what
the job has always taken. Needs torch 2.13 (demo/README.md).
"""

from __future__ import annotations

import argparse
import json
import socket
import tempfile
import threading
import time
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from statistics import fmean, median
from typing import Any, ClassVar

import torch.multiprocessing as mp

from proving_ground.recorders.recorded_case import SLOW_RANK, STORIES, Recording, Story, write_case
from proving_ground.recorders.training_job import LOG_EVERY, WORLD_SIZE, run_rank, shard_of

STORE_LATENCY_S = 0.008
"""What one GET from the object store takes at least; a same-region object store answers in 5-20
ms."""
WARMUP_S, BASELINE_S, PROFILE_AFTER_S, END_AFTER_S = 15.0, 120.0, 35.0, 75.0
ALERT_OVER_S = 15.0
"""The alert rule looks at the mean step time over so long."""
OBJECTIVE_OF_BASELINE, MISTAKEN_OBJECTIVE_OF_BASELINE = 1.6, 0.8
"""The step time objective as a multiple of the baseline's median; below 1 it fires on a healthy
job."""


class ObjectStore(BaseHTTPRequestHandler):
    """Serves samples over HTTP, each after the latency of an object store."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    shards: ClassVar = {f"shard-{rank}": shard_of(rank).numpy() for rank in range(WORLD_SIZE)}

    def do_GET(self) -> None:
        """GET /shard-<rank>/<index>: the sample's float32 bytes."""
        shard, index = self.path.strip("/").split("/")
        body = self.shards[shard][int(index)].tobytes()
        time.sleep(STORE_LATENCY_S)
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Keep the terminal quiet."""


def record(story: Story, out: Path) -> Recording:
    """Run the job, inject the fault, watch the alert rule, write the case folder `out`."""
    with tempfile.TemporaryDirectory() as work:
        recording = Recording(Path(work))
        store = ThreadingHTTPServer(("127.0.0.1", 0), ObjectStore)
        threading.Thread(target=store.serve_forever, daemon=True).start()
        place(recording.folder, {f"shard-{rank}": "node-cache" for rank in range(WORLD_SIZE)})
        ranks = mp.start_processes(
            run_rank,
            args=(work, store.server_port, free_port()),
            nprocs=WORLD_SIZE,
            join=False,
            start_method="spawn",
        )
        try:
            conduct(story, recording)
            while not ranks.join(timeout=60):
                continue
        finally:
            for process in ranks.processes:
                process.kill()
            store.shutdown()
        write_case(story, recording, out)
        return recording


def conduct(story: Story, run: Recording) -> None:
    """Warm up, keep the baseline, change (or not), wait for the alert rule, profile, end."""
    while not run.rows(0):
        time.sleep(0.5)
    say("all ranks training")
    time.sleep(WARMUP_S)
    run.baseline_from = time.time_ns()
    time.sleep(BASELINE_S)
    typical = median(r["step_time_ms"] for r in run.rows(0) if r["time_ns"] >= run.baseline_from)
    run.objective_ms = float(
        round(typical * (OBJECTIVE_OF_BASELINE if story.fault else MISTAKEN_OBJECTIVE_OF_BASELINE))
    )
    say(f"baseline done: {typical:.1f} ms a step; objective {run.objective_ms:.0f} ms")
    run.changed = time.time_ns()
    if story.fault:
        placement = {f"shard-{rank}": "node-cache" for rank in range(WORLD_SIZE)}
        place(run.folder, placement | {f"shard-{SLOW_RANK}": "object-store"})
    watched_from = run.changed
    while not run.alerted:
        time.sleep(1)
        watch(run, watched_from)
    say(f"alert: {run.observed_ms:.1f} ms a step")
    time.sleep(max(0.0, PROFILE_AFTER_S - (time.time_ns() - watched_from) / 1e9))
    order(run, "profile_from_step")
    time.sleep(max(0.0, END_AFTER_S - (time.time_ns() - watched_from) / 1e9))
    order(run, "stop_at_step")
    run.ended = time.time_ns()


def watch(run: Recording, since: int) -> None:
    """The alert rule: mean step time over ALERT_OVER_S above the objective."""
    now = time.time_ns()
    recent = [r["step_time_ms"] for r in run.rows(0) if r["time_ns"] >= now - ALERT_OVER_S * 1e9]
    if now - since >= ALERT_OVER_S * 1e9 and recent and fmean(recent) > run.objective_ms:
        run.alerted, run.observed_ms = now, round(fmean(recent), 1)
    if now - since > 120e9 and not run.alerted:
        raise SystemExit(
            "the alert rule did not fire within two minutes: record again on a quieter machine"
        )


def order(run: Recording, what: str) -> None:
    """Tell the ranks at which step to act: far enough ahead that each has read the order by
    then."""
    latest = max(int(run.rows(rank)[-1]["step"]) for rank in range(WORLD_SIZE))
    file = run.folder / "plan.json"
    plan = json.loads(file.read_text()) if file.exists() else {}
    replace(file, plan | {what: latest + 3 * LOG_EVERY})


def place(folder: Path, placement: dict[str, str]) -> None:
    """Write the shard placement that the ranks follow."""
    replace(folder / "placement.json", placement)


def replace(file: Path, value: dict[str, Any]) -> None:
    """Write a JSON file in one move, so that no rank reads half of it."""
    part = file.with_suffix(".part")
    part.write_text(json.dumps(value))
    part.rename(file)


def free_port() -> int:
    """A TCP port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def say(line: str) -> None:
    """Tell the person at the terminal."""
    print(f"{datetime.now(UTC):%H:%M:%S} {line}", flush=True)


def main() -> None:
    """Record one story into demo/cases/<name>."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("story", choices=sorted(STORIES))
    parser.add_argument(
        "--out", type=Path, help="case folder to write (default: demo/cases/<story>)"
    )
    args = parser.parse_args()
    out = args.out or Path(__file__).resolve().parents[2] / "demo" / "cases" / args.story
    record(STORIES[args.story], out)
    say(f"written: {out}")


if __name__ == "__main__":
    main()
