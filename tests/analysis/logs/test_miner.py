from __future__ import annotations

from faultline.analysis.logs.miner import MAX_WORDS, OTHER, TemplateMiner, group_lines, key_words


def groups(lines: list[str]) -> int:
    return len(set(group_lines(lines)[0]))


def test_a_word_that_takes_many_values_is_variable() -> None:
    lines = [f"user {name} logged in from home" for name in ("ann", "bob", "eve", "joe", "kim")]
    numbers, texts = group_lines(lines)
    assert len(set(numbers)) == 1
    assert texts[numbers[0]] == "user <*> logged in from home"


def test_words_that_take_few_values_are_different_statements() -> None:
    assert groups(["VM paused by host", "VM resumed by host", "VM stopped by host"]) == 3


def test_several_names_in_one_line_are_variable_together() -> None:
    pairs = [("a.b", "x.y"), ("c.d", "x.z"), ("a.c", "x.w"), ("e.f", "v.y"), ("g.h", "u.y")]
    assert groups([f"start {a} for the service {b} now" for a, b in pairs]) == 1


def test_a_word_with_a_digit_is_variable_and_a_place_in_code_is_not() -> None:
    assert key_words("stored b7 at pay.go:41 size=k9") == (
        "stored",
        "<*>",
        "at",
        "pay.go:41",
        "size=<*>",
    )


def test_units_of_values_do_not_tell_lines_apart() -> None:
    assert groups(["took <*>ms", "took <*>s"]) == 1


def test_beyond_its_limit_lines_fall_into_one_rest() -> None:
    miner = TemplateMiner(limit=2)
    words = ("alpha", "beta", "gamma", "delta")
    found = [miner.add(f"{word} is here") for word in words]
    miner.merge()
    assert found[2:] == [-1, -1]
    assert miner.text(found[3]) == OTHER


def test_only_the_beginning_of_a_line_is_compared() -> None:
    beginning = " ".join(["word"] * MAX_WORDS)
    assert groups([f"{beginning} one", f"{beginning} two"]) == 1


def test_the_same_lines_give_the_same_groups_whatever_came_between() -> None:
    lines = [f"host {c}.example.org is down" for c in "abcdef"] + ["host is up"]
    numbers, texts = group_lines(lines)
    assert group_lines(lines) == (numbers, texts)
    assert sorted(texts.values()) == ["host <*> is down", "host is up"]
