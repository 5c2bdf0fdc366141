"""Points of Cloud Monitoring: the moment at which each period begins, and its number."""

from __future__ import annotations

import json

import msgspec
import pytest

from faultline.connectors.vendors.google_cloud.metrics import GoogleSeries, series_points

MINUTE_NS = 60 * 1_000_000_000
NOON_NS = 1_772_452_800 * 1_000_000_000
NOON, LATER = "2026-03-02T12:00:00Z", "2026-03-02T12:05:00Z"


@pytest.mark.parametrize(
    ("interval", "value", "expected"),
    [
        # A sum over five minutes begins with them.
        ({"startTime": NOON, "endTime": LATER}, {"int64Value": "7"}, [(NOON_NS, 7.0)]),
        # A gauge is measured at one moment, and is that of the minute before it.
        (
            {"startTime": NOON, "endTime": NOON},
            {"doubleValue": 0.5},
            [(NOON_NS - MINUTE_NS, 0.5)],
        ),
        ({"endTime": NOON}, {"doubleValue": 0.5}, [(NOON_NS - MINUTE_NS, 0.5)]),
        ({"startTime": "soon", "endTime": NOON}, {"int64Value": "7"}, [(NOON_NS - MINUTE_NS, 7.0)]),
        ({"startTime": NOON, "endTime": "soon"}, {"int64Value": "7"}, []),
        ({"startTime": NOON, "endTime": LATER}, {}, []),
        ({"startTime": NOON, "endTime": LATER}, {"int64Value": "many"}, []),
    ],
)
def test_a_point_counts_from_where_its_period_begins(
    interval: dict[str, str], value: dict[str, object], expected: list[tuple[int, float]]
) -> None:
    document = {"points": [{"interval": interval, "value": value}]}
    series = msgspec.json.decode(json.dumps(document), type=GoogleSeries)
    assert list(series_points(series)) == expected
