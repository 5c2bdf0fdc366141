"""From suspects and changes to ranked causes.

The order is the suspects' (see `faultline.analysis.suspects.ranked`). A change raises its
own service among them; it is blamed where more than nearness in time ties it to what the suspect
does.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from faultline.analysis.analyzers import cause_kinds, fault_kind, fault_of, is_training
from faultline.analysis.changes.alternatives import reason_for
from faultline.analysis.changes.nearby import NEAR, RULED_OUT
from faultline.analysis.changes.weighing import BEARS
from faultline.analysis.kinds.fault_kinds import (
    CALLERS_FAIL,
    ERRORS,
    RESOURCE,
    WITHOUT_CHANGE,
    FaultKind,
)
from faultline.analysis.kinds.finding_details import (
    ChangeDetails,
    PartDetails,
    StateFactDetails,
)
from faultline.analysis.kinds.finding_kinds import PART_CONTRAST
from faultline.analysis.kinds.signals import SCRAPES
from faultline.analysis.logs.signature_findings import KIND as SIGNATURE
from faultline.analysis.ranking.verdicts import FirstSuspectStanding, confidence_of
from faultline.analysis.requests.topology import Topology, topology_of
from faultline.analysis.suspects.suspect import Suspect
from faultline.analysis.suspects.victims import later
from faultline.analysis.vocabulary import Cause, Finding, Gap
from faultline.analysis.wording.names import change_name, subject_name
from faultline.analysis.wording.phrases import plain

MAX_CAUSES = 10
NAMED = "named_by_model"
"""The kind of a cause whose findings tell no fault of it."""
LOOK_STEP = "Look at {subject}: its log, its load and what it waits for."
MAX_SUPPORT = 8
MAX_AGAINST = 3
CLOSE = 0.8
"""From this share of the first suspect's score on, the second's fault is evidence against it."""
MAX_EFFECTS = 3
"""Findings of other services that this cause explains, cited beside its own."""
LIKELIER_THAN_ALL = 0.5
CLEAR_STRAGGLER_IS_RIGHT = 0.95
"""That a rank clearly delays all others is read from their own waiting times."""
RIVAL = 0.5
"""A suspect with at least this much of another's score is its rival."""
CHANGE_STEP = "Roll back {change} of {service}."
CHANGE_STEPS = {
    "config": "Revert config change {change} of {service}.",
    "flag": "Turn off flag {change} of {service}.",
    "scale": "Undo scaling {change} of {service}.",
    "migration": "Revert migration {change} of {service}, if that loses no data.",
    "merge": "Revert {change} of {service}.",
    "restart": "Find out why all of {service} was started again, and what came with it.",
    "job": "Stop {service}, then run it at another time or more slowly.",
}
"""By kind of change. Kubernetes, feature flags and migration tools have their own ways back, and a
job that runs has none."""
PART_STEP = "Take {kind} {names} of {{subject}} out of traffic, and compare it with the others."
_NO_CHANGE = frozenset(cause.name for cause in WITHOUT_CHANGE)
_RANKS = re.compile(r"ranks? \d")


def rank_causes(
    suspects: Sequence[Suspect],
    findings: Sequence[Finding],
    topology: Topology,
    lost: Sequence[Gap],
    alerting: str | None = None,
    presumed_calls: Collection[tuple[str, str]] = (),
) -> list[Cause]:
    """At most ten causes, the likeliest first; findings must have their ids. `lost` is what no
    source brought anything of; `presumed_calls` are those that the ranking followed and nobody
    recorded."""
    effects = _not_its_effects(suspects)
    if not effects:
        return []
    changes = {}
    for order, suspect in enumerate(effects):
        changes[suspect.subject] = _change_for(suspect, order, findings, topology)
    blamed = changes[effects[0].subject]
    first = confidence_of(
        standing(effects, topology, alerting, presumed_calls, blamed),
        metrics_missing=any(gap.kind == "metrics" for gap in lost),
    )

    def of_kind(kind: str, suspect: Suspect) -> list[Finding]:
        return [f for f in findings if f.kind == kind and f.subject == suspect.subject]

    causes: list[Cause] = []
    for rank, suspect in enumerate(effects[:MAX_CAUSES], start=1):
        change = changes[suspect.subject]
        against = _against(suspect, effects)
        reason = None
        if change is None:
            against += of_kind(RULED_OUT, suspect)
            if rank == 1:
                reason = _reason_without_change(suspect, findings, topology)
        beside = [*_effects(suspect, suspects), *of_kind(PART_CONTRAST.name, suspect)]
        # No later cause may seem surer than the first, whose confidence has its own limits.
        sure = first if rank == 1 else round(min(first, suspect.probability), 3)
        causes.append(_cause(rank, suspect, change, reason, sure, against, beside))
    return causes


