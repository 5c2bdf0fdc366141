"""Measures everything that docs/accuracy.md shows, and writes its tables.

    python benchmarks/accuracy_page.py measure RESULTS --recorded CASES --train WORLDS RIG
        --worlds WORLDS --unseen CLUSTERS RIG --live CASES [--workers 2] [--only worlds,healthy]
    python benchmarks/accuracy_page.py write RESULTS
    python benchmarks/accuracy_page.py check

UNSEEN holds test seeds of other generators: `python -m proving_ground.clusters --test`, and
`python -m proving_ground.plain --labelled` of even seeds.

`measure` keeps what each step found in the folder RESULTS, with the hash of the code that decided;
a step whose file has today's hash is not repeated, so that an interrupted run goes on where it
ended. `write` puts what is there into the page; every table says with which code it was measured.
`check` names the tables that are older than the code, and fails if there is one.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faultline.analysis.errors import EvidenceError
from faultline.evaluation import page_tables
from faultline.evaluation.as_json import EvaluationResults, as_json, read_results
from faultline.evaluation.labels import Grade
from faultline.evaluation.page_tables import (
    fill,
    headline,
    measured_with,
    older_than,
    with_empty_places_marked,
)
from faultline.evaluation.running import (
    GradingOptions,
    case_folders,
    code_hash,
    evaluate,
    evaluate_folders,
    has_tables,
    read_left_out,
)
from proving_ground.healthy_windows import write_healthy_windows

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "accuracy.md"
HIDDEN = (
    ("logs",),
    ("spans",),
    ("metrics",),
    ("changes",),
    ("topology",),
    ("topology", "spans"),
    ("logs", "spans"),
)
PART = 100
"""Worlds that are lost at most when a run is interrupted."""
WINDOWS = 80
"""Healthy windows of each system: enough that one system alone can show 2 % to be unlikely."""


@dataclass(frozen=True)
class MeasuringRun:
    """Where the cases of a run are, and where its results go."""

    results: Path
    recorded: Path | None
    train: Sequence[Path]
    worlds: Path | None
    unseen: Sequence[Path]
    live: Path | None
    workers: int | None
    code: str

    def result(self, step: str) -> EvaluationResults | None:
        """What a step found; None before it."""
        file = self.results / f"{step}.json"
        return read_results(file) if file.exists() else None

    def keep(self, step: str, grades: Sequence[Grade], **facts: str) -> None:
        """Store what a step found."""
        document = as_json(grades, **facts)
        # Whoever changes the code while it is being measured gets the hash of the beginning.
        document["code"] = self.code
        text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
        part = self.results / f"{step}.json.part"
        part.write_text(text)
        part.replace(self.results / f"{step}.json")


def measure_recorded(run: MeasuringRun) -> None:
    """The recorded systems by the weights as they are."""
    cases = _required_folder(run.recorded, "--recorded")
    run.keep("recorded", evaluate(cases, GradingOptions(baselines=True), workers=run.workers))


def measure_left_out(run: MeasuringRun) -> None:
    """The recorded systems, each by numbers that were fitted without it."""
    cases = _required_folder(run.recorded, "--recorded")
    train = [_required_folder(folder, "--train") for folder in run.train or [None]]
    file = run.results / f"fitted-without-{run.code}.json"
    if not file.exists():
        _fit_without(run, cases, train, file)
    options = GradingOptions(baselines=True, left_out=read_left_out(file))
    run.keep("left-out", evaluate(cases, options, workers=run.workers), weights=file.name)


def _fit_without(run: MeasuringRun, cases: Path, train: Sequence[Path], file: Path) -> None:
    script = ROOT / "benchmarks" / "suspect_weights.py"
    # Reading the features takes most of the time, and they change with nothing but the code.
    features = run.results / f"features-{run.code}.pickle"
    command = [sys.executable, str(script), str(cases), *map(str, train)]
    command += ["--left-out", str(file), "--features", str(features)]
    if run.workers:
        command += ["--workers", str(run.workers)]
    subprocess.run(command, check=True, cwd=ROOT)


def measure_worlds(run: MeasuringRun) -> None:
    """The simulated worlds of the test stream."""
    folders = case_folders(_required_folder(run.worlds, "--worlds"))
    grades: list[Grade] = []
    for first in range(0, len(folders), PART):
        grades += _part(run, f"worlds-from-{first}", folders[first : first + PART])
        print(f"worlds: {len(grades)} of {len(folders)}", flush=True)
    run.keep("worlds", grades)


def _part(run: MeasuringRun, step: str, folders: Sequence[Path]) -> Sequence[Grade]:
    """Some of the cases of a long step, kept by themselves."""
    result = run.result(step)
    if result is not None and result.code == run.code:
        same = [grade.case for grade in result.grades] == [folder.name for folder in folders]
        if same:
            return result.grades
    grades = evaluate_folders(folders, GradingOptions(baselines=True), workers=run.workers)
    run.keep(step, grades)
    return grades


def measure_healthy(run: MeasuringRun) -> None:
    """Quiet stretches of the recordings; they are cut once, and kept beside the results."""
    windows = run.results / "healthy-windows"
    if not windows.exists():
        folders = case_folders(_required_folder(run.recorded, "--recorded"))
        folders += case_folders(run.live) if run.live else []
        part = run.results / "healthy-windows.part"
        shutil.rmtree(part, ignore_errors=True)
        write_healthy_windows(folders, part, WINDOWS)
        part.rename(windows)
    run.keep("healthy", evaluate(windows, workers=run.workers))


def measure_live(run: MeasuringRun) -> None:
    """Incidents that the live shop played."""
    cases = _required_folder(run.live, "--live")
    run.keep("live", evaluate(cases, GradingOptions(baselines=True), workers=run.workers))


def measure_unseen(run: MeasuringRun) -> None:
    """Test seeds of the other generators."""
    folders = []
    for folder in run.unseen or [None]:
        folders += case_folders(_required_folder(folder, "--unseen"))
    run.keep(
        "unseen", evaluate_folders(folders, GradingOptions(baselines=True), workers=run.workers)
    )


def measure_ablation(run: MeasuringRun) -> None:
    """The recorded systems without some of their tables; a case that has none of them is as it
    was."""
    folders = case_folders(_required_folder(run.recorded, "--recorded"))
    full = run.result("recorded")
    if full is None:
        raise EvidenceError("ablation", "measure `recorded` first")
    for hidden in HIDDEN:
        smaller = [folder for folder in folders if has_tables(folder, hidden)]
        options = GradingOptions(hidden=hidden)
        ablated_grades = evaluate_folders(smaller, options, workers=run.workers) if smaller else []
        changed = {grade.case: grade for grade in ablated_grades}
        grades = [changed.get(grade.case, grade) for grade in full.grades]
        run.keep(_hidden_step(hidden), grades)
    run.keep("ablation", full.grades)


def _hidden_step(hidden: Sequence[str]) -> str:
    return f"without-{'-'.join(hidden)}"


def _required_folder(folder: Path | None, option: str) -> Path:
    if folder is None:
        raise EvidenceError(option, "is not given")
    return folder


STEPS: dict[str, Callable[[MeasuringRun], None]] = {
    "recorded": measure_recorded,
    "left-out": measure_left_out,
    "worlds": measure_worlds,
    "unseen": measure_unseen,
    "healthy": measure_healthy,
    "live": measure_live,
    "ablation": measure_ablation,
}


def measure(run: MeasuringRun, steps: Sequence[str]) -> None:
    """The steps that today's code has not been measured by, one after the other."""
    run.results.mkdir(parents=True, exist_ok=True)
    for step in steps:
        result = run.result(step)
        if result is not None and result.code == run.code:
            print(f"{step}: measured already", flush=True)
            continue
        began = time.perf_counter()
        try:
            STEPS[step](run)
        except EvidenceError as error:
            print(f"{step}: left out: {error}", flush=True)
            continue
        print(f"{step}: {time.perf_counter() - began:.0f} s", flush=True)


STEP_TABLES: dict[str, tuple[str, Callable[[Sequence[Grade]], str]]] = {
    "left-out": ("left-out", page_tables.systems),
    "left-out-baselines": ("left-out", page_tables.baselines),
    "left-out-verdicts": ("left-out", page_tables.verdicts),
    "left-out-confidence": ("left-out", page_tables.confidence),
    "failures": ("left-out", page_tables.failures),
    "recorded": ("recorded", page_tables.systems),
    "recorded-faults": ("recorded", page_tables.faults),
    "worlds": ("worlds", page_tables.systems),
    "worlds-distance": ("worlds", page_tables.distances),
    "worlds-culprits": ("worlds", page_tables.culprits),
    "worlds-faults": ("worlds", page_tables.single_faults),
    "worlds-telemetry": ("worlds", page_tables.telemetry),
    "worlds-baselines": ("worlds", page_tables.baselines),
    "worlds-verdicts": ("worlds", page_tables.verdicts),
    "worlds-confidence": ("worlds", page_tables.confidence),
    "unseen": ("unseen", page_tables.systems),
    "unseen-faults": ("unseen", page_tables.faults),
    "unseen-baselines": ("unseen", page_tables.baselines),
    "unseen-confidence": ("unseen", page_tables.confidence),
    "healthy": ("healthy", page_tables.healthy),
    "worlds-calm": ("worlds", page_tables.healthy),
    "live": ("live", page_tables.systems),
    "live-faults": ("live", page_tables.single_faults),
}
"""The tables of one step's grades, by name."""
HEADLINE = ("left-out", "worlds", "healthy", "live", "unseen")
TABLES = ("headline", *STEP_TABLES, "ablation")


def tables(run: MeasuringRun) -> Iterator[tuple[str, str, str]]:
    """(name, text, hash) of every table that can be written."""
    results = {step: result for step in STEPS if (result := run.result(step))}
    for name, (step, text) in STEP_TABLES.items():
        if step in results:
            yield name, text(results[step].grades), results[step].code
    parts = [results[step].grades if step in results else () for step in HEADLINE]
    codes = {results[step].code for step in HEADLINE if step in results}
    if len(codes) == 1:
        yield "headline", headline(*parts), codes.pop()
    if "ablation" in results:
        without = {}
        for hidden in HIDDEN:
            part = run.result(_hidden_step(hidden))
            if part is not None:
                without[" and ".join(hidden)] = part.grades
        ablation = results["ablation"]
        yield "ablation", page_tables.ablation(ablation.grades, without), ablation.code


def write(run: MeasuringRun) -> None:
    """Put every table that was measured into the page."""
    written = []
    for name, text, code in tables(run):
        PAGE.write_text(fill(PAGE.read_text(), {name: text}, code))
        written.append(name)
    PAGE.write_text(with_empty_places_marked(PAGE.read_text()))
    print(f"written: {', '.join(written)}")
    missing = [name for name in TABLES if name not in written]
    if missing:
        print(f"not measured, or not with one version of the code: {', '.join(missing)}")


def check(page: Path, code: str) -> int:
    """Print which tables are older than the code; 1 if there is one."""
    text = page.read_text()
    older = older_than(text, code)
    measured = measured_with(text)
    for name in older:
        print(f"{name}: measured with {measured[name] or 'unknown code'}, the code is {code}")
    print(f"{len(older)} of {len(measured)} tables are older than the code")
    return 1 if older else 0


def main() -> int:
    """Measure, write or check; returns the exit status."""
    options = _parser().parse_args()
    code = code_hash()
    if options.command == "check":
        return check(PAGE, code)
    option_values = vars(options)
    run = MeasuringRun(
        options.results,
        option_values.get("recorded"),
        option_values.get("train") or (),
        option_values.get("worlds"),
        option_values.get("unseen") or (),
        option_values.get("live"),
        option_values.get("workers"),
        code,
    )
    if options.command == "write":
        write(run)
        return 0
    steps = [name.strip() for name in options.only.split(",")]
    unknown = set(steps) - set(STEPS)
    if unknown:
        print(f"no step is called {', '.join(sorted(unknown))}; there are {', '.join(STEPS)}")
        return 2
    measure(run, steps)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    measuring = commands.add_parser("measure", help="measure what is not measured yet")
    measuring.add_argument("results", type=Path)
    measuring.add_argument("--recorded", type=Path, help="cases of recorded systems")
    measuring.add_argument(
        "--train", type=Path, nargs="+", help="cases of the generators' training seeds"
    )
    measuring.add_argument("--worlds", type=Path, help="worlds of the test stream")
    measuring.add_argument(
        "--unseen", type=Path, nargs="+", help="cases of other generators' test seeds"
    )
    measuring.add_argument("--live", type=Path, help="cases of the live shop")
    measuring.add_argument("--workers", type=int, default=None)
    measuring.add_argument("--only", default=",".join(STEPS), help=", ".join(STEPS))
    writing = commands.add_parser("write", help="write the tables of the page")
    writing.add_argument("results", type=Path)
    commands.add_parser("check", help="name the tables that are older than the code")
    return parser


if __name__ == "__main__":
    sys.exit(main())
