from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.logs.lines import described, log_events, log_texts, unwrap

ROWS: dict[str, pl.DataType | type[pl.DataType]] = {
    "time": pl.Datetime("ns", "UTC"),
    "service": pl.String,
    "message": pl.String,
}
ROWS |= {"level": pl.String, "attributes": pl.String}
AT = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


def events(lines: Sequence[str], attributes: Sequence[str | None] | None = None) -> pl.DataFrame:
    """The lines of one service, written at one moment, as events."""
    rows = [
        [AT, "api", line, None, given]
        for line, given in zip(lines, attributes or [None] * len(lines), strict=True)
    ]
    return described(log_events(pl.DataFrame(rows, schema=ROWS, orient="row")))


def test_a_container_line_and_the_json_inside_it_are_taken_off() -> None:
    line = (
        '{"log":"{\\"severity\\":\\"error\\",\\"message\\":\\"charge '
        'failed\\"}\\n","stream":"stdout"}'
    )
    assert unwrap([line]) == (["charge failed"], ["error"])


def test_a_line_that_is_not_json_stays_as_it_is() -> None:
    assert unwrap(['{"half": ', "plain", "{}"]) == (['{"half":', "plain", "{}"], [None, None, None])


def test_the_level_decides_and_without_one_the_words_do() -> None:
    rows = pl.DataFrame(
        {
            "message": ["request failed", "request failed", "all good", "fine"],
            "level": ["INFO", None, "ERROR", ""],
        }
    )
    assert log_texts(rows)["is_error"].to_list() == [False, True, True, False]


@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_text_can_be_unwrapped(lines: list[str]) -> None:
    texts, levels = unwrap(lines + ["{" + line for line in lines])
    assert len(texts) == len(levels) == 2 * len(lines)


def test_levels_that_are_numbers_and_the_stack_of_an_error_object_are_read() -> None:
    stack = "Error: no card\\n    at charge (/app/pay.js:7:3)"
    line = f'{{"level":50,"msg":"charge failed","err":{{"type":"Error","stack":"{stack}"}}}}'
    (row,) = events([line]).iter_rows(named=True)
    assert (row["text"], row["is_error"]) == ("charge failed Error: no card", True)
    assert (row["error_class"], row["frame"]) == ("Error", "app/pay.js:7 charge")


def test_the_rows_of_a_stack_trace_are_one_event() -> None:
    lines = [
        "order 7 taken",
        "java.lang.IllegalStateException: no stock",
        "\tat com.shop.Stock.take(Stock.java:41)",
        "\t... 12 more",
        "order 8 taken",
    ]
    found = events(lines)
    assert found["text"].to_list() == [
        "order 7 taken",
        "java.lang.IllegalStateException: no stock",
        "order 8 taken",
    ]
    assert found["frame"].to_list() == [None, "Stock.java:41 Stock.take", None]
    assert found["is_error"].to_list() == [False, True, False]


def test_a_traceback_in_rows_is_told_by_what_was_raised() -> None:
    lines = [
        "ready",
        "Traceback (most recent call last):",
        '  File "/app/shop/pay.py", line 45, in charge',
        "    raise ValueError(amount)",
        "ValueError: 17",
        "ready",
    ]
    found = events(lines)
    assert found["text"].to_list() == ["ready", "ValueError: 17", "ready"]
    assert found["error_class"].to_list() == [None, "ValueError", None]


def test_stack_traces_of_two_pods_do_not_mix() -> None:
    first = ["Error: one", "    at a (/app/a.js:1:1)"]
    second = ["Error: two", "    at b (/app/b.js:2:2)"]
    lines = [first[0], second[0], first[1], second[1]]
    pods = ['{"pod": "x"}', '{"pod": "y"}'] * 2
    assert events(lines, pods)["frame"].to_list() == ["app/a.js:1 a", "app/b.js:2 b"]


def test_indented_lines_without_a_stack_trace_stay_apart() -> None:
    assert events(["{", '  "a": 1', "}"]).height == 3


@given(st.lists(st.text(max_size=60), max_size=8))
def test_any_lines_become_events(lines: list[str]) -> None:
    encodable = [line.encode("utf-8", "replace").decode() for line in lines]
    assert events([*encodable, "\tat a.b.C(D.java:1)"]).height <= len(lines) + 1
