"""What claims are held against: the decided incident, with what the case's tables say of services,
calls and changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import ChangeDetails, change_named
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.phrasing.statement import Tense
from faultline.analysis.requests.topology import Topology, read_topology, topology_of
from faultline.analysis.vocabulary import (
    Alert,
    Assertion,
    Cause,
    Claim,
    Diagnosis,
    Finding,
    Gap,
    Verdict,
)
from faultline.analysis.wording.names import change_name, subject_name
from faultline.bot.answer.writer.built_in import is_memory, word
from faultline.bot.answer.writer.headline import CITED, closed, continued
from faultline.bot.answer.writer.plain_text import neutral, quotable

FELT = ({SignalClass.LATENCY}, {SignalClass.ERRORS, SignalClass.AVAILABILITY})
"""What callers of a service feel: that it is slow, and that it fails."""
_VERSION = re.compile(r"\bv?\d+(?:\.\d+)+[\w.+-]*")
ALERT = "alert"
"""Stands for the alert where a finding's id is expected."""


class Refused(Exception):
    """A claim does not hold; the message says in plain words why."""


@dataclass(frozen=True)
class Ground:
    """One incident. Without the case's tables nothing is known of calls and of quiet services."""

    diagnosis: Diagnosis
    alert: Alert
    gaps: Sequence[Gap] = ()
    calls: Topology = field(default_factory=lambda: topology_of(()))
    measured: frozenset[str] = frozenset()
    """Services whose errors and latency were measured in the incident and before it."""
    question: str = ""
    """What a person asked, where this is an answer to it."""

    @cached_property
    def findings(self) -> dict[str, Finding]:
        """By id, without what memory knows: code tells that in its own words."""
        return {
            finding.id: finding for finding in self.diagnosis.findings if not is_memory(finding)
        }

    @property
    def cause(self) -> Cause | None:
        """The one that code ranked first."""
        return self.diagnosis.first_cause

    @property
    def blames(self) -> bool:
        """Whether a cause is established."""
        verdicts = (Verdict.CAUSE_FOUND, Verdict.RECOVERED)
        return self.cause is not None and self.diagnosis.verdict in verdicts

    @property
    def tense(self) -> Tense:
        """Of statements about the incident."""
        return Tense.OVER if self.diagnosis.verdict is Verdict.RECOVERED else Tense.NOW

    def tense_of(self, finding: Finding) -> Tense:
        """Of a statement about this finding."""
        return self.tense.of(finding)

    @cached_property
    def involved(self) -> frozenset[str]:
        """Who alerted, is affected, or is among the causes."""
        causes = {cause.subject for cause in self.diagnosis.causes}
        return frozenset({*causes, *self.diagnosis.impact.services, self.alert.service or ""})

    @cached_property
    def subjects(self) -> dict[str, str]:
        """Every service, place, rank or job that may be named, by its name in lower case."""
        names: set[str] = {*self.calls.services, *self.measured}
        names |= {*self.diagnosis.impact.services, self.alert.service or ""}
        names |= {cause.subject for cause in self.diagnosis.causes}
        names |= {finding.subject for finding in self.findings.values()}
        # Sorted: of spellings that differ in case alone, the same one wins every time.
        return {name.casefold(): name for name in sorted(names) if name}

    @cached_property
    def _shown_names(self) -> dict[str, str]:
        """The same by the names as a model is shown them, without what would render."""
        return {neutral(name).casefold(): name for name in self.subjects.values()}

    @cached_property
    def written(self) -> str:
        """All that is known of the incident as text in lower case."""
        written = [*self.subjects]
        for record in (self.diagnosis, self.alert, *self.gaps):
            # The name of an empty field is no word of the data.
            written.append(record.model_dump_json(exclude_defaults=True))
        return "\n".join(written).casefold()

    @cached_property
    def named_in_words(self) -> frozenset[str]:
        """Names in lower case whose digits are no figures: subjects, as people call them too, and
        changes."""
        names = {subject_name(subject).casefold() for subject in self.subjects.values()}
        changes = {
            change for finding in self.diagnosis.findings if (change := change_named(finding))
        }
        shown = {change_name(change).casefold() for change in changes}
        for finding in self.diagnosis.findings:
            details = ChangeDetails.of(finding)
            if details is not None:
                words = f"{details.title or ''} {details.before or ''} {details.after or ''}"
                shown |= {word.casefold() for word in _VERSION.findall(words)}
        return frozenset(names | set(self.subjects) | {c.casefold() for c in changes} | shown)

    def finding(self, finding_id: str) -> Finding:
        """The finding of this id. Raises Refused."""
        finding = self.findings.get(finding_id)
        if finding is None:
            raise Refused(f"there is no finding {neutral(finding_id, 40)}")
        return finding

    def subject(self, name: str) -> str:
        """The name as the case spells it. Raises Refused."""
        written = name.strip().casefold()
        subject = self.subjects.get(written) or self._shown_names.get(written)
        if subject is None:
            raise Refused(f"{neutral(name, 60)} is no service, place or rank of this case")
        return subject

    def onset(self, finding_id: str) -> tuple[datetime, timedelta]:
        """When that began, and how far the time may be off. Raises Refused."""
        if finding_id == ALERT:
            return self.alert.started_at, timedelta(0)
        finding = self.finding(finding_id)
        if finding.onset is None:
            raise Refused(f"{finding_id} has no onset")
        return finding.onset, timedelta(seconds=finding.onset_uncertainty_s or 0.0)

    def moved(self, subject: str) -> str:
        """The id of a finding that says so of any of its signals, or of a part of it; empty where
        none does."""
        for finding in self.findings.values():
            # A part's name begins with that of the whole, as in "job/rank 2".
            concerns_subject = finding.subject == subject or finding.subject.startswith(
                (f"{subject}/", f"{subject} ")
            )
            if (
                concerns_subject
                and change_named(finding) is None
                and finding.details.direction != "unaffected"
            ):
                return finding.id
        return ""

    def is_blamed_change(self, finding: Finding) -> bool:
        """Whether it is about the change that the first cause blames."""
        change = self.cause.change if self.cause else None
        return change is not None and change_named(finding) == change


def ground_of(case: Case, diagnosis: Diagnosis, question: str = "") -> Ground:
    """The ground of an incident whose case is at hand."""
    windows = metric_windows(case)
    # A series that holds nothing but NaN measured nothing.
    rows = case.metrics.filter(pl.col("value").is_finite())
    kinds = {signal: classify(signal) for signal in rows["signal"].unique()}
    # Latency and errors, each in both windows: less cannot show that a service is fine.
    measured: list[set[str]] = []
    for felt in FELT:
        felt_rows = rows.filter(
            pl.col("signal").is_in([s for s, kind in kinds.items() if kind in felt])
        )
        for inside in (windows.in_baseline("time"), windows.in_search("time")):
            measured.append(set(felt_rows.filter(inside)["service"].drop_nulls().unique()))
    return Ground(
        diagnosis=diagnosis,
        alert=case.alert,
        gaps=case.gaps,
        calls=read_topology(case),
        measured=frozenset(set.intersection(*measured)),
        question=question,
    )


def cited(assertions: Iterable[Assertion]) -> tuple[str, ...]:
    """Every finding that they name, each once, without the alert."""
    ids = [
        finding for assertion in assertions for finding in assertion.findings if finding != ALERT
    ]
    return tuple(dict.fromkeys(ids))


# The steps that a model may choose from: code words them, a model orders them.

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
