"""What claims are held against: the decided incident, with what the case's tables say of services,
calls and changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property

import polars as pl

from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import metric_windows
from faultline.analysis.kinds.finding_details import change_named
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.phrasing.statement import Tense
from faultline.analysis.requests.topology import Topology, read_topology, topology_of
from faultline.analysis.vocabulary import Alert, Assertion, Cause, Diagnosis, Finding, Gap, Verdict
from faultline.analysis.wording.names import change_name, subject_name
from faultline.bot.answer.writer.earlier import is_memory
from faultline.bot.answer.writer.plain_text import neutral

FELT = ({SignalClass.LATENCY}, {SignalClass.ERRORS, SignalClass.AVAILABILITY})
"""What callers of a service feel: that it is slow, and that it fails."""
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
        return Tense.OVER if finding.details.recovered else self.tense

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
    def written(self) -> str:
        """All that is known of the incident as text in lower case."""
        gaps = (self.diagnosis, self.alert, *self.gaps)
        return "\n".join([*self.subjects, *(gap.model_dump_json() for gap in gaps)]).casefold()

    @cached_property
    def named_in_words(self) -> frozenset[str]:
        """Names in lower case whose digits are no figures: subjects, as people call them too, and
        changes."""
        names = {subject_name(subject).casefold() for subject in self.subjects.values()}
        changes = {
            change for finding in self.diagnosis.findings if (change := change_named(finding))
        }
        shown = {change_name(change).casefold() for change in changes}
        return frozenset(names | set(self.subjects) | {c.casefold() for c in changes} | shown)

    def finding(self, finding_id: str) -> Finding:
        """The finding of this id. Raises Refused."""
        finding = self.findings.get(finding_id)
        if finding is None:
            raise Refused(f"there is no finding {neutral(finding_id, 40)}")
        return finding

    def subject(self, name: str) -> str:
        """The name as the case spells it. Raises Refused."""
        subject = self.subjects.get(name.strip().casefold())
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
