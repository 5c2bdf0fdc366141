from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.wording.amounts import (
    BYTES,
    MILLISECONDS,
    NUMBER,
    PER_SECOND,
    PERCENT,
    SECONDS,
    SHARE,
    Unit,
    amount,
    levels,
    times,
    unit_of,
)


@pytest.mark.parametrize(
    ("value", "unit", "said"),
    [
        (104.5, MILLISECONDS, "104 ms"),
        (0.1044, SECONDS, "104 ms"),
        (0.9999, SECONDS, "1 s"),
        (119, SECONDS, "119 s"),
        (120, SECONDS, "2 min"),
        (18_000, SECONDS, "5 h"),
        (0, SECONDS, "0 s"),
        (0.08729, SHARE, "8.7 %"),
        (100, PERCENT, "100 %"),
        (99.95, PERCENT, "99.95 %"),
        (97.36, PERCENT, "97.4 %"),
        (0.00012, SHARE, "0.012 %"),
        (1.4e9, BYTES, "1.4 GB"),
        (14.47, PER_SECOND, "14/s"),
        (1400, NUMBER, "1,400"),
        (1.3e6, NUMBER, "1.3 million"),
        (2, Unit("number", noun="cores"), "2 cores"),
        (float("nan"), SECONDS, "unknown"),
    ],
)
def test_a_value_is_said_as_people_say_it(value: float, unit: Unit, said: str) -> None:
    assert amount(value, unit) == said


@pytest.mark.parametrize(
    ("before", "after", "unit", "said"),
    [
        (34.79, 104.5, MILLISECONDS, ("35 ms", "104 ms")),
        (99.95, 97.36, PERCENT, ("99.95 %", "97.4 %")),
        (100.2, 100.4, NUMBER, ("100.2", "100.4")),
        (5, 5, NUMBER, ("5", "5")),
    ],
)
def test_two_values_are_told_apart(
    before: float, after: float, unit: Unit, said: tuple[str, str]
) -> None:
    assert levels(before, after, unit) == said


def test_a_multiple_of_next_to_nothing_has_no_digits() -> None:
    assert [times(2.99), times(17.9), times(250), times(5960)] == [
        "3x", "18x", "250x", "over 1,000x",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("signal", "unit", "seen", "kind", "factor"),
    [
        ("latency_p99", "ms", (), "time", 1e-3),
        ("http_server_duration_p99_ms", None, (), "time", 1e-3),
        ("TargetResponseTime", "Seconds", (), "time", 1.0),
        ("error_ratio", None, (), "share", 1.0),
        ("availability", None, (100.0, 97.0), "share", 0.01),
        ("availability", None, (1.0, 0.97), "share", 1.0),
        # Tasks that run, of which there are a few.
        ("ready_tasks", "count", (4.0, 2.0), "number", 1.0),
        ("disk_used_pct", None, (0.42, 0.94), "share", 1.0),
        ("cpu_pct", None, (0.4, 0.9), "share", 0.01),
        ("process.cpu.utilization", "1", (0.34, 0.9), "share", 1.0),
        ("process_cpu_usage", None, (0.58, 1.0), "share", 1.0),
        ("process.cpu.utilization", "1", (0.34, 1.9), "number", 1.0),
        ("postgresql.percent_usage_connections", None, (0.0045, 0.013), "share", 1.0),
        ("requests_per_sec", None, (), "rate", 1.0),
        ("cpu", None, (0.3, 84.0), "number", 1.0),
    ],
)
def test_a_unit_is_the_vendor_s_or_the_name_s(
    signal: str, unit: str | None, seen: tuple[float, ...], kind: str, factor: float
) -> None:
    found = unit_of(signal, unit, seen)
    assert (found.kind, found.factor) == (kind, factor)


@given(st.floats(), st.sampled_from([NUMBER, SECONDS, SHARE, BYTES, PER_SECOND]))
def test_no_value_takes_more_than_a_few_words(value: float, unit: Unit) -> None:
    assert 0 < len(amount(value, unit)) <= 24