def _reason_without_change(
    suspect: Suspect, findings: Sequence[Finding], topology: Topology
) -> Finding | None:
    """What fails without any change; of a rank, nothing outside of its job."""
    if suspect.is_rank:
        return None
    reasons = [finding for finding in findings if finding.kind in _NO_CHANGE]
    reasons.sort(key=lambda reason: (-reason.strength, reason.id))
    reason = reason_for(reasons, [suspect], topology)
    if reason is None or reason.subject != suspect.subject:
        return reason
    # The cause says already what it runs out of.
    return None if fault_kind(suspect.main_fault) is RESOURCE else reason


def _not_its_effects(suspects: Sequence[Suspect]) -> list[Suspect]:
    """The suspects in their order. What a clear straggler explains is its effect, and no other
    explanation."""
    if not suspects or not suspects[0].is_root:
        return list(suspects)
    root = suspects[0]
    return [suspect for suspect in suspects if suspect.explained_by != root.subject]


def _effects(suspect: Suspect, suspects: Sequence[Suspect]) -> list[Finding]:
    """A symptom of each service whose fault this suspect explains."""
    symptoms = [_symptom(other) for other in suspects if other.explained_by == suspect.subject]
    return [finding for finding in symptoms if finding is not None][:MAX_EFFECTS]


def _against(suspect: Suspect, suspects: Sequence[Suspect]) -> list[Finding]:
    """The evidence against it: another's fault that explains it, began before it, or comes
    close."""
    findings = []
    for other in suspects:
        if other is suspect or not other.findings or other.explained_by == suspect.subject:
            continue
        explains = suspect.explained_by == other.subject
        rival = other.score >= RIVAL * suspect.score and later(suspect.findings, other.findings)
        first_two = suspect is suspects[0] and other is suspects[1]
        close = first_two and other.score >= CLOSE * suspect.score
        if explains or rival or close:
            findings.append(other.findings[0])
    return findings[:MAX_AGAINST]


def _symptom(suspect: Suspect) -> Finding | None:
    """What the suspect shows of another's fault."""
    for finding in suspect.findings:
        fault = fault_of(finding)
        if fault is not None and fault.travels is not None:
            return finding
    return None


def _change_for(
    suspect: Suspect, order: int, findings: Sequence[Finding], topology: Topology
) -> Finding | None:
    """The change that is blamed for what the suspect does; None where nothing but nearness in time
    ties one to it.

    Of the first suspect, a change on a service that it calls counts as well.
    """
    # Only the first suspect may reach downward, or every caller would blame the same change.
    reach = topology.downstream(suspect.subject) if order == 0 else {suspect.subject: 0}
    tied: list[Finding] = []
    senders: list[Finding] = []
    for finding in findings:
        details = ChangeDetails.of(finding)
        if finding.kind != NEAR or details is None:
            continue
        concerned = details.concerns == suspect.subject or finding.subject in reach
        if concerned and _is_tied(finding, details, suspect):
            tied.append(finding)
            if details.place == "sender":
                senders.append(finding)
    # Of several changes that may have sent more, none is the likely one.
    if len({finding.subject for finding in senders}) > 1:
        tied = [finding for finding in tied if finding not in senders]
    return min(tied, key=lambda f: (-f.strength, f.id), default=None)


def _is_tied(finding: Finding, details: ChangeDetails, suspect: Suspect) -> bool:
    """Whether more than nearness ties the change to the suspect: its text bears on what fails, or
    it is on the suspect, which is likelier than all others together."""
    if details.bearing is not None and details.bearing >= BEARS:
        return True
    on_suspect = finding.subject == suspect.subject or details.place in ("itself", "sender", "user")
    return on_suspect and (suspect.is_root or suspect.probability >= LIKELIER_THAN_ALL)


