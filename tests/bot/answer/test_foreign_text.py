"""Text that others wrote cannot do anything in a reply."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from faultline.bot.answer.foreign_text import escape_mrkdwn, safe_url, sentence, single_line


@given(st.text(max_size=400), st.integers(2, 200))
def test_any_text_becomes_one_visible_line_within_its_limit(text: str, limit: int) -> None:
    line = single_line(text, limit)
    assert len(line) <= limit
    assert not any(unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"} for c in line)
    line.encode("utf-8")


def test_newlines_zero_width_and_direction_marks_are_gone() -> None:
    assert single_line("pay\u202eload\u200b: a\n\u2028b\x00", 80) == "pay load : a b"


def test_stacked_marks_are_cut() -> None:
    assert single_line("z" + "\u0301" * 50, 80) == "z\u0301\u0301"


def test_a_cut_line_ends_at_a_word_with_an_ellipsis() -> None:
    assert single_line("alpha beta gamma delta", 18) == "alpha beta gamma…"


def test_a_commit_is_quoted_as_people_do() -> None:
    assert sentence("Roll back 090d53d94509234858941a7e87d9ecd7a714f76a of users.", 200) == (
        "Roll back 090d53d94509 of users"
    )


def test_no_mention_survives_escaping() -> None:
    assert escape_mrkdwn("<!channel> <@U1> <http://evil|x> &") == (
        "&lt;!channel&gt; &lt;@U1&gt; &lt;http://evil|x&gt; &amp;"
    )


@pytest.mark.parametrize(
    "url",
    [
        "javascript:alert(1)",
        "https://good.example|evil",
        "https://a b",
        "https://good.example/>x",
        "https://user@evil.example/",
        "https://evil.example\\@good/",
        "https://x:99999/",
        "https://x/" + "a" * 1100,
        None,
        "",
    ],
)
def test_an_address_that_could_break_out_of_a_link_is_refused(url: str | None) -> None:
    assert safe_url(url) is None


def test_a_plain_address_is_kept() -> None:
    url = "https://app.datadoghq.com/metric/explorer?from=1&to=2#F3"
    assert safe_url(url) == url
