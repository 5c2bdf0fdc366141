from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bot.answer.writer.names import identifiers, without_names
from bot.answer.writer.quantities import canonical, moments, quantities


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rose from 1.3 to 4.1 ms (3.1x)", [(0.0013, "time"), (0.0041, "time"), (3.1, "ratio")]),
        (
            "4.12 s, 4 min, 2 h, 350µs",
            [(4.12, "time"), (240, "time"), (7200, "time"), (0.00035, "time")],
        ),
        ("4m30s and 1 h 20 min", [(270, "time"), (4800, "time")]),
        ("38 %, -81.8 percent, 12%", [(0.38, "ratio"), (0.818, "ratio"), (0.12, "ratio")]),
        (
            "1,234 lines, 1.2k errors, 3 million rows",
            [(1234, "plain"), (1200, "plain"), (3e6, "plain")],
        ),
        ("5 GB of 2GiB", [(5e9, "bytes"), (2 * 2**30, "bytes")]),
        ("three ranks doubled in two minutes", [(3, "plain"), (2, "ratio"), (120, "time")]),
        ("a 4-minute gap, 10-15 ms", [(240, "time"), (0.01, "time"), (0.015, "time")]),
        ("½ of ４１", [(1, "plain"), (2, "plain"), (41, "plain")]),
        ("double-check one thing in the first step", []),
    ],
)
def test_every_number_is_read_with_its_unit(text: str, expected: list[tuple[float, str]]) -> None:
    found = [(q.value, q.dimension) for q in quantities(canonical(text))]
    assert [d for _, d in sorted(found)] == [d for _, d in sorted(expected)]
    assert [v for v, _ in sorted(found)] == pytest.approx([v for v, _ in sorted(expected)])


@pytest.mark.parametrize(
    ("text", "step"),
    [
        ("3.1x", 0.05),
        ("3x", 0.5),
        ("1200", 0.5),
        ("about 1200", 50),
        ("~40", 5),
        ("0.0050", 0.00005),
    ],
)
def test_the_precision_is_half_a_unit_of_the_last_digit(text: str, step: float) -> None:
    assert quantities(text)[0].raw_tolerance == pytest.approx(step)


@pytest.mark.parametrize(
    ("quoted", "is_it"),
    [
        ("15:02", True),
        ("15:03", True),
        ("15:02:40 UTC", True),
        ("2026-06-18T15:02:40Z", True),
        ("17:02 +02:00", True),
        ("3:02 pm", True),
        ("2026-06-18", True),
        ("18 June", True),
        ("June 18th", True),
        ("15:04", False),
        ("15:02:43", False),
        ("3:02 am", False),
        ("2026-06-19 15:02 UTC", False),
        ("19 June", False),
        ("15:02 CEST", False),
        ("99:99", False),
    ],
)
def test_a_time_is_an_instant_to_the_precision_quoted(quoted: str, is_it: bool) -> None:
    found, rest = moments(canonical(quoted))
    assert len(found) == 1
    assert not quantities(rest)
    assert found[0].matches(datetime(2026, 6, 18, 15, 2, 40, tzinfo=UTC)) is is_it


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("checkout-v2 and http_5xx_ratio rose 3.1x to 4ms", ["checkout-v2", "http_5xx_ratio"]),
        ("commit 559e94ce37a7, PR #1234, image 1.2.3", ["559e94ce37a7", "#1234", "1.2.3"]),
        (
            "payments-db and /var/log/edge of cartService",
            ["payments-db", "/var/log/edge", "cartService"],
        ),
        ("a follow-up, read/write and 10-15 ms at 15:02:40, e.g. p99.", ["p99"]),
        ("The node's memory fell by 38 % in PyTorch", []),
    ],
)
def test_names_are_told_from_words_and_numbers(text: str, names: list[str]) -> None:
    assert identifiers(text) == names
    assert not any(n in without_names(text).split() for n in names)
