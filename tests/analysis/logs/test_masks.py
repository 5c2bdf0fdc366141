from __future__ import annotations

import re

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.analysis.logs.miner import masked, template_pattern


def mask(text: str) -> str:
    return str(masked(pl.Series([text], dtype=pl.String))[0])


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("order 4711 took 12.5ms at 10.0.0.1:53", "order <*> took <*>ms at <*>"),
        ("id 123e4567-e89b-12d3-a456-426614174000 trip D1345", "id <*> trip <*>"),
        ("2026-03-01T12:00:00.123Z GET /orders/17?page=2", "<*> GET /orders/<*>?page=<*>"),
        ("stored task_1445_m_000 and blk_-16089", "stored <*> and <*>"),
        ("mail to ann@example.com via smtp://mail.example.com:25/x", "mail to <*> via <*>"),
        ("routes [1, 2, 3]", "routes [<*>]"),
        ("balance is -5", "balance is <*>"),
        ("pod api-7d9f8b6c5d-x2x9z is gone", "pod api<*> is gone"),
        ('sent {"id": 7, "name": "x"} to queue', "sent {<*>} to queue"),
        ("\x1b[31mred\x1b[0m", "red"),
    ],
)
def test_values_are_masked(line: str, shown: str) -> None:
    assert mask(line) == shown


@pytest.mark.parametrize(
    "line",
    [
        "at OrderImpl#45",
        "main.go:17] started",
        "ORA-00942: table or view does not exist",
        "x509: certificate signed by unknown authority",
        'level=error msg="cannot start"',
        "sha256 on x86_64",
    ],
)
def test_numbers_that_are_part_of_a_name_are_kept(line: str) -> None:
    assert mask(line) == line


def test_the_pattern_of_a_template_finds_its_lines_and_no_others() -> None:
    pattern = re.compile(template_pattern("routes [<*>] of <*> (open)"))
    assert pattern.search("routes [1, 2, 3] of 10.0.0.1 (open)")
    assert not pattern.search("routes [1] of 10.0.0.1 (closed)")


@given(st.lists(st.text(max_size=80), min_size=1, max_size=6))
def test_any_text_can_be_masked(texts: list[str]) -> None:
    encodable = [text.encode("utf-8", "replace").decode() for text in texts]
    assert len(masked(pl.Series(encodable, dtype=pl.String))) == len(texts)