def standing(
    suspects: Sequence[Suspect],
    topology: Topology,
    alerting: str | None = None,
    presumed_calls: Collection[tuple[str, str]] = (),
    blamed: Finding | None = None,
) -> FirstSuspectStanding:
    """How the first suspect stands; `blamed` is the change that is blamed for what it does."""
    first = suspects[0]
    details = ChangeDetails.of(blamed) if blamed is not None else None
    is_presumed = details is not None and details.place == "sender"
    if (
        presumed_calls
        and alerting is not None
        and first.subject not in topology.downstream(alerting)
    ):
        likely = topology_of({*topology.edges, *presumed_calls})
        is_presumed |= first.subject in likely.downstream(alerting)
    symptoms = all(fault_kind(name).is_symptom for name in first.raw_scores)
    return FirstSuspectStanding(
        probability=CLEAR_STRAGGLER_IS_RIGHT if first.is_root else first.probability,
        symptoms_only=symptoms and (first.subject == alerting or len(suspects) == 1),
        gone=all(finding.details.recovered for finding in first.findings),
        presumed_path=is_presumed,
    )


@dataclass
class _Draft:
    """A cause before and while the part, the reason and the change are added to it."""

    fault: FaultKind
    main_finding: Finding
    kind: str
    summary: str
    step: str
    advice: str
    """Takes the place of the step where a finding gives it."""
    subject: str
    change: str | None = None
    changed_service: str = ""

    def add_part(self, part: Finding) -> None:
        """Few parts of the service are in trouble: they go out of traffic, unless an object's state
        says what is wrong, which the other parts will come to as well."""
        self.summary = f"{self.summary} {_closed(part.sentence)}"
        details = PartDetails.of(part)
        if details is None or not details.parts or StateFactDetails.of(self.main_finding):
            return
        # The step is a format, which braces of a name would break.
        names = plain(", ".join(details.parts[:3]), 120).replace("{", "").replace("}", "")
        self.step = PART_STEP.format(kind=details.part_kind, names=names)

    def add_reason(self, reason: Finding) -> None:
        """What fails without any change."""
        self.summary = f"{self.summary} {_closed(reason.sentence)}"
        if not self.fault.training:
            self.kind = reason.kind
        if self.fault is not CALLERS_FAIL:
            # What only its callers see is checked from there, whatever else is in trouble.
            self.step = cause_kinds()[reason.kind].next_step
        if self.main_finding.kind != SIGNATURE:
            self.advice = ""

    def add_change(self, change: Finding, details: ChangeDetails) -> None:
        self.summary = f"{self.summary} {_closed(change.sentence)}"
        self.step = CHANGE_STEPS.get(str(details.change_kind), CHANGE_STEP)
        self.advice = ""
        # A straggler stays a straggler, whatever change caused it.
        if not self.fault.delays_peers:
            self.kind = str(details.change_kind)
        self.change = details.change
        self.changed_service = subject_name(change.subject)

    @property
    def next_step(self) -> str:
        return self.advice or self.step.format(
            subject=subject_name(self.subject),
            change=change_name(self.change) if self.change else "",
            service=self.changed_service,
        )


def _cause(
    rank: int,
    suspect: Suspect,
    change: Finding | None,
    reason: Finding | None,
    confidence: float,
    against: Sequence[Finding],
    beside: Sequence[Finding],
) -> Cause:
    """`beside` are the findings that it cites beside its own: its effects, and its worse part."""
    fault = fault_kind(suspect.main_fault)
    main_finding = _leading(suspect, fault)
    draft = _drafted(rank, suspect, fault, main_finding)
    part = next((finding for finding in beside if finding.kind == PART_CONTRAST.name), None)
    details = ChangeDetails.of(change) if change is not None else None
    if part is not None:
        draft.add_part(part)
    if reason is not None:
        draft.add_reason(reason)
    if change is not None and details is not None:
        draft.add_change(change, details)
    cited = [main_finding, *suspect.findings[:MAX_SUPPORT]]
    cited += [finding for finding in (change, reason) if finding is not None]
    ids = dict.fromkeys(finding.id for finding in (*cited, *beside))
    # A finding cannot speak for and against the same cause.
    contradicting = dict.fromkeys(finding.id for finding in against if finding.id not in ids)
    return Cause(
        rank=rank,
        subject=suspect.subject,
        signal=main_finding.signal,
        kind=draft.kind,
        change=draft.change,
        confidence=confidence,
        onset=suspect.onset,
        summary=draft.summary,
        next_step=draft.next_step,
        findings=tuple(ids),
        contradicting=tuple(contradicting)[:MAX_AGAINST],
    )


