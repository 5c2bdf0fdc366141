"""The training job that the demo records: PyTorch DDP over gloo on CPU, one process per rank.

Every rank trains on its own shard. Where a shard is read from is in `placement.json`, which the job
reads again at every log interval: "node-cache" is this process's memory, "object-store" is one HTTP
GET per sample.
"""

from __future__ import annotations

import http.client
import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils.data import DataLoader, IterableDataset

WORLD_SIZE = 4
BATCH_SIZE = 8
FEATURES = 512
HIDDEN = 384
CLASSES = 32
SHARD_SAMPLES = 256
LABEL_NOISE = 0.3
"""Share of labels redrawn at each read, so that the loss settles at a floor well above zero."""
LOG_EVERY = 25
PROFILED_STEPS = 8
PROFILER_WARMUP_STEPS = 2
PHASES = ("data_ms", "forward_ms", "backward_ms", "optimizer_ms")


def shard_of(rank: int) -> torch.Tensor:
    """The samples of one shard, (SHARD_SAMPLES, FEATURES) float32; the same bytes on every read."""
    return torch.randn(
        SHARD_SAMPLES, FEATURES, generator=torch.Generator().manual_seed(1000 + rank)
    )


class Shard(IterableDataset[tuple[torch.Tensor, int]]):
    """An endless pass over one shard, from wherever it is placed at the moment."""

    def __init__(self, rank: int, store_port: int) -> None:
        self.name = f"shard-{rank}"
        self.placement = "node-cache"
        self.reads: list[float] = []
        self._samples = shard_of(rank)
        self._labels = (self._samples[:, :CLASSES].argmax(dim=1)).tolist()
        self._store = http.client.HTTPConnection("127.0.0.1", store_port, timeout=30)

    def __iter__(self) -> Iterator[tuple[torch.Tensor, int]]:
        position = 0
        while True:
            index = position % SHARD_SAMPLES
            mislabelled = torch.rand(1).item() < LABEL_NOISE
            yield (
                self._read(index),
                int(torch.randint(CLASSES, (1,))) if mislabelled else self._labels[index],
            )
            position += 1

    def _read(self, index: int) -> torch.Tensor:
        if self.placement == "node-cache":
            with record_function("shard.read_node_cache"):
                return self._samples[index]
        started = time.perf_counter()
        with record_function("shard.read_object_store"):
            self._store.request("GET", f"/{self.name}/{index}")
            sample = torch.frombuffer(
                bytearray(self._store.getresponse().read()), dtype=torch.float32
            )
        self.reads.append((time.perf_counter() - started) * 1e3)
        return sample


@dataclass
class Interval:
    """What one rank measured since it last logged; times in milliseconds."""

    steps: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    phases: dict[str, list[float]] = field(default_factory=lambda: {p: [] for p in PHASES})

    def means(self) -> dict[str, float]:
        """One value per signal."""
        return {
            "step_time_ms": fmean(self.steps),
            "loss": fmean(self.losses),
            **{phase: fmean(values) for phase, values in self.phases.items()},
        }


@dataclass(frozen=True)
class Rank:
    """One worker: its place in the job and the folder where it writes."""

    rank: int
    folder: Path
    store_port: int

    def plan(self) -> dict[str, int]:
        """The recorder's orders: from which step to take profiles, and at which step to end."""
        file = self.folder / "plan.json"
        return dict(json.loads(file.read_text())) if file.exists() else {}

    def placement(self, shard: str) -> str:
        """Where the shard is to be read from now."""
        return str(json.loads((self.folder / "placement.json").read_text())[shard])


