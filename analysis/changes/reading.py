"""What one change's text holds, read once however often it is weighed."""

from __future__ import annotations

from dataclasses import dataclass

from faultline.analysis.changes.mechanisms import Shown, read_altered, shown_by
from faultline.analysis.changes.shipping import Shipped
from faultline.analysis.changes.symptoms import altered_names, exact_names
from faultline.analysis.changes.text import words_of

SPEAKING_IDS = ("flag", "config", "scale", "migration")
"""Kinds whose id is a name that says what it is about."""


@dataclass(frozen=True)
class Reading:
    """Words and names of a change, and what it does."""

    altered: frozenset[str]
    """Words that it takes out or puts in; none without a diff."""
    beside: frozenset[str]
    """The other words of its title, paths and changed lines."""
    names: frozenset[str]
    """Exact names that it alters."""
    files: frozenset[str]
    shown: Shown


def read_change(change: Shipped) -> Reading:
    """The reading of a shipped change."""
    text = change.text
    named = [change.id] if change.kind in SPEAKING_IDS else []
    altered = text.altered_words if text.has_diff else frozenset()
    return Reading(
        altered=altered,
        beside=(text.words | words_of(named)) - altered,
        names=altered_names(text) | exact_names(named),
        files=frozenset(path.rsplit("/", 1)[-1].lower() for path in text.files),
        shown=shown_by(read_altered(text, change.kind, change.id)),
    )
