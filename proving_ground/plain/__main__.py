"""`python -m proving_ground.plain --seeds 1-4`: incidents in a plain Prometheus, and whether acting
on the answers would have ended them. Odd seeds are to develop on, even ones to measure on."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from proving_ground.plain.asking import DOORS
from proving_ground.plain.generator.kinds import KINDS
from proving_ground.plain.playing import Played, play

MARKS = ("right", "half", "wrong", "failed")


def main(arguments: list[str] | None = None) -> int:
    """Play, print the tables; returns the exit status."""
    options = parser().parse_args(arguments)
    seeds = seeds_of(options.seeds)
    kinds = options.kinds or list(KINDS)
    began = time.monotonic()
    results: list[Played] = []
    # Threads: the work is done by other programs.
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [
            pool.submit(play, kind, seed, options.door, options.keep, options.labelled)
            for seed in seeds
            for kind in kinds
        ]
        for future in running:
            played = future.result()
            results.append(played)
            sys.stderr.write(line_of(played) + "\n")
            if options.json is not None:
                options.json.write_text(json.dumps([asdict(p) for p in results], indent=1))
    sys.stdout.write(tables(results) + "\n")
    sys.stdout.write(f"{len(results)} incidents in {time.monotonic() - began:.0f} s\n")
    return 0


def seeds_of(text: str) -> list[int]:
    """`1-4`, or `1,3,7`."""
    seeds: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        seeds += range(int(first), int(last or first) + 1)
    return seeds


def line_of(played: Played) -> str:
    """One incident in a line."""
    answer = played.answer.headline if played.answer else played.problem[-300:]
    return f"{played.mark:6s} {played.kind} {played.seed} ({played.took_s:.1f} s): {answer}"


def tables(results: Sequence[Played]) -> str:
    """Marks by kind and by what else may matter, and the seconds of an answer."""
    lines = []
    groups = {"all": [("", played) for played in results]}
    groups["kind"] = [(played.kind, played) for played in results]
    for name in ("story", "family", "scrape", "day", "calls", "changes", "staging"):
        groups[name] = [(p.setting.get(name, "-"), p) for p in results]
    for title, rows in groups.items():
        counts: dict[str, Counter[str]] = {}
        for label, played in rows:
            counts.setdefault(label, Counter())[played.mark] += 1
        lines.append(f"{title:42s}" + "".join(f"{mark:>7s}" for mark in MARKS))
        for label in sorted(counts):
            figures = "".join(f"{counts[label][mark]:7d}" for mark in MARKS)
            lines.append(f"  {label:40s}{figures}")
    took = sorted(played.took_s for played in results if played.answer)
    if took:
        lines.append(f"seconds per answer: median {took[len(took) // 2]:.1f}, most {took[-1]:.1f}")
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser(prog="python -m proving_ground.plain", description=__doc__)
    options.add_argument("--seeds", default="1", help="such as 1-4 or 1,3; even ones measure")
    options.add_argument("--kinds", nargs="*", choices=list(KINDS), help="all where none is named")
    options.add_argument("--jobs", type=int, default=2, help="incidents side by side")
    options.add_argument("--door", choices=DOORS, default="alert", help="how the product is asked")
    options.add_argument("--json", type=Path, help="file for every incident with its answer")
    options.add_argument("--keep", type=Path, help="folder for histories and cases")
    options.add_argument("--labelled", type=Path, help="folder for cases with their labels")
    return options


if __name__ == "__main__":
    sys.exit(main())
