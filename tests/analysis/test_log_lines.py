from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from analysis.log_lines import log_texts, unwrap


def masked(message: str) -> str:
    rows = pl.DataFrame({"message": [message], "level": [None]}, schema={"message": pl.String, "level": pl.String})
    return str(log_texts(rows)["masked"][0])


def test_a_container_line_and_the_json_inside_it_are_taken_off() -> None:
    line = '{"log":"{\\"severity\\":\\"error\\",\\"message\\":\\"charge failed\\"}\\n","stream":"stdout"}'
    assert unwrap([line]) == (["charge failed"], ["error"])


def test_a_line_that_is_not_json_stays_as_it_is() -> None:
    assert unwrap(['{"half": ', "plain", "{}"]) == (['{"half":', "plain", "{}"], [None, None, None])


def test_values_are_masked_and_numbers_that_are_part_of_a_name_are_kept() -> None:
    assert masked("order 4711 took 12.5ms in Impl#451 at 10.0.0.1:53") == "order <*> took <*>ms in Impl#451 at <*>"
    assert masked("id 123e4567-e89b-12d3-a456-426614174000 D1345") == "id <*> D1345"


def test_the_level_decides_and_without_one_the_words_do() -> None:
    rows = pl.DataFrame(
        {"message": ["request failed", "request failed", "all good", "fine"], "level": ["INFO", None, "ERROR", ""]}
    )
    assert log_texts(rows)["is_error"].to_list() == [False, True, True, False]


@given(st.lists(st.text(max_size=60), max_size=5))
def test_any_text_can_be_unwrapped(lines: list[str]) -> None:
    texts, levels = unwrap(lines + ["{" + line for line in lines])
    assert len(texts) == len(levels) == 2 * len(lines)
