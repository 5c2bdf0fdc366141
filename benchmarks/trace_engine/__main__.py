"""How fast are traces read and analysed, and in how much memory, beside HTA and the floor?

    python benchmarks/trace_engine [TRACE] [--jobs 1x54,4x54] [--rounds 2] [--slow] [--folder DIR]

TRACE is a real trace of a GPU job, which by default is one of HTA's own in the public data beside
the project. Each job is ranks x MB of JSON: the trace is replicated to that size, each copy one
window later with its own steps, launches and ids. `--jobs 1x1000,64x54` are the sizes that the
documentation speaks of. The floor is simdjson (`pysimdjson` from PyPI), which only makes its tape
of the bytes. HTA is `traceinsight` from PyPI. Both are installed into separate environments.

Every figure is of fresh processes that take turns, the best of all rounds, CPU seconds with those
of child processes. "parse" is the loaded job without imports. "analyses" are the calls that both
have and HTA makes in seconds. "whole" is a process from its start: `faultline trace --json`, which
makes all our analyses, the diagnoses and the document; for HTA loading and those calls.
`--slow` adds each call's own figures, with those that take HTA minutes. The exponent is the slope
of log time over log size: 1 is linear.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

from processes import Figures, Sides
from replicate import replicate

TRACE = (
    Path(__file__).parents[3] / "shared/data/traces/hta/df_index_resolver/df_index_resolver.json.gz"
)
ROWS = ("parse", "start to parsed", "analyses", "whole", "peak MB parsed", "peak MB whole")
SIDES = ("floor", "ours", "hta")


def main() -> None:
    """Print the tables."""
    options = _options()
    if not options.trace.is_file():
        print(f"skipped: there is no trace at {options.trace}; name a real one")
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        sides = Sides(folder, options.hta_python, options.floor_python, options.limit)
        alone: dict[float, dict[str, Figures]] = {}
        for ranks, megabytes in options.jobs:
            files = _replicas(options.trace, folder, ranks, megabytes)
            size = sum(file.stat().st_size for file in files) / 1e6
            print(f"\n{ranks} x {megabytes} MB ({size:,.0f} MB of JSON), CPU seconds and MB")
            figures = _job(sides, files, options.rounds)
            _print_job(figures)
            if ranks == 1:
                alone[size] = figures
        _print_exponents(alone)
        if options.slow:
            files = _replicas(options.trace, folder, *options.jobs[0])
            _print_calls(*(sides.figures(side, "slow", files[:1]) for side in ("hta", "ours")))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path, nargs="?", default=TRACE)
    parser.add_argument("--jobs", type=_jobs, default="1x54,4x54", help="ranks x MB of each")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--slow", action="store_true", help="each call of the first job's trace")
    parser.add_argument("--limit", type=int, default=1_800, help="wall seconds of one process")
    parser.add_argument(
        "--folder", type=Path, help="where replicas are kept (a temporary folder if not given)"
    )
    parser.add_argument("--hta-python", type=Path, help="a Python that has HTA")
    parser.add_argument("--floor-python", type=Path, help="a Python that has pysimdjson")
    return parser.parse_args()


def _jobs(text: str) -> list[tuple[int, int]]:
    pairs = (job.split("x") for job in text.split(","))
    return [(int(ranks), int(megabytes)) for ranks, megabytes in pairs]


def _replicas(source: Path, folder: Path, ranks: int, megabytes: int) -> list[Path]:
    """One file per rank."""
    mine = folder / f"{ranks}x{megabytes}"
    mine.mkdir(parents=True, exist_ok=True)
    files = [mine / f"rank{rank}.json" for rank in range(ranks)]
    for rank, file in enumerate(files):
        if not file.exists():
            replicate(source, file, megabytes, rank if ranks > 1 else None)
    return files


def _job(sides: Sides, files: list[Path], rounds: int) -> dict[str, Figures]:
    """The best figures of each side, under the names of ROWS."""
    figures: dict[str, Figures] = {side: {} for side in SIDES}
    for _ in range(rounds):
        for side in SIDES:
            for part in ("parse", "analyses", "whole"):
                for name, value in sides.figures(side, part, files).items():
                    figures[side][name] = _better(figures[side].get(name, value), value)
    return figures


def _better(before: float | str, value: float | str) -> float | str:
    """The smaller figure; what failed in one round says so."""
    if isinstance(before, str) or isinstance(value, str):
        return before if isinstance(before, str) else value
    return min(before, value)


def _print_job(figures: dict[str, Figures]) -> None:
    print(f"{'':<16} {'floor':>10} {'ours':>10} {'HTA':>10}   {'ours/floor':>10} {'HTA/ours':>9}")
    for row in ROWS:
        floor, ours, hta = (figures[side].get(row) for side in SIDES)
        cells = " ".join(f"{_figure(value):>10}" for value in (floor, ours, hta))
        ratios = f"{_ratio(ours, floor):>10} {_ratio(hta, ours):>9}"
        print(f"{row:<16} {cells}   {ratios}".rstrip())


def _figure(value: float | str | None) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
    return value or "-"


def _ratio(value: float | str | None, base: float | str | None) -> str:
    if isinstance(value, float) and isinstance(base, float):
        return f"{value / max(base, 1e-6):.1f}x"
    return ""


def _print_exponents(jobs: dict[float, dict[str, Figures]]) -> None:
    for side in SIDES:
        points = [(mb, figures[side].get("parse")) for mb, figures in jobs.items()]
        log_points = [(math.log(mb), math.log(s)) for mb, s in points if isinstance(s, float)]
        if len(log_points) > 1:
            print(f"exponent of parse over size, {side}: {_slope(log_points):.2f}")


def _slope(points: list[tuple[float, float]]) -> float:
    x0 = sum(x for x, _ in points) / len(points)
    y0 = sum(y for _, y in points) / len(points)
    over = sum((x - x0) * (y - y0) for x, y in points)
    return over / sum((x - x0) ** 2 for x, _ in points)


def _print_calls(hta: Figures, ours: Figures) -> None:
    print("\nEach call on one rank, CPU seconds")
    for name in dict.fromkeys((*hta, *ours)):
        if name not in ROWS:
            cells = f"HTA {_figure(hta.get(name)):>9}  ours {_figure(ours.get(name)):>9}"
            print(f"  {name:<38} {cells}  {_ratio(hta.get(name), ours.get(name))}")


if __name__ == "__main__":
    main()
