"""Log lines on the timeline: one lane for each of the services with most errors."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.folder import read_case
from faultline.analysis.case.tables import write_table
from faultline.bot.web.timeline import BUCKETS, MAX_LANES, lanes_of, read_log_counts
from tests.bot.web.sample_case import ALERT_AT, ONSET, write_sample_case

START, END = ALERT_AT - timedelta(minutes=20), ALERT_AT


def test_a_lane_counts_lines_and_errors_where_they_were_written(tmp_path: Path) -> None:
    counts = read_log_counts(read_case(write_sample_case(tmp_path / "case")))
    (lane,) = lanes_of(counts, START, END, [])
    assert lane.service == "payment"
    assert lane.errors == sum(bar.errors for bar in lane.bars)
    assert lane.lines == sum(bar.lines for bar in lane.bars)
    onset_x = 100 * ((ONSET - START) / (END - START))
    assert min(bar.x for bar in lane.bars if bar.errors) >= onset_x - 100 / BUCKETS
    assert max(bar.all_high for bar in lane.bars) == 1
    assert all(0 <= bar.errors_high <= bar.all_high for bar in lane.bars)


def test_services_that_findings_are_about_come_first_and_few_are_shown(tmp_path: Path) -> None:
    folder = write_sample_case(tmp_path / "case")
    rows = [
        (START + timedelta(seconds=n), f"s{n % 9}", "x", "ERROR" if n % 9 else "INFO")
        for n in range(90)
    ]
    write_table(
        folder,
        "logs",
        pl.DataFrame(rows, schema=["time", "service", "message", "level"], orient="row"),
    )
    lanes = lanes_of(read_log_counts(read_case(folder)), START, END, ["s0"])
    assert lanes[0].service == "s0"
    assert len(lanes) == MAX_LANES


@pytest.mark.parametrize("span", [timedelta(0), timedelta(microseconds=1), timedelta(days=300_000)])
def test_an_axis_of_any_length_is_divided(tmp_path: Path, span: timedelta) -> None:
    counts = read_log_counts(read_case(write_sample_case(tmp_path / "case")))
    lanes_of(counts, ONSET, ONSET + span, [])


def test_logs_without_level_or_in_another_form_are_read_and_what_is_no_table_is_a_gap(
    tmp_path: Path,
) -> None:
    folder = write_sample_case(tmp_path / "case")
    pl.DataFrame(
        {"time": [ALERT_AT.replace(tzinfo=None)], "service": ["a"], "message": ["x"]}
    ).write_parquet(folder / "logs.parquet")
    assert read_log_counts(read_case(folder)).rows() == [
        (ALERT_AT.replace(tzinfo=None), "a", False)
    ]
    (folder / "logs.parquet").unlink()
    (folder / "logs.csv").write_text("time,service,message,level\n2026-11-20T03:00:00Z,a,x,error\n")
    assert read_log_counts(read_case(folder))["error"].to_list() == [True]
    (folder / "logs.csv").unlink()
    (folder / "logs.parquet").write_bytes(b"PAR1 no table PAR1")
    case = read_case(folder)
    assert read_log_counts(case).height == 0
    assert "logs" in {gap.kind for gap in case.gaps}