def _leading(suspect: Suspect, fault: FaultKind) -> Finding:
    """The strongest finding that speaks of this fault, else the strongest of all."""
    for finding in suspect.findings:
        other_fault = fault_of(finding)
        if other_fault is not None and other_fault.name == fault.name:
            return finding
    return suspect.findings[0]


def _drafted(rank: int, suspect: Suspect, fault: FaultKind, main_finding: Finding) -> _Draft:
    """The cause by its fault and its leading finding alone."""
    sentence = _closed(main_finding.sentence)
    explained = fault.training or main_finding.kind == SIGNATURE
    named = main_finding.sentence.startswith(suspect.subject) or (
        is_training(main_finding) and _RANKS.match(main_finding.sentence) is not None
    )
    if not (explained and named):
        # What is wrong with the suspect, and whether what it calls explains it.
        if main_finding.signal == SCRAPES:
            phrase = "cannot be scraped"
        elif not suspect.explained_by:
            phrase = fault.description
        else:
            part = "explains only a part of it" if rank == 1 else "may explain it"
            phrase = fault.description.replace(
                "nothing it calls explains it", f"{plain(suspect.explained_by)} {part}"
            )
        sentence = f"{plain(suspect.subject)} {phrase}: {sentence}"
    return _Draft(
        fault,
        main_finding,
        kind=fault.as_cause.name,
        summary=sentence,
        step=fault.step(main_finding.details.direction),
        advice=(main_finding.details.fix or "") if explained else "",
        subject=suspect.subject,
    )


def _closed(sentence: str) -> str:
    return sentence.rstrip(".") + "."


def cause_named(
    subject: str, cited: Sequence[Finding], change: Finding | None, ranked: Cause | None
) -> Cause:
    """The cause that somebody names who is not the ranking, as the first one, with no confidence
    yet. `cited` shows it, the clearest first, and holds at least one finding; `ranked` is what the
    ranking has of the same subject."""
    draft = _draft_named(subject, cited)
    if ranked is not None and ranked.change is None:
        draft.kind, draft.summary = ranked.kind, ranked.summary
        draft.advice = ranked.next_step or ""
    details = ChangeDetails.of(change) if change is not None else None
    if change is not None and details is not None:
        draft.add_change(change, details)
    ids = [finding.id for finding in cited]
    if ranked is not None and ranked.change == draft.change:
        # What the ranking holds against another change of the subject goes with that change.
        ids += ranked.findings
    against = ranked.contradicting if ranked is not None else ()
    return Cause(
        rank=1,
        subject=subject,
        signal=draft.main_finding.signal,
        kind=draft.kind,
        change=draft.change,
        confidence=0.0,
        onset=ranked.onset if ranked is not None else draft.main_finding.onset,
        summary=draft.summary,
        next_step=draft.next_step,
        findings=tuple(dict.fromkeys(ids)),
        contradicting=tuple(finding for finding in against if finding not in ids),
    )


def _draft_named(subject: str, cited: Sequence[Finding]) -> _Draft:
    of_subject = [finding for finding in cited if finding.subject == subject] or list(cited)
    # A finding says more than a row of a tool, which tells no fault.
    main_finding = next((f for f in of_subject if fault_of(f) is not None), of_subject[0])
    fault, sentence = fault_of(main_finding), _closed(main_finding.sentence)
    named = main_finding.sentence.startswith(subject)
    return _Draft(
        fault or ERRORS,
        main_finding,
        kind=fault.as_cause.name if fault is not None else NAMED,
        summary=sentence if named else f"{plain(subject)}: {sentence}",
        step=fault.step(main_finding.details.direction) if fault is not None else LOOK_STEP,
        advice=main_finding.details.fix or "",
        subject=subject,
    )
