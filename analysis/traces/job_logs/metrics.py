"""Loss, gradient norm, throughput and step time by step and rank, from whatever a job writes.

It reads JSON lines (our own keys, TorchTitan's, wandb's), TorchTitan's structured log, the runs
that wandb writes to disk, TorchTitan's and Megatron's console lines and the dicts that the Hugging
Face trainer prints. Bare NaN and Infinity, which Python writes into JSON, are numbers here.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from faultline.analysis.traces.job_logs.lines import bounded_lines
from faultline.analysis.traces.job_logs.structured_log import MARK, scalar_row
from faultline.analysis.traces.reading.job_files import JobFile
from faultline.analysis.traces.reading.wandb_run import history_rows, single_run

Measure = Literal[
    "loss",
    "grad_norm",
    "throughput",
    "step_ms",
    "data_percent",
    "memory_percent",
    "alloc_retries",
    "ooms",
    "mfu_percent",
]
"""`data_percent`: of the time, in the data loader. `memory_percent`: of the device's memory,
reserved at the peak. `alloc_retries`, `ooms`: the allocator's counts since the job began."""

MAX_POINTS = 2_000_000
"""Over all ranks and measures."""
TIME_KEY, LATEST = "_timestamp", 4e9
"""wandb's time of a row, in seconds since 1970."""
STEP_KEYS = ("step", "global_step", "_step", "iteration", "iter")
KEYS: Mapping[str, tuple[Measure, float]] = {
    "loss": ("loss", 1.0),
    "train_loss": ("loss", 1.0),
    "train/loss": ("loss", 1.0),
    "lm loss": ("loss", 1.0),
    "train.loss": ("loss", 1.0),
    "loss_metrics/global_avg_loss": ("loss", 1.0),
    "global_avg_loss": ("loss", 1.0),
    "grad_norm": ("grad_norm", 1.0),
    "grad norm": ("grad_norm", 1.0),
    "train/grad_norm": ("grad_norm", 1.0),
    "throughput(tps)": ("throughput", 1.0),
    "tps": ("throughput", 1.0),
    "tokens_per_second": ("throughput", 1.0),
    "samples_per_second": ("throughput", 1.0),
    "train_samples_per_second": ("throughput", 1.0),
    "step_ms": ("step_ms", 1.0),
    "step_time_ms": ("step_ms", 1.0),
    "elapsed time per iteration (ms)": ("step_ms", 1.0),
    "time_metrics/end_to_end(s)": ("step_ms", 1000.0),
    "step_time": ("step_ms", 1000.0),
    "time_metrics/data_loading(%)": ("data_percent", 1.0),
    "memory/max_reserved(%)": ("memory_percent", 1.0),
    "memory/num_alloc_retries": ("alloc_retries", 1.0),
    "memory/num_ooms": ("ooms", 1.0),
    "mfu(%)": ("mfu_percent", 1.0),
}
"""Key -> what it is, and the factor to our unit. "step_time" is taken to be in seconds.
TorchTitan's keys: torchtitan/observability/metrics.py at 0a2175d."""

_ANSI = re.compile(r"\x1b\[[0-9;]{0,20}m")
_NUMBER = r"[-+]?(?:nan|inf(?:inity)?|\d[\d,]{0,20}(?:\.\d{0,20})?(?:e[-+]?\d{1,3})?)"
_STEP_TEXT = re.compile(
    r"\b(?:step|iteration|iter|global_step)['\"]?\s{0,8}[:= ]\s{0,12}(\d[\d,]{0,12})(?!\.\d|:)",
    re.I,
)
_PAIR = re.compile(
    rf"\b(lm loss|loss|grad[_ ]norm|tps|throughput\(tps\)|step_ms|elapsed time per iteration "
    rf"\(ms\))['\"]?"
    rf"\s{{0,8}}[:=]\s{{0,12}}({_NUMBER})(?![\w.])",
    re.I,
)
_TITAN_MEMORY = re.compile(rf"\bmemory:\s{{0,8}}{_NUMBER}GiB\(({_NUMBER})%\)")


@dataclass
class RankMetrics:
    """The measures of one rank: step -> value, the last one written where a step was written
    twice."""

    rank: int | None
    """None where neither the line nor the file's name says (a console log of rank 0, mostly)."""
    files: list[str] = field(default_factory=list)
    values: dict[Measure, dict[int, float]] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    """Step -> seconds since 1970, where the job wrote them."""

    def series(self, measure: Measure) -> list[tuple[int, float]]:
        """(step, value) by step."""
        return sorted(self.values.get(measure, {}).items())


