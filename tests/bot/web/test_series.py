"""The data of the charts."""

from __future__ import annotations

import math
from pathlib import Path

import httpx
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.case.folder import read_case, write_json
from faultline.analysis.case.tables import write_table
from faultline.bot.web.series import MAX_POINTS, thin
from tests.bot.web.sample_case import ALERT_AT, DEPLOY_AT, DIAGNOSIS, ONSET, SCOPE
from tests.bot.web.serving import Site


def test_a_metric_chart_holds_curve_baseline_onset_alert_threshold_and_changes(
    sample: str, browser: httpx.Client
) -> None:
    data = browser.get(f"/investigations/{sample}/series/F2.json").json()
    (curve,) = data["curves"]
    assert len(curve["times"]) == len(curve["values"]) == data["rows"] == 936
    assert curve["times"] == sorted(curve["times"])
    assert data["unit"] == "ms"
    assert data["baseline"] == [
        [SCOPE.baseline[0].start.timestamp(), SCOPE.baseline[0].end.timestamp()]
    ]
    assert data["onset"] == ONSET.timestamp() + 45
    assert data["alert"] == ALERT_AT.timestamp()
    assert data["threshold"] == 800
    assert data["changes"] == [
        {"time": DEPLOY_AT.timestamp(), "title": "payment deploy payment v412: tidy pool settings"}
    ]
    assert browser.get(f"/investigations/{sample}/series/F1.json").json()["threshold"] is None


def test_a_log_chart_counts_lines_and_those_of_the_template(
    sample: str, browser: httpx.Client
) -> None:
    data = browser.get(f"/investigations/{sample}/series/F3.json").json()
    counts = {c["label"]: sum(c["values"]) for c in data["curves"]}
    assert counts == {"all lines": 872, "error lines": 412, "this line": 412}


def test_a_span_chart_shows_median_and_tail_per_bucket(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    start = pl.datetime_range(
        SCOPE.incident.start, SCOPE.incident.end, "1s", time_unit="ns", eager=True
    )
    spans = pl.DataFrame({"start": start}).with_columns(
        trace_id=pl.lit("t"),
        span_id=pl.int_range(pl.len()).cast(pl.String),
        parent_id=pl.lit(None, dtype=pl.String),
        service=pl.lit("payment"),
        operation=pl.lit("charge"),
        duration_us=pl.lit(2000.0),
    )
    write_table(site.cases / sample, "spans", spans)
    finding = DIAGNOSIS.findings[4].model_copy(
        update={"series": {"table": "spans", "service": "payment", "operation": "charge"}}
    )
    write_json(
        site.cases / sample / "findings.json", DIAGNOSIS.model_copy(update={"findings": (finding,)})
    )
    data = browser.get(f"/investigations/{sample}/series/F5.json").json()
    assert [c["label"] for c in data["curves"]] == ["median", "95th percentile"]
    assert set(data["curves"][0]["values"]) == {2.0}


def test_a_long_series_is_thinned_to_the_limit_and_keeps_its_spike(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    folder = site.cases / sample
    start = SCOPE.baseline[0].start
    rows = 50_000
    metrics = pl.DataFrame({"n": range(rows)}).select(
        time=pl.lit(start).cast(pl.Datetime("ns", "UTC"))
        + pl.duration(milliseconds=pl.col("n") * 100),
        service=pl.lit("checkout"),
        signal=pl.lit("p99_latency_ms"),
        value=pl.when(pl.col("n") == 31_337).then(9999.0).otherwise(200.0),
        labels=pl.when(pl.col("n") % 2 == 1)
        .then(pl.lit('{"pod": "a", "job": "j"}'))
        .otherwise(pl.lit('{"pod": "b", "job": "j"}')),
    )
    write_table(folder, "metrics", metrics)
    data = browser.get(f"/investigations/{sample}/series/F2.json").json()
    points = sum(len(c["times"]) for c in data["curves"])
    assert points <= MAX_POINTS
    assert {c["label"] for c in data["curves"]} == {"pod=a", "pod=b"}
    assert max(max(c["values"]) for c in data["curves"]) == 9999.0
    assert data["rows"] == rows


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.none(), max_size=400),
    st.integers(2, 100),
)
def test_thinning_keeps_order_extremes_and_the_budget(
    values: list[float | None], budget: int
) -> None:
    points = pl.DataFrame(
        {"t": [float(n) for n in range(len(values))], "v": values},
        schema={"t": pl.Float64, "v": pl.Float64},
    )
    kept = thin(points, budget)
    assert kept.height <= max(budget, 0) or kept.height == points.height <= budget
    assert kept["t"].is_sorted()
    known = [v for v in values if v is not None]
    if known:
        assert kept["v"].max() == max(known)
        assert kept["v"].min() == min(known)


def test_values_that_are_no_numbers_leave_a_hole(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    table = read_case(site.cases / sample).metrics
    broken = table.with_columns(
        value=pl.when(pl.int_range(pl.len()) % 3 == 0).then(math.nan).otherwise(math.inf)
    )
    write_table(site.cases / sample, "metrics", broken)
    data = browser.get(f"/investigations/{sample}/series/F2.json").json()
    assert set(data["curves"][0]["values"]) == {None}


def test_a_chart_that_cannot_be_drawn_says_why(
    sample: str, site: Site, browser: httpx.Client
) -> None:
    def problem(finding: str) -> str:
        answer = browser.get(f"/investigations/{sample}/series/{finding}.json")
        assert answer.status_code == 404
        return str(answer.json()["problem"])

    assert "F4 names no series" in problem("F4")
    assert "holds no finding 'F99'" in problem("F99")
    (site.cases / sample / "metrics.parquet").write_bytes(b"not parquet")
    assert "metrics: holds no rows for F2" in problem("F2")
    (site.cases / sample / "metrics.parquet").unlink()
    assert "metrics: holds no rows for F2" in problem("F2")


def test_every_chart_of_a_diagnosed_public_case_can_be_drawn(shared: Path, tmp_path: Path) -> None:
    from faultline.analysis.diagnosis import diagnose
    from faultline.bot.web.investigation_view import read_changes
    from faultline.bot.web.series import can_chart, chart_data

    for name in ("rootcausebench-02", "online-boutique-03"):
        case = read_case(shared / "cases" / name)
        findings = [f for f in diagnose(case).findings if can_chart(f)][:15]
        assert findings
        for finding in findings:
            data = chart_data(case, finding, read_changes(case))
            curves = data["curves"]
            assert isinstance(curves, list)
            assert 0 < sum(len(c["times"]) for c in curves) <= MAX_POINTS
