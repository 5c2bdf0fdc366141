"""The hash changes with what decides, and with nothing else."""

from __future__ import annotations

from pathlib import Path

from faultline.evaluation.running import DIGITS, hash_of

CODE = '''"""A rule."""

LIMIT = 3  # of the paper


def beyond(value: int) -> bool:
    """Whether it is."""
    return value > LIMIT
'''


def hashed(folder: Path, text: str, name: str = "rule.py") -> str:
    (folder / name).write_text(text)
    return hash_of(folder)


def test_comments_docstrings_and_layout_do_not_count(tmp_path: Path) -> None:
    before = hashed(tmp_path, CODE)
    assert hashed(tmp_path, CODE.replace("A rule.", "Another text.")) == before
    assert hashed(tmp_path, CODE.replace("  # of the paper", "")) == before
    assert hashed(tmp_path, CODE.replace("value > LIMIT", "(value >\n        LIMIT)")) == before
    assert len(before) == DIGITS


def test_a_threshold_a_word_and_a_name_count(tmp_path: Path) -> None:
    before = hashed(tmp_path, CODE)
    assert hashed(tmp_path, CODE.replace("3", "4")) != before
    assert hashed(tmp_path, CODE) == before
    assert hashed(tmp_path, "word = 'late'\n", "words.toml") != before


def test_the_reading_of_traces_does_not_count(tmp_path: Path) -> None:
    before = hashed(tmp_path, CODE)
    (tmp_path / "traces").mkdir()
    assert hashed(tmp_path, CODE, "traces/rows.py") == before
