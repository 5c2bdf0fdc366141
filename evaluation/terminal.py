"""The grades for a person: figures by system and fault, each case with its why, how far confidence
can be trusted, and what simple methods or an earlier version make of the same cases.

Everything out of a case is foreign text: it is printed as text, never as markup, on one line.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from io import StringIO
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from faultline.analysis.wording.phrases import plain
from faultline.evaluation.figures import (
    AccuracyFigures,
    Bin,
    answer_pairs,
    by_condition,
    by_culprit_kind,
    by_distance,
    by_fault,
    by_system,
    change_pairs,
    figures,
    macro_ac1,
    methods_of,
    reliability,
)
from faultline.evaluation.intervals import (
    ConfidenceInterval,
    PairedDifference,
    as_baseline,
    beside_baseline,
)
from faultline.evaluation.labels import Grade

PIPED_WIDTH = 160
_HEADINGS = (
    "", "n", "AC@1", "95 %", "AC@3", "Avg@5", "change", "decoy", "accused", "verdict", "path",
    "answer", "ECE", "chance", "ECE chg", "CPU s", "max",
)  # fmt: skip
LARGEST_CPU_S = 2.0
"""An analysis that takes longer is shown in red: what one case may cost."""


def print_grades(
    grades: Sequence[Grade],
    without: Sequence[str] = (),
    differences: Sequence[PairedDifference] = (),
) -> None:
    """Print everything on standard output."""
    parts = _parts(grades, without, differences)
    # Foreign text may look like markup or an emoji.
    options: dict[str, Any] = {"highlight": False, "markup": False, "emoji": False}
    console = Console(**options)
    if console.is_terminal:
        for part in parts:
            console.print(part)
        return
    # A pipe has no width: a narrow one would cut the tables.
    piped = Console(**options, width=PIPED_WIDTH, file=StringIO(), color_system=None)
    for part in parts:
        piped.print(part)
    # Padding at the end of a line shows up in diffs.
    lines = piped.file.getvalue().splitlines()  # type: ignore[attr-defined]
    sys.stdout.write("".join(f"{line.rstrip()}\n" for line in lines))


def shown(value: float | None, digits: int = 2) -> str:
    """A figure as tables show it; "-" where no case has one."""
    return "-" if value is None else f"{value:.{digits}f}"


def shown_interval(interval: ConfidenceInterval | None, digits: int = 2) -> str:
    """An interval as tables show it; empty where there is none."""
    return "" if interval is None else f"{interval.low:.{digits}f}-{interval.high:.{digits}f}"


def _parts(
    grades: Sequence[Grade], without: Sequence[str], differences: Sequence[PairedDifference]
) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if without:
        parts += [Text(f"without {', '.join(without)}", style="bold yellow"), Text()]
    mean = macro_ac1(grades)
    if mean is None or mean.systems < 2:
        macro = []
    else:
        phrase = f"AC@1, mean over {mean.systems} systems: {shown(mean.value)}"
        macro = [Text(f"{phrase} ({shown_interval(mean.interval)})"), Text()]
    parts += [_figures_table(grades), Text(), *macro, *_cases(grades)]
    if methods_of(grades):
        parts += [Text("Beside simple methods", style="bold"), _baselines(grades), Text()]
    if differences:
        parts += [Text("Compared with the earlier run", style="bold"), *_compared(differences)]
    parts += _reliability("Confidence and answers that were right", answer_pairs(grades))
    changes = change_pairs(grades)
    if changes:
        parts += _reliability("Confidence and changes that were right", changes)
    problems = []
    for grade in grades:
        if grade.problem:
            problems.append(Text(f"  {plain(grade.case)}: {plain(grade.problem, 300)}"))
    if problems:
        parts += [Text("Without an answer, or not graded", style="bold yellow"), *problems]
    return parts


def _reliability(title: str, pairs: Sequence[tuple[float, bool]]) -> list[RenderableType]:
    table = _table("stated", "answers", "mean stated", "right")
    for b in reliability(pairs):
        table.add_row(*bin_cells(b))
    return [Text(title, style="bold"), table, Text()]


def _figures_table(grades: Sequence[Grade]) -> Table:
    table = _table(*_HEADINGS)
    for name, group in by_system(grades).items():
        table.add_row(*_figures_row(name, figures(group)), style="bold")
        faults = by_fault(group)
        # With a single fault its row would repeat the system's.
        if len(faults) > 1:
            for fault, part in faults.items():
                table.add_row(*_figures_row(fault, figures(part), "  "), style="dim")
    for grouping in (by_distance, by_culprit_kind, by_condition):
        for name, part in grouping(grades).items():
            table.add_row(*_figures_row(name, figures(part), "  "))
    table.add_row(*_figures_row("all", figures(grades)), style="bold")
    return table


def _figures_row(name: str, f: AccuracyFigures, indent: str = "") -> list[str | Text]:
    cost = Text(shown(f.cpu_max_s), style="bold red" if f.cpu_max_s > LARGEST_CPU_S else "")
    accuracy = (shown(f.ac1), shown_interval(f.intervals.get("ac1")), shown(f.ac3), shown(f.avg5))
    blame = (shown(f.change1), shown(f.decoy_share), shown(f.accused))
    rest = (f.verdict_right, f.path, f.answers_right, f.ece, f.ece_floor, f.ece_change)
    showns = (shown(value) for value in rest)
    return [indent + plain(name, 34), str(f.n), *accuracy, *blame, *showns, shown(f.cpu_s), cost]


def _baselines(grades: Sequence[Grade]) -> Table:
    table = _table("", "n", "AC@1", "95 %", "AC@3", "Avg@5", "ours less its", "95 %")
    for name in methods_of(grades):
        baseline_figures = figures([as_baseline(g, name) for g in grades if name in g.baselines])
        table.add_row(name, *baseline_cells(baseline_figures, beside_baseline(grades, name)))
    return table


def baseline_cells(f: AccuracyFigures, gain: PairedDifference | None) -> list[str]:
    """One row of a table of baselines."""
    cells = [str(f.n), shown(f.ac1), shown_interval(f.intervals.get("ac1"))]
    less = [signed(gain.difference), signed_interval(gain.interval)] if gain else ["-", ""]
    return [*cells, shown(f.ac3), shown(f.avg5), *less]


def signed(value: float) -> str:
    """A difference of shares."""
    return f"{value:+.2f}"


def signed_interval(interval: ConfidenceInterval) -> str:
    """The interval of a difference."""
    return f"{interval.low:+.2f} to {interval.high:+.2f}"


def _compared(differences: Sequence[PairedDifference]) -> list[RenderableType]:
    table = _table("", "cases", "old", "new", "new less old", "95 %", "won", "lost", "p")
    named: list[RenderableType] = []
    for difference in differences:
        change = (signed(difference.difference), signed_interval(difference.interval))
        counts = (str(len(difference.won)), str(len(difference.lost)), f"{difference.p:.3f}")
        table.add_row(
            difference.question,
            str(difference.n),
            shown(difference.old),
            shown(difference.new),
            *change,
            *counts,
        )
        for what, cases in (("won", difference.won), ("lost", difference.lost)):
            if cases:
                named.append(
                    Text(f"  {difference.question}, {what}: {plain(', '.join(cases), 2000)}")
                )
    return [table, *named, Text()]


def _cases(grades: Sequence[Grade]) -> list[RenderableType]:
    answered = [g for g in grades if g.verdict and g.label]
    if not answered:
        return []
    table = _table(
        "case", "true", "rank", "answered", "verdict", "conf", "change", "CPU s", numbers=False
    )
    reasons: list[RenderableType] = []
    for grade in answered:
        table.add_row(*_case_cells(grade), style=_STYLES[grade.right])
        reasons += _why(grade)
    return [table, Text(), Text("Why", style="bold"), *reasons, Text()]


_STYLES = {True: "green", False: "red", None: ""}


def _case_cells(grade: Grade) -> list[str]:
    verdict = str(grade.verdict)
    if grade.label and grade.verdict_right is False:
        verdict += f" (is {grade.label.verdict})"
    return [
        plain(grade.case),
        plain(grade.subject, 44) if grade.subject else "-",
        str(grade.rank) if grade.rank else "-",
        plain(grade.causes[0], 44) if grade.causes else "-",
        verdict,
        shown(grade.confidence),
        _change(grade),
        shown(grade.cpu_s),
    ]


def _change(g: Grade) -> str:
    if not g.culprit or g.change is None:
        return ""
    if g.change_hit(1):
        return plain(g.change, 10)
    wrong = f"{plain(g.change, 10)}, true {plain(g.culprit, 10)}"
    return f"{wrong}, a decoy" if g.decoy_first else wrong


def _why(g: Grade) -> list[RenderableType]:
    """The winning cause of every case; for a miss what speaks for the truth."""
    head = Text.assemble((plain(g.case), "bold"), "  ", (g.answer_why, "" if g.right else "red"))
    if not g.truth_why:
        return [head]
    place = f"truth at {g.rank}: " if g.rank else "truth not among the causes: "
    return [head, Padding(Text.assemble((place, "dim"), g.truth_why), (0, 0, 0, 6))]


def bin_cells(b: Bin) -> list[str]:
    """One row of a reliability table."""
    return [f"{b.low:.1f}-{b.high:.1f}", str(b.n), shown(b.confidence), shown(b.right)]


def _table(*headings: str, numbers: bool = True) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for place, heading in enumerate(headings):
        is_number = numbers and place > 0
        # Numbers that end in one column compare digit by digit.
        table.add_column(heading, justify="right" if is_number else "left", no_wrap=True)
    return table
