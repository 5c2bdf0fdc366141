"""Where the time of a training step goes, from a job of one host to one of a thousand ranks."""

from __future__ import annotations

import re
from typing import Any

import pytest

from faultline.analysis.vocabulary import Diagnosis, Finding
from faultline.bot.answer.pictures.bars_svg import bars_svg
from faultline.bot.answer.pictures.step_bars import MOST_RANKS, StepBars, step_bars_of
from tests.bot.answer.pictures.incidents import cause, diagnosis

OWN = {"data loading": 86.0, "forward": 1.1}
OTHERS = {"data loading": 1.3, "forward": 1.3}


def row(rank: int, data: float, waits: float) -> dict[str, object]:
    phases = {"data loading ms": data, "forward ms": 1.2}
    return {"rank": rank, "step ms": 103.0, "waits ms": waits, "blame share": 0.1, **phases}


FOUR = [row(0, 1.3, 84.0), row(1, 1.3, 84.0), row(2, 86.0, 0.0), row(3, 1.3, 84.0)]


def job(rows: list[dict[str, object]], slow: int = 2, **details: Any) -> Diagnosis:
    given = {
        "rank": slow,
        "phase": "data loading",
        "phases_ms": OWN,
        "others_phases_ms": OTHERS,
        "per_rank": rows,
        "ranks": [one["rank"] for one in rows],
    }
    finding = Finding(
        id="F1",
        kind="straggler",
        subject=f"rank {slow}",
        strength=0.9,
        sentence=f"rank {slow} makes the others wait.",
        details={**given, **details},
    )
    return diagnosis(findings=(finding,), causes=(cause(1, f"rank {slow}", "F1"),))


def bars_of(made: Diagnosis) -> StepBars:
    bars = step_bars_of(made)
    assert bars is not None
    return bars


def test_each_rank_has_a_bar_and_the_slow_one_is_told_apart() -> None:
    bars = bars_of(
        job([row(n, 86.0 if n == 2 else 1.3, 0.0 if n == 2 else 84.0) for n in range(4)])
    )
    assert [(bar.rank, bar.slow) for bar in bars.bars] == [
        (0, False),
        (1, False),
        (2, True),
        (3, False),
    ]
    assert bars.phases == ("data loading", "forward", "waiting", "other")
    assert {round(bar.total, 6) for bar in bars.bars} == {103.0}
    drawn = bars_svg(bars, 640)
    assert drawn.count('class="frame"') == 1
    assert "data loading: 86 ms" in drawn
    assert "waiting for rank 2" in drawn
    assert drawn.count("part waiting") == 3 + 1


def test_of_a_large_job_the_interesting_ranks_are_drawn_and_the_others_counted() -> None:
    rows = [row(n, 1.3, 84.0 - (n == 77) * 30) for n in range(256)]
    bars = bars_of(job(rows, slow=900, ranks=list(range(1024))))
    ranks = [bar.rank for bar in bars.bars]
    assert len(ranks) == MOST_RANKS
    assert {0, 77, 900} <= set(ranks)
    assert "… 1,016 more ranks like these" in bars_svg(bars, 334)


def test_without_a_table_of_ranks_the_slow_one_stands_beside_another() -> None:
    bars = bars_of(job([], ranks=[0, 1, 2]))
    assert [(bar.rank, bar.slow) for bar in bars.bars] == [(0, False), (2, True)]
    assert bars.bars[0].total == pytest.approx(bars.bars[1].total)


@pytest.mark.parametrize(
    "details",
    [
        {"phases_ms": {}, "per_rank": []},
        {"phases_ms": [1], "others_phases_ms": [2], "per_rank": []},
        {"rank": None},
        {"per_rank": [{"rank": "2", "data ms": "x"}, {"rank": -1}], "phases_ms": {}},
    ],
)
def test_what_is_no_phases_is_no_picture(details: dict[str, Any]) -> None:
    assert step_bars_of(job([row(2, 86.0, 0.0)], **details)) is None


def test_an_answer_that_blames_no_rank_has_no_bars() -> None:
    assert step_bars_of(diagnosis()) is None
    assert step_bars_of(job([row(2, 86.0, 0.0)]).model_copy(update={"causes": ()})) is None


def test_nothing_is_drawn_outside_of_the_picture() -> None:
    drawn = bars_svg(bars_of(job(FOUR)), 334)
    for x, width in re.findall(r'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', drawn):
        assert float(x) + float(width) <= 334


def test_a_table_of_many_phases_is_cut() -> None:
    many = {f"phase-{n} ms": 1.0 for n in range(500)}
    bars = bars_of(job([{**row(2, 86.0, 0.0), **many}]))
    assert len(bars.phases) <= 10
    assert len(bars_svg(bars, 334)) < 10_000
