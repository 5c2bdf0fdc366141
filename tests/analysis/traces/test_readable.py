from __future__ import annotations

from faultline.analysis.traces.readable import readable


def test_brackets_of_templates_and_comprehensions_stay_and_are_no_markup() -> None:
    assert readable("<listcomp>") == "‹listcomp›"
    assert readable("void gemm<float, 4>(int)") == "void gemm‹float, 4›(int)"
    assert readable("<!channel> `x`\x1b[31m") == "‹!channel›  x  [31m"


def test_it_is_cut() -> None:
    assert readable("a" * 100, 10) == "aaaaaaaaa…"
