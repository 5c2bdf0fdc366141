"""What is true of one cluster, or of instances, is not said of everything or of requests."""

from __future__ import annotations

from typing import Any

from faultline.analysis.phrasing.clauses import statement
from faultline.analysis.phrasing.metric_forms import failing_share, in_brackets
from faultline.analysis.phrasing.steps import step_about
from faultline.analysis.vocabulary import Finding


def shift(sentence: str, signal: str, unit: str | None, **numbers: float) -> Finding:
    given: dict[str, Any] = {"class": "availability", "direction": "down", "bad": True}
    return Finding(
        id="F1",
        kind="metric_shift",
        subject="web",
        signal=signal,
        strength=1.0,
        sentence=sentence,
        numbers=numbers,
        series={"labels": '{"cluster": "cluster-b", "pod": "web-1"}'},
        details={**given, "unit": unit},
    )


def test_a_metric_of_one_cluster_is_said_of_that_cluster() -> None:
    sentence = "Availability of web in cluster cluster-b fell from 100 % to 3 %."
    found = shift(sentence, "availability", "percent", baseline=100.0, incident=3.0)
    assert str(statement(found).clause()).endswith("in one pod of cluster-b")
    everywhere = "Availability of web fell from 100 % to 3 %."
    whole = shift(everywhere, "availability", "percent", baseline=100.0, incident=3.0)
    assert "cluster-b" not in str(statement(whole).clause())


def test_a_ratio_of_instances_says_nothing_of_requests() -> None:
    found = shift("Availability fell.", "availability", "ratio", baseline=1.0, incident=0.25)
    assert str(statement(found).clause()) == "75 % of web's instances are down"
    assert in_brackets(found) == ""
    requests = shift("It fell.", "request_success", "ratio", baseline=1.0, incident=0.25)
    assert "requests" in str(statement(requests).clause())


def test_targets_that_cannot_be_scraped_are_neither_down_nor_failing_requests() -> None:
    scrapes = shift("It fell.", "scrape_availability", "ratio", baseline=1.0, incident=0.25)
    assert str(statement(scrapes).clause()) == "75 % of web's targets cannot be scraped"
    assert failing_share(scrapes) is None
    assert in_brackets(scrapes) == ""
    step = step_about(scrapes, [scrapes])
    assert step is not None
    assert step.startswith("Read on Prometheus' page /targets why scrapes of web fail")
