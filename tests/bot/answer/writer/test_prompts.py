from __future__ import annotations

import pytest
from pydantic import BaseModel

from faultline.bot.answer.asserted.relations import RELATIONS, described
from faultline.bot.investigation.model.drafts import AnswerDraft, Draft, DraftClaim, DraftPart
from faultline.prompts import load_prompt


@pytest.mark.parametrize(("name", "words"), [("investigate", 1050), ("question", 700)])
def test_a_prompt_is_versioned_short_and_calm(name: str, words: int) -> None:
    prompt = load_prompt(name, described())
    assert prompt.version.isdigit()
    assert not prompt.text.startswith("version")
    assert len(prompt.text.split()) < words
    shouted = [
        w
        for w in prompt.text.replace("_", " ").split()
        if w.isalpha() and w.isupper() and len(w) > 3
    ]
    assert set(shouted) <= {"JSON"}
    assert "!" not in prompt.text


@pytest.mark.parametrize(("name", "draft"), [("investigate", Draft), ("question", AnswerDraft)])
def test_a_prompt_names_every_field_that_is_asked_for(name: str, draft: type[BaseModel]) -> None:
    text = load_prompt(name, described()).text
    fields = [*draft.model_fields, *DraftClaim.model_fields, *DraftPart.model_fields]
    assert [field for field in fields if f"`{field}`" not in text] == []


def test_a_prompt_holds_the_relations_and_what_it_shares() -> None:
    text = load_prompt("question", described()).text
    assert [name for name in RELATIONS if f"- `{name}`: " not in text] == []
    assert "{" not in text


def test_an_unknown_prompt_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        load_prompt("nothing")
