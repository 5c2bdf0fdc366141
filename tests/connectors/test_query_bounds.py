"""What a query of a model's own may ask for: refused before any server sees it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.queries.query_bounds import check_query


@pytest.mark.parametrize(
    "text",
    [
        'rate(http_requests_total{service="checkout"}[5m])',
        "sum by (pod) (rate(x_total[5m])) / ignoring (pod) group_left () sum(rate(y_total[5m]))",
        "up",
        '{__name__="up", job="a"}',
        '{"http.requests", job="a"}',
        'histogram_quantile(0.99, sum by (le) (rate(b_bucket{a=~"b|c"}[1h30m])))',
        "x offset 7d",
        "x offset -5m",
        'up{job="a#b", label_replace="x"}',
    ],
)
def test_bounded_promql_is_taken(text: str) -> None:
    check_query("PromQL", "prometheus", text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "empty"),
        ("{}", "names nothing"),
        ('{__name__=~".+"}', "names nothing"),
        ('{__name__=~"node.*"}', "names nothing"),
        ('count({job=~".*"})', "names nothing"),
        ('{job!=""}', "names nothing"),
        ('sum by (job) ({job=""})', "names nothing"),
        ("rate(x[30d])", "at most 6h"),
        ("rate(x[999999999w])", "at most 6h"),
        ("rate(x[])", "at most 6h"),
        ("max_over_time(rate(x[5m])[6h:1s])", "subqueries"),
        ("x @ 0", "not taken"),
        ('label_replace(up, "service", "payments", "", "")', "label_replace would"),
        ('label_join(up, "service", "payments")', "label_join would"),
        ("x # comment", "not taken"),
        ("x offset 30d", "offset"),
        ("x offset", "offset"),
        ('x{a=~"' + "(a+)+" * 60 + '"}', "pattern is longer"),
        ("x{", "not closed"),
        ("x)", "closes nothing"),
        ('x{a="b', "does not end"),
        ("(" * 30 + "x" + ")" * 30, "nested deeper"),
        ("x" * 2000, "longer than"),
        ("x\x00", "control characters"),
    ],
)
def test_promql_without_bounds_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConnectorError, match=why):
        check_query("PromQL", "prometheus", text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("error", "needs a selector"),
        ('{app=~".+"}', "names nothing"),
        ('{app=""} |= "x"', "names nothing"),
        ('sum(count_over_time({app="a"}[7d]))', "at most 6h"),
        ('{app="a"} | line_format "payments was rolled back"', "line_format would"),
        ('{app="a"} | label_format app="payments"', "label_format would"),
    ],
)
def test_logql_without_bounds_is_refused(text: str, why: str) -> None:
    with pytest.raises(ConnectorError, match=why):
        check_query("LogQL", "loki", text)


def test_bounded_logql_is_taken() -> None:
    for text in (
        '{app="checkout"} |= "a # b" | json | status >= 500',
        '{namespace=~"shop.*"} |~ "(?i)refused"',
        'sum by (level) (count_over_time({app="checkout"}[5m]))',
    ):
        check_query("LogQL", "loki", text)


@given(st.text(alphabet="{}[]()\"`'=~!,abx_0123456789:@# \\mhd|", max_size=400))
def test_any_text_is_taken_or_refused_in_time(text: str) -> None:
    for language in ("PromQL", "LogQL"):
        try:
            check_query(language, "v", text)
        except ConnectorError:
            continue
