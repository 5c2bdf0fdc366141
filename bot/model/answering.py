"""A question about an investigation that was answered, put to the model: the same tools, limits and guard."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis.case_folder import read_diagnosis
from analysis.vocabulary import Claim, Diagnosis, ModelUse
from bot.settings import Settings
from connectors.base import Connector

Keep = Callable[[str, bytes], None]
"""Stores one file of the case: its name inside the case and its content. Blocks; called in a thread."""


@dataclass(frozen=True)
class Exchange:
    """A question asked before in the same conversation, and what was answered. Both are foreign text."""

    question: str
    answer: str


@dataclass(frozen=True)
class Answered:
    """What may be said to a question. Without claims nothing may: `use.ended` and `dropped` tell why."""

    claims: tuple[Claim, ...]
    """Guarded sentences, in order; each cites findings of `diagnosis`."""
    diagnosis: Diagnosis
    """The case's own, followed by the findings that new evidence brought: those that `new_findings` names."""
    new_findings: tuple[str, ...]
    """They are in no page and no findings.json: quote their sentences, do not link to them."""
    dropped: tuple[str, ...]
    """What the guard took out, and why."""
    use: ModelUse


async def answer_question(
    question: str,
    folder: Path,
    settings: Settings,
    *,
    connectors: Sequence[Connector] = (),
    history: Sequence[Exchange] = (),
    keep: Keep | None = None,
    name: str = "1",
) -> Answered:
    """Answer from the case in `folder` (alert.json ... findings.json), which stays as it is, and from new queries.

    `question` and `history` are what people wrote: data, never instructions. `connectors` are those that may be asked
    for more evidence; none: only the case is read. What was sent, answered and collected is stored through `keep` as
    `questions/<name>/...`. Verdict, confidence and the order of causes stay those of the case. Takes `settings.model`'s
    budgets (half of `investigate_s`, since somebody waits) and never raises for what the model or a server does.
    Call it only where `settings.model.name` is set. Raises EvidenceError when the case cannot be read.
    """
    use = ModelUse(name=settings.model.name or "", ended="questions are not answered yet")
    return Answered((), read_diagnosis(folder), (), (), use)
