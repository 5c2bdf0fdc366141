"""A finding's details as tables."""

from __future__ import annotations

from bot.web.detail_tables import detail_tables


def test_rows_of_ranks_name_the_rank_first_and_mark_the_subject() -> None:
    rows = [{"wait_ms": 156.0, "rank": 0}, {"wait_ms": 3.1, "rank": 5}]
    (table,) = detail_tables({"ranks": rows}, "rank 5")
    assert table.columns == ("rank", "wait_ms")
    assert [r.subject for r in table.rows] == [False, True]
    assert [r.cells[0].share for r in table.rows] == [None, None]
    assert [r.cells[1].share for r in table.rows] == [1.0, 3.1 / 156]


def test_an_object_per_rank_is_a_table_too() -> None:
    (table,) = detail_tables({"rank": {"0": {"ms": 1}, "1": {"ms": 4}}}, "rank 1")
    assert [tuple(c.text for c in r.cells) for r in table.rows] == [("0", "1"), ("1", "4")]
    assert [r.subject for r in table.rows] == [False, True]


def test_phases_of_one_rank_and_of_the_others_stand_side_by_side_on_one_scale() -> None:
    details = {
        "phases_ms": {"data": 85.5, "forward": 1.0},
        "others_phases_ms": {"data": 1.3, "forward": 1.2},
    }
    (table,) = detail_tables(details, "rank 2")
    assert table.columns == ("", "phases_ms", "others_phases_ms")
    assert [c.text for c in table.rows[0].cells] == ["data", "85.5", "1.3"]
    assert table.rows[0].cells[2].share == 1.3 / 85.5


def test_a_column_of_equal_values_gets_no_bars_and_odd_values_break_nothing() -> None:
    rows = [{"a": 1.0, "b": None, "c": [1]}, {"a": 1.0, "b": float("nan"), "d": {"x": 1}}, {}]
    (table,) = detail_tables({"rows": rows, "empty": {}, "text": "x", "list": [1, 2]}, "s")
    assert table.columns == ("a", "b")
    assert {c.share for r in table.rows for c in r.cells} == {None}


def test_many_rows_are_cut_and_counted() -> None:
    (table,) = detail_tables({"rows": [{"rank": n, "ms": n} for n in range(500)]}, "rank 1")
    assert (len(table.rows), table.left_out) == (128, 372)
