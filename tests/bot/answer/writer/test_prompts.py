from __future__ import annotations

import pytest
from pydantic import BaseModel

from bot.investigation.model.drafts import AnswerDraft, Draft
from prompts import load_prompt


@pytest.mark.parametrize(
    ("name", "words"), [("report", 450), ("investigate", 600), ("question", 450)]
)
def test_a_prompt_is_versioned_short_and_calm(name: str, words: int) -> None:
    prompt = load_prompt(name)
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


@pytest.mark.parametrize(
    ("name", "draft"), [("report", Draft), ("investigate", Draft), ("question", AnswerDraft)]
)
def test_a_prompt_names_every_field_that_is_asked_for(name: str, draft: type[BaseModel]) -> None:
    text = load_prompt(name).text
    assert all(f"`{field}`" in text for field in draft.model_fields)


def test_an_unknown_prompt_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        load_prompt("nothing")