def run_rank(rank: int, folder: str, store_port: int, master_port: int) -> None:
    """Train until the plan says stop. Entry point of each process."""
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(master_port))
    dist.init_process_group("gloo", rank=rank, world_size=WORLD_SIZE)
    me = Rank(rank, Path(folder), store_port)
    log = _logger(me)
    log.info("joined process group: rank %d of %d, backend gloo", rank, WORLD_SIZE)
    torch.manual_seed(7)
    hidden = (nn.Linear(FEATURES, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU())
    model = DistributedDataParallel(nn.Sequential(*hidden, nn.Linear(HIDDEN, CLASSES)))
    try:
        _train(me, model, log)
    finally:
        dist.destroy_process_group()


def _train(me: Rank, model: nn.Module, log: logging.Logger) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    shard = Shard(me.rank, me.store_port)
    batches = iter(DataLoader(shard, batch_size=BATCH_SIZE, num_workers=0))
    log.info("%s: %d samples, read from %s", shard.name, SHARD_SAMPLES, shard.placement)
    interval, step, profiler = Interval(), 0, None
    plan: dict[str, int] = {}
    while step != plan.get("stop_at_step"):
        if step == plan.get("profile_from_step"):
            profiler = _profiler(me, log)
            profiler.start()
        _train_step(model, optimizer, batches, interval)
        step += 1
        if profiler is not None:
            profiler.step()
        if step % LOG_EVERY == 0:
            _report(me, step, interval, shard, log)
            interval, plan = Interval(), me.plan()
            _follow_placement(me, shard, log)
    if profiler is not None:
        profiler.stop()
    log.info("stopped at step %d", step)


def _train_step(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batches: Iterator[list[torch.Tensor]],
    interval: Interval,
) -> None:
    marks = [time.perf_counter()]
    inputs, labels = next(batches)
    marks.append(time.perf_counter())
    with record_function("## forward ##"):
        loss = nn.functional.cross_entropy(model(inputs), labels)
    marks.append(time.perf_counter())
    with record_function("## backward ##"):
        optimizer.zero_grad()
        loss.backward()
    marks.append(time.perf_counter())
    optimizer.step()
    marks.append(time.perf_counter())
    interval.steps.append((marks[-1] - marks[0]) * 1e3)
    interval.losses.append(loss.item())
    for phase, start, end in zip(PHASES, marks, marks[1:], strict=False):
        interval.phases[phase].append((end - start) * 1e3)


def _profiler(me: Rank, log: logging.Logger) -> profile:
    def keep(done: profile) -> None:
        done.export_chrome_trace(str(me.folder / f"rank{me.rank}.pt.trace.json.gz"))
        log.info("profiler trace of %d steps written", PROFILED_STEPS)

    schedule = torch.profiler.schedule(
        wait=0, warmup=PROFILER_WARMUP_STEPS, active=PROFILED_STEPS, repeat=1
    )
    return profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule,
        on_trace_ready=keep,
        record_shapes=True,
    )


def _report(me: Rank, step: int, interval: Interval, shard: Shard, log: logging.Logger) -> None:
    means = interval.means()
    row = {"time_ns": time.time_ns(), "rank": me.rank, "step": step, **means}
    with (me.folder / f"metrics_rank{me.rank}.jsonl").open("a") as file:
        file.write(json.dumps(row) + "\n")
    if step % (4 * LOG_EVERY) == 0:
        log.info(
            "step: %d loss: %.4f step time: %.1f ms", step, means["loss"], means["step_time_ms"]
        )
    if shard.reads:
        log.warning(
            "%s: %d samples not in the node cache, read from object store, mean %.1f ms each",
            shard.name,
            len(shard.reads),
            fmean(shard.reads),
        )
        shard.reads.clear()


def _follow_placement(me: Rank, shard: Shard, log: logging.Logger) -> None:
    placement = me.placement(shard.name)
    if placement != shard.placement:
        log.info("%s: placement is now %s", shard.name, placement)
        shard.placement = placement


class _JsonLines(logging.Formatter):
    """One JSON object per line: time in ns since the epoch, level, message."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time_ns": int(record.created * 1e9),
            "level": record.levelname,
            "message": record.getMessage(),
        }
        return json.dumps(line)


def _logger(me: Rank) -> logging.Logger:
    log = logging.getLogger(f"rank{me.rank}")
    handler = logging.FileHandler(me.folder / f"log_rank{me.rank}.jsonl")
    handler.setFormatter(_JsonLines())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    return log
