"""The front matter: what people write is read as text with its lines; what could harm is refused in
one line."""

from __future__ import annotations

import pytest

from faultline.bot.investigation.runbooks.runbook import (
    DEEPEST,
    LONGEST_FRONT_MATTER,
    FrontMatter,
    Problem,
    read_front_matter,
)


def read(head: str) -> FrontMatter:
    found = read_front_matter(f"---\n{head}\n---\nbelow\n")
    assert isinstance(found, FrontMatter), found
    return found


def refused(head: str) -> Problem:
    found = read_front_matter(f"---\n{head}\n---\nbelow\n")
    assert isinstance(found, Problem), found
    return found


def test_scalars_stay_the_text_that_was_written() -> None:
    assert read("a: no\nb: 02:00\nc: 0123\nd: 2026-11-21\ne: 'x: y'").values == {
        "a": "no",
        "b": "02:00",
        "c": "0123",
        "d": "2026-11-21",
        "e": "x: y",
    }


def test_each_value_knows_its_line_and_the_text_below_is_kept() -> None:
    found = read("name: A\nmatch:\n  services:\n    - one\n    - two")
    assert found.lines[("match", "services", 1)] == 6
    assert found.line_of(("match", "services", 7, "x")) == 4
    assert found.text == "below"


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("", "has no front matter"),
        ("# A page\n", "has no front matter"),
        ("---\na: 1\n", "does not end"),
    ],
)
def test_a_page_without_front_matter_says_so(document: str, said: str) -> None:
    found = read_front_matter(document)
    assert isinstance(found, Problem)
    assert said in found.text


def test_an_empty_one_and_windows_line_ends_are_fine() -> None:
    assert read("").values == {}
    found = read_front_matter("\ufeff---\r\na: b\r\n---\r\nx\r\n")
    assert isinstance(found, FrontMatter)
    assert found.values == {"a": "b"}


@pytest.mark.parametrize(
    ("head", "line", "said"),
    [
        ("a: &x [1]\nb: *x", 2, "anchors and aliases"),
        ("a: 1\nb: *later", 3, "anchors and aliases"),
        ("a: !!python/object/apply:os.system ['id']", 2, "tags"),
        ("a: 1\nb: !custom x", 3, "tags"),
        ("a: 1\na: 2", 3, "'a' stands twice"),
        ("- a\n- b", 2, "`key: value` lines"),
        ("? [a]\n: b", 2, "a key must be text"),
        ("a: 1\nb: [1", 4, "is not valid YAML"),
        ("a: 1\nb: '", 3, "is not valid YAML"),
        ("a: \x01", 2, "characters that YAML does not allow"),
        ("a: " + "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1), 2, "nested deeper"),
        ("a: " + "[" * 7000, 2, "nested deeper"),
        ("a: " + "x" * LONGEST_FRONT_MATTER, 1, "put the prose below"),
    ],
)
def test_what_could_grow_name_a_type_or_say_two_things_is_refused_at_its_line(
    head: str, line: int, said: str
) -> None:
    problem = refused(head)
    assert said in problem.text
    assert abs(problem.line - line) <= 1
    assert "\n" not in problem.text


def test_a_bomb_of_aliases_is_refused_before_it_grows() -> None:
    levels = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"] + [
        f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)
    ]
    assert "anchors and aliases" in refused("\n".join(levels)).text


def test_escapes_smuggle_nothing_hidden_in() -> None:
    assert read(r'a: "x\u202ey\ud800z\0\e\u200b\nb"').values == {"a": "x y z   \nb"}
