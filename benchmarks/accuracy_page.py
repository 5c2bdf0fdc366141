"""Refreshes the tables of docs/accuracy.md: everything that is measured there, in one go.

    python benchmarks/accuracy_page.py CASES [--only systems,faults,...] [--workers 2]

Tables: systems, faults, verdicts, confidence, carried-over, failures (one run of `faultline eval`),
ablation (one run for each hidden table), and what two other scripts print: baselines
(`diagnosis_baselines.py`), sensitivity (`weight_sensitivity.py`). The text between them is written
by hand.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from evaluation import page_tables
from evaluation.grading import Grade
from evaluation.hidden_tables import has_tables
from evaluation.running import GradingOptions, case_folders, evaluate, evaluate_folders

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "accuracy.md"
FROM_GRADES: dict[str, Callable[[list[Grade]], str]] = {
    "systems": page_tables.systems,
    "faults": page_tables.faults,
    "verdicts": page_tables.verdicts,
    "confidence": page_tables.confidence,
    "carried-over": page_tables.carried_over,
    "failures": page_tables.failures,
}
HIDDEN = (
    ("logs",),
    ("spans",),
    ("metrics",),
    ("changes",),
    ("topology",),
    ("topology", "spans"),
    ("logs", "spans"),
)
PRINTED = {
    "baselines": "diagnosis_baselines.py",
    "sensitivity": "weight_sensitivity.py",
}
ALL = (*FROM_GRADES, "ablation", *PRINTED)


def ablated(
    folders: Sequence[Path], full: Sequence[Grade], hidden: Sequence[str], workers: int | None
) -> list[Grade]:
    """The grades without those tables; a case that has none of them is as it was."""
    smaller = [folder for folder in folders if has_tables(folder, hidden)]
    options = GradingOptions(hidden=tuple(hidden))
    changed = {grade.case: grade for grade in evaluate_folders(smaller, options, workers=workers)}
    return [changed.get(grade.case, grade) for grade in full]


def printed_by(script: str, cases: Path, workers: int | None) -> str:
    """What a benchmark prints, as a block of code."""
    command = [sys.executable, str(ROOT / "benchmarks" / script), str(cases)]
    command += ["--workers", str(workers)] if workers else []
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = (line.rstrip() for line in done.stdout.strip("\n").splitlines())
    return "```text\n" + "\n".join(lines) + "\n```\n"


def main() -> None:
    """Measure what was asked for and write the page; each table is stored as soon as it is
    there."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("cases", type=Path)
    parser.add_argument("--only", default=",".join(ALL))
    parser.add_argument("--workers", type=int, default=None)
    options = parser.parse_args()
    wanted = [name.strip() for name in options.only.split(",")]
    unknown = set(wanted) - set(ALL)
    if unknown:
        parser.error(f"no table is called {', '.join(sorted(unknown))}; there are {', '.join(ALL)}")

    def store(name: str, text: str) -> None:
        PAGE.write_text(page_tables.fill(PAGE.read_text(), {name: text}))
        print(f"{name}: written", flush=True)

    if set(wanted) & {*FROM_GRADES, "ablation"}:
        grades = evaluate(options.cases, workers=options.workers)
        for name in wanted:
            if name in FROM_GRADES:
                store(name, FROM_GRADES[name](grades))
        if "ablation" in wanted:
            folders = case_folders(options.cases)
            without = {
                " and ".join(hidden): ablated(folders, grades, hidden, options.workers)
                for hidden in HIDDEN
            }
            store("ablation", page_tables.ablation(grades, without))
    for name in wanted:
        if name in PRINTED:
            store(name, printed_by(PRINTED[name], options.cases, options.workers))


if __name__ == "__main__":
    main()
