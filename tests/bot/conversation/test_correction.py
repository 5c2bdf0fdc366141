"""What people say of an answer is recorded where it names a cause, and weighed."""

from __future__ import annotations

import pytest

from faultline.bot.conversation.answered_case import AnsweredCase
from faultline.bot.conversation.correction import Correction, correction_in, weighed


@pytest.mark.parametrize(
    ("text", "right", "cause"),
    [
        ("you are wrong, it was the cart deploy", False, "the cart deploy"),
        ("nah its the db", False, "the db"),
        ("i think its wrong, the network was flaky", False, "the network was flaky"),
        ("no, search broke it", False, "search"),
        ("it was definitely a full disk on orders-db", False, "a full disk on orders-db"),
        ("thats not it", False, ""),
        ("you were right, thanks!", True, ""),
        ("i agree", True, ""),
        ("no, it was the deploy of <@U0ADA>", False, "the deploy of a person"),
    ],
)
def test_the_cause_is_kept_in_the_persons_words(text: str, right: bool, cause: str) -> None:
    given = correction_in(text)
    assert (given.right, given.cause) == (right, cause)


def _recorded(shop: AnsweredCase, text: str) -> Correction | None:
    return weighed(shop, correction_in(text))[0]


def test_only_the_same_trouble_of_the_same_service_counts_as_right(shop: AnsweredCase) -> None:
    for text, right in (
        ("it was orders-db", True),
        ("it was the cpu of orders-db", True),
        ("it was a full disk on orders-db", False),
        ("it was a deploy of orders-db", False),
        ("it was the cart deploy", False),
    ):
        recorded = _recorded(shop, text)
        assert recorded is not None
        assert recorded.right is right, text


def test_a_sentence_that_names_no_cause_is_not_recorded(shop: AnsweredCase) -> None:
    recorded, text = weighed(shop, correction_in("it is urgent"))
    assert recorded is None
    assert "recorded nothing" in text.lead
    assert "the cause was urgent" in text.more[0]
    assert _recorded(shop, "the cause was an expired certificate") is not None


def test_what_was_measured_is_said_for_and_against(shop: AnsweredCase) -> None:
    _, text = weighed(shop, correction_in("it was the cart deploy"))
    assert "Deploy 77aa01c of cart" in " ".join(line.text for line in text.lines)
    assert {line.bold for line in text.lines} == {"Against"}
