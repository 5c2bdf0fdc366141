"""A finding's details as tables."""

from __future__ import annotations

import pytest

from faultline.bot.web.finding_view import detail_tables, quantity_of, value_text


def test_rows_of_ranks_name_the_rank_first_and_mark_the_subject() -> None:
    rows = [{"wait_ms": 156.0, "rank": 0}, {"wait_ms": 3.1, "rank": 5}]
    (table,) = detail_tables({"ranks": rows}, "rank 5")
    assert [(c.label, c.is_number) for c in table.columns] == [("rank", False), ("wait", True)]
    assert [c.text for c in table.rows[1].cells] == ["5", "3.1 ms"]
    assert [r.subject for r in table.rows] == [False, True]
    assert [r.cells[0].share for r in table.rows] == [None, None]
    assert [r.cells[1].share for r in table.rows] == [1.0, 3.1 / 156]


def test_an_object_per_rank_is_a_table_too() -> None:
    (table,) = detail_tables({"rank": {"0": {"ms": 1}, "1": {"ms": 4}}}, "rank 1")
    assert [tuple(c.text for c in r.cells) for r in table.rows] == [("0", "1 ms"), ("1", "4 ms")]
    assert [r.subject for r in table.rows] == [False, True]


def test_phases_of_one_rank_and_of_the_others_stand_side_by_side_on_one_scale() -> None:
    details = {
        "phases_ms": {"data": 85.5, "forward": 1.0},
        "others_phases_ms": {"data": 1.3, "forward": 1.2},
    }
    (table,) = detail_tables(details, "rank 2")
    assert [c.label for c in table.columns] == ["", "phases", "others phases"]
    assert [c.text for c in table.rows[0].cells] == ["data", "86 ms", "1.3 ms"]
    assert table.rows[0].cells[2].share == 1.3 / 85.5


def test_a_column_of_equal_values_gets_no_bars_and_odd_values_break_nothing() -> None:
    rows = [{"a": 1.0, "b": None, "c": [1]}, {"a": 1.0, "b": float("nan"), "d": {"x": 1}}, {}]
    (table,) = detail_tables({"rows": rows, "empty": {}, "text": "x", "list": [1, 2]}, "s")
    assert [c.label for c in table.columns] == ["a", "b"]
    assert {c.share for r in table.rows for c in r.cells} == {None}


def test_many_rows_are_cut_and_counted() -> None:
    (table,) = detail_tables({"rows": [{"rank": n, "ms": n} for n in range(500)]}, "rank 1")
    assert (len(table.rows), table.left_out) == (128, 372)


def test_no_raw_ns_no_bars_on_ids_and_moments_as_times() -> None:
    """As the trace engine writes the events behind a finding."""
    first = {"rank": 2, "event": 2481, "duration_ns": 119929757, "start_ns": 1795239316995817185}
    second = {"rank": 2, "event": 14, "duration_ns": 6450051, "start_ns": 1795239317117909600}
    (table,) = detail_tables({"events": [first, second]}, "rank 2")
    assert [c.label for c in table.columns] == ["rank", "event", "duration", "start"]
    cells = table.rows[0].cells
    assert [c.text for c in cells] == ["2", "2481", "120 ms", "05:35:16.995"]
    assert [c.share is not None for c in cells] == [False, False, True, False]


@pytest.mark.parametrize(
    ("name", "value", "label", "text"),
    [
        ("wait_ms_per_step", 78.0, "wait per step", "78 ms"),
        ("blame_share", 0.7507, "blame share", "75 %"),
        ("percent", 94.3, "percent", "94 %"),
        ("lasted_min", 0.15, "lasted", "9 s"),
        ("process_id", 1048576, "process id", "1048576"),
        ("lines", 26.0, "lines", "26"),
        ("start_ms", 12.5, "start", "12 ms"),
        ("ratio", float("nan"), "ratio", "unknown"),
    ],
)
def test_names_and_values_are_said_as_people_say_them(
    name: str, value: float, label: str, text: str
) -> None:
    quantity = quantity_of(name, [value])
    assert (quantity.label, value_text(value, quantity)) == (label, text)
