"""On how many of the last days the alert's own query was true at this hour, and whether users
noticed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import AlertHistoryDetails
from faultline.analysis.kinds.signals import SignalClass
from faultline.analysis.suspects.alert_truth import alert_truth
from faultline.analysis.suspects.deviations import Deviation
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import START, at, write_case

DAY_MIN = 24 * 60
LASTS = 10
"""Minutes for which it is true."""


def evaluated(true_days: frozenset[int], days: int) -> Iterator[dict[str, Any]]:
    """Points each minute on the day of the incident, and at its hours on earlier days."""
    for day in range(days + 1):
        first = -60 if day == 0 else 0
        for minute in range(first, 30):
            # On the day of the incident it is true to its end.
            begin = 20 if day == 0 else 10
            is_true = (day == 0 or day in true_days) and begin <= minute < begin + LASTS
            yield {
                "time": at(minute - day * DAY_MIN),
                "series": json.dumps({"queue": "orders"}),
                "is_true": float(is_true),
                "value": 120.0 if is_true else 40.0,
                "comparison": ">",
                "threshold": 100.0,
            }


def case_of(folder: Path, true_days: frozenset[int], days: int) -> Case:
    watches = {"signal_class": "queue", "metric": "orders_backlog", "threshold": 100.0}
    alert = {
        "service": "orders",
        "title": "OrdersBacklog",
        "watches": watches,
        "query": {"language": "promql", "text": "orders_backlog > 100"},
    }
    return write_case(folder, alert=alert, alert_query=list(evaluated(true_days, days)))


def latency(*felt_days: int, days: int = 7, service: str = "orders") -> Deviation:
    """A latency that is out of its noise on some days at the hours of the incident."""
    times, badness = [], []
    for day in range(days, -1, -1):
        for minute in range(30):
            times.append(int((START.timestamp() + (minute - day * DAY_MIN) * 60) * 1e9))
            badness.append(40.0 if day in felt_days and 10 <= minute < 20 else 0.3)
    return Deviation(
        service=service,
        signal="latency_p99",
        signal_class=SignalClass.LATENCY,
        labels={},
        times=np.array(times, dtype=np.int64),
        badness=np.array(badness),
        values=np.array(badness),
        searched=30,
        before=0.3,
        excess=0.5,
        quiet_windows=10,
    )


def often(findings: list[Finding]) -> Finding | None:
    return next((f for f in findings if f.kind == "alert_often_true"), None)


@pytest.mark.parametrize(
    ("true_days", "days", "sentence"),
    [
        (frozenset({1, 2, 3, 5, 6, 7}), 7, "true on 6 of the last 7 days at this hour"),
        (frozenset({1, 2, 3}), 5, "true on 3 of the last 5 days at this hour"),
        (frozenset({1, 2}), 7, None),
        # Three days of three say too little.
        (frozenset({1, 2, 3}), 3, None),
    ],
)
def test_days_are_counted_at_the_hours_of_the_incident(
    tmp_path: Path, true_days: frozenset[int], days: int, sentence: str | None
) -> None:
    finding = often(alert_truth(case_of(tmp_path, true_days, days)))
    if sentence is None:
        assert finding is None
        return
    assert finding is not None
    assert sentence in finding.sentence
    assert (finding.numbers["days_true"], finding.numbers["days"]) == (len(true_days), days)


NIGHTS = frozenset({1, 2, 3, 5, 6, 7})


@pytest.mark.parametrize(
    ("series", "words", "days_felt"),
    [
        ([latency()], ", never with user impact.", 0),
        ([latency(2, 5)], ", with user impact on 2 of them.", 2),
        # That users noticed on a day on which it was not true says nothing of it.
        ([latency(4)], ", never with user impact.", 0),
        # Another service's users are not its own.
        ([latency(2, service="cart")], "min.", None),
        # One of the days cannot be checked.
        ([latency(days=5)], "min.", None),
        ([], "min.", None),
    ],
)
def test_users_were_affected_or_not_on_those_days(
    tmp_path: Path, series: list[Deviation], words: str, days_felt: int | None
) -> None:
    finding = often(alert_truth(case_of(tmp_path, NIGHTS, 7), series))
    assert finding is not None
    assert finding.sentence.endswith(words)
    details = AlertHistoryDetails.of(finding)
    assert details is not None
    assert details.days_felt == days_felt
    assert "Raise the threshold above 130" in (details.fix or "")


def test_a_number_that_stayed_is_not_said_to_have_moved(tmp_path: Path) -> None:
    """`replicas > available` becomes true while the number on its left stays."""
    rows = [row | {"value": 4.0, "threshold": None} for row in evaluated(frozenset(), 0)]
    alert = {
        "service": "orders",
        "title": "OrdersReplicasMismatch",
        "watches": {"signal_class": "availability", "metric": "replicas"},
        "query": {"language": "promql", "text": "replicas > available"},
    }
    (finding,) = alert_truth(write_case(tmp_path, alert=alert, alert_query=rows))
    assert "replicas is 4" in finding.sentence
    assert "went from" not in finding.sentence
