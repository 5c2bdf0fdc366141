"""Structured logs as TorchTitan 0.3.0 writes them (observability/structured_logger), for any
job."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

START_US = 1_795_260_022_000_000


class StructuredLog:
    """The log of one rank: spans are added one after the other, the clock moves on with them."""

    def __init__(self, rank: int, source: str = "training") -> None:
        self.rank, self.source, self.now_us, self.lines = rank, source, START_US, list[str]()
        self.step: int | None = None

    def record(self, log_type: str, name: str, **own: Any) -> None:
        """One line with all fields of the real one, in its order."""
        us = int(self.now_us)
        row: dict[str, Any] = {
            "delta_ms": 0.07,
            "tid": 1971 + self.rank,
            "rank": self.rank,
            "global_rank": self.rank,
        }
        row |= {
            "local_rank": self.rank % 8,
            "source": self.source,
            "host_name": "node-a",
            "pid": 1971 + self.rank,
        }
        if self.step is not None:
            row |= {"step": self.step, "relative_step": self.step}
        row |= {
            "time": us // 10**6,
            "time_ms": us // 1000,
            "time_us": us,
            "log_type": log_type,
            "log_type_name": name,
        }
        row |= {
            "event_name": None,
            **own,
            "caller": "trainer.py:888:train_step",
            "log_file": "trainer.py",
        }
        row |= {
            "log_function": "train_step",
            "log_level": "INFO",
            "logger_name": "torchtitan.structured_logger",
        }
        row |= {
            "seq_id": len(self.lines),
            "message": own.get("message", f"[step {self.step}] {name}"),
        }
        self.lines.append(json.dumps(row))

    def begin(self, name: str) -> None:
        self.record("event", f"{name}_start")

    def end(self, name: str, ms: float) -> None:
        self.record("event", f"{name}_end", value=ms)

    def span(self, name: str, ms: float) -> None:
        """A span that begins and ends."""
        self.begin(name)
        self.now_us += int(1000 * ms)
        self.end(name, ms)

    def scalar(self, name: str, value: float) -> None:
        self.record("instant", "metric_value", event_name=name, value=value)

    def train(self, steps: Iterable[int], data_ms: float = 2.0, compute_ms: float = 95.0) -> None:
        """Whole steps of two batches."""
        for self.step in steps:
            self.begin("step")
            begun = self.now_us
            self.span("fetching_batch", data_ms / 2)
            self.span("fetching_batch", data_ms / 2)
            self.span("fwd_bwd", compute_ms)
            self.span("optim", 3.0)
            self.end("step", (self.now_us - begun) / 1000)

    def stop_in(self, step: int, span: str) -> None:
        """A step in which a span begins and does not end."""
        self.step = step
        self.begin("step")
        self.begin(span)

    def write(self, folder: Path) -> Path:
        """In the place and under the name that TorchTitan gives it."""
        place = folder / "structured_logs"
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{self.source}.global_rank_{self.rank}.20261121-112023-5EPIWD.jsonl"
        path.write_bytes("\n".join([*self.lines, ""]).encode("utf-8", "surrogatepass"))
        return path
