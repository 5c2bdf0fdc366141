"""The decisive chart: what it shows of a case, and how the clumsy cases look."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from datetime import datetime, timedelta
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from faultline.analysis.case.folder import Case, read_case
from faultline.analysis.case.tables import write_table
from faultline.analysis.diagnosis import diagnose
from faultline.analysis.vocabulary import Diagnosis, Finding, Verdict
from faultline.bot.answer.pictures.chart_data import (
    DecisiveChart,
    decisive_chart_of,
    finding_chart_of,
)
from faultline.bot.answer.pictures.chart_svg import chart_svg, value_axis
from faultline.bot.answer.pictures.decisive_signal import decisive_finding
from tests.bot.answer.pictures.incidents import (
    ALERT_AT,
    BASELINE,
    BY_PAYMENTS,
    CHANGED_AT,
    FINDINGS,
    ONSET,
    Course,
    a_case,
    cause,
    diagnosis,
    slower,
    step,
)

SVG = "{http://www.w3.org/2000/svg}"


def changed(at: datetime, onset: datetime = ONSET) -> Diagnosis:
    """The same answer about a change at that time, and an onset of the cause."""
    cause = FINDINGS[1].model_copy(update={"onset": onset})
    change = FINDINGS[2].model_copy(update={"onset": at})
    made = diagnosis(findings=(FINDINGS[0], cause, change))
    impact = made.impact.model_copy(update={"since": onset})
    return made.model_copy(update={"impact": impact})


def chart_of(case: Case, made: Diagnosis | None = None) -> DecisiveChart:
    chart = decisive_chart_of(case, made or diagnosis())
    assert chart is not None
    return chart


def titles(chart: DecisiveChart) -> list[tuple[str, str]]:
    return [(panel.role, panel.title) for panel in chart.panels]


def texts(chart: DecisiveChart, width: int = 334) -> list[str]:
    return [one.text or "" for one in ET.fromstring(chart_svg(chart, width)).iter(f"{SVG}text")]


def test_the_cause_stands_above_its_victim_on_one_axis_of_time(tmp_path: Path) -> None:
    chart = chart_of(a_case(tmp_path))
    assert titles(chart) == [
        ("culprit", "payments: p99 latency"),
        ("affected", "checkout: p99 latency"),
    ]
    marked = [(event.kind, event.words, event.clock) for event in chart.events]
    assert marked == [
        ("change", "v2.3.1", "10:13:20"),
        ("onset", "onset", "10:14:00"),
        ("alert", "alert", "10:21:00"),
    ]
    assert chart.start < CHANGED_AT.timestamp() < ALERT_AT.timestamp() < chart.end
    assert chart.panels[0].usual == (75.0, 77.0)


def test_a_rise_of_more_than_ten_times_has_a_log_scale_and_says_so(tmp_path: Path) -> None:
    chart = chart_of(a_case(tmp_path))
    assert [panel.log for panel in chart.panels] == [True, False]
    shown = texts(chart)
    assert "payments: p99 latency (log scale)" in shown
    assert {"100 ms", "1 s"} <= set(shown)


@pytest.mark.parametrize("width", [334, 640])
def test_nothing_is_drawn_where_nothing_was_recorded(tmp_path: Path, width: int) -> None:
    gap = (ONSET - timedelta(minutes=12), ONSET - timedelta(minutes=4))

    def course(at: datetime) -> float | None:
        return None if gap[0] < at < gap[1] else step(75, 2300)(at)

    panel = chart_of(a_case(tmp_path, {"payments": course})).panels[0]
    first, second = panel.runs
    assert first[-1][0] == gap[0].timestamp()
    assert second[0][0] == gap[1].timestamp()
    drawn = chart_svg(chart_of(a_case(tmp_path, {"payments": course})), width)
    assert len(re.findall('class="curve"', drawn)) == 2


@pytest.mark.parametrize(
    ("name", "course"),
    [
        ("from nothing", lambda at: 0.0 if at < ONSET else 40.0),
        ("to nothing", lambda at: 40.0 if at < ONSET else 0.0),
        ("all the same", lambda _: 5.0),
        ("nothing at all", lambda _: 0.0),
        ("below zero", lambda at: -5.0 if at < ONSET else -1.0),
        ("no number", lambda at: 5.0 if at.minute % 2 else math.inf),
        ("tiny and huge", lambda at: 1e-12 if at < ONSET else 1e15),
        ("beyond measure", lambda at: 5e-324 if at < ONSET else 1.7e308),
        ("from one end to the other", lambda at: -1.7e308 if at < ONSET else 1.7e308),
        ("no baseline", lambda at: None if at < ONSET - timedelta(minutes=3) else 9.0),
    ],
)
def test_clumsy_series_are_drawn_within_their_panel(
    tmp_path: Path, name: str, course: Course
) -> None:
    chart = decisive_chart_of(a_case(tmp_path, {"payments": course}), diagnosis())
    if chart is None:
        assert name in ("beyond measure", "from one end to the other")
        return
    for panel in chart.panels:
        axis = value_axis(panel)
        assert 1 <= len(axis.ticks) <= 8
        assert all(0 <= axis.share(value) <= 1 for value in panel.values)
        assert all(-1e-9 <= axis.share(tick) <= 1 for tick, _ in axis.ticks)
    for width in (334, 640):
        drawn = chart_svg(chart, width)
        assert "nan" not in drawn
        assert "inf" not in drawn.replace("information", "")


def test_a_change_long_before_is_marked_at_the_edge(tmp_path: Path) -> None:
    chart = chart_of(a_case(tmp_path), changed(BASELINE.start - timedelta(days=1)))
    assert chart.events[0].earlier
    assert any("(earlier)" in words for words in texts(chart, 640))


def test_a_change_shortly_before_the_chart_begins_is_drawn_at_its_time(tmp_path: Path) -> None:
    usual = chart_of(a_case(tmp_path), changed(ONSET))
    length = usual.end - usual.start
    drawn = {}
    for share in (0.3, 0.5):
        at = datetime.fromtimestamp(usual.start - share * length, ONSET.tzinfo)
        chart = chart_of(a_case(tmp_path), changed(at))
        drawn[share] = chart.events[0].earlier, chart.start == at.timestamp(), chart.end
    assert drawn == {0.3: (False, True, usual.end), 0.5: (True, False, usual.end)}


@pytest.mark.parametrize(("strong", "drawn"), [("F5", 900.0), ("F6", 1700.0)])
def test_where_the_cause_s_signal_shows_nothing_the_strongest_finding_of_it_is_drawn(
    tmp_path: Path, strong: str, drawn: float
) -> None:
    findings = [FINDINGS[0], FINDINGS[1]]
    for id_, service in (("F5", "pool"), ("F6", "queue")):
        series = {**FINDINGS[1].series, "service": service}
        strength = 0.8 if id_ == strong else 0.5
        findings.append(
            slower(id_, "payments").model_copy(update={"series": series, "strength": strength})
        )
    cited = BY_PAYMENTS.model_copy(update={"findings": ("F2", "F5", "F6")})
    courses = {
        "payments": step(75, 76), "pool": step(75, 900), "queue": step(75, 1700),
        "checkout": step(100, 300),
    }  # fmt: skip
    made = diagnosis(findings=tuple(findings), causes=(cited,))
    chart = chart_of(a_case(tmp_path, courses), made)
    assert max(chart.panels[0].values) == drawn


def test_an_alert_before_the_onset_and_a_change_after_it_have_their_places(
    tmp_path: Path,
) -> None:
    made = changed(ALERT_AT + timedelta(minutes=1), onset=ALERT_AT + timedelta(minutes=2))
    chart = chart_of(a_case(tmp_path), made)
    times = {event.kind: event.time for event in chart.events}
    assert times["alert"] < times["change"] < times["onset"]


def test_where_nothing_is_wrong_nobody_is_blamed(tmp_path: Path) -> None:
    chart = chart_of(a_case(tmp_path), diagnosis(verdict=Verdict.NO_ACTIVE_INCIDENT))
    assert {panel.role for panel in chart.panels} == {"other"}
    assert "onset" not in {event.kind for event in chart.events}


def test_a_suspect_is_called_suspected(tmp_path: Path) -> None:
    chart = chart_of(a_case(tmp_path), diagnosis(verdict=Verdict.INSUFFICIENT_EVIDENCE))
    assert titles(chart)[0][0] == "candidate"
    assert any("(suspected)" in words for words in texts(chart))


def test_the_decisive_finding_is_the_causes_signal_then_a_metric_then_the_strongest() -> None:
    def seen(identity: str, table: str, signal: str, strength: float) -> Finding:
        return FINDINGS[1].model_copy(
            update={
                "id": identity,
                "series": {"table": table},
                "signal": signal,
                "strength": strength,
            }
        )

    metric = seen("F5", "metrics", "cpu_percent", 0.5)
    stronger = seen("F6", "metrics", "memory_percent", 0.6)
    span = seen("F7", "spans", "latency_p99_ms", 0.7)
    of_the_cause = seen("F8", "spans", "pool_wait_ms", 0.1)
    line = seen("F9", "logs", "pool_wait_ms", 0.9)
    undrawn = seen("F10", "states", "pool_wait_ms", 1.0)

    def decisive(*findings: Finding) -> str | None:
        named = BY_PAYMENTS.model_copy(
            update={"signal": "pool_wait_ms", "findings": tuple(one.id for one in findings)}
        )
        finding = decisive_finding(diagnosis(findings=findings, causes=(named,)))
        return finding.id if finding is not None else None

    assert decisive(metric, stronger, span, line, undrawn) == "F6"
    assert decisive(metric, stronger, span, of_the_cause, line) == "F8"
    assert decisive(span, line) == "F9"
    assert decisive(undrawn) is None
    second = BY_PAYMENTS.model_copy(update={"rank": 2, "findings": ("F7",)})
    two = diagnosis(findings=(metric, span), causes=(second, cause(1, "payments", "F5")))
    assert decisive_finding(two) == metric
    uncaused = diagnosis(causes=())
    assert decisive_finding(uncaused) == FINDINGS[0], "that of the impact"


def test_a_case_without_the_series_has_no_chart(tmp_path: Path) -> None:
    case = a_case(tmp_path, {"other": step(1, 2)})
    assert decisive_chart_of(case, diagnosis()) is None
    assert finding_chart_of(case, diagnosis(), "F2") is None
    assert finding_chart_of(case, diagnosis(), "F99") is None


@pytest.mark.parametrize(
    "series",
    [
        {"table": "logs", "service": "payments"},
        {"table": "spans", "service": "payments", "operation": "GET /"},
        {"table": "spans", "service": "payments", "caller": "checkout"},
        {"table": "metrics"},
        {"table": "states"},
        {},
    ],
)
def test_a_table_that_the_case_lost_gives_no_chart(tmp_path: Path, series: dict[str, str]) -> None:
    finding = FINDINGS[1].model_copy(update={"series": series})
    made = diagnosis(findings=(finding,))
    assert decisive_chart_of(a_case(tmp_path), made) is None


def test_one_finding_has_a_chart_as_well(tmp_path: Path) -> None:
    chart = finding_chart_of(a_case(tmp_path), diagnosis(), "F1")
    assert chart is not None
    assert titles(chart) == [("affected", "checkout: p99 latency")]


@pytest.mark.parametrize(
    "name", ["</svg><script>", "漢字 \U0001f534 \u202eevil", "_" * 300, "a\nb"]
)
def test_foreign_names_are_text(tmp_path: Path, name: str) -> None:
    finding = slower("F2", name, 75.0, 2300.0)
    blamed = BY_PAYMENTS.model_copy(update={"subject": name})
    made = diagnosis(findings=(finding,), causes=(blamed,))
    chart = chart_of(a_case(tmp_path, {name: step(75, 2300)}), made)
    for width in (334, 640):
        root = ET.fromstring(chart_svg(chart, width))
        assert not root.findall(f".//{SVG}script")


def test_of_several_labelled_series_the_one_whose_level_is_quoted_is_drawn(
    tmp_path: Path,
) -> None:
    case = a_case(tmp_path, {"payments": step(75, 2300)})
    loud = case.metrics.with_columns(pl.lit("pod=a").alias("labels"))
    quiet = loud.with_columns(pl.lit(70.0).alias("value"), pl.lit("pod=b").alias("labels"))
    write_table(tmp_path, "metrics", pl.concat([loud, quiet]))
    assert max(chart_of(read_case(tmp_path)).panels[0].values) == 2300


@cache
def recorded(shared: Path, name: str) -> tuple[Case, Diagnosis]:
    case = read_case(shared / "cases" / name)
    return case, diagnose(case)


@pytest.mark.parametrize("name", ["petshop-03", "train-ticket-02"])
def test_recorded_incidents_have_a_chart(shared: Path, name: str) -> None:
    chart = chart_of(*recorded(shared, name))
    assert all(len(panel.values) >= 3 for panel in chart.panels)


def test_series_of_metrics_logs_and_spans_can_be_drawn(shared: Path) -> None:
    drawn: set[str] = set()
    for name in ("rootcausebench-01", "train-ticket-02"):
        case, made = recorded(shared, name)
        for finding in made.findings:
            table = finding.series.get("table", "")
            if table not in drawn and finding_chart_of(case, made, finding.id) is not None:
                drawn.add(table)
    assert drawn == {"metrics", "logs", "spans"}
