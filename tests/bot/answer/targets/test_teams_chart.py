"""The chart of an answer in a Teams card: what it says, and what a card takes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.wording.amounts import BYTES, MILLISECONDS, NUMBER, SHARE, Unit
from faultline.bot.answer.outcome import Answer, Outcome
from faultline.bot.answer.pictures.chart_data import ChartEvent, ChartPanel, DecisiveChart
from faultline.bot.answer.targets.chats.teams_card import (
    MAX_CARD_BYTES,
    MOST_POINTS,
    NO_EXTRAS,
    CardExtras,
    card_of,
    line_charts,
    thinned,
)
from faultline.bot.store.store import Store
from faultline.loopback.server import serve_in_thread
from tests.bot.answer.pictures.incidents import a_case, diagnosis
from tests.bot.answer.targets.answers import a_report, some_evidence
from tests.bot.answer.targets.fake_chats import FakeChats
from tests.bot.answer.targets.test_chats import accepted, opened

NOON = 1_795_000_000.0


def chart(*panels: ChartPanel, hours: float = 1.0, events: tuple[ChartEvent, ...] = ()) -> Any:
    start = NOON - hours * 1800
    marked = events or (ChartEvent("alert", NOON, "alert"),)
    return line_charts(DecisiveChart(panels, marked, start, start + hours * 3600, ""))


def panel(values: list[float], unit: Unit = NUMBER, **more: Any) -> ChartPanel:
    run = tuple((NOON + 60.0 * n, value) for n, value in enumerate(values))
    return ChartPanel("checkout: p99 latency", "culprit", unit, (run,), **more)


@pytest.fixture
def chats() -> Iterator[FakeChats]:
    fake = FakeChats()
    fake.url, stop = serve_in_thread(fake.app)
    yield fake
    stop()


def test_the_answers_card_has_its_chart_and_the_first_card_none(
    chats: FakeChats, store: Store, tmp_path: Path
) -> None:
    target = opened("msteams", chats, store)
    investigation = accepted(store)
    case = a_case(tmp_path)
    answer = Answer(diagnosis(), a_report(), some_evidence(), [], None, case)

    async def story() -> None:
        await target.announce(investigation)
        await target.answer(Outcome(investigation, answer))

    asyncio.run(story())
    first, last = (one["attachments"][0]["content"]["body"] for one in chats.messages[0].versions)
    assert not [part for part in first if part["type"] == "Chart.Line"]
    drawn = [part for part in last if part["type"] == "Chart.Line"]
    assert drawn
    assert all(part["fallback"] == "drop" for part in drawn)
    assert drawn[0]["title"].startswith("payments: ")
    legends = [one["legend"] for one in drawn[0]["data"]]
    assert "usual" in legends
    assert last.index(drawn[0]) > 0, "the answer is read first"


def test_values_are_in_the_unit_that_people_read() -> None:
    [seconds] = chart(panel([250.0, 1900.0], MILLISECONDS))
    assert seconds["yAxisTitle"] == "seconds"
    assert [one["y"] for one in seconds["data"][0]["values"]] == [0.25, 1.9]
    [small] = chart(panel([0.004, 0.02], Unit("time")))
    assert (small["yAxisTitle"], small["data"][0]["values"][1]["y"]) == ("ms", 20.0)
    [share] = chart(panel([0.01, 0.5], SHARE))
    assert (share["yAxisTitle"], share["data"][0]["values"][1]["y"]) == ("%", 50.0)
    [size] = chart(panel([1e9, 3.5e9], BYTES))
    assert (size["yAxisTitle"], size["data"][0]["values"][1]["y"]) == ("GB", 3.5)
    [flow] = chart(panel([2e6], Unit("bytes/s")))
    assert (flow["yAxisTitle"], flow["data"][0]["values"][0]["y"]) == ("MB/s", 2.0)
    [cores] = chart(panel([1500.0], Unit("number", 1e-3, "cores")))
    assert (cores["yAxisTitle"], cores["data"][0]["values"][0]["y"]) == ("cores", 1.5)
    [bare] = chart(panel([7.0]))
    assert "yAxisTitle" not in bare
    [long] = chart(panel([9000.0], Unit("time")))
    assert (long["yAxisTitle"], long["data"][0]["values"][0]["y"]) == ("hours", 2.5)


def test_the_time_runs_from_the_onset_and_a_change_is_a_line_of_its_own() -> None:
    events = (
        ChartEvent("change", NOON - 120, "v2.3.1"),
        ChartEvent("onset", NOON, "onset"),
        ChartEvent("alert", NOON + 300, "alert"),
    )
    [drawn] = chart(panel([1.0, 4.0, 2.0]), events=events)
    assert drawn["xAxisTitle"] == f"minutes from {events[1].clock[:5]} UTC (onset)"
    assert [one["x"] for one in drawn["data"][0]["values"]] == [0.0, 1.0, 2.0]
    mark = drawn["data"][-1]
    assert mark["legend"] == f"v2.3.1 {events[0].clock[:5]}"
    assert mark["values"] == [{"x": -2.0, "y": 1.0}, {"x": -2.0, "y": 4.0}]
    [long] = chart(panel([1.0, 2.0]), hours=48)
    assert long["xAxisTitle"].startswith("hours from ")


def test_a_long_series_is_thinned_and_its_peak_stays() -> None:
    values = [1.0] * 5000
    values[2501] = 900.0
    [drawn] = chart(panel(values))
    points = drawn["data"][0]["values"]
    assert len(points) == MOST_POINTS
    assert max(one["y"] for one in points) == 900.0
    assert thinned([(0.0, 1.0)], 5) == [(0.0, 1.0)]


def test_a_series_with_many_holes_is_one_line() -> None:
    runs = tuple(tuple((NOON + 600 * n + m, 1.0 + n) for m in (0.0, 60.0)) for n in range(200))
    spotty = ChartPanel("checkout: p99 latency", "culprit", NUMBER, runs)
    [drawn] = chart(spotty)
    [line] = drawn["data"]
    assert len(line["values"]) == MOST_POINTS
    few = ChartPanel("checkout: p99 latency", "culprit", NUMBER, runs[:3])
    [parted] = chart(few)
    assert [len(one["values"]) for one in parted["data"]] == [2, 2, 2]


def test_a_card_that_would_be_too_long_loses_its_chart_first() -> None:
    charts = chart(*[panel([float(n) for n in range(600)])] * 3)
    short = card_of("title\none line", "k", CardExtras(charts=charts))
    assert [part["type"] for part in short["body"]].count("Chart.Line") == 3
    line = "- " + "x" * 180
    text = "\n".join(["title", *[line] * 90])
    full = card_of(text, "k", CardExtras(charts=charts))
    assert len(json.dumps(full).encode()) <= MAX_CARD_BYTES
    kept = [part for part in full["body"] if part["type"] == "RichTextBlock"]
    alone = card_of(text, "k", NO_EXTRAS)
    assert len(kept) >= len(alone["body"]) - 1, "text is not given up for a picture"


def test_names_of_foreign_things_are_plain_text() -> None:
    own = ChartPanel("<at>Ann</at>: [x](http://evil)", "other", NUMBER, (((NOON, 1.0),),))
    [drawn] = chart(own)
    assert "://evil" not in json.dumps(drawn)
