"""A rule's condition is taken apart: what it measures, and the threshold."""

from __future__ import annotations

import pytest

from faultline.analysis.alert_signal.conditions import AlertCondition, condition_of
from faultline.analysis.kinds.signals import AlertQuery, QueryLanguage


def condition(text: str, language: QueryLanguage = "promql") -> AlertCondition:
    return condition_of(AlertQuery(language=language, text=text))


@pytest.mark.parametrize(
    ("text", "measured", "comparison", "threshold"),
    [
        ("refunds_backlog > 500", "refunds_backlog", ">", 500),
        ("500 < refunds_backlog", "refunds_backlog", ">", 500),
        ('(refunds_backlog{a="b"} >= 5e2)', 'refunds_backlog{a="b"}', ">=", 500),
        ("100 * (1 - hits / total) > 2 * 5", "100 * (1 - hits / total)", ">", 10),
        ("sum by (app) (rate(x_total[5m])) == 0", "sum by (app) (rate(x_total[5m]))", "==", 0),
        ("(a > bool 3) == 1", "(a > bool 3)", "==", 1),
        ("a > 5 or b > 5", "(a) or (b)", ">", 5),
    ],
)
def test_a_comparison_with_a_number_decides_alone(
    text: str, measured: str, comparison: str, threshold: float
) -> None:
    found = condition(text)
    assert found.decides
    assert found.measured is not None
    assert found.measured.strip("()") == measured.strip("()")
    assert (found.comparison, found.threshold) == (comparison, threshold)


@pytest.mark.parametrize(
    ("text", "measured", "threshold"),
    [
        ("rate(e[5m]) > 5 and on (app) rate(r[5m]) > 1", "rate(e[5m])", 5),
        ("depth > 100 unless on (queue) paused == 1", "depth", 100),
        ("used > on (node) group_left () total * 0.9", "used", None),
    ],
)
def test_what_else_narrows_it_down_is_asked_as_a_whole(
    text: str, measured: str, threshold: float | None
) -> None:
    found = condition(text)
    assert not found.decides
    assert (found.whole, found.measured, found.threshold) == (text, measured, threshold)


@pytest.mark.parametrize("text", ["a > 5 or b > 7", "changes(x[5m])", "a > bool 5"])
def test_what_cannot_be_taken_apart_is_asked_as_it_is(text: str) -> None:
    assert condition(text) == AlertCondition(text)


def test_an_absence_measures_nothing() -> None:
    found = condition('absent(up{job="refunds"})')
    assert found.is_absence
    assert found.measured is None


def test_a_rule_of_loki_ends_with_its_threshold() -> None:
    text = 'sum by (app) (rate({app="a"} |= "error > 3" [5m])) > 0.5'
    found = condition(text, "logql")
    assert found.measured == 'sum by (app) (rate({app="a"} |= "error > 3" [5m]))'
    assert (found.comparison, found.threshold, found.decides) == (">", 0.5, True)


def test_a_threshold_that_the_text_lacks_is_the_senders() -> None:
    query = AlertQuery(language="promql", text="depth", comparison=">", threshold=7)
    found = condition_of(query)
    assert (found.measured, found.threshold, found.decides) == ("depth", 7, True)
    assert found.holds(8)
    assert not found.holds(7)
    assert not found.holds(float("nan"))
