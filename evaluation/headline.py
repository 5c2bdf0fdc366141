"""The first table of docs/accuracy.md: the figures by which the diagnosis is to be judged, on data
that was not used to fit it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from faultline.evaluation.figures import (
    AccuracyFigures,
    by_distance,
    by_system,
    figures,
    is_quiet,
    macro_ac1,
)
from faultline.evaluation.grading import Grade
from faultline.evaluation.labels import NO_CHANGE
from faultline.evaluation.page_tables import table
from faultline.evaluation.terminal import shown, shown_interval

TWO_CALLS = "2 calls away"
FAR = "3 or more calls away"
Row = list[str]


def headline(
    recorded: Sequence[Grade],
    worlds: Sequence[Grade],
    healthy: Sequence[Grade],
    live: Sequence[Grade],
) -> str:
    """`recorded` are answers by numbers fitted without the case's system; what was not measured is
    empty and has no row."""
    rows = [*_of_recorded(recorded), *_of_worlds(worlds), *_of_live(live)]
    quiet = [g for g in (*healthy, *live, *worlds) if is_quiet(g)]
    rows += _row("quiet shops, windows and worlds that name a cause", figures(quiet), "accused")
    tempted = figures([*recorded, *worlds, *live, *healthy])
    rows += _row("cases in which a harmless change is blamed", tempted, "decoy_share")
    rows += _times([*recorded, *worlds, *live])
    return table(("", "cases", "figure", "95 %"), rows)


def _of_recorded(grades: Sequence[Grade]) -> Iterator[Row]:
    mean = macro_ac1(grades)
    if mean is None:
        return
    phrase = f"recorded systems, each left out: AC@1, mean of {mean.systems}"
    n = str(sum(bool(g.subject) for g in grades))
    yield [f"**{phrase}**", n, f"**{shown(mean.value)}**", shown_interval(mean.interval)]
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
    yield from _row("**simulated worlds of the test stream: AC@1**", total, "ac1")
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
    yield from _row("**live shop: AC@1**", total, "ac1")
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
