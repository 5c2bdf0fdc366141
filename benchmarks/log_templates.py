"""Log templates beside drain3 in the same run: lines per second, grouping accuracy, and memory of a
million lines.

    python benchmarks/log_templates.py [--cases FOLDER] [--labelled FOLDER] [--lines 100000]
    [--million 1000000]

Long lines are those of the case folders whose name begins with `train-ticket` (about 564 characters
each), or made ones; short lines are made. drain3 gets its default configuration and the same lines
in the same order; ours unwraps, masks, counts and groups them. Grouping accuracy is that of
logparser (Zhu et al. 2019): a line is right when its group holds exactly the lines of its true
template. `--labelled` is a folder with files `*_structured*.csv` that have columns Content and
EventId, as loghub has. drain3 is installed in `.tools/drain3` the first time.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import polars as pl
from labelled_log_lines import labelled_lines

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import LOGS
from faultline.analysis.case.windows import Windows
from faultline.analysis.logs.counts import CHUNK, count_chunks
from faultline.analysis.logs.lines import log_texts
from faultline.analysis.logs.miner import OTHER, group_lines
from faultline.analysis.logs.templates import template_counts
from faultline.analysis.vocabulary import Window

ROOT = Path(__file__).resolve().parents[1]
DRAIN3 = "drain3==0.9.11"
ROUNDS = 2
"""The fastest of this many runs counts, for both."""
START = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
WINDOWS = Windows(
    (Window(start=START, end=START + timedelta(hours=1)),),
    Window(start=START + timedelta(hours=1), end=START + timedelta(hours=2)),
)
_CHILD = """
import json, sys, time
from drain3 import TemplateMiner
from drain3.template_miner_config import TemplateMinerConfig
lines = json.load(open(sys.argv[1]))
miner = TemplateMiner(config=TemplateMinerConfig())
began, cpu = time.perf_counter(), time.process_time()
groups = [miner.add_log_message(line)["cluster_id"] for line in lines]
print(json.dumps([time.perf_counter() - began, time.process_time() - cpu, groups]))
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--cases", type=Path, default=ROOT.parent / "shared" / "data" / "cases")
    arguments.add_argument("--labelled", type=Path)
    arguments.add_argument("--lines", type=int, default=100_000)
    arguments.add_argument("--million", type=int, default=1_000_000)
    args = arguments.parse_args()
    python = drain3_python()
    long, what = long_lines(args.cases, args.lines)
    short, labels = labelled_lines(args.lines)
    compare_speed(python, f"long lines, {what}", long)
    compare_speed(python, "short lines, made", short)
    compare_grouping(python, "made, many formats", short[:20_000], labels[:20_000])
    if args.labelled:
        for file in sorted(args.labelled.rglob("*_structured*.csv")):
            rows = pl.read_csv(file, infer_schema=False).select("Content", "EventId").fill_null("")
            compare_grouping(
                python,
                file.name.split(".")[0],
                rows["Content"].to_list(),
                rows["EventId"].to_list(),
            )
    measure_memory(short, args.million)


def drain3_python() -> Path:
    """The interpreter of drain3's own environment, made on first use."""
    folder = ROOT / ".tools" / "drain3" / "env"
    python = folder / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", DRAIN3], check=True)
    return python


def long_lines(cases: Path, count: int) -> tuple[list[str], str]:
    lines: list[str] = []
    for folder in sorted(cases.glob("train-ticket-*")) if cases.is_dir() else ():
        if len(lines) < count:
            lines += read_case(folder).logs["message"].drop_nulls().to_list()
    if lines:
        return lines[:count], "Train Ticket"
    made, _ = labelled_lines(count, seed=2)
    return [f"{line} {'payload ' * 60}" for line in made], "made"


def compare_speed(python: Path, name: str, lines: Sequence[str]) -> None:
    mean = sum(map(len, lines)) / len(lines)
    runs = [timed(lines) for _ in range(ROUNDS)]
    its_runs = [run_drain3(python, lines)[:2] for _ in range(ROUNDS)]
    wall, cpu = (min(times) for times in zip(*runs, strict=True))
    its_wall, its_cpu = (min(times) for times in zip(*its_runs, strict=True))
    print(f"{name}: {len(lines)} lines of {mean:.0f} characters")
    for what, our_time, its in (("CPU second", cpu, its_cpu), ("second", wall, its_wall)):
        print(
            f"  lines per {what}: ours {len(lines) / our_time:,.0f}, drain3 "
            f"{len(lines) / its:,.0f}, "
            f"{its / our_time:.1f} times"
        )


