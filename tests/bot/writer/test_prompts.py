from __future__ import annotations

import pytest

from bot.writer.model import Draft
from prompts import load_prompt


def test_the_report_prompt_is_versioned_short_and_calm() -> None:
    prompt = load_prompt("report")
    assert prompt.version.isdigit()
    assert not prompt.text.startswith("version")
    assert len(prompt.text.split()) < 450
    shouted = [w for w in prompt.text.replace("_", " ").split() if w.isalpha() and w.isupper() and len(w) > 3]
    assert set(shouted) <= {"JSON"}
    assert "!" not in prompt.text


def test_the_prompt_names_every_field_that_is_asked_for() -> None:
    text = load_prompt("report").text
    assert all(f"`{name}`" in text for name in Draft.model_fields)


def test_an_unknown_prompt_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        load_prompt("nothing")
