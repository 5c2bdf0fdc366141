"""The steps that a model may choose from: code words them, a model orders them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from faultline.analysis.vocabulary import Alert, Claim, Diagnosis, Verdict
from faultline.analysis.wording.names import subject_name
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.claims import CITED, closed, continued
from faultline.bot.answer.writer.quotable import quotable

MOST = 5
MOST_OFFERED = 6
LATER_CAUSES = 3
"""Causes below the first whose steps are offered."""


@dataclass(frozen=True)
class Step:
    """A step by its id. `otherwise` marks one that is right only if another cause is."""

    id: str
    text: str
    findings: tuple[str, ...]
    otherwise: bool = False

    @property
    def claim(self) -> Claim:
        """As it stands in a report."""
        return Claim(text=self.text, findings=self.findings)


def offered_steps(diagnosis: Diagnosis, alert: Alert) -> list[Step]:
    """What code would do about the first cause, what would tell the causes apart, and, as "if",
    what helps against the others."""
    candidates: list[tuple[str, tuple[str, ...], bool]] = []
    by_code = word(diagnosis, alert).next_steps[:1]
    candidates += [(claim.text, claim.findings, False) for claim in by_code]
    query = diagnosis.next_query
    cause = diagnosis.first_cause
    if query is not None and cause is not None:
        candidates.append((quotable(query.text), cause.findings[:CITED], False))
    if diagnosis.verdict is not Verdict.NO_ACTIVE_INCIDENT:
        candidates += _if_another(diagnosis)
    # Reversed, so that of equal texts the findings of the first one count.
    unique = {text: (text, ids, otherwise) for text, ids, otherwise in reversed(candidates)}
    offers = list(reversed(unique.values()))[:MOST_OFFERED]
    return [Step(f"N{n}", *offer) for n, offer in enumerate(offers, start=1)]


def _if_another(diagnosis: Diagnosis) -> list[tuple[str, tuple[str, ...], bool]]:
    ids = {finding.id for finding in diagnosis.findings}
    ranked = sorted(diagnosis.causes, key=lambda cause: cause.rank)
    alternatives = []
    for cause in ranked[1 : 1 + LATER_CAUSES]:
        cited = tuple(finding for finding in cause.findings if finding in ids)[:CITED]
        if cause.next_step and cited:
            step = continued(closed(quotable(cause.next_step)))
            alternatives.append((f"If it is {subject_name(cause.subject)}: {step}", cited, True))
    return alternatives


def chosen_steps(ids: Sequence[str], offered: Sequence[Step]) -> tuple[Claim, ...]:
    """The offered steps in the order that a model gave them.

    Code's own step is always among them, and what helps against another cause comes after it.
    """
    by_id = {step.id: step for step in offered}
    selection = [by_id[step_id] for step_id in dict.fromkeys(ids) if step_id in by_id]
    first = [step for step in selection if not step.otherwise]
    code_steps = [step for step in offered[:1] if not step.otherwise and step not in first]
    later = [step for step in selection if step.otherwise]
    return tuple(step.claim for step in [*first, *code_steps, *later][:MOST])
