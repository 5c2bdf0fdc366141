from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.wording.phrases import capitalised, counted, number, plain, rounded


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3844.2, "3844"),
        (0.000513, "0.000513"),
        (12.0, "12"),
        (123456.0, "123500"),
        (-22.13, "-22.13"),
        (0, "0"),
    ],
)
def test_numbers_read_as_a_person_writes_them(value: float, text: str) -> None:
    assert number(value) == text


@given(st.floats())
def test_a_printed_number_is_the_rounded_number(value: float) -> None:
    assert float(number(value)) == pytest.approx(rounded(value), rel=1e-9)
    assert math.isfinite(rounded(value))


@given(st.text(max_size=300))
def test_foreign_text_becomes_one_printable_line(text: str) -> None:
    line = plain(text, 50)
    assert len(line) <= 50
    assert "\n" not in line
    assert "\u202e" not in line


def test_one_is_singular() -> None:
    assert (counted(1, "line"), counted(3, "line")) == ("1 line", "3 lines")


def test_a_sentence_begins_with_a_capital_and_a_name_from_code_stays_as_it_is() -> None:
    assert capitalised("nothing wrong: 8 steps") == "Nothing wrong: 8 steps"
    assert capitalised("torch._dynamo.mark_dynamic on them") == "torch._dynamo.mark_dynamic on them"
    assert capitalised("") == ""
