"""The tables of docs/accuracy.md, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from faultline.analysis.errors import EvidenceError
from faultline.analysis.wording.phrases import plain
from faultline.evaluation.figures import (
    AccuracyFigures,
    answer_pairs,
    by_condition,
    by_culprit_kind,
    by_distance,
    by_fault,
    by_system,
    change_pairs,
    figures,
    is_quiet,
    macro_ac1,
    methods_of,
    reliability,
)
from faultline.evaluation.intervals import as_baseline, at_most, beside_baseline
from faultline.evaluation.labels import NAMES_A_CAUSE, NO_CHANGE, Grade
from faultline.evaluation.terminal import bin_cells, shown, shown_interval, signed, signed_interval

_MARKUP = re.compile(r"([\\|*_`<>\[\]~])")
MAX_WHY = 220
Grades = Sequence[Grade]
ACCURACY = ("cases", "AC@1", "95 %", "AC@3", "Avg@5")


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table; the first column is text, all others stand right."""
    # The colon sets the column to the right.
    lines = [_table_row(headings), "|---|" + "---:|" * (len(headings) - 1)]
    lines += [_table_row(row) for row in rows]
    return "\n".join(lines) + "\n"


def _table_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def systems(grades: Grades) -> str:
    """Accuracy, changes, calibration and cost of each system."""
    blame = ("guilty change first", "harmless one blamed")
    trust = ("answer right", "ECE", "95 %", "by chance")
    rows = []
    for name, f in _groups(grades):
        changes = (_of(f.guilty1, f.guilty), _of(f.decoy_share, f.decoy_n))
        calibration = (shown(f.ece), shown_interval(f.intervals.get("ece")), shown(f.ece_floor))
        cost = (shown(f.cpu_s), shown(f.cpu_max_s))
        trust_cells = (shown(f.answers_right), *calibration, *cost)
        rows.append([_text(name), *_accuracy(f), *changes, *trust_cells])
    mean = macro_ac1(grades)
    if mean is not None and mean.systems > 1:
        cells = ["mean of the systems", "", shown(mean.value), shown_interval(mean.interval)]
        rows.append([*cells, *[""] * (len(rows[0]) - len(cells))])
    return table(("system", *ACCURACY, *blame, *trust, "CPU s", "most"), rows)


def groups(name: str, grouping: Callable[[Grades], Mapping[str, Grades]]) -> Callable[..., str]:
    """A table of the groups that `grouping` makes, under that heading."""

    def of(grades: Grades) -> str:
        rows = []
        for group, part in grouping(grades).items():
            f = figures(part)
            # A group without a true subject has no accuracy.
            if f.n:
                right = (_of(f.path, f.path_n), _of(f.guilty1, f.guilty), shown(f.answers_right))
                rows.append([_text(group), *_accuracy(f), *[*right, shown(f.cpu_s)]])
        headings = (name, *ACCURACY, "path shown", "guilty change first", "answer right", "CPU s")
        return table(headings, rows)

    return of


distances = groups("the culprit is", by_distance)
culprits = groups("culprit", by_culprit_kind)
telemetry = groups("telemetry", by_condition)
single_faults = groups("fault", by_fault)


def faults(grades: Grades) -> str:
    """Accuracy of each fault of each system."""
    rows = []
    for system, group in by_system(grades).items():
        for fault, part in by_fault(group).items():
            rows.append([_text(f"{system}, {fault}"), *_accuracy(figures(part))])
    return table(("system, fault", *ACCURACY), rows)


def healthy(grades: Grades) -> str:
    """Cases in which nothing is wrong, and how many of them name a cause all the same."""
    quiet = [g for g in grades if is_quiet(g)]
    rows = []
    for name, part in [*by_system(quiet).items(), ("all", quiet)]:
        f = figures(part)
        accused = [g for g in part if g.verdict in NAMES_A_CAUSE]
        # With few cases a share of zero says little: show the upper limit too.
        limit = shown(at_most(len(accused), len(part)), 3)
        share = (shown(f.accused, 3), shown_interval(f.intervals.get("accused"), 3), limit)
        silent = str(f.verdicts.get("insufficient_evidence", 0))
        counts = (str(len(part)), str(len(accused)))
        rows.append([_text(name), *counts, *share, silent, _of(f.decoy_share, f.decoy_n)])
    named = ("windows", "name a cause", "share", "95 %", "at most")
    return table(("", *named, "insufficient evidence", "harmless change blamed"), rows)


def verdicts(grades: Grades) -> str:
    """How often each verdict was given."""
    kinds = sorted({str(g.verdict) for g in grades if g.verdict})
    rows = []
    for name, f in _groups(grades):
        rows.append([_text(name), *(str(f.verdicts.get(kind, 0)) for kind in kinds)])
    return table(("system", *(kind.replace("_", " ") for kind in kinds)), rows)


