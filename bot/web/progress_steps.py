"""The lines of progress as the few steps that every investigation takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from faultline.bot.queue.backlog import ASSEMBLED
from faultline.bot.store.store import Progress

StepState = Literal["done", "now", "to do"]

NOTES = 8


@dataclass(frozen=True)
class _Step:
    name: str
    words: frozenset[str]
    """The first words of its lines of progress."""
    end: str
    """The one of them that is written when the step has ended."""


STEPS = (
    _Step("Read the alert", frozenset({"scope", "runbooks", "announce"}), "scope"),
    _Step("Collect evidence", frozenset({"collect", "learned", ASSEMBLED}), ASSEMBLED),
    _Step("Compare with normal times", frozenset({"traces", "analyze"}), "analyze"),
    _Step("Write the answer", frozenset({"model", "write", "preview"}), "write"),
    _Step("Send it", frozenset({"reply", "done"}), "done"),
)


@dataclass(frozen=True)
class ProgressStep:
    """One step; `notes` are the newest of its lines."""

    name: str
    state: StepState
    notes: tuple[str, ...]


def progress_steps(lines: Sequence[Progress], *, started: bool) -> tuple[ProgressStep, ...]:
    """All steps, in order. While the investigation waits none is under way."""
    words = [(line.stage.split() or [""])[0] for line in lines]
    current = _current(words) if started else len(STEPS)
    steps = []
    for place, step in enumerate(STEPS):
        notes = [line.text for line, word in zip(lines, words, strict=True) if word in step.words]
        state: StepState = "to do"
        if place == current:
            state = "now"
        elif started and place < current:
            state = "done"
        steps.append(ProgressStep(step.name, state, tuple(notes[-NOTES:])))
    return tuple(steps)


def _current(words: Sequence[str]) -> int:
    """The furthest step that has a line, or the next one where that step has ended. What people
    did meanwhile belongs to no step."""
    furthest = 0
    for place, step in enumerate(STEPS):
        if step.words.intersection(words):
            furthest = place
    if STEPS[furthest].end in words:
        furthest += 1
    return furthest
