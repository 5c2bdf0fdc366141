"""The check of prose finds what it should, and reads neither code nor tables as sentences."""

from __future__ import annotations

import pytest

from infra.checks.prose import long_sentences, problems, problems_of, semicolons


@pytest.mark.parametrize(
    "text",
    [
        "There are so many alerts.",
        "# a comment says that so\n    # many alerts came",
        'raise Error("so "\n    f"many of {them}")',
        "- it found so\n  many of them",
    ],
)
def test_a_phrase_is_found_where_it_runs_over_a_line(text: str) -> None:
    found = list(problems_of("room/file.py", text))
    assert [one.text for one in found if "write that many" in one.text] != []


def test_a_phrase_within_a_word_is_none() -> None:
    assert list(problems_of("room/file.py", "also many, anewly, a holey gateway in")) == []


def test_a_problem_names_its_line() -> None:
    (found,) = problems_of("room/file.py", "one\ntwo\nthree is told\n")
    assert str(found).startswith("room/file.py:3: ")


def test_only_sentences_are_measured() -> None:
    words = " ".join(["word"] * 41)
    page = f"# {words}\n\n| {words}; |\n\n```\n{words};\n```\n\n    {words};\n\n`{words};`\n"
    assert list(long_sentences("a.md", page)) == []
    assert list(semicolons("a.md", page)) == []


def test_a_long_sentence_and_a_semicolon_are_found() -> None:
    words = " ".join(["word"] * 41)
    (found,) = long_sentences("a.md", f"Short.\n\n- Short.\n- {words}.\n")
    assert (found.line, "41 words" in found.text) == (4, True)
    (found,) = semicolons("a.md", "One\ntwo; three.\n")
    assert found.line == 2


def test_the_project_keeps_to_it() -> None:
    assert [str(one) for one in problems()] == []
