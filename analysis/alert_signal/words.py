"""The class of a signal by words: of a metric's name with its selectors, of a title, of a sentence.

Rules differ from the series that a case holds: their names come with the selectors that decide
what is counted (`code=~"5.."`), and their titles are written by people. Stronger words come first:
"disk read errors" are about a disk, "failed backups" about a job.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from faultline.analysis.kinds.signals import SignalClass

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[^a-z0-9]+")
LONGEST_TEXT = 600
"""Characters of a text that are looked at: rules say what they are about in their first words."""


def _patterns() -> Iterator[tuple[SignalClass, re.Pattern[str]]]:
    text = Path(__file__).with_name("signal_words.toml").read_text()
    for entry in tomllib.loads(text)["words"]:
        words = "|".join(entry["any"])
        yield SignalClass(entry["of"]), re.compile(rf"_(?:{words})(?=_)")


_PATTERNS = tuple(_patterns())
"""Class and words, the strongest first."""


def class_of(text: str) -> SignalClass:
    """The class that the text's strongest word speaks of; OTHER where none is known."""
    return next(classes_of(text), SignalClass.OTHER)


def classes_of(text: str) -> Iterator[SignalClass]:
    """Every class that the text speaks of, the strongest word first."""
    words = normalized(text)
    for signal_class, pattern in _PATTERNS:
        if pattern.search(words):
            yield signal_class


def says(text: str, signal_class: SignalClass) -> bool:
    """Whether any word of the text is about the class."""
    return signal_class in classes_of(text)


@lru_cache(maxsize=1024)
def normalized(text: str) -> str:
    """The words in small letters, each between two underscores."""
    apart = _CAMEL.sub("_", text[:LONGEST_TEXT]).lower()
    return f"_{_SEPARATORS.sub('_', apart).strip('_')}_"
