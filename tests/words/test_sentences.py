"""Every sentence of `sentences.toml` meets the guard: honest ones stay, the others go."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from analysis.vocabulary import Claim
from bot.answer.writer.guard import Guard
from tests.words.incidents import INCIDENTS

SENTENCES = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))


def _sentences(kind: str) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        (about, text, tuple(ids)) for about, sets in SENTENCES.items() for text, *ids in sets[kind]
    ]


GOOD, BAD = _sentences("good"), _sentences("bad")


def fault(about: str, text: str, ids: tuple[str, ...]) -> str | None:
    diagnosis, alert = INCIDENTS[about]
    return Guard(diagnosis, alert).fault_of_claim(Claim(text=text, findings=ids))


@pytest.mark.parametrize(("about", "text", "ids"), GOOD)
def test_an_honest_sentence_stays(about: str, text: str, ids: tuple[str, ...]) -> None:
    assert fault(about, text, ids) is None


@pytest.mark.parametrize(("about", "text", "ids"), BAD)
def test_a_sentence_that_the_findings_do_not_support_goes(
    about: str, text: str, ids: tuple[str, ...]
) -> None:
    assert fault(about, text, ids)


def test_there_are_enough_of_both() -> None:
    assert len(GOOD) >= 60
    assert len(BAD) >= 150