def read_metrics(files: Iterable[JobFile]) -> list[RankMetrics]:
    """The metrics of every rank, by rank; from metrics files, logs and wandb's runs."""
    ranks: dict[int | None, RankMetrics] = {}
    points = 0
    for file in single_run(files):
        points_of = _wandb_points if file.kind == "wandb_run" else _points
        for rank, step, measures, at in points_of(file.path, file.rank):
            rank_metrics = ranks.setdefault(rank, RankMetrics(rank))
            if not rank_metrics.files or rank_metrics.files[-1] != str(file.path):
                rank_metrics.files.append(str(file.path))
            for measure, value in measures.items():
                rank_metrics.values.setdefault(measure, {})[step] = value
            if at is not None:
                rank_metrics.times[step] = at
            points += len(measures)
            if points >= MAX_POINTS:
                break
    return [ranks[r] for r in sorted(ranks, key=lambda r: -1 if r is None else r)]


class _Row(NamedTuple):
    """What one logged row says."""

    rank: int | None
    step: int
    measures: dict[Measure, float]
    at: float | None = None
    """Seconds since 1970."""

    def of(self, rank: int | None) -> _Row:
        """With the file's rank, where the row does not say its own."""
        return self if self.rank is not None else self._replace(rank=rank)


def _points(path: Path, rank: int | None) -> Iterator[_Row]:
    for _, line in bounded_lines(path):
        row = _row_of(line)
        if row is not None:
            yield row.of(rank)


def _row_of(line: str) -> _Row | None:
    if MARK in line:
        scalars = scalar_row(line)
        return _measured(scalars) if scalars else None
    # A dict that Python printed begins like JSON, and has single quotes.
    if line.lstrip()[:1] == "{" and "'" not in line[:20]:
        try:
            # Python's json takes the bare NaN and Infinity that Python writes.
            value = json.loads(line)
        except (ValueError, RecursionError):
            return None
        return _measured(value) if isinstance(value, dict) else None
    # Test cheaply first: most lines of a log hold no metrics.
    if len(line) < 4_000 and ("loss" in line or "Loss" in line or "tps" in line):
        return _text_line(_ANSI.sub("", line))
    return None


def _wandb_points(path: Path, rank: int | None) -> Iterator[_Row]:
    for row in history_rows(path):
        read = _measured(row)
        if read is not None:
            yield read.of(rank)


def _measured(value: Mapping[str, Any]) -> _Row | None:
    """One logged row; None where it has no step or nothing that is known."""
    step = _step(value)
    if step is None:
        return None
    measures: dict[Measure, float] = {}
    for key, (measure, factor) in KEYS.items():
        number = _number(value.get(key))
        if number is not None and measure not in measures:
            measures[measure] = number * factor
    if not measures:
        return None
    at = _number(value.get(TIME_KEY))
    # A larger number is not in seconds since 1970.
    if at is not None and not 0 < at < LATEST:
        at = None
    return _Row(_whole(value.get("rank")), step, measures, at)


def _step(value: Mapping[str, Any]) -> int | None:
    for key in STEP_KEYS:
        step = _whole(value.get(key))
        if step is not None:
            return step
    return None


def _text_line(line: str) -> _Row | None:
    """A console line, or a dict that Python printed."""
    step = _STEP_TEXT.search(line)
    # TorchTitan logs validation in the same words, but its loss is not the training's.
    if step is None or "validate step" in line:
        return None
    measures: dict[Measure, float] = {}
    for pair in _PAIR.finditer(line):
        measure, factor = KEYS[pair[1].lower()]
        measures.setdefault(measure, float(pair[2].replace(",", "")) * factor)
    memory = _TITAN_MEMORY.search(line) if "GiB(" in line else None
    if memory:
        measures["memory_percent"] = float(memory[1].replace(",", ""))
    if not measures:
        return None
    return _Row(None, int(step[1].replace(",", "")), measures)


def _whole(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if 0 <= value < 2**53 else None


def _number(value: Any) -> float | None:
    """A number; also "nan" and "inf" in text, as loggers without JSON NaN write them."""
    if isinstance(value, str) and value.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf
