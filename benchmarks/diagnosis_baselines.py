"""How much more often is the cause found than by published methods, on the same cases in the same
run?

    python benchmarks/diagnosis_baselines.py CASES [--only train-ticket] [--workers 2]

BARO and N-Sigma as `fse-baro` on PyPI has them, and BARO and TraceRCA as `RCAEval` has them, in a
separate environment under `.tools/`, which the first run makes. What they are given:

- metrics: one table with a row per moment and a column per series (service, signal, labels), the
  rows of the baseline
  windows and then those of the incident, both the same that Faultline compares; gaps are filled as
  RCAEval's own script does (forward, then zero). They are given the moment of the fault. A
  service's place is that of its first series.
- spans: those of the two windows, with service, operation and duration. A service's place is its
  first operation's.

Faultline is given the case folder as `faultline investigate` reads it, and not the moment of the
fault. CPU seconds are the method's alone for the others, reading the folder and wording the answer
included for Faultline. The ratios at the end are Faultline's figure over the best other method's,
for CPU seconds the cheapest's. A method that answers nothing on a system (no spans, or none before
the fault) has no row there.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.case.windows import metric_windows, span_windows
from faultline.analysis.errors import FaultlineError
from faultline.evaluation.figures import AccuracyFigures, by_system, figures
from faultline.evaluation.labels import Grade
from faultline.evaluation.running import evaluate

ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".tools" / "diagnosis-baselines"
PACKAGES = ("fse-baro==0.2.2", "pandas==3.1.1", "numpy==2.4.6", "scikit-learn==1.9.1")
WITHOUT_DEPENDENCIES = ("RCAEval==1.8.1",)
"""Its extra pins hundreds of packages that the methods used here do not need."""
OURS = "Faultline"


@dataclass(frozen=True)
class Row:
    """One method on one system."""

    method: str
    figures: AccuracyFigures


def baselines_python() -> str:
    """The interpreter that has the other methods; made on first use."""
    python = ENVIRONMENT / "bin" / "python"
    if not (ENVIRONMENT / "ready").exists():
        shutil.rmtree(ENVIRONMENT, ignore_errors=True)
        uv = next(
            (
                u
                for u in (str(ROOT / ".tools/uv/bin/uv"), shutil.which("uv") or "")
                if u and Path(u).exists()
            ),
            None,
        )
        if uv is None:
            raise SystemExit("uv is needed: ./run test sets it up")
        subprocess.run([uv, "venv", "-q", "--python", sys.executable, str(ENVIRONMENT)], check=True)
        install = [uv, "pip", "install", "-q", "--python", str(python)]
        subprocess.run([*install, *PACKAGES], check=True)
        if subprocess.run([*install, "--no-deps", *WITHOUT_DEPENDENCIES], check=False).returncode:
            print("RCAEval cannot be installed: its methods are left out", file=sys.stderr)
        (ENVIRONMENT / "ready").touch()
    return str(python)


def pack(case: Case, folder: Path) -> None:
    """Write what the other methods are given."""
    windows = metric_windows(case)
    series = ["service", "signal", "labels"]
    parts = [
        case.metrics.filter(rows)
        for rows in (windows.in_baseline("time"), windows.in_search("time"))
    ]
    wide = [_wide(part.drop_nulls("service"), series) for part in parts]
    both = pl.concat(wide, how="diagonal")
    columns = [c for c in both.columns if c != "time"]
    services = [json.loads(c)[0] for c in columns]
    values = (
        both.select(columns).cast(pl.Float64).to_numpy() if columns else np.zeros((both.height, 0))
    )
    np.savez(
        folder / f"{case.path.name}.metrics.npz",
        values=values,
        services=services,
        baseline=wide[0].height,
    )
    _pack_spans(case, folder)


def _wide(rows: pl.DataFrame, series: Sequence[str]) -> pl.DataFrame:
    """One row per moment, one column per series, named by a JSON list of what the series is."""
    named = rows.with_columns(
        pl.Series(
            "series", [json.dumps(key) for key in rows.select(series).iter_rows()], dtype=pl.String
        )
    )
    if not named.height:
        return named.select("time")
    return named.pivot("series", index="time", values="value", aggregate_function="mean").sort(
        "time"
    )


def _pack_spans(case: Case, folder: Path) -> None:
    windows = span_windows(case)
    rows = case.spans.with_columns(windows.in_baseline("start").alias("before"))
    rows = rows.filter(pl.col("before") | windows.in_search("start")).drop_nulls(
        ["service", "duration_us"]
    )
    np.savez(
        folder / f"{case.path.name}.spans.npz",
        baseline=rows["before"].to_numpy(),
        service=np.array(rows["service"].to_list(), dtype=str),
        operation=np.array(rows["operation"].fill_null("").to_list(), dtype=str),
        duration_us=rows["duration_us"].to_numpy(),
    )


def baseline_grades(cases: Path, grades: Sequence[Grade]) -> dict[str, list[Grade]]:
    """The other methods' grades, by method."""
    by_case = {g.case: g for g in grades if g.subject}
    grades_by_method: dict[str, list[Grade]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="faultline-baselines-") as room:
        for name in by_case:
            try:
                pack(read_case(cases / name), Path(room))
            except FaultlineError as error:
                print(f"{name}: {error}", file=sys.stderr)
        side = [baselines_python(), str(ROOT / "benchmarks" / "baselines_side.py"), room]
        env = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        with subprocess.Popen(side, stdout=subprocess.PIPE, text=True, env=env) as process:
            assert process.stdout is not None
            for line in process.stdout:
                row = json.loads(line)
                grades_by_method[row["method"]].append(
                    _graded(by_case[row["case"]], row["services"], row["cpu_s"])
                )
                if row["failed"]:
                    print(f"{row['method']} on {row['case']}: {row['failed']}", file=sys.stderr)
    return grades_by_method


