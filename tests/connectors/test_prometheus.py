"""The Prometheus connector against a real Prometheus that holds a recorded incident."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import polars as pl
import pytest

from faultline.analysis.case.tables import conform
from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.auth.server_access import bearer
from faultline.connectors.shared.contract.base import collect_from
from faultline.connectors.shared.http.http import ReadOnlyHttp
from faultline.connectors.shared.rows.log_windows import merged
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.vendors.prometheus.connector import LIMITS, PrometheusConnector
from faultline.connectors.vendors.prometheus.http_api import PrometheusApi
from faultline.connectors.vendors.prometheus.overview import PrometheusOverview
from faultline.connectors.vendors.prometheus.query_choice import QueryChoice
from faultline.connectors.vendors.prometheus.range_queries import MAX_POINTS, step
from faultline.connectors.vendors.prometheus.service_survey import survey
from tests.connectors.conftest import ALERT_AT, ONSET, RunningPrometheus, request_for
from tests.connectors.local_http import Asked, LocalServer, Reply
from tests.connectors.stand_ins import prometheus as stand_in


def median(table: pl.DataFrame, service: str, signal: str, *, late: bool) -> float:
    """The median of a signal before or during the recorded incident."""
    during = pl.col("time") >= ONSET + timedelta(minutes=2)
    rows = table.filter(
        pl.col("service") == service, pl.col("signal") == signal, during if late else ~during
    )
    value = rows["value"].median()
    assert isinstance(value, float)
    return value


def test_golden_signals_of_each_service_show_the_incident(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(prometheus.url)
    collected = asyncio.run(connector.collect(request_for(tmp_path)))
    metrics = conform(collected.tables["metrics"], "metrics", "metrics")
    assert round(median(metrics, "checkout", "request_rate", late=False), 1) == 10.0
    assert median(metrics, "checkout", "error_ratio", late=False) == 0.0
    assert round(median(metrics, "checkout", "error_ratio", late=True), 2) == 0.2
    assert (
        median(metrics, "checkout", "latency_p99", late=False)
        < 200
        < median(metrics, "checkout", "latency_p99", late=True)
    )
    assert median(metrics, 'ca"rt', "error_ratio", late=True) == 0.0
    assert median(metrics, "llm-1", "step_time", late=True) == 2.5
    assert {i.kind for i in collected.items} == {"metrics", "monitors"}
    assert sum(i.rows or 0 for i in collected.items if i.kind == "metrics") == metrics.height


def test_of_many_services_only_those_in_scope_are_asked_even_with_quotes_in_their_names(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(prometheus.url, all_services=1)
    collected = asyncio.run(connector.collect(request_for(tmp_path, services=('ca"rt', "c.*"))))
    rate = collected.tables["metrics"].filter(pl.col("signal") == "request_rate")
    assert rate["service"].unique().to_list() == ['ca"rt']


def test_of_few_services_all_are_asked_for_the_cause_may_lie_in_any(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(prometheus.url)
    collected = asyncio.run(
        connector.collect(request_for(tmp_path, services=("checkout", "nobody")))
    )
    rate = collected.tables["metrics"].filter(pl.col("signal") == "request_rate")
    assert rate["service"].unique().sort().to_list() == ['ca"rt', "checkout"]
    assert [m.query for m in collected.missing if "no series names this service" in m.reason] == [
        "nobody"
    ]


def test_an_active_alert_becomes_a_monitor_since_its_state_began(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    collected = asyncio.run(PrometheusConnector(prometheus.url).collect(request_for(tmp_path)))
    monitors = conform(collected.tables["monitors"], "monitors", "monitors")
    assert monitors.height == 2
    firing, over = monitors.sort("state").iter_rows(named=True)
    assert (firing["monitor"], firing["service"], firing["state"]) == (
        "CheckoutSlow",
        "checkout",
        "firing",
    )
    assert firing["since"] == ONSET + timedelta(minutes=5)
    assert (over["monitor"], over["service"], over["state"]) == ("CartSlow", 'ca"rt', "resolved")


def test_the_link_of_an_item_holds_a_query_that_prometheus_accepts(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    collected = asyncio.run(
        PrometheusConnector(prometheus.url).collect(request_for(tmp_path, services=('ca"rt',)))
    )
    link = next(i.link for i in collected.items if "histogram_quantile" in i.query)
    assert link is not None
    asked = {k: v[0] for k, v in parse_qs(urlsplit(link).query).items()}
    assert asked["g0.end_input"] == "2026-03-02 12:00:00"
    assert asked["g0.range_input"] == "9000s"
    answer = httpx.get(
        f"{prometheus.url}/api/v1/query",
        params={"query": asked["g0.expr"], "time": ALERT_AT.isoformat()},
    )
    assert answer.json()["status"] == "success"
    assert answer.json()["data"]["result"]


def test_a_configured_query_replaces_the_default_of_its_signal(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    queries = {
        "request_rate": (
            'sum by (service) (rate(http_requests_total{service=~"{service}"}[2m])) * 60'
        ),
        "steps": 'training_step_time_seconds{training_job="{job}"}',
        "error_ratio": "",
    }
    connector = PrometheusConnector(prometheus.url, queries=queries)
    collected = asyncio.run(
        connector.collect(request_for(tmp_path, services=("checkout",), job="llm-1"))
    )
    metrics = collected.tables["metrics"]
    assert round(median(metrics, "checkout", "request_rate", late=False)) == 600
    assert median(metrics, "llm-1", "steps", late=False) == 1.0
    assert "error_ratio" not in metrics["signal"].to_list()


def test_a_sample_that_is_not_a_number_is_a_missing_value_and_is_said(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(
        prometheus.url, queries={"odd": 'empty_histogram_quantile{service=~"{service}"}'}
    )
    collected = asyncio.run(connector.collect(request_for(tmp_path, services=("checkout",))))
    odd = collected.tables["metrics"].filter(pl.col("signal") == "odd")
    assert odd["value"].null_count() == 41
    assert not odd["value"].is_nan().any()
    assert any(i.cut and "41 of" in i.cut for i in collected.items)


def test_a_query_that_prometheus_refuses_becomes_a_gap_and_the_others_stand(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(prometheus.url, queries={"broken": "sum(rate("})
    collected = asyncio.run(connector.collect(request_for(tmp_path)))
    (gap,) = [m for m in collected.missing if m.query == "sum(rate("]
    assert "was not accepted" in gap.reason
    assert "parse error" in gap.reason
    assert collected.tables["metrics"].height > 0


def test_a_service_without_series_is_a_gap(prometheus: RunningPrometheus, tmp_path: Path) -> None:
    connector = PrometheusConnector(prometheus.url, all_services=1)
    collected = asyncio.run(connector.collect(request_for(tmp_path, services=("nobody",))))
    assert any(
        "no series" in m.reason and "http_requests_total" in m.query for m in collected.missing
    )


def test_a_step_too_fine_for_prometheus_is_made_coarser(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(prometheus.url, step_s=0.05)
    collected = asyncio.run(connector.collect(request_for(tmp_path, services=("checkout",))))
    assert not [m for m in collected.missing if "11,000" in m.reason or "not accepted" in m.reason]
    assert collected.tables["metrics"].height > 0


def test_more_rows_than_allowed_are_thinned_evenly_and_it_is_said(
    prometheus: RunningPrometheus, tmp_path: Path
) -> None:
    connector = PrometheusConnector(prometheus.url)
    # Two services at 15 s have 1,200 points, and each query may bring 1,000.
    object.__setattr__(connector, "limits", type(connector.limits)(max_rows=1_000))
    collected = asyncio.run(connector.collect(request_for(tmp_path)))
    metrics = collected.tables["metrics"]
    assert metrics.group_by("signal").len()["len"].max() <= 1_000  # type: ignore[operator]
    assert metrics["time"].max() > ALERT_AT - timedelta(seconds=60)  # type: ignore[operator]
    assert any(i.cut and "one sample of" in i.cut for i in collected.items)


def test_check_names_the_version_and_warns_of_an_open_lifecycle_api(
    prometheus: RunningPrometheus,
) -> None:
    check = asyncio.run(PrometheusConnector(prometheus.url).check())
    # What it holds was recorded long ago.
    assert not check.ok
    assert "no service has a request rate, an error ratio or a latency" in check.line
    assert prometheus.version in check.line
    assert "--web.enable-lifecycle" in check.line
    assert "admin-api" not in check.line


def test_an_overview_names_services_what_they_lack_and_how_often_is_scraped(
    prometheus: RunningPrometheus,
) -> None:
    async def overview() -> PrometheusOverview:
        async with ReadOnlyHttp("prometheus", prometheus.url, limits=LIMITS).open() as session:
            window = Window(start=ALERT_AT - timedelta(minutes=30), end=ALERT_AT)
            return await survey(PrometheusApi(session), QueryChoice(), window)

    seen = asyncio.run(overview())
    assert seen.all_services == ['ca"rt', "checkout"]
    assert seen.words() == (
        '2 services (ca"rt, checkout); scraped every 15 s; '
        "no data of a day ago, so that earlier days cannot be compared"
    )


@pytest.mark.parametrize(
    ("overview", "words"),
    [
        (
            PrometheusOverview(
                {"request_rate": {"a", "b"}, "error_ratio": {"a", "b"}, "latency_p99": {"a"}},
                (60.0, 60.0, 15.0),
                days=7,
                exporters=("node_exporter", "JVM"),
            ),
            "2 services (a, b); no p99 latency of b; beneath them JVM, node_exporter; "
            "scraped every 60 s or 15 s; data of 7 days ago",
        ),
        (
            PrometheusOverview({"request_rate": set("abcdefg")}, (30.0,), days=1),
            "7 services (a, b, c, d, e, ...); no error ratio of any; no p99 latency of any; "
            "scraped every 30 s; data of 1 day ago",
        ),
    ],
)
def test_what_an_overview_says(overview: PrometheusOverview, words: str) -> None:
    assert overview.words() == words


def test_a_prometheus_of_gpus_alone_is_useful(server: LocalServer) -> None:
    stand_in.serve(server)
    names = {"status": "success", "data": ["DCGM_FI_DEV_GPU_UTIL", "up"]}
    server.on("/api/v1/label/__name__/values", Reply(names))
    check = asyncio.run(PrometheusConnector(server.url).check())
    assert check.ok
    assert "metrics of training jobs or GPUs are there, and none of services" in check.line


def test_windows_that_touch_are_asked_as_one() -> None:
    a, b = (
        Window(start=ONSET, end=ALERT_AT),
        Window(start=ONSET - timedelta(hours=1), end=ONSET - timedelta(seconds=1)),
    )
    far = Window(start=ONSET - timedelta(days=7), end=ONSET - timedelta(days=6))
    assert merged((a, b, far)) == (far, Window(start=b.start, end=ALERT_AT))


def test_the_step_keeps_a_span_within_what_prometheus_answers() -> None:
    week = Window(start=ALERT_AT - timedelta(days=7), end=ALERT_AT)
    chosen = step(week, 15)
    assert week.seconds / chosen + 1 <= MAX_POINTS
    assert step(Window(start=ONSET, end=ALERT_AT), 15) == 15


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(status=401), "authentication failed (HTTP 401)"),
        (Reply(status=403), "not permitted with these credentials (HTTP 403)"),
        (Reply(status=404), "not found (HTTP 404)"),
        (
            Reply(status=429, headers={"Retry-After": "3600"}),
            "the rate limit is used up (HTTP 429)",
        ),
        (Reply(status=502), "(HTTP 502)"),
        (Reply(b'{"data": [', claims=100), "no answer"),
        (Reply({"data": ["up"]}, delay_s=30), "time limit"),
        (Reply(b'{"data": ["' + b"x" * 2_000_000), "limit of 1,000,000 bytes"),
    ],
)
def test_a_server_that_does_not_answer_is_a_gap_for_everything(
    server: LocalServer, tmp_path: Path, reply: Reply, words: str
) -> None:
    server.on("/api/v1/label/__name__/values", reply)
    limits = Limits(deadline_s=6, max_bytes=1_000_000)
    collected = asyncio.run(
        collect_from(
            PrometheusConnector(server.url, bearer("t"), limits=limits), request_for(tmp_path)
        )
    )
    assert {m.kind for m in collected.missing} == set(PrometheusConnector.kinds)
    assert all(words in m.reason for m in collected.missing), collected.missing
    assert server.asked[0].headers["Authorization"] == "Bearer t"
    assert server.methods == {"GET"}


def test_one_slow_query_is_a_gap_and_the_others_are_handed_over(
    server: LocalServer, tmp_path: Path
) -> None:
    def answer(asked: Asked) -> Reply:
        slow = "histogram" in asked.query["query"][0]
        series = {"metric": {"service": "checkout"}, "values": [[ALERT_AT.timestamp(), "1.5"]]}
        return Reply({"status": "success", "data": {"result": [series]}}, delay_s=30 if slow else 0)

    names = ["http_requests_total", "http_request_duration_seconds_bucket"]
    server.on("/api/v1/label/__name__/values", Reply({"data": names}))
    server.on("/api/v1/labels", Reply({"data": ["service", "le"]}))
    server.on("/api/v1/query_range", answer)
    connector = PrometheusConnector(server.url, limits=Limits(deadline_s=6))
    collected = asyncio.run(collect_from(connector, request_for(tmp_path)))
    assert collected.tables["metrics"]["signal"].to_list() == ["request_rate"]
    assert ["time limit" in m.reason for m in collected.missing] == [True, True]


def test_a_prometheus_without_known_metrics_says_what_to_configure(
    server: LocalServer, tmp_path: Path
) -> None:
    server.on("/api/v1/label/__name__/values", Reply({"data": ["other_metric"]}))
    collected = asyncio.run(collect_from(PrometheusConnector(server.url), request_for(tmp_path)))
    assert "prometheus.queries" in collected.missing[0].reason