def timed(lines: Sequence[str]) -> tuple[float, float]:
    """Wall and CPU seconds from rows to templates with counts."""
    rows = frame(lines, services=1)
    began, cpu = time.perf_counter(), time.process_time()
    template_counts(count_chunks(rows.iter_slices(CHUNK), WINDOWS))
    return time.perf_counter() - began, time.process_time() - cpu


def frame(lines: Sequence[str], first: int = 0, services: int = 10) -> pl.DataFrame:
    """Rows of a case's logs table, one line per 20 ms."""
    at = [START + timedelta(milliseconds=20 * (first + i) % 7_200_000) for i in range(len(lines))]
    rows = {
        "time": at,
        "service": [f"service-{i % services}" for i in range(len(lines))],
        "message": list(lines),
    }
    rows |= {name: [None] * len(lines) for name in LOGS.optional}
    return pl.DataFrame(rows, schema=LOGS.columns)


def run_drain3(python: Path, lines: Sequence[str]) -> tuple[float, float, list[int]]:
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(list(lines), file)
        file.flush()
        completed_process = subprocess.run(
            [python, "-c", _CHILD, file.name], check=True, capture_output=True, text=True
        )
    wall, cpu, groups = json.loads(completed_process.stdout.splitlines()[-1])
    return wall, cpu, groups


def compare_grouping(python: Path, name: str, lines: Sequence[str], labels: Sequence[str]) -> None:
    masked = log_texts(frame(lines))["masked"].to_list()
    ours = grouping_accuracy(labels, group_lines(masked)[0])
    its = grouping_accuracy(labels, run_drain3(python, lines)[2])
    size = f"{len(lines)} lines, {len(set(labels))} templates"
    print(f"grouping accuracy, {name}: ours {ours:.3f}, drain3 {its:.3f} ({size})")


def grouping_accuracy(labels: Sequence[str], groups: Sequence[int]) -> float:
    """Share of lines whose group holds exactly the lines of their label."""
    of_label: dict[str, set[int]] = defaultdict(set)
    of_group: dict[int, int] = defaultdict(int)
    for label, group in zip(labels, groups, strict=True):
        of_label[label].add(group)
        of_group[group] += 1
    sizes: dict[str, int] = defaultdict(int)
    for label in labels:
        sizes[label] += 1
    right = sum(
        n
        for label, n in sizes.items()
        if len(of_label[label]) == 1 and of_group[next(iter(of_label[label]))] == n
    )
    return right / len(labels)


def measure_memory(short: Sequence[str], count: int) -> None:
    """Peak growth of resident memory while lines are streamed: usual ones, and ones that are all
    different."""
    for name, different in (("usual lines", False), ("lines that are all different", True)):
        before = reset_peak()
        began = time.process_time()
        chunks = count_chunks(streamed(short, count, different), WINDOWS)
        seconds = time.process_time() - began
        cut = int(
            chunks.filter(pl.col("masked") == OTHER)
            .select(pl.col("n", "n_before").sum())
            .sum_horizontal()
            .sum()
        )
        print(
            f"{count:,} {name} in chunks of {CHUNK:,}: memory grows by {peak() - before:.0f} MiB, "
            f"{seconds:.1f} CPU s;"
            f" {chunks.height:,} different masked lines are kept, {cut:,} lines only counted"
        )


def streamed(short: Sequence[str], count: int, different: bool) -> Iterator[pl.DataFrame]:
    letters = [f"{a}{b}{c}" for a in "abcdefghij" for b in "klmnopqrst" for c in "uvwxyzabcd"]
    for first in range(0, count, CHUNK):
        lines = [short[i % len(short)] for i in range(first, min(count, first + CHUNK))]
        if different:
            lines = [
                f"{letters[(first + i) // 1000 % 1000]} {letters[i % 1000]} {line}"
                for i, line in enumerate(lines)
            ]
        yield frame(lines, first)


def reset_peak() -> float:
    Path("/proc/self/clear_refs").write_text("5")
    return peak()


def peak() -> float:
    """The largest resident size since it was reset, MiB."""
    line = next(
        s
        for s in Path(f"/proc/{os.getpid()}/status").read_text().splitlines()
        if s.startswith("VmHWM")
    )
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    main()