def _graded(ours: Grade, services: Sequence[str], cpu_s: float) -> Grade:
    rank = services.index(ours.subject) + 1 if ours.subject in services else None
    return replace(
        ours, rank=rank, causes=tuple(services), cpu_s=cpu_s, confidence=None, right=None
    )


def print_table(system: str, rows: Sequence[Row]) -> None:
    """One system: every method, and how Faultline compares with the best of the others."""
    print(f"\n{system}, {rows[0].figures.n} cases")
    print(f"  {'':<20} {'AC@1':>6} {'AC@3':>6} {'AC@5':>6} {'Avg@5':>6} {'CPU s':>7}")
    for row in rows:
        f = row.figures
        accuracy = " ".join(f"{v or 0.0:6.2f}" for v in (f.ac1, f.ac3, f.ac5, f.avg5))
        print(f"  {row.method:<20} {accuracy} {f.cpu_s:7.3f}")
    mine, rest = rows[0].figures, [row.figures for row in rows[1:]]
    if rest:
        pairs = [
            (getattr(mine, name) or 0.0, max(getattr(f, name) or 0.0 for f in rest))
            for name in ACCURACIES
        ]
        cpu = mine.cpu_s / max(min(f.cpu_s for f in rest if (f.avg5 or 0.0) > 0), 1e-9)
        print(f"  {'ours / best other':<20} {' '.join(_ratio(a, b) for a, b in pairs)} {cpu:6.1f}x")


ACCURACIES = ("ac1", "ac3", "ac5", "avg5")


def _ratio(ours: float, rival: float) -> str:
    return f"{ours / rival:5.2f}x" if rival else f"{'-':>6}"


def main() -> None:
    """Run everything and print a table per system."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path)
    parser.add_argument("--only", default="", help="systems, separated by commas")
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    parts = {name for name in options.only.split(",") if name}
    grades = [g for g in evaluate(options.cases, workers=options.workers) if g.subject]
    grades = [g for g in grades if not parts or g.system in parts]
    methods: dict[str, Iterable[Grade]] = {OURS: grades, **baseline_grades(options.cases, grades)}
    for system in by_system(grades):
        rows = []
        for name, of_method in methods.items():
            system_grades = [g for g in of_method if g.system == system]
            # A method that names no cause at all does not know this kind of system.
            if any(g.causes for g in system_grades):
                rows.append(Row(name, figures(system_grades)))
        print_table(system, rows)


if __name__ == "__main__":
    main()
