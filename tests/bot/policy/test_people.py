"""People by their names, not by Slack's ids."""

from __future__ import annotations

import pytest

from faultline.bot.policy.people import person, without_mentions


@pytest.mark.parametrize(
    ("who", "shown"),
    [
        ("U0ADA", "a person"),
        ("eu:W0ADA12", "a person"),
        ("ann (U0ANN)", "ann (U0ANN)"),
        ("Uma", "Uma"),
        ("", ""),
    ],
)
def test_an_id_is_no_name(who: str, shown: str) -> None:
    assert person(who) == shown


def test_a_mention_in_a_text_is_a_name_or_a_person() -> None:
    text = "it was the deploy of <@U0ADA> and <@W12|ann>, not <!here> or <@x>"
    shown = "it was the deploy of a person and ann, not <!here> or <@x>"
    assert without_mentions(text) == shown
