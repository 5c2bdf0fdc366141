"""Figures of many files together: one row of the table that `benchmarks/house.py` prints."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
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


FIGURES = (
    Figure("files", "files", "{:.0f}"),
    Figure("lines", "lines", "{:.0f}"),
    Figure("code_lines", "code", "{:.0f}"),
    Figure("tokens_per_code_line", "tokens", "{:.2f}", at_most=7.5),
    Figure("comprehensions_per_1000", "compr", "{:.1f}", at_most=15),
    Figure("conditional_expressions_per_1000", "cond", "{:.1f}", at_most=15),
    Figure("comment_percent", "comment%", "{:.1f}", at_least=3),
    Figure("mean_complexity", "cyclo", "{:.2f}", at_most=3.3),
    Figure("function_length_median", "median", "{:.0f}"),
    Figure("function_length_p95", "p95", "{:.0f}"),
    Figure("function_length_max", "max", "{:.0f}"),
    Figure("broad_excepts_per_1000", "broad", "{:.2f}"),
    Figure("repeated_class_names_percent", "names%", "{:.1f}"),
    Figure("long_lines", f">{LONGEST_LINE}", "{:.0f}", at_most=0),
)
"""The targets are those of the plan for the whole product; a single room may are next to them."""


def totals(files: Sequence[SourceFile], repeated: Iterable[str]) -> dict[str, float]:
    """The value of each figure, by its key.

    `repeated` holds the class names that two or more modules of the whole project define. Shares
    are per 1,000 code lines for expressions, per 1,000 source lines for broad excepts.
    """
    lines = sum(file.lines for file in files)
    code_lines = sum(file.code_lines for file in files)
    functions = [function for file in files for function in file.functions]
    lengths = sorted(function.length for function in functions)
    complexities = [function.complexity for function in functions]
    classes = [name for file in files for name in file.public_classes]
    known = set(repeated)
    repeated_here = sum(name in known for name in classes)
    comprehensions = sum(file.comprehensions for file in files)
    conditionals = sum(file.conditional_expressions for file in files)
    return {
        "files": len(files),
        "lines": lines,
        "code_lines": code_lines,
        "tokens_per_code_line": _ratio(sum(file.tokens for file in files), code_lines),
        "comprehensions_per_1000": 1000 * _ratio(comprehensions, code_lines),
        "conditional_expressions_per_1000": 1000 * _ratio(conditionals, code_lines),
        "comment_percent": 100 * _ratio(sum(file.comment_lines for file in files), lines),
        "mean_complexity": statistics.fmean(complexities) if complexities else 1.0,
        "function_length_median": percentile(lengths, 50),
        "function_length_p95": percentile(lengths, 95),
        "function_length_max": percentile(lengths, 100),
        "broad_excepts_per_1000": 1000 * _ratio(sum(file.broad_excepts for file in files), lines),
        "repeated_class_names_percent": 100 * _ratio(repeated_here, len(classes)),
        "long_lines": sum(file.long_lines for file in files),
    }


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
