"""A model's answer to a question, as lines under which a reader can check it."""

from __future__ import annotations

from typing import Any

import pytest

from faultline.analysis.vocabulary import Claim, ModelUse, Section
from faultline.bot.conversation.model_answers import MOST, REASONS, _answer, _nothing
from faultline.bot.investigation.model.answering import GuardedAnswer
from tests.bot.answer.targets.answers import PAGE, a_diagnosis


def answered(**more: Any) -> GuardedAnswer:
    fields: dict[str, Any] = {
        "claims": (Claim(text="It rose.", findings=("F1", "F2")),),
        "diagnosis": a_diagnosis(),
        "new_findings": (),
        "dropped": (),
        "use": ModelUse(name="gpt", ended="timeout"),
    }
    return GuardedAnswer(**{**fields, **more})


def test_a_claim_links_to_its_findings_on_the_page() -> None:
    (line,) = _answer(answered(), PAGE).lines
    assert (line.text, line.bold, line.findings) == ("It rose.", "", ("F1", "F2"))
    assert line.links == (("F1", f"{PAGE}#F1"), ("F2", f"{PAGE}#F2"))


def test_what_was_found_just_now_is_quoted_and_not_linked() -> None:
    told = _answer(answered(new_findings=("F2",)), PAGE)
    claim, new = told.lines
    assert claim.links == (("F1", f"{PAGE}#F1"),)
    assert (new.bold, new.text) == ("New F2", "Deploy v2 of payments came 1 min before the onset.")
    assert new.links == ()


def test_what_the_model_infers_is_labelled() -> None:
    claim = Claim(text="Perhaps.", findings=(), section=Section.INFERRED)
    (line,) = _answer(answered(claims=(claim,)), PAGE).lines
    assert "Inferred by the model" in line.bold


def test_claims_and_links_are_few() -> None:
    claims = tuple(Claim(text=f"{n}", findings=("F1", "F2", "F3", "F4")) for n in range(MOST + 1))
    told = _answer(answered(claims=claims), PAGE)
    assert len(told.lines) == MOST
    assert len(told.lines[0].links) == 3


@pytest.mark.parametrize(
    ("dropped", "more"),
    [
        ((), []),
        (("a",), ["1 claim refused: not borne out by findings"]),
        (("a", "b"), ["2 claims refused: not borne out by findings"]),
    ],
)
def test_refused_claims_are_counted(dropped: tuple[str, ...], more: list[str]) -> None:
    said = _answer(answered(dropped=dropped), PAGE).more
    assert list(said) == ["Chosen by gpt; checked and worded by code", *more]


def test_an_answer_without_a_claim_says_why() -> None:
    told = _nothing(answered(claims=()))
    assert (told.lead, told.lines) == ("gpt gave no answer (timeout).", ())
    told = _nothing(answered(claims=(), dropped=tuple("abcd")))
    assert told.lead == "gpt answered, but the findings bear out none of it."
    assert [line.text for line in told.lines] == list("abcd")[:REASONS]
