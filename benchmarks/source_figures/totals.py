"""Figures of many files together: one row of the table that `benchmarks/house.py` prints."""

from __future__ import annotations

import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.source_figures.source_file import LONGEST_LINE, SourceFile


@dataclass(frozen=True)
class Figure:
    """One column: its key in `--json`, its heading, how it is printed, and the target if any."""

    key: str
    heading: str
    pattern: str
    at_most: float | None = None
    at_least: float | None = None

    def missed_by(self, value: float) -> bool:
        """True where the target is not met by the value as it is printed."""
        shown = float(self.pattern.format(value))
        too_high = self.at_most is not None and shown > self.at_most
        too_low = self.at_least is not None and shown < self.at_least
        return too_high or too_low


DENSITY = (
    Figure("files", "files", "{:.0f}"),
    Figure("lines", "lines", "{:.0f}", at_most=200_000),
    Figure("code_lines", "code", "{:.0f}"),
    Figure("tokens_per_code_line", "tokens", "{:.2f}", at_most=7.5),
    Figure("comprehensions_per_1000", "compr", "{:.1f}", at_most=15),
    Figure("conditional_expressions_per_1000", "cond", "{:.1f}", at_most=15),
    Figure("comment_percent", "comment%", "{:.1f}", at_least=2),
    Figure("mean_complexity", "cyclo", "{:.2f}", at_most=3.3),
    Figure("function_length_median", "median", "{:.0f}"),
    Figure("function_length_p95", "p95", "{:.0f}"),
    Figure("function_length_max", "max", "{:.0f}"),
    Figure("broad_excepts_per_1000", "broad", "{:.2f}"),
    Figure("repeated_class_names_percent", "names%", "{:.1f}"),
    Figure("long_lines", f">{LONGEST_LINE}", "{:.0f}", at_most=0),
)
NAMING = (
    Figure("empty_names_per_1000", "names", "{:.1f}", at_most=20),
    Figure("wide_names_per_1000", "wide", "{:.1f}", at_most=20),
    Figure("visible_names", "visible", "{:.0f}", at_most=0),
    Figure("used_once_per_1000", "once", "{:.1f}", at_most=6),
    Figure("used_once_percent", "once%", "{:.0f}"),
    Figure("complexity_over_15", ">15", "{:.0f}", at_most=15),
    Figure("complexity_over_20", ">20", "{:.0f}", at_most=0),
    Figure("dialect_per_1000", "dialect", "{:.1f}", at_most=1.5),
    Figure("tokens_per_statement", "tok/stmt", "{:.1f}"),
    Figure("lines_per_file", "lines/file", "{:.0f}"),
)
FIGURES = DENSITY + NAMING
"""The targets are those of the plan for the whole product; a single room may are next to them."""


def totals(files: Sequence[SourceFile], repeated: Iterable[str]) -> dict[str, float]:
    """The value of each figure, by its key.

    `repeated` holds the class names that two or more modules of the whole project define. Shares
    are per 1,000 code lines for expressions, per 1,000 words for the dialect of docstrings, and
    per 1,000 source lines for broad excepts, names and functions.
    """
    sums = _sums(files)
    lines = sums["lines"]
    code_lines = sums["code_lines"]
    functions = [function for file in files for function in file.functions]
    lengths = sorted(function.length for function in functions)
    complexities = [function.complexity for function in functions]
    classes = [name for file in files for name in file.public_classes]
    repeated = set(repeated)
    repeated_here = sum(name in repeated for name in classes)
    return {
        "files": len(files),
        "lines": lines,
        "code_lines": code_lines,
        "tokens_per_code_line": _ratio(sums["tokens"], code_lines),
        "comprehensions_per_1000": 1000 * _ratio(sums["comprehensions"], code_lines),
        "conditional_expressions_per_1000": 1000
        * _ratio(sums["conditional_expressions"], code_lines),
        "comment_percent": 100 * _ratio(sums["comment_lines"], lines),
        "mean_complexity": statistics.fmean(complexities) if complexities else 1.0,
        "function_length_median": percentile(lengths, 50),
        "function_length_p95": percentile(lengths, 95),
        "function_length_max": percentile(lengths, 100),
        "broad_excepts_per_1000": 1000 * _ratio(sums["broad_excepts"], lines),
        "repeated_class_names_percent": 100 * _ratio(repeated_here, len(classes)),
        "long_lines": sums["long_lines"],
        "empty_names_per_1000": 1000 * _ratio(sums["empty_names"], lines),
        "wide_names_per_1000": 1000 * _ratio(sums["wide_names"], lines),
        "visible_names": sums["visible_names"],
        "used_once_per_1000": 1000 * _ratio(sums["used_once"], lines),
        "used_once_percent": 100 * _ratio(sums["used_once"], sums["private_functions"]),
        "complexity_over_15": sum(complexity > 15 for complexity in complexities),
        "complexity_over_20": sum(complexity > 20 for complexity in complexities),
        "dialect_per_1000": 1000 * _ratio(sums["dialect"], sums["docstring_words"]),
        "tokens_per_statement": _ratio(sums["tokens"], sums["statements"]),
        "lines_per_file": _ratio(lines, len(files)),
    }


def _sums(files: Iterable[SourceFile]) -> Counter[str]:
    """Each count of the files, added up."""
    sums: Counter[str] = Counter()
    for file in files:
        for name, value in vars(file).items():
            if isinstance(value, int):
                sums[name] += value
    return sums


def repeated_class_names(files: Iterable[SourceFile]) -> dict[str, list[Path]]:
    """Public class names that two or more modules define, with these modules; most often first."""
    modules: dict[str, set[Path]] = defaultdict(set)
    for file in files:
        for name in file.public_classes:
            modules[name].add(file.path)
    repeated = [(name, sorted(paths)) for name, paths in modules.items() if len(paths) > 1]
    repeated.sort(key=lambda entry: (-len(entry[1]), entry[0]))
    return dict(repeated)


def percentile(ordered: Sequence[int], percent: float) -> int:
    """The smallest value that `percent` of the ordered values do not exceed; 0 without values."""
    if not ordered:
        return 0
    rank = math.ceil(len(ordered) * percent / 100)
    return ordered[max(rank, 1) - 1]


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
