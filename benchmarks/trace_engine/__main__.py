"""How fast are traces read and analysed, and in how much memory, beside HTA?

    python benchmarks/trace_engine TRACE [--sizes 50,100,500,1000] [--ranks 8] [--rounds 3] [--folder DIR]

TRACE is a real trace of a GPU job; it is replicated to each size (MB of JSON), each copy one window
later with its own steps, launches and ids. HTA is `traceinsight` from PyPI, installed into a separate
environment. Both sides run in turns, each in fresh processes; of CPU seconds the best of
all rounds counts. "cold" is a process from its start to the loaded trace, "warm" the best repeat
within a process. Memory is the highest resident set, for several ranks the highest sum over all
processes. The exponent is the slope of log time over log events: 1 is linear.
"""  # noqa: E501

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from replicate import replicate

HERE = Path(__file__).parent
HTA = "traceinsight==0.6.1"
LARGE_MB = 300
"""From here on HTA runs once: it takes minutes."""
Figures = dict[str, float | str]


def main() -> None:
    """Print the tables."""
    options = _options()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        hta = options.hta_python or _hta_python(folder)
        sizes = {mb: _replica(options.trace, folder / f"{mb}mb.json", mb) for mb in options.sizes}
        bench = _Bench(hta, options.rounds)
        loads = {mb: bench.load(mb, [file]) for mb, file in sizes.items()}
        _print_loads(loads, {mb: file.stat().st_size for mb, file in sizes.items()})
        if not options.no_analyses:
            for mb in sorted(sizes)[:2]:
                _print_analyses(mb, *bench.sides("analyses", [sizes[mb]], repeats=3))
        if options.ranks:
            files = [
                _replica(options.trace, folder / f"rank{r}.json", 100, r)
                for r in range(options.ranks)
            ]
            _print_ranks(files, *bench.sides("load", files, repeats=1, whole_tree=True))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trace", type=Path)
    parser.add_argument(
        "--sizes",
        type=lambda text: [int(mb) for mb in text.split(",")],
        default=[50, 100, 500, 1000],
    )
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--folder", type=Path, help="where the replicas are kept (a temporary folder if not given)"
    )
    parser.add_argument(
        "--hta-python", type=Path, help="a Python that has HTA; otherwise it is installed"
    )
    parser.add_argument("--no-analyses", action="store_true")
    return parser.parse_args()


def _hta_python(folder: Path) -> Path:
    environment = folder / "hta"
    python = environment / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", environment], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", HTA], check=True)
    return python


def _replica(source: Path, target: Path, megabytes: int, rank: int | None = None) -> Path:
    return target if target.exists() else replicate(source, target, megabytes, rank)


class _Bench:
    """Runs both sides in turns."""

    def __init__(self, hta: Path, rounds: int) -> None:
        self._hta, self._rounds = hta, rounds

    def load(self, megabytes: int, files: list[Path]) -> dict[str, Figures]:
        """Both sides' figures of loading alone: cold from processes that load once, warm from
        repeats in one."""
        rounds = self._rounds if megabytes < LARGE_MB else 1
        repeats = 3 if megabytes < LARGE_MB else 1
        best: dict[str, Figures] = {"hta": {}, "ours": {}}
        for _ in range(rounds):
            for side in best:
                cold = self._run(side, "load", 1, files)
                _keep_best(
                    best[side],
                    {"cold": cold["process"], "peak MB": cold["peak MB"], "load": cold["load"]},
                )
                if repeats > 1 or side == "ours":
                    _keep_best(best[side], {"load": self._run(side, "load", 3, files)["load"]})
        return best

    def sides(
        self, part: str, files: list[Path], *, repeats: int, whole_tree: bool = False
    ) -> tuple[Figures, Figures]:
        """(HTA's, ours) figures of one part."""
        hta, ours = (
            self._run(side, part, repeats, files, whole_tree=whole_tree) for side in ("hta", "ours")
        )
        return hta, ours

    def _run(
        self, side: str, part: str, repeats: int, files: list[Path], *, whole_tree: bool = False
    ) -> Figures:
        python = str(self._hta) if side == "hta" else sys.executable
        command = [
            python,
            str(HERE / f"{side}_side.py"),
            part,
            str(repeats),
            *(str(f) for f in files),
        ]
        before = os.times()
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as child:
            peak = _Peak(child.pid) if whole_tree else None
            text = child.communicate()[0]
        after = os.times()
        if child.returncode:
            raise SystemExit(f"{side} {part}: exit {child.returncode}")
        figures: Figures = json.loads(text.strip().splitlines()[-1])
        figures["process"] = (
            after.children_user
            + after.children_system
            - before.children_user
            - before.children_system
        )
        if peak is not None:
            figures["peak MB"] = peak.megabytes()
        return figures


