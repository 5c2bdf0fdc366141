"""The state of an investigation in a word or two, and how sure its answer is, as pages show it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from faultline.analysis.vocabulary import Verdict
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.view import LOCATED, VERDICT_LABELS, located_words, state_label, sure_word
from faultline.bot.store.store import StoredInvestigation

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
VISIBLE_CHARS = 60
"""Characters of a line that a list shows at a width of 1,000 pixels."""


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
JOINED = StateView("Joined", "off", meaning="Part of another investigation.")


def state_view(
    status: str,
    verdict: str | None,
    confidence: float | None,
    *,
    culprit: str | None = None,
    explained: bool | None = None,
) -> StateView:
    """The state of an investigation, by what the store knows of it."""
    if status == "failed":
        return FAILED
    if status == "joined":
        return JOINED
    if verdict is not None:
        return _answered(verdict, confidence, culprit or "", explained is not False)
    if status == "running":
        return RUNNING
    return ACCEPTED if status == "accepted" else FAILED


def stored_state(investigation: StoredInvestigation) -> StateView:
    """The same as the answer's own page says, without reading its case."""
    return state_view(
        investigation.status,
        investigation.verdict,
        investigation.confidence,
        culprit=investigation.culprit,
        explained=investigation.explained,
    )


def list_text(investigation: StoredInvestigation) -> str:
    """What a list says of it: what is to blame comes first, as the end of a line may be cut."""
    if investigation.status == "failed":
        return investigation.alert.title
    headline = investigation.headline or investigation.alert.title
    if not investigation.culprit or investigation.status == "running":
        return headline
    name = subject_name(investigation.culprit)
    return headline if name in headline[:VISIBLE_CHARS] else f"{name}: {headline}"


def queued_view(ahead: int) -> StateView:
    """What waits behind others."""
    waits = "waits" if ahead == 1 else "wait"
    return StateView("Queued", "busy", meaning=f"Accepted; about {ahead} {waits} before it.")


def _answered(stored: str, confidence: float | None, culprit: str, explained: bool) -> StateView:
    if stored not in VERDICTS:
        # An older or newer version of this program wrote it.
        return StateView(stored.replace("_", " "), "open")
    verdict = Verdict(stored)
    if confidence is None:
        return StateView(VERDICTS[stored], _LOOKS[verdict])
    label = state_label(verdict, confidence, explained=explained)
    if verdict not in _BLAMES:
        return StateView(label, _LOOKS[verdict])
    if not explained and culprit:
        # A place is no cause: it looks like what is open.
        look: Look = "open" if label == LOCATED else _LOOKS[verdict]
        return StateView(label, look, sure=located_words(confidence, culprit))
    # "Likely cause" and "Possible cause" say how sure they are themselves.
    sure = sure_word(confidence) if label == VERDICTS[stored] else ""
    return StateView(label, _LOOKS[verdict], sure)
