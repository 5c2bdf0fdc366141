"""Series, their comparison, and arithmetic over them: each says what is true of the numbers."""

from __future__ import annotations

from datetime import timedelta

import polars as pl
import pytest

from faultline.analysis.kinds.finding_details import ObservationDetails
from faultline.analysis.vocabulary import Finding
from faultline.bot.investigation.model.tools.contract import BARS, SPARK, sparkline
from tests.bot.investigation.model.tools.conftest import Desk
from tests.scenarios.small_case import STARTED


def details(finding: Finding) -> ObservationDetails:
    assert isinstance(finding.details, ObservationDetails)
    return finding.details


def test_data_tells_windows_series_intervals_and_what_is_missing(desk: Desk) -> None:
    about = "\n".join(desk.rows("data"))
    assert "alert at 2026-11-20 03:00:00 UTC; incident 2026-11-20 02:55:00 to 03:06:00" in about
    assert "not held: monitor states" in about
    assert "zone (a, b, c)" in about
    rows = desk.rows("data", service="checkout")
    (series,) = [row for row in rows if row.startswith("latency_p99")]
    assert "ms, 77 points" in series
    assert "every 60 s" in series
    assert "1 gaps" in series, "between yesterday and today"


def test_what_moved_inside_its_usual_variation_is_not_called_near_its_baseline(desk: Desk) -> None:
    (row,) = desk.rows("series", service="cart", signal="queue")[1:]
    assert "rose 2.6x, from 13 % to 33 %, inside its usual variation" in row
    assert "usually 1.3 % to 37 %" in row
    assert "near" not in row
    finding = desk.cited(row)
    assert details(finding).direction == "rose"
    assert details(finding).departed is False
    assert finding.onset is None
    assert finding.numbers["ratio"] == 2.564
    assert finding.numbers["usual_high"] > finding.numbers["incident"]


def test_a_departure_is_told_with_its_onset_and_yesterday(desk: Desk) -> None:
    (row,) = desk.rows("series", service="checkout")[1:]
    assert "rose 3.3x, from 224 ms to 744 ms, at 02:56:00" in row
    assert "yesterday 205 ms" in row
    finding = desk.cited(row)
    assert (finding.subject, finding.signal) == ("checkout", "latency_p99")
    assert details(finding).departed is True
    assert details(finding).unit == "ms"
    assert finding.numbers["yesterday"] == 205
    assert finding.onset is not None
    assert finding.strength == 0.0


def test_a_series_comes_as_numbers_with_each_point_to_be_cited(desk: Desk) -> None:
    rows = desk.rows(
        "series",
        service="checkout",
        resolution_s=60,
        start="2026-11-20T02:54:00Z",
        end="2026-11-20T02:58:00Z",
    )
    assert "every 60 s from 2026-11-20 02:54:00 in ms: 238, 210, 737, 744" in rows[1]
    assert "yesterday" in rows[1]
    finding = desk.cited(rows[1])
    assert details(finding).points[2] == ("2026-11-20T02:56:00.000+00:00", 737.0)
    assert finding.numbers["point_3"] == 737


def test_of_more_points_than_fit_coarser_ones_are_given_and_said(desk: Desk) -> None:
    text = "\n".join(desk.rows("series", service="cart", resolution_s=1))
    assert "note: at most 60 points are shown, so every 11 s; ask for a shorter time" in text
    assert "every 60 s" in text, "no finer than it was measured"


def test_places_are_compared_and_the_odd_one_comes_first(desk: Desk) -> None:
    rows = desk.rows("compare", service="cart", signal="cpu")
    assert rows[1] == "note: by zone"
    assert "zone b: 4 cores here, 1 cores at the others (4x)" in rows[2]
    finding = desk.cited(rows[2])
    assert details(finding).labels == {"zone": "b"}
    assert finding.numbers["here"] == 4
    assert finding.numbers["elsewhere"] == 1
    assert "no such label" not in desk.error("compare", service="cart", signal="cpu", by="pod")
    assert "labels that differ: zone" in desk.error(
        "compare", service="cart", signal="cpu", by="pod"
    )


