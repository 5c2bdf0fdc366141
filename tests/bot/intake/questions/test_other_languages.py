"""Questions in other languages are recognised by their key words."""

from __future__ import annotations

import pytest

from faultline.bot.intake.questions.words import in_english


@pytest.mark.parametrize(
    ("text", "english"),
    [
        ("Warum ist checkout langsam?", "why?"),
        ("Seit wann ist das so?", "since when?"),
        ("Was hat sich geändert?", "what changed?"),
        ("Wer ist betroffen?", "who is affected?"),
        ("¿Por qué falla checkout?", "why?"),
        ("¿Qué cambió?", "what changed?"),
        ("¿Cuál es la causa?", "what is the cause?"),
        ("Pourquoi ça échoue ?", "why?"),
        ("Qui est touché ?", "who is affected?"),
        ("Que faire ?", "what next?"),
        ("Por que o checkout está lento?", "why?"),
        ("O que mudou?", "what changed?"),
        ("Desde quando?", "since when?"),
        ("なぜ遅いのですか", "why?"),
        ("いつからですか", "since when?"),
        ("原因は何ですか", "what is the cause?"),
        ("为什么变慢了?", "why?"),
        ("哪些服务受影响?", "who is affected?"),
        ("下一步怎么办?", "what next?"),
        ("wie wird das Wetter?", None),
        ("what's the weather?", None),
        ("", None),
    ],
)
def test_a_question_by_its_key_words(text: str, english: str | None) -> None:
    assert in_english(text) == english
