"""PromQL is put together so that no name can change what is asked."""

from __future__ import annotations

import re

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.errors import SettingsError
from faultline.connectors.vendors.prometheus.connector import PrometheusConnector
from faultline.connectors.vendors.prometheus.custom_queries import Substitutions, build_custom
from faultline.connectors.vendors.prometheus.default_queries import DEFAULTS
from faultline.connectors.vendors.prometheus.promql import (
    LONGEST_MATCHER,
    build,
    names_pattern,
    quoted,
)
from tests.connectors.conftest import RunningPrometheus

EVERYTHING = (
    *("service", "code", "status_code", "le", "gpu", "Hostname", "training_job"),
    *("reporter", "direction", "span_kind"),
)


def unquoted(text: str) -> str:
    """What a PromQL parser reads from the inside of a double-quoted string."""
    return re.sub(r"\\(.)", lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), text, flags=re.DOTALL)


@given(st.text(max_size=60))
def test_a_quoted_name_is_read_back_as_it_was(name: str) -> None:
    inside = quoted(name)
    assert unquoted(inside) == name
    assert not re.search(r'(?<!\\)(\\\\)*"', inside)
    assert "\n" not in inside


@given(st.lists(st.text(min_size=1, max_size=20), min_size=1, max_size=4), st.text(max_size=20))
def test_a_list_of_names_matches_exactly_these(names: list[str], other: str) -> None:
    pattern = re.compile(f"(?:{unquoted(names_pattern(names))})", re.DOTALL)
    assert all(pattern.fullmatch(name) for name in names)
    assert (pattern.fullmatch(other) is not None) == (other in names)


def test_every_default_query_is_built_without_leftover_placeholders() -> None:
    for template in DEFAULTS:
        query = build(template, EVERYTHING, "service", ["checkout"], "llm-1", 60, {})
        assert query is not None, template
        assert not re.search(r"\{(by|range|where|status|service|job)\b(?!=)", query.promql), (
            query.promql
        )
        assert "checkout" in query.promql or "llm-1" in query.promql


def test_every_default_query_is_one_that_prometheus_understands(
    prometheus: RunningPrometheus,
) -> None:
    hostile = ['a"b', "c\\", "d\n}", "e)|(", "é\ud800"]
    with httpx.Client(base_url=prometheus.url) as client:
        for template in DEFAULTS:
            query = build(template, EVERYTHING, "service", hostile, "llm\\1", 60, {})
            assert query is not None
            answer = client.get("/api/v1/query", params={"query": query.promql}).json()
            assert answer["status"] == "success", (query.promql, answer)


def test_a_metric_without_the_needed_labels_is_not_asked() -> None:
    rate = next(t for t in DEFAULTS if t.signal == "request_rate")
    ratio = next(t for t in DEFAULTS if t.signal == "error_ratio")
    assert build(rate, ["path"], "service", [], None, 60, {}) is None
    assert build(ratio, ["service"], "service", [], None, 60, {}) is None
    fallback = build(rate, ["app", "instance"], "service", [], None, 60, {})
    assert fallback is not None
    assert fallback.by == ("app",)


def test_a_list_of_services_too_long_for_an_address_is_left_to_the_filter_afterwards() -> None:
    rate = next(t for t in DEFAULTS if t.signal == "request_rate")
    services = [f"service-{n}" for n in range(LONGEST_MATCHER // 8)]
    query = build(rate, EVERYTHING, "service", services, None, 60, {})
    assert query is not None
    assert query.narrow
    assert "service-1" not in query.promql


def test_a_configured_query_is_asked_once_per_service_where_it_wants_equality() -> None:
    asked = Substitutions(['a"b', "c"], "j.1")
    queries = build_custom("q", 'my{service="{service}",job=~"{job}"}', "service", asked)
    assert [q.promql for q in queries] == [
        'my{service="a\\"b",job=~"j\\\\.1"}',
        'my{service="c",job=~"j\\\\.1"}',
    ]
    assert [q.only for q in queries] == ['a"b', "c"]


def test_a_configured_query_that_needs_a_job_is_not_asked_without_one() -> None:
    assert build_custom("q", 'my{job="{job}"}', "service", Substitutions()) == []


@pytest.mark.parametrize(
    ("place", "matchers"),
    [
        ({}, 'k8s=~".*",env=~".*"'),
        ({"cluster": "eu.1"}, 'k8s="eu.1",env=~".*"'),
        ({"cluster": "eu.1", "environment": "a.b"}, 'k8s="eu.1",env=~"a\\\\.b"'),
    ],
)
def test_a_configured_query_is_bounded_to_the_place_that_the_alert_names(
    place: dict[str, str], matchers: str
) -> None:
    text = 'my{k8s="{cluster}",env=~"{environment}"}'
    [query] = build_custom("q", text, "service", Substitutions(["c"], place=place))
    assert query.promql == f"my{{{matchers}}}"


@pytest.mark.parametrize(
    "query", ["my{service={service}}", 'my{x="{service}-1"}', "{job}", 'my{service=~"a|{service}"}']
)
def test_a_placeholder_outside_a_quoted_value_stops_the_start(query: str) -> None:
    with pytest.raises(SettingsError, match=r"prometheus\.queries\.mine"):
        PrometheusConnector("http://127.0.0.1:9", queries={"mine": query})


@pytest.mark.parametrize("label", ["", "a-b", "../x", 'a"', "1a", "service\n"])
def test_a_service_label_that_cannot_be_one_stops_the_start(label: str) -> None:
    with pytest.raises(SettingsError, match=r"prometheus\.service_label"):
        PrometheusConnector("http://127.0.0.1:9", service_label=label)
