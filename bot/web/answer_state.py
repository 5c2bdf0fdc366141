"""The state of an investigation in a word or two, and how sure its answer is, as pages show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from analysis.vocabulary import Verdict
from bot.answer.view import VERDICT_LABELS, state_label, sure_word

Look = Literal["on", "open", "off", "busy", "failed"]

VERDICTS: Mapping[str, str] = {verdict.value: label for verdict, label in VERDICT_LABELS.items()}
"""Names of verdicts, as they are stored."""
_LOOKS: Mapping[Verdict, Look] = {
    Verdict.CAUSE_FOUND: "on",
    Verdict.INSUFFICIENT_EVIDENCE: "open",
    Verdict.RECOVERED: "off",
    Verdict.NO_ACTIVE_INCIDENT: "off",
}
_BLAMES = (Verdict.CAUSE_FOUND, Verdict.RECOVERED)


@dataclass(frozen=True)
class StateView:
    """A state in words; `look` chooses its shape, since colours have other meanings here."""

    label: str
    look: Look
    sure: str = ""
    """How sure the answer is, in words; empty where nothing is blamed, or the label says it."""
    meaning: str = ""
    """The state in one sentence, where no answer says more."""


ACCEPTED = StateView("Queued", "busy", meaning="Accepted; the investigation starts in a moment.")
RUNNING = StateView("Investigating", "busy", meaning="Collecting and comparing evidence.")
FAILED = StateView("Failed", "failed")


def state_view(status: str, verdict: str | None, confidence: float | None) -> StateView:
    """The state of an investigation, by what the store knows of it."""
    if status == "failed":
        return FAILED
    if verdict is not None:
        return _answered(verdict, confidence)
    if status == "running":
        return RUNNING
    return ACCEPTED if status == "accepted" else FAILED


def queued_view(ahead: int) -> StateView:
    """What waits behind others."""
    waits = "waits" if ahead == 1 else "wait"
    return StateView("Queued", "busy", meaning=f"Accepted; about {ahead} {waits} before it.")


def _answered(stored: str, confidence: float | None) -> StateView:
    if stored not in VERDICTS:
        # An older or newer version of this program wrote it.
        return StateView(stored.replace("_", " "), "open")
    verdict = Verdict(stored)
    if confidence is None:
        return StateView(VERDICTS[stored], _LOOKS[verdict])
    label = state_label(verdict, confidence)
    # "Likely cause" and "Possible cause" say how sure they are themselves.
    says_it = label != VERDICTS[stored]
    sure = sure_word(confidence) if verdict in _BLAMES and not says_it else ""
    return StateView(label, _LOOKS[verdict], sure)
