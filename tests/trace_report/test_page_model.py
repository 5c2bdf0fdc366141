"""A block of the report is shown where it has something to show."""

from __future__ import annotations

from typing import Any, cast

import pytest

from faultline.trace_report.page_model import ReportBlock, section_of

PICTURE = cast("Any", object())


@pytest.mark.parametrize("part", ["bars", "strip", "curves", "roofline", "table"])
def test_any_part_alone_makes_a_block(part: str) -> None:
    assert ReportBlock("Steps", **{part: PICTURE})


def test_a_block_of_words_alone_is_left_out() -> None:
    words = ReportBlock("Steps", "How long each took.", axis=("0 s",), note="None was slow.")
    whole = ReportBlock("Steps", **dict.fromkeys(("bars", "table"), PICTURE))
    assert section_of("steps", "Steps", "", [words, whole]).blocks == (whole,)
