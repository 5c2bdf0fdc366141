"""The page's tables are replaced between their marks, and say with which code they were
measured."""

from __future__ import annotations

import pytest

from faultline.analysis.errors import EvidenceError
from faultline.evaluation.page_tables import (
    fill,
    measured_with,
    older_than,
    with_empty_places_marked,
)

PAGE = (
    "# Accuracy\n\n<!-- table: systems -->\nold\n<!-- end -->\n\nProse.\n\n<!-- table: faults "
    "-->\n<!-- end -->\n"
)


def test_a_table_is_replaced_and_the_prose_stays() -> None:
    filled = fill(PAGE, {"systems": "| new |\n"}, "abc123")
    assert (
        "<!-- table: systems -->\n| new |\n\nMeasured with code `abc123`.\n<!-- end -->" in filled
    )
    assert "old" not in filled
    assert "Prose." in filled
    assert fill(filled, {"systems": "| new |\n"}, "abc123") == filled


def test_a_table_without_a_place_is_refused() -> None:
    with pytest.raises(EvidenceError, match="failures"):
        fill(PAGE, {"failures": "x"}, "abc123")


def test_a_table_of_other_code_is_older() -> None:
    filled = fill(PAGE, {"systems": "| new |\n"}, "abc123")
    assert measured_with(filled) == {"systems": "abc123", "faults": ""}
    assert older_than(filled, "abc123") == ["faults"]
    assert older_than(filled, "def456") == ["systems", "faults"]


def test_what_a_table_quotes_is_not_its_hash() -> None:
    quoted = "| Measured with code `def456`. |\n"
    filled = fill(PAGE, {"systems": quoted}, "abc123")
    assert measured_with(filled)["systems"] == "abc123"


def test_a_table_without_a_result_says_so() -> None:
    told = with_empty_places_marked(PAGE)
    assert told.endswith("<!-- table: faults -->\nNot measured yet.\n<!-- end -->\n")
    assert "old" in told
    assert older_than(told, "abc123") == ["systems", "faults"]
