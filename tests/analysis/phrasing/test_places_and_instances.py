"""What is true of one cluster, or of instances, is not said of everything or of requests."""

from __future__ import annotations

from typing import Any

from faultline.analysis.phrasing.clauses import statement
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
    requests = shift("It fell.", "request_success", "ratio", baseline=1.0, incident=0.25)
    assert "requests" in str(statement(requests).clause())