@pytest.mark.parametrize("labels", ["zone=b", "{zone=b}", '"zone": "b"', " B"])
def test_labels_are_found_as_they_are_shown_and_as_they_are_stored(desk: Desk, labels: str) -> None:
    rows = desk.rows("series", service="cart", signal="cpu", labels=labels)
    assert [row for row in rows if "zone=b" in row]
    if labels != " B":
        assert not [row for row in rows if "zone=a" in row]


def test_a_calculation_over_rows_is_itself_a_row_to_cite(desk: Desk) -> None:
    first = desk.cited(desk.rows("series", service="checkout")[1]).id
    second = desk.cited(desk.rows("series", service="cart", signal="latency")[1]).id
    (row,) = desk.rows(
        "calculate", expression=f"median(incident({first})) / median(incident({second}))"
    )[1:]
    finding = desk.cited(row)
    assert finding.numbers["value"] == pytest.approx(737 / 47, rel=0.02)
    assert details(finding).expression.startswith("median(incident(")
    assert "is checkout latency_p99" in row
    (row,) = desk.rows("calculate", expression=f"{first} - {second}")[1:]
    assert desk.cited(row).numbers["incident"] == pytest.approx(690, rel=0.05)
    assert details(desk.cited(row)).direction == "rose"
    (row,) = desk.rows(
        "calculate", expression=f"mean(before({first})) ", at="2026-11-20T02:56:00Z"
    )[1:]
    assert desk.cited(row).numbers["value"] == pytest.approx(224, rel=0.05)
    (row,) = desk.rows("calculate", expression=f"quantile(0.9, yesterday({first}))")[1:]
    assert desk.cited(row).numbers["value"] == 205


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('id')",
        "L1.__class__",
        "9 ** 9 ** 9",
        "[x for x in L1]",
        "L1 if L1 else L1",
        "lambda: 1",
        "(" * 300 + "1" + ")" * 300,
        "mean(L1, L2)",
        "quantile(7, L1)",
        "exec(L1)",
        "1 / 0",
        "L999",
        "mean(3)",
        "'a' + 'b'",
        "True",
        "-" * 390 + "1",
        "",
    ],
)
def test_what_is_no_arithmetic_over_rows_is_refused(desk: Desk, expression: str) -> None:
    desk.rows("series", service="cart")
    assert "failed (" not in desk.error("calculate", expression=expression)


def test_a_finding_s_series_is_drawn_from_its_baseline_to_the_end_of_the_incident(
    desk: Desk,
) -> None:
    finding = next(
        item
        for item in desk.bench.findings
        if (item.subject, item.signal) == ("checkout", "latency_p99")
        and item.kind == "metric_shift"
    )
    row = desk.rows("finding", ids=[finding.id])[1]
    spark = "".join(sign for sign in row if sign in BARS)
    # The step near the end of 66 minutes: yesterday's level and the time after are not drawn.
    assert spark.count(BARS[-1]) in range(1, len(spark) // 4)
    assert set(spark[: len(spark) // 2]) <= set(BARS[:3])


def test_a_sparkline_has_a_bar_for_each_part_of_the_time() -> None:
    def line(*points: tuple[float, float]) -> str:
        times = [STARTED + timedelta(minutes=minute) for minute, _ in points]
        values = pl.Series([value for _, value in points], dtype=pl.Float64)
        end = STARTED + timedelta(minutes=SPARK)
        return sparkline(pl.Series(times), values, STARTED, end)

    low, high, none = BARS[0], BARS[-1], "·"
    assert line((0, 1.0), (1, 9.0)) == low + high + none * (SPARK - 2)
    # The very end belongs to the last bar, and one bar is the mean of its points.
    assert line((0, 1.0), (SPARK - 1, 3.0), (SPARK, 15.0)) == low + none * (SPARK - 2) + high
    middle = BARS[round((len(BARS) - 1) / 2)]
    assert line((0, 0.0), (1, 0.2), (1.5, 0.8), (2, 1.0))[:3] == low + middle + high
    assert line((0, 5.0), (1, 5.0))[:2] == low + low
    assert sparkline(pl.Series([STARTED]), pl.Series([1.0]), STARTED, STARTED) == ""