def baselines(grades: Grades) -> str:
    """AC@1 of simple methods on the same cases, and how far ours is ahead."""
    names = list(by_system(grades))
    ours = {name: figures(group) for name, group in by_system(grades).items()}
    total = figures(grades)
    rows = [["**Faultline**", *(shown(ours[name].ac1) for name in names), *_baseline_cells(total)]]
    rows[0] += ["", ""]
    for method in methods_of(grades):
        # Compare both on the cases that the method answered.
        answered = [as_baseline(g, method) for g in grades if method in g.baselines]
        parts = by_system(answered)
        cells = [shown(figures(parts.get(name, [])).ac1) for name in names]
        gain = beside_baseline(grades, method)
        less = [signed(gain.difference), signed_interval(gain.interval)] if gain else ["", ""]
        rows.append([method, *cells, *_baseline_cells(figures(answered)), *less])
    headings = ("AC@1", *(_text(name) for name in names), "all", "95 %", "AC@3", "Avg@5")
    return table((*headings, "ours is ahead by", "95 %"), rows)


def _baseline_cells(f: AccuracyFigures) -> list[str]:
    return [shown(f.ac1), shown_interval(f.intervals.get("ac1")), shown(f.ac3), shown(f.avg5)]


def ablation(full: Grades, without: Mapping[str, Grades]) -> str:
    """AC@1 and Avg@5 of each system with all tables, and what each hidden table takes away."""
    names = list(by_system(full))
    rows = [["all tables", *_ablation_cells(full, names)]]
    for hidden, grades in without.items():
        rows.append([f"without {hidden}", *_ablation_cells(grades, names)])
    return table(("", *(_text(name) for name in names), "change right"), rows)


def confidence(grades: Grades) -> str:
    """Stated confidence against the share of right answers, and of right changes."""
    headings = ("stated", "answers", "mean stated", "right")
    tables = [table(headings, [bin_cells(b) for b in reliability(answer_pairs(grades))])]
    changed = change_pairs(grades)
    if changed:
        tables.append("The same for the change that is named, or that none is to blame:\n")
        tables.append(table(headings, [bin_cells(b) for b in reliability(changed)]))
    return "\n".join(tables)


def failures(grades: Grades) -> str:
    """Every wrong answer: what was said and why, where the truth stood and what speaks for it."""
    lines = []
    for g in grades:
        if g.right is False:
            lines += _wrong_answer(g)
        if g.culprit and not g.change_hit(1):
            text = _text(g.change or "-", 12)
            if g.decoy_first:
                text += " (a decoy)"
            true = _text(g.culprit, 12)
            lines.append(f"- **{_text(g.case)}**, change: {text} instead of {true}.")
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
    lines = [f"- **{_text(g.case)}** ({_text(g.fault)}): {head}", f"  Said: {_text(g.answer_why)}"]
    return [*lines, f"  For the truth: {_text(g.truth_why)}"] if g.truth_why else lines


def _groups(grades: Grades) -> list[tuple[str, AccuracyFigures]]:
    named_figures = [(name, figures(group)) for name, group in by_system(grades).items()]
    return (
        # A single system would appear twice.
        named_figures
        if len(named_figures) == 1
        else [*named_figures, ("all cases", figures(grades))]
    )


def _accuracy(f: AccuracyFigures) -> list[str]:
    ends = shown_interval(f.intervals.get("ac1"))
    return [str(f.n), shown(f.ac1), ends, shown(f.ac3), shown(f.avg5)]


def _of(share: float | None, count: int) -> str:
    return f"{shown(share)} of {count}" if count else "-"


def _ablation_cells(grades: Grades, names: Sequence[str]) -> list[str]:
    parts = {name: figures(group) for name, group in by_system(grades).items()}
    cells = []
    for name in names:
        f = parts.get(name)
        cells.append(f"{shown(f.ac1)} · {shown(f.avg5)}" if f else "-")
    return [*cells, shown(figures(grades).change1)]


def _text(text: str, limit: int = MAX_WHY) -> str:
    """Foreign text on one line, none of it markup."""
    return _MARKUP.sub(r"\\\1", plain(text, limit))


# The first table of docs/accuracy.md: the figures by which the diagnosis is to be judged, on data
# that was not used to fit it.

TWO_CALLS = "2 calls away"
FAR = "3 or more calls away"
Row = list[str]


def headline(
    recorded: Sequence[Grade],
    worlds: Sequence[Grade],
    healthy: Sequence[Grade],
    live: Sequence[Grade],
    unseen: Sequence[Grade] = (),
) -> str:
    """`recorded` are answers by numbers fitted without the case's system, `unseen` those about
    other generators' seeds that nobody looked at; what was not measured is empty and has no row."""
    never_seen = [*unseen, *worlds, *live]
    rows = [*_mean_row("never looked at: AC@1, mean of", never_seen)]
    for system, part in by_system(never_seen).items():
        rows += _row(system, figures(part), "ac1")
    rows += [*_of_recorded(recorded), *_of_worlds(worlds), *_of_live(live)]
    quiet = [g for g in (*healthy, *live, *worlds) if is_quiet(g)]
    rows += _row("quiet shops, windows and worlds that name a cause", figures(quiet), "accused")
    tempted = figures([*recorded, *unseen, *worlds, *live, *healthy])
    rows += _row("cases in which a harmless change is blamed", tempted, "decoy_share")
    rows += _times([*recorded, *unseen, *worlds, *live])
    return table(("", "cases", "figure", "95 %"), rows)


