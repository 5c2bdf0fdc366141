"""Monitors' queries, links and values of answers, hostile ones included."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.vocabulary import Window
from faultline.connectors.shared.rows.log_windows import ERROR_LINES, LINES
from faultline.connectors.vendors.datadog import values
from faultline.connectors.vendors.datadog.calls import CALLS
from faultline.connectors.vendors.datadog.check import PERMISSIONS
from faultline.connectors.vendors.datadog.connector import LIMITS, MOST_GOLDEN
from faultline.connectors.vendors.datadog.links import APP_HOSTS, AppLinks
from faultline.connectors.vendors.datadog.logs import PAGE
from faultline.connectors.vendors.datadog.lz_string import packed
from faultline.connectors.vendors.datadog.metrics import RESOURCES, SPLITS, _operations, _signals
from faultline.connectors.vendors.datadog.monitor_queries import (
    CompositeMonitor,
    MetricMonitor,
    SearchMonitor,
    read_monitor,
)
from faultline.connectors.vendors.datadog.session import ALLOWANCES

WINDOW = Window(
    start=datetime(2026, 3, 2, 11, tzinfo=UTC), end=datetime(2026, 3, 2, 12, tzinfo=UTC)
)
METRIC_QUERIES = {
    "avg(last_5m):avg:system.load.1{host:a} by {host} > 4": (
        "avg:system.load.1{host:a} by {host}",
        "system.load.1",
        4,
    ),
    "change(avg(last_5m),last_1h):sum:a.b{*}.as_count() >= 1.5e3": (
        "sum:a.b{*}.as_count()",
        "a.b",
        1500,
    ),
    "percentile(last_10m):p95:trace.http.request{env:prod} > 0.5": (
        "p95:trace.http.request{env:prod}",
        "trace.http.request",
        0.5,
    ),
    "avg(last_4h):anomalies(avg:x.y{a:b,c:d}, 'agile', 2, direction='both') >= 1": (
        "avg:x.y{a:b,c:d}",
        "x.y",
        1,
    ),
    "sum(last_5m):sum:t.errors{s:x}.as_count() / sum:t.hits{s:x}.as_count() * 100 > 5": (
        "sum:t.errors{s:x}.as_count() / sum:t.hits{s:x}.as_count() * 100",
        "t.errors_ratio",
        5,
    ),
    "avg:system.load.1{*}": ("avg:system.load.1{*}", "system.load.1", None),
}


@pytest.mark.parametrize("query", METRIC_QUERIES)
def test_what_a_metric_monitor_measures_is_read_from_its_query(query: str) -> None:
    assert read_monitor(query, "query alert") == MetricMonitor(*METRIC_QUERIES[query])


def test_searches_and_composites_are_read_too() -> None:
    spans = (
        'trace-analytics("env:prod '
        '@duration:>5").rollup("pc95","@duration").by("service,resource_name").last("5m") > 9'
    )
    assert read_monitor(spans, "trace-analytics alert") == SearchMonitor(
        "spans", "env:prod @duration:>5", "pc95", "@duration", ("service", "resource_name"), (), 9
    )
    logs = read_monitor(
        'logs("status:error").index("*").rollup("count").last("5m") > 3', "log alert"
    )
    assert isinstance(logs, SearchMonitor)
    assert (logs.signal, logs.indexes, logs.by) == ("error_log_lines", (), ())
    assert read_monitor("(12345 && !678) || 12345", "composite") == CompositeMonitor((12345, 678))


@pytest.mark.parametrize(
    "query",
    [
        "",
        '"http.can_connect".over("*").by("url").last(4).count_by_status()',
        'burn_rate("a").over("7d") > 14',
        "> 5",
    ],
)
def test_what_has_no_series_is_none(query: str) -> None:
    assert read_monitor(query, "service check") is None


@given(st.text(max_size=300))
def test_no_query_fails(query: str) -> None:
    read_monitor(query, "query alert")
    read_monitor(f'logs("{query}', "log alert")


@pytest.mark.parametrize(
    "part", ["(", "avg(", "last_", "):", "a:b{", 'logs("\\', '.by("', "1 && ", "> 1 "]
)
def test_a_hostile_query_is_read_in_linear_time(part: str) -> None:
    started = time.monotonic()
    read_monitor(part * 200_000, "query alert")
    assert time.monotonic() - started < 5


def test_times_in_any_unit_are_the_same_moment() -> None:
    at = datetime(2026, 3, 2, 11, 48, tzinfo=UTC)
    seconds = int(at.timestamp())
    for scale in (1, 1000, 1_000_000, 1_000_000_000):
        assert values.moment(seconds * scale) == at
    assert values.moment("2026-03-02T11:48:00Z") == at
    assert values.moment("2026-03-02T12:48:00+01:00") == at


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        "",
        "soon",
        -1,
        0,
        12,
        float("nan"),
        float("inf"),
        10**30,
        10**400,
        "9999-99-99",
        [],
        {},
    ],
)
def test_what_is_no_time_is_none(value: object) -> None:
    assert values.moment(value) is None


def test_tags_are_read_from_lists_and_texts() -> None:
    assert values.tags(["service:a", "service:b", "bare", 3, "url:http://x:80"]) == {
        "service": "a",
        "url": "http://x:80",
    }
    assert values.tags("env:prod, role:web,,x") == {"env": "prod", "role": "web"}
    assert values.tags(None) == {}


@given(st.text(max_size=100))
def test_no_value_leaves_its_quotes_or_its_tag(value: str) -> None:
    inside = values.quoted(value)[1:-1]
    assert '"' not in inside.replace("\\\\", "").replace('\\"', "")
    tag = values.metric_tag("service", value)
    assert not set(tag) & set("{},()* \"'\n")


def test_nested_and_dotted_fields_are_found_alike() -> None:
    assert values.inner({"error": {"kind": "A"}}, "error.kind") == "A"
    assert values.inner({"error.kind": "A"}, "error.kind") == "A"
    assert values.inner({"error": "x"}, "error.kind") is None


def test_the_operation_by_which_a_service_is_entered_comes_first() -> None:
    names = [
        f"trace.{name}.hits"
        for name in ("aws.command", "django.request", "redis.command", "z.server.request")
    ]
    assert _operations([*names, "trace.django.request.errors", "system.cpu.user"]) == [
        "django.request",
        "z.server.request",
    ]


@pytest.mark.parametrize("site", APP_HOSTS)
def test_links_lead_to_the_sites_app(site: str) -> None:
    links = AppLinks(APP_HOSTS[site])
    query = "p99:trace.http.request{service:a,env:b} by {version}"
    explorer = urlsplit(links.metrics(f"top({query}, 10)", WINDOW))
    assert explorer.hostname == APP_HOSTS[site]
    asked = {name: found[0] for name, found in parse_qs(explorer.query).items()}
    assert asked == {"start": "1772449200000", "end": "1772452800000", "paused": "true"}
    assert links.trace("../x?").endswith("/apm/trace/..%2Fx%3F")
    assert "query=a%26b" in links.logs("a&b", WINDOW)


AS_DATADOG_SHARES_IT = (
    '{"widget":{"layout":{"x":1,"y":1,"width":1,"height":1},"definition":{"type":"timeseries",'
    '"requests":[{"response_format":"timeseries","queries":[{"name":"query1","data_source":"metrics",'
    '"query":"avg:kubernetes.memory.usage_pct{env:dev, cluster:cluster-7, '
    'kube_namespace:ccs-womf-003}"}],"formulas":[{"formula":"query1"}],'
    '"style":{"palette":"dog_classic","line_type":"solid","line_width":"normal"},'
    '"display_type":"line"}]}},"splitConfig":null}',
    "N4Ig7glgJg5gpgFxALlAGwIYE8D2BXJVEADxQEYAaELcqyKBAC1pEbghkcLIF8qo4AMwgA7CAgg4RKUAiwAHOChASAtnADOcAE4"
    "RNIKtrgBHPJoQaUAbVBGN8qVoD6gnNtUZCKiOq279VKY6epbINiAiGOrKQdpYZAYgUJ4YThr42gDGSsgg6gi6mZaBZnHKGABuMM"
    "gA1ngARjoiiJoAdOqqbliteBoY8E7ymQjAcCIVyAIVFAAEmWi9CDrI84s6ALQA7LN1jU6RvvIY2StF62A4qoLrAAw3AMw8IDwAu"
    "lSu7niYoeEfql8YGKleLPN4gDRyNA5UBHKEIJbKKA4GBOeYYDQaCCZRJoURwJxyRTKdK4qA4vFOehMZQiNweNDPfgQeyYLAEhQ5"
    "EC45qgnh8cHyXEIADCUmEMBQIi+aB4QA",
)
"""A graph, and the part behind the `#` of the link that Datadog itself made of it (from a public
page of 2026)."""


def test_an_error_ratio_links_to_the_graph_of_the_ratio() -> None:
    graph, shared = AS_DATADOG_SHARES_IT
    assert packed(graph) == shared
    (ratio,) = [one for one in _signals("a", "web", "service:a", set()) if one.unit == "ratio"]
    explorer = urlsplit(AppLinks("app.datadoghq.com").metrics(ratio.query, WINDOW))
    hits, errors = (f"sum:trace.web.{name}{{service:a}}.as_count()" for name in ("hits", "errors"))
    queries = [
        {"name": f"query{number}", "data_source": "metrics", "query": query}
        for number, query in enumerate((errors, hits), start=1)
    ]
    request = {
        "response_format": "timeseries",
        "queries": queries,
        "formulas": [{"formula": "default_zero(query1) / query2"}],
    }
    widget = json.loads(graph)["widget"]
    widget["definition"]["requests"] = [request]
    assert explorer.fragment == packed(
        json.dumps({"widget": widget, "splitConfig": None}, separators=(",", ":"))
    )


def test_the_page_names_scopes_signals_and_limits_as_they_are() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/connectors/datadog.md").read_text()
    needed = [scope for scopes in PERMISSIONS.values() for scope in scopes.split(", ")]
    resources = [name for signal, _, metric, _, _ in RESOURCES for name in (signal, metric)]
    for name in (*APP_HOSTS, *SPLITS, *needed, *resources, LINES, ERROR_LINES):
        assert f"`{name}`" in page, name
    assert f"a list of {len(CALLS)} calls" in page
    assert (
        f"at most {LIMITS.requests_per_s:g} requests a second and {LIMITS.concurrency} at once"
        in page.lower()
    )
    assert f"{LIMITS.max_bytes // 1024**2} MiB and {LIMITS.deadline_s:g} seconds" in page
    (spans, _), (traces, _) = ALLOWANCES["spans"], ALLOWANCES["traces"]
    assert f"at most {spans} and {traces} are used" in page
    assert f"A search gives at most {PAGE:,} lines" in page
    assert f"up to {MOST_GOLDEN} services" in page
