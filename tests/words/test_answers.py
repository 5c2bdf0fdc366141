"""Recorded answers of language models, replayed over HTTP: what is left of each, and why the rest
went."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from bot.investigation.model.writing import write_report

from bot.answer.writer.built_in import word
from bot.settings.model import ModelSettings
from tests.bot.answer.writer.openai_server import says_text, serving
from tests.words.incidents import INCIDENTS

ANSWERS: list[dict[str, Any]] = tomllib.loads(
    Path(__file__).with_name("answers.toml").read_text(encoding="utf-8")
)["answer"]
KINDS = (
    "good",
    "overconfident",
    "uncited",
    "wrong numbers",
    "injected",
    "truncated",
    "malformed",
    "empty",
    "other language",
    "too long",
)


def text_of(answer: dict[str, Any]) -> str:
    """The answer as the server sends it; `repeat` makes one that is too long in every part."""
    again = answer.get("repeat")
    if again is None:
        return str(answer["text"])
    claim = {"text": again["text"], "findings": again["findings"]}
    long = {**claim, "text": " ".join([again["text"]] * again["long"])}
    return json.dumps(
        {"headline": long["text"], "claims": [long, *[claim] * again["times"]], "next_steps": []}
    )


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda a: f"{a['about']}: {a['kind']}")
def test_of_an_answer_only_what_the_findings_support_is_left(answer: dict[str, Any]) -> None:
    diagnosis, alert = INCIDENTS[answer["about"]]
    built_in = word(diagnosis, alert, ())
    with serving(says_text(text_of(answer), cut=answer.get("cut", False))) as server:
        model = ModelSettings(name="local-model", base_url=server.url, investigates=False)
        report = asyncio.run(write_report(diagnosis, alert, (), model))
    assert report.written_by == ("local-model" if answer["writer"] == "model" else "built-in"), (
        report.dropped
    )
    own = [c for c in report.claims if c not in built_in.claims]
    assert len(own) == answer["claims"], report.dropped
    assert (report.headline == built_in.headline) == (answer["headline"] == "built-in")
    for reason in answer.get("dropped", ()):
        assert any(reason in d for d in report.dropped), report.dropped
    assert report.model_use is not None


def test_there_is_an_answer_of_every_kind() -> None:
    assert not [kind for kind in KINDS if not any(a["kind"].startswith(kind) for a in ANSWERS)]
