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


def test_a_step_has_its_phases_then_waiting_then_the_rest() -> None:
    bars = bars_of(job([row(1, 1.3, 84.0), row(2, 86.0, 0.0)]))
    waiting, slow = bars.bars
    assert [part.phase for part in waiting.parts] == ["data loading", "forward", "waiting", "other"]
    assert [part.phase for part in slow.parts] == ["data loading", "forward", "other"]
    assert waiting.parts[-1].ms == pytest.approx(103.0 - 1.3 - 1.2 - 84.0)
    assert bars.slow_phase == "data loading"
    assert bars.left_out == 0


@pytest.mark.parametrize(("whole", "has_rest"), [(100.0, False), (101.1, True)])
def test_a_hundredth_of_a_step_is_not_drawn(whole: float, *, has_rest: bool) -> None:
    (bar,) = bars_of(job([{"rank": 2, "step ms": whole, "a ms": 100.0, "b ms": 0.0}])).bars
    assert ("other" in [part.phase for part in bar.parts]) is has_rest
    assert "b" not in [part.phase for part in bar.parts]


def test_the_picture_is_as_wide_as_the_longest_step() -> None:
    long, short = row(0, 1.3, 184.0), row(2, 86.0, 0.0)
    bars = bars_of(job([{**long, "step ms": 203.0}, short]))
    assert bars.longest == pytest.approx(203.0)


def test_a_rank_that_waits_longer_than_the_slow_one_takes_waits_for_nobody() -> None:
    quick = {"data loading": 1.0}
    bars = bars_of(job([], ranks=[2, 3], phases_ms=quick, others_phases_ms=OTHERS))
    assert [[part.phase for part in bar.parts] for bar in bars.bars] == [
        ["data loading"],
        ["data loading", "forward"],
    ]
    alone = bars_of(job([row(0, 1.3, 84.0)], ranks=[0, 2]))
    assert [(bar.rank, bar.slow) for bar in alone.bars] == [(0, False), (2, True)]


@pytest.mark.parametrize(
    ("ranks", "drawn"), [(MOST_RANKS, MOST_RANKS), (MOST_RANKS + 1, MOST_RANKS)]
)
def test_of_nine_ranks_eight_are_drawn(ranks: int, drawn: int) -> None:
    rows = [row(n, 1.3, 10.0 * n) for n in range(ranks)]
    bars = bars_of(job(rows, slow=0))
    assert len(bars.bars) == drawn
    assert bars.left_out == ranks - drawn
    # Those that wait least are nearly as slow; the last waits most and is like the others.
    assert [bar.rank for bar in bars.bars] == list(range(MOST_RANKS))


def test_it_can_be_read_aloud() -> None:
    words = bars_of(job([row(2, 86.0, 0.0)])).words
    assert words.startswith(
        "rank 2 makes the others wait; rank 2: data loading 86 ms, forward 1.2 ms"
    )
