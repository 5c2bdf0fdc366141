"""The tables of docs/accuracy.md, as Markdown; and putting them into the page between their marks.

A table stands between `<!-- table: NAME -->` and `<!-- end -->`: what lies between is replaced, all
else is kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from analysis.errors import EvidenceError
from analysis.wording.phrases import plain
from evaluation.figures import (
    AccuracyFigures,
    answer_pairs,
    by_fault,
    by_system,
    change_pairs,
    figures,
    reliability,
)
from evaluation.grading import Grade
from evaluation.terminal import bin_cells, shown
from evaluation.transfer import leave_one_out

_PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
_MARKUP = re.compile(r"([\\|*_`<>\[\]~])")
MAX_WHY = 220


def fill(page: str, tables: Mapping[str, str]) -> str:
    """The page with those tables in their places. Raises EvidenceError for one that has no
    place."""
    places = {name for _, name, _ in _PLACE.findall(page)}
    for name in tables:
        if name not in places:
            raise EvidenceError("the page", f"has no place for the table {name!r}")

    def filled(place: re.Match[str]) -> str:
        name = place[2]
        return f"{place[1]}{tables[name]}{place[3]}" if name in tables else place[0]

    return _PLACE.sub(filled, page)


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, all others stand right."""
    lines = [_table_row(headings), "|---|" + "---:|" * (len(headings) - 1)]
    lines += [_table_row(row) for row in rows]
    return "\n".join(lines) + "\n"


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def systems(grades: Sequence[Grade]) -> str:
    """Accuracy, changes, calibration and cost of each system."""
    headings = (
        "system",
        "cases",
        "AC@1",
        "AC@3",
        "AC@5",
        "Avg@5",
        "change @1",
        "@3",
        "decoys",
        "answer right",
    )
    rows = []
    for name, f in _groups(grades):
        changes = (shown(f.change1), shown(f.change3), _decoys(f))
        trust = (shown(f.answers_right), shown(f.ece), shown(f.ece_floor))
        cost = (shown(f.cpu_s), shown(f.cpu_max_s))
        rows.append([_text(name), str(f.n), *_accuracy(f), *changes, *trust, *cost])
    return table((*headings, "ECE", "ECE by chance", "CPU s", "most"), rows)


def faults(grades: Sequence[Grade]) -> str:
    """Accuracy of each fault of each system."""
    rows = []
    for system, group in by_system(grades).items():
        for fault, part in by_fault(group).items():
            f = figures(part)
            rows.append([_text(f"{system}, {fault}"), str(f.n), *_accuracy(f)])
    return table(("system, fault", "cases", "AC@1", "AC@3", "AC@5", "Avg@5"), rows)


def ablation(full: Sequence[Grade], without: Mapping[str, Sequence[Grade]]) -> str:
    """AC@1 and Avg@5 of each system with all tables, and what each hidden table takes away."""
    names = list(by_system(full))
    rows = [["all tables", *_ablation_cells(full, names)]]
    for hidden, grades in without.items():
        rows.append([f"without {hidden}", *_ablation_cells(grades, names)])
    return table(("", *(_text(name) for name in names), "change @1"), rows)


def verdicts(grades: Sequence[Grade]) -> str:
    """How often each verdict was given."""
    kinds = sorted({str(g.verdict) for g in grades if g.verdict})
    rows = []
    for name, f in _groups(grades):
        counts = [str(f.verdicts.get(kind, 0)) for kind in kinds]
        rows.append([_text(name), *counts])
    return table(("system", *(kind.replace("_", " ") for kind in kinds)), rows)


def confidence(grades: Sequence[Grade]) -> str:
    """Stated confidence against the share of right answers, and of right changes."""
    headings = ("stated", "answers", "mean stated", "right")
    tables = [table(headings, [bin_cells(b) for b in reliability(answer_pairs(grades))])]
    changed = change_pairs(grades)
    if changed:
        tables.append("The same for the change that is named, or that none is to blame:\n")
        tables.append(table(headings, [bin_cells(b) for b in reliability(changed)]))
    return "\n".join(tables)


def carried_over(grades: Sequence[Grade]) -> str:
    """The confidence as stated, and refitted on other systems."""
    rows = [
        [_text(t.system), str(t.n), shown(t.stated), shown(t.from_others), shown(t.from_itself)]
        for t in leave_one_out(grades)
    ]
    return table(
        ("system", "answers", "ECE as stated", "refitted on the others", "refitted on itself"), rows
    )


def failures(grades: Sequence[Grade]) -> str:
    """Every wrong answer: what was said and why, where the truth stood and what speaks for it."""
    lines = []
    for g in grades:
        if g.right is False:
            lines += _wrong_answer(g)
        if g.culprit and not g.change_hit(1):
            said = _text(g.change or "-", 12)
            if g.decoy_first:
                said += " (a decoy)"
            true = _text(g.culprit, 12)
            lines.append(f"- **{_text(g.case)}**, change: {said} instead of {true}.")
        if g.problem and g.subject:
            lines.append(f"- **{_text(g.case)}**: no answer, {_text(g.problem)}")
    return "\n".join(lines or ["None."]) + "\n"


def _wrong_answer(g: Grade) -> list[str]:
    verdict = str(g.verdict).replace("_", " ")
    true = _text(g.subject or str(g.label and g.label.verdict))
    if g.rank == 1:
        head = f"{true} is the first cause, but the verdict is {verdict}."
    else:
        place = f"at {g.rank}" if g.rank else "not among the causes"
        head = f"{_text(g.causes[0] if g.causes else '-')} instead of {true} ({place}), {verdict}."
    told = [f"- **{_text(g.case)}** ({_text(g.fault)}): {head}", f"  Said: {_text(g.answer_why)}"]
    return [*told, f"  For the truth: {_text(g.truth_why)}"] if g.truth_why else told


def _groups(grades: Sequence[Grade]) -> list[tuple[str, AccuracyFigures]]:
    groups = [(name, figures(group)) for name, group in by_system(grades).items()]
    return [*groups, ("all", figures(grades))]


def _accuracy(f: AccuracyFigures) -> list[str]:
    return [shown(v) for v in (f.ac1, f.ac3, f.ac5, f.avg5)]


def _decoys(f: AccuracyFigures) -> str:
    return f"{f.decoys} of {f.change_n}" if f.change_n else "-"


def _ablation_cells(grades: Sequence[Grade], names: Sequence[str]) -> list[str]:
    groups = {name: figures(group) for name, group in by_system(grades).items()}
    cells = []
    for name in names:
        f = groups.get(name)
        cells.append(f"{shown(f.ac1)} · {shown(f.avg5)}" if f else "-")
    return [*cells, shown(figures(grades).change1)]


def _text(text: str, limit: int = MAX_WHY) -> str:
    """Foreign text on one line, none of it markup."""
    return _MARKUP.sub(r"\\\1", plain(text, limit))
