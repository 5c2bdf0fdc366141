"""How much memory do the ranks of a large job take?

    python benchmarks/trace_memory.py [--ranks 16,64] [--mb 4] [--jobs 2] [--source TRACE] [--json]

Repeats the events of a real trace (by default one of the demo's) until it is `--mb` long, gives each
rank a hard link to it, and runs `faultline trace --jsonl`. Printed are the highest memory of the
command with all its processes, each page counted once (PSS), and that of the command alone, which
holds what is kept of every rank. A thousand ranks of 100 MB are `--ranks 1000 --mb 100`: 100 MB of
disk, and about a second of CPU time a rank. `--json` writes the document instead, in which the rows
of all ranks stand together.
"""  # noqa: E501

from __future__ import annotations

import argparse
import gzip
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.trace_engine.replicate import replicate

DEMO = Path(__file__).parents[1] / "demo/cases/slow-rank/traces"
EVERY_S = 0.05
KB = 1024


def main() -> None:
    """Print one line for each number of ranks."""
    options = _options()
    source = options.source or sorted(DEMO.glob("*.json*"))[0]
    print(f"{'ranks':>6} {'MB each':>8} {'all, MB':>8} {'command, MB':>12} {'kB a rank':>10} CPU s")
    last: tuple[int, float] | None = None
    for count in options.ranks:
        with tempfile.TemporaryDirectory() as folder:
            size = make_ranks(source, Path(folder), count, options.mb)
            everything, command, cpu = measured(Path(folder), options.jobs, as_json=options.json)
        growth = (command - last[1]) * 1000 / (count - last[0]) if last else float("nan")
        figures = f"{everything:8.0f} {command:12.0f} {growth:10.0f} {cpu:.1f}"
        print(f"{count:6} {size:8.1f} {figures}", flush=True)
        last = (count, command)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = {"type": lambda text: [int(part) for part in text.split(",")]}
    parser.add_argument("--ranks", default=[16, 64], **numbers)
    parser.add_argument("--mb", type=int, default=4)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--source", type=Path)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def make_ranks(source: Path, folder: Path, count: int, megabytes: int) -> float:
    """One trace of that size and a name for each rank; MB of the file."""
    raw = source.read_bytes()
    document = json.loads(gzip.decompress(raw) if source.suffix == ".gz" else raw)
    # A rank in the file would make all names one rank.
    document.pop("distributedInfo", None)
    document["traceEvents"] = document.pop("traceEvents")
    alone = folder / ".source.json"
    alone.write_text(json.dumps(document))
    first = replicate(alone, folder / "rank0.json", megabytes)
    for rank in range(1, count):
        os.link(first, folder / f"rank{rank}.json")
    return first.stat().st_size / 1e6


def measured(folder: Path, jobs: int, *, as_json: bool) -> tuple[float, float, float]:
    """MB of all processes at once, MB of the command alone, and CPU seconds."""
    shown = ["--json"] if as_json else ["--jsonl", os.devnull]
    command = [sys.executable, "-m", "faultline.bot.cli.main", "trace", str(folder), *shown]
    began = _cpu_seconds()
    with subprocess.Popen(
        [*command, "--quiet", "--jobs", str(jobs)], stdout=subprocess.DEVNULL
    ) as running:
        peaks = [0.0, 0.0]
        ended = threading.Event()
        watch = threading.Thread(target=_watch, args=(running.pid, peaks, ended))
        watch.start()
        code = running.wait()
        ended.set()
        watch.join()
    if code:
        raise SystemExit(f"faultline trace ended with {code}")
    return peaks[0], peaks[1], _cpu_seconds() - began


def _watch(pid: int, peaks: list[float], ended: threading.Event) -> None:
    while not ended.wait(EVERY_S):
        pss = _pss([pid])
        peaks[0] = max(peaks[0], pss + _pss(_children(pid)))
        peaks[1] = max(peaks[1], pss)


def _children(pid: int) -> list[int]:
    try:
        return [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _pss(processes: Sequence[int]) -> float:
    """MB, with a share of each page that several processes have."""
    whole = 0
    for pid in processes:
        try:
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    whole += int(line.split()[1]) * KB
        except OSError:
            continue
    return whole / 1e6


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
