"""The lists of `guarded_words.toml`: what a report may say in its own words, and what only its
findings may say."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from importlib.resources import files
from typing import Any

STEM = 5
"""Letters by which two words count as the same: rise and rising do not, increased and increasing
do."""


@cache
def _lists() -> dict[str, Any]:
    return tomllib.loads(
        files("bot.answer.writer").joinpath("guarded_words.toml").read_text(encoding="utf-8")
    )


@cache
def reporting_stems() -> frozenset[str]:
    """Words that may stand in any sentence, by their first letters."""
    return frozenset(word[:STEM] for word in str(_lists()["reporting"]).split())


def listed(name: str) -> str:
    """The alternatives of one list, as a pattern without edges."""
    return "|".join(_lists()[name])


@cache
def guarded(name: str) -> re.Pattern[str]:
    """The pattern of one list, for text in lower case."""
    return re.compile(rf"(?<![\w-])(?:{listed(name)})(?![\w-])")