def _mean_row(phrase: str, grades: Sequence[Grade]) -> Iterator[Row]:
    mean = macro_ac1(grades)
    if mean is not None:
        n = str(sum(bool(g.subject) for g in grades))
        label, ends = f"**{phrase} {mean.systems}**", shown_interval(mean.interval)
        yield [label, n, f"**{shown(mean.value)}**", ends]


def _of_recorded(grades: Sequence[Grade]) -> Iterator[Row]:
    yield from _mean_row("recorded systems, each left out: AC@1, mean of", grades)
    if not any(grade.subject for grade in grades):
        return
    systems = {name: figures(part) for name, part in by_system(grades).items()}
    located = {name: f for name, f in systems.items() if f.ac1 is not None}
    # The name breaks a tie, so that the page is the same in every run.
    least = min(located, key=lambda name: (located[name].ac1 or 0.0, name))
    yield from _row(f"the least of them, {least}", located[least], "ac1")
    total = figures(grades)
    yield from _row("their guilty changes, named by the first cause", total, "guilty1")
    yield from _row("calibration error of the answers", total, "ece")


def _of_worlds(grades: Sequence[Grade]) -> Iterator[Row]:
    total = figures(grades)
    yield from _row("simulated worlds of the test stream: AC@1", total, "ac1")
    innocent = [g for g in grades if g.culprit == NO_CHANGE]
    yield from _row("where no change is guilty", figures(innocent), "ac1")
    by_calls = by_distance(grades)
    for distance in (TWO_CALLS, FAR):
        yield from _row(f"culprit {distance}", figures(by_calls.get(distance, [])), "ac1")
    yield from _row("the whole path from the alert shown", total, "path")
    yield from _row("guilty changes, named by the first cause", total, "guilty1")
    calm = [g for g in grades if is_quiet(g)]
    yield from _row("calm worlds that name a cause", figures(calm), "accused")
    yield from _row("calibration error of the answers", total, "ece")


def _of_live(grades: Sequence[Grade]) -> Iterator[Row]:
    total = figures(grades)
    yield from _row("live shop: AC@1", total, "ac1")
    yield from _row("guilty changes, named by the first cause", total, "guilty1")


_COUNTS = {
    "ac1": "n",
    "guilty1": "guilty",
    "path": "path_n",
    "accused": "quiet",
    "decoy_share": "decoy_n",
    "ece": "cases",
}


def _row(label: str, f: AccuracyFigures, name: str) -> Iterator[Row]:
    """One figure; none where no case is about it."""
    value: float | None = getattr(f, name)
    if value is None:
        return
    # The emphasis of the row covers its figure as well.
    bold = "**" if label.startswith("**") else ""
    digits = 3 if name in ("accused", "decoy_share") else 2
    ends = shown_interval(f.intervals.get(name), digits)
    yield [label, str(getattr(f, _COUNTS[name])), f"{bold}{shown(value, digits)}{bold}", ends]


def _times(grades: Sequence[Grade]) -> Iterator[Row]:
    if grades:
        f = figures(grades)
        ends = shown_interval(f.intervals.get("cpu_s"))
        yield ["CPU seconds of a case, mean", str(f.cases), shown(f.cpu_s), ends]
        yield ["CPU seconds of a case, most", str(f.cases), shown(f.cpu_max_s), ""]


# Tables of docs/accuracy.md between their marks, each with the hash of the code it was measured
# with.
#
# A table stands between `<!-- table: NAME -->` and `<!-- end -->`: what lies between is replaced,
# all else is kept.

_PLACE = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
NOT_MEASURED = "Not measured yet."
_MEASURED = re.compile(r"^Measured with code `([0-9a-f]+)`\.$", re.MULTILINE)


def fill(page: str, tables: Mapping[str, str], code: str) -> str:
    """The page with those tables in their places, measured with that code. Raises EvidenceError for
    one that has no place."""
    places = {name for _, name, _, _ in _PLACE.findall(page)}
    for name in tables:
        if name not in places:
            raise EvidenceError("the page", f"has no place for the table {name!r}")

    def filled(place: re.Match[str]) -> str:
        name = place[2]
        if name not in tables:
            return place[0]
        return f"{place[1]}{tables[name]}\nMeasured with code `{code}`.\n{place[4]}"

    return _PLACE.sub(filled, page)


def with_empty_places_marked(page: str) -> str:
    """The page, which says of each table without a result that it was not measured."""
    return _PLACE.sub(lambda place: place[1] + (place[3] or f"{NOT_MEASURED}\n") + place[4], page)


def measured_with(page: str) -> dict[str, str]:
    """By table the hash of the code it was measured with; empty where it does not say."""
    matches_by_name = {}
    for _, name, text, _ in _PLACE.findall(page):
        matches = _MEASURED.findall(text)
        matches_by_name[name] = matches[-1] if matches else ""
    return matches_by_name


def older_than(page: str, code: str) -> list[str]:
    """The tables that were measured with other code, or do not say with which."""
    return [name for name, measured in measured_with(page).items() if measured != code]
