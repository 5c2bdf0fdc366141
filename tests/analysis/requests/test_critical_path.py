from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from faultline.analysis.requests.span_shifts import span_shifts
from faultline.analysis.vocabulary import Finding
from tests.analysis.cases import at, write_case

Part = tuple[str, str | None, str, float, float]
"""Span, parent, service, start and duration (ms)."""


def requests(minute: float, count: int, parts: list[Part]) -> list[dict[str, Any]]:
    return [
        {
            "trace_id": f"{minute}-{i}",
            "span_id": span,
            "parent_id": parent,
            "service": service,
            "operation": f"{service} {span}",
            "start": at(minute + i / 60 + start / 60000),
            "duration_us": 1000.0 * ms,
        }
        for i in range(count)
        for span, parent, service, start, ms in parts
    ]


def carried(folder: Path, before: list[Part], now: list[Part]) -> list[Finding]:
    case = write_case(folder, spans=requests(-30, 20, before) + requests(5, 20, now))
    return [f for f in span_shifts(case) if f.kind == "critical_path"]


def page(cart_ms: float, gap_ms: float, ads_ms: float) -> list[Part]:
    """web calls cart and then, while it does other things, ads."""
    first = cart_ms + gap_ms
    return [
        ("a", None, "web", 0, first + ads_ms + 4),
        ("b", "a", "web", 1, first),
        ("c", "b", "cart", 1 + gap_ms / 2, cart_ms),
        ("d", "a", "web", 2 + first, ads_ms),
        ("e", "d", "ads", 2 + first, ads_ms),
    ]


def test_the_service_whose_own_time_slowed_the_requests_is_named_with_its_share(
    tmp_path: Path,
) -> None:
    (found,) = carried(tmp_path, page(10, 2, 5), page(90, 2, 25))
    assert found.subject == "cart"
    assert found.numbers == {"percent": 80, "slower_ms": 100}
    assert found.details.written()["how"] == "own"
    assert found.sentence.endswith("became slower is cart's own time.")


def test_time_lost_on_the_way_is_told_as_that(tmp_path: Path) -> None:
    (found,) = carried(tmp_path, page(10, 2, 5), page(10, 102, 5))
    assert (found.subject, found.details.written()["how"], found.numbers["percent"]) == (
        "cart",
        "lost",
        100,
    )


def test_calls_that_overlap_share_the_time_they_take_together(tmp_path: Path) -> None:
    def both(cart_ms: float, ads_ms: float) -> list[Part]:
        longest = max(cart_ms, ads_ms)
        spans: list[Part] = [("a", None, "web", 0, longest), ("b", "a", "web", 0, cart_ms)]
        return [
            *spans,
            ("c", "b", "cart", 0, cart_ms),
            ("d", "a", "web", 0, ads_ms),
            ("e", "d", "ads", 0, ads_ms),
        ]

    assert carried(tmp_path / "one", both(10, 10), both(10, 110))[0].subject == "ads"
    (found,) = carried(tmp_path / "both", both(10, 10), both(110, 110))
    assert found.numbers == {"percent": 50, "slower_ms": 100}


def test_a_slowdown_that_nobody_carries_alone_gives_nothing(tmp_path: Path) -> None:
    assert carried(tmp_path, page(10, 2, 5), page(40, 32, 35)) == []


def test_requests_as_fast_as_before_give_nothing(tmp_path: Path) -> None:
    assert carried(tmp_path, page(10, 2, 5), page(11, 2, 5)) == []


@pytest.mark.parametrize(("ms", "is_found"), [(1.8, False), (2.3, True)])
def test_less_than_a_millisecond_is_no_slowness(
    tmp_path: Path, ms: float, *, is_found: bool
) -> None:
    def quick(cart_ms: float) -> list[Part]:
        return [("a", None, "web", 0, cart_ms + 1), ("b", "a", "cart", 0.5, cart_ms)]

    assert bool(carried(tmp_path, quick(1.0), quick(ms))) is is_found