class _Peak:
    """The highest sum of proportional set sizes over a process and its descendants, sampled."""

    def __init__(self, pid: int) -> None:
        self._pid, self._highest = pid, 0.0
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()

    def megabytes(self) -> float:
        self._thread.join()
        return self._highest

    def _watch(self) -> None:
        while Path(f"/proc/{self._pid}/smaps_rollup").exists():
            with contextlib.suppress(OSError):
                self._highest = max(self._highest, sum(_pss_mb(pid) for pid in _tree(self._pid)))
            if _is_zombie(self._pid):
                return
            time.sleep(0.05)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            found += _tree(int(child))
    return found


def _pss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)


def _is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def _keep_best(best: Figures, new: Figures) -> None:
    for name, value in new.items():
        before = best.get(name)
        best[name] = (
            min(before, value) if isinstance(before, float) and isinstance(value, float) else value
        )


def _print_loads(loads: dict[int, dict[str, Figures]], sizes: dict[int, int]) -> None:
    print("\nLoading one trace (CPU seconds)")
    print(f"{'MB':>6} {'HTA warm':>9} {'ours':>8} {'ratio':>6}  {'HTA cold':>9} {'ours':>8} {'ratio':>6}  "  # noqa: E501
          f"{'HTA MB':>7} {'ours':>6} {'1/n':>5}")  # fmt: skip
    for megabytes, both in loads.items():
        hta, ours = both["hta"], both["ours"]
        row = [f"{megabytes:>6}"]
        for name, width, digits in (("load", 9, 2), ("cold", 9, 2), ("peak MB", 7, 0)):
            a, b = float(hta[name]), float(ours[name])
            row.append(
                f"{a:>{width}.{digits}f} {b:>8.{max(digits, 0) + (1 if digits else 0)}f} "
                f"{a / b:>6.1f} "
            )
        print(" ".join(row))
    for side in ("hta", "ours"):
        points = [(sizes[mb], float(both[side]["load"])) for mb, both in loads.items()]
        if len(points) > 1:
            print(
                f"exponent over size, warm, {'HTA' if side == 'hta' else side}: "
                f"{_slope(points):.2f}"
            )


def _slope(points: list[tuple[float, float]]) -> float:
    xs, ys = [math.log(x) for x, _ in points], [math.log(y) for _, y in points]
    x0, y0 = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - x0) * (y - y0) for x, y in zip(xs, ys, strict=True)) / sum(
        (x - x0) ** 2 for x in xs
    )


def _figure(value: float | str | None) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def _print_analyses(megabytes: int, hta: Figures, ours: Figures) -> None:
    print(f"\nAnalyses of the loaded trace of {megabytes} MB (CPU seconds)")
    for name, value in hta.items():
        own = ours.get(name)
        if name in ("import", "process", "peak MB", "load"):
            continue
        show = _figure
        both = isinstance(value, float) and isinstance(own, float)
        ratio = f"{value / max(own, 1e-6):.0f}x" if both else ""  # type: ignore[operator, type-var]
        print(f"  {name:<28} HTA {show(value):>9}  ours {show(own):>9}  {ratio}")
    for name in sorted(set(ours) - set(hta)):
        print(f"  {name:<40} ours {float(ours[name]):>9.4f}")
    print(
        f"  peak memory with all of these HTA {hta['peak MB']:.0f} MB, ours {ours['peak MB']:.0f} "
        f"MB"
    )


def _print_ranks(files: list[Path], hta: Figures, ours: Figures) -> None:
    print(f"\nLoading {len(files)} ranks of 100 MB, all kept")
    for name, key in (("CPU s, whole process", "process"), ("peak MB, all processes", "peak MB")):
        a, b = float(hta[key]), float(ours[key])
        print(f"  {name:<24} HTA {a:8.1f}  ours {b:8.1f}  {a / b:.1f}x")


if __name__ == "__main__":
    main()
