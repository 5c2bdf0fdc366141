"""A model's verdict held against the case: which of its grounds hold, and whether they may carry
another answer than code's.

That a ground is true does not make a verdict right: of 42 grounds of fifteen dissents, all true,
five dissents were wrong. So grounds of different kinds are wanted, kinds are weighed by what they
were worth there, and code looks for what refutes the whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from faultline.analysis.analyzers import fault_of, finding_kind
from faultline.analysis.changes.nearby import NEAR
from faultline.analysis.kinds.fault_kinds import CALLERS_FAIL
from faultline.analysis.kinds.finding_details import (
    ChangeDetails,
    LogLineDetails,
    ObservationDetails,
    PartDetails,
    PlaceDetails,
    SignatureDetails,
    StateFactDetails,
)
from faultline.analysis.kinds.finding_kinds import ALERT_IN_RANGE, ALERT_NOT_TRUE, CALL_GAP
from faultline.analysis.kinds.signals import PART_LABELS
from faultline.analysis.vocabulary import (
    Assertion,
    Claim,
    Finding,
    ModelVerdict,
    Rival,
    Verdict,
    VerdictKind,
)
from faultline.bot.answer.asserted.causes import LATE, is_symptom
from faultline.bot.answer.asserted.ground import Ground, Refused
from faultline.bot.answer.asserted.measurements import STEADY, direction
from faultline.bot.answer.asserted.relations import worded
from faultline.bot.answer.writer.plain_text import neutral
from faultline.bot.answer.writer.story import began

MOST_GROUNDS = 6
MOST_RIVALS = 4
SHORT_ID = 5
"""Characters of an id by which people name a change, at least."""
GROUND_RELATIONS = (
    "shows",
    "rose",
    "fell",
    "began",
    "began_before",
    "began_with",
    "changed",
    "calls",
    "unaffected",
    "quotes",
)
"""Relations that say what is so, and not what code makes of it."""
AFTER_THE_ONSET = timedelta(minutes=2)
"""Clocks and scrapes explain that a guilty change seems to be this much later than the trouble."""
CLEAR = 0.5
"""From this strength on a callee's trouble may be what its callers show."""
DISPUTED = 0.6
"""From this strength on a symptom of the alerting service speaks against "nothing is wrong"."""


class GroundKind(StrEnum):
    """What a ground is evidence of."""

    CHANGE = "a change"
    VERSION = "one version against the other"
    STATE = "its state or its error"
    NAMED = "others' lines or calls that name it"
    PART = "one part against the others"
    PLACE = "one place against the others"
    LINE = "a line"
    MOVED = "a metric that moved"
    ORDER = "order in time"
    CALL = "a call"
    SIDES = "both sides of a call"
    ELSEWHERE = "what stayed as usual"


DECISIVE = frozenset(
    {
        GroundKind.CHANGE,
        GroundKind.VERSION,
        GroundKind.STATE,
        GroundKind.NAMED,
        GroundKind.PLACE,
    }
)
"""Kinds that carry a verdict alone, where they are about its subject. In the dissents of a capable
reader the time of a change and version against version never misled (4 and 2 of each); that a
metric moved did in 4 of 10, and what was fine elsewhere in 4 of 7."""


@dataclass(frozen=True)
class CheckedVerdict:
    """The verdict with the grounds that hold, and what code thinks of it."""

    verdict: ModelVerdict
    claims: tuple[Claim, ...] = ()
    """Its grounds in code's words."""
    refused: tuple[str, ...] = ()
    held_back: str = ""
    """Why it may not lead; empty where it may."""


def checked_verdict(verdict: ModelVerdict, ground: Ground) -> CheckedVerdict:
    """Raises Refused where it is about nothing that the case knows."""
    verdict = _placed(verdict, ground)
    grounds: list[Assertion] = []
    claims: list[Claim] = []
    refused: list[str] = []
    for number, assertion in enumerate(verdict.grounds[:MOST_GROUNDS], start=1):
        try:
            if assertion.relation not in GROUND_RELATIONS:
                raise Refused(f"{neutral(assertion.relation, 40)} is no ground")
            claim = worded([assertion], ground)
        except Refused as why:
            refused.append(f"ground {number} of the verdict: {why}")
            continue
        if all(claim.text != other.text for other in claims):
            grounds.append(assertion)
            claims.append(claim)
    rivals = [rival for rival in verdict.rivals[:MOST_RIVALS] if _is_known(rival, ground)]
    verdict = verdict.model_copy(update={"grounds": tuple(grounds), "rivals": tuple(rivals)})
    held_back = _held_back(verdict, ground)
    something_wrong = verdict.kind is VerdictKind.SOMETHING_WRONG
    if held_back and something_wrong and not _nothing_bad(verdict, ground):
        # Whose trouble it is may be unproved; that there is trouble is not.
        verdict = verdict.model_copy(update={"subject": None, "change": None})
        held_back = ""
    return CheckedVerdict(verdict, tuple(claims), tuple(refused), held_back)


def _placed(verdict: ModelVerdict, ground: Ground) -> ModelVerdict:
    """The verdict with names as the case spells them, and of the kind that it turns out to be: who
    names code's own cause agrees. Raises Refused."""
    subject = ground.subject(verdict.subject) if verdict.subject else None
    change = _change_named(verdict.change, ground) if verdict.change else None
    kind = verdict.kind
    cause, is_calm = ground.cause, ground.diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT
    if kind is VerdictKind.NOTHING_WRONG and is_calm:
        kind, subject, change = VerdictKind.AGREE, None, None
    elif kind is VerdictKind.AGREE and cause is not None and not is_calm:
        subject, change = cause.subject, cause.change
    elif kind in (VerdictKind.OTHER_CAUSE, VerdictKind.OTHER_CHANGE, VerdictKind.SOMETHING_WRONG):
        if is_calm:
            kind = VerdictKind.SOMETHING_WRONG
        elif subject is None:
            raise Refused("it names no subject")
        elif cause is None or subject != cause.subject:
            kind = VerdictKind.OTHER_CAUSE
        else:
            kind = VerdictKind.AGREE if change == cause.change else VerdictKind.OTHER_CHANGE
    if kind is VerdictKind.AGREE and cause is None and not is_calm:
        raise Refused("code names no cause that one could agree with")
    return verdict.model_copy(update={"kind": kind, "subject": subject, "change": change})


def _change_named(change: str, ground: Ground) -> str:
    """The id as the case has it; people and models shorten it. Raises Refused."""
    written = change.strip().casefold()
    for finding in ground.findings.values():
        change_id = change_in(finding)
        if not change_id:
            continue
        same = written in (change_id.casefold(), finding.id.casefold())
        if same or (len(written) >= SHORT_ID and change_id.casefold().startswith(written)):
            return change_id
    raise Refused(f"no finding or row is about a change {neutral(change, 60)}")


def change_in(finding: Finding) -> str:
    """The id of the change that a finding or a row of the tool `changes` is about."""
    details = ChangeDetails.of(finding)
    if details is not None:
        return details.change
    row = ObservationDetails.of(finding)
    return row.change if row is not None else ""


def _is_known(rival: Rival, ground: Ground) -> bool:
    return rival.subject.casefold() in ground.subjects and rival.finding in ground.findings


def kind_of(assertion: Assertion, subject: str | None, ground: Ground) -> GroundKind:
    """What kind of evidence a ground is."""
    if assertion.relation in ("began_before", "began_with"):
        return GroundKind.ORDER
    if assertion.relation == "calls":
        return GroundKind.CALL
    if assertion.relation == "unaffected":
        return GroundKind.ELSEWHERE
    finding = ground.findings.get(assertion.findings[0]) if assertion.findings else None
    if finding is None:
        return GroundKind.LINE
    if change_in(finding):
        return GroundKind.CHANGE
    row = ObservationDetails.of(finding)
    if row is not None and row.about == "comparison" and subject in row.labels.values():
        return GroundKind.PLACE
    if PlaceDetails.of(finding) is not None and finding.subject == subject:
        return GroundKind.PLACE
    part = PartDetails.of(finding)
    if part is not None:
        return GroundKind.VERSION if part.part_kind == "version" else GroundKind.PART
    if is_about(finding, subject) and finding.subject != subject:
        return GroundKind.NAMED
    return _kind_by_details(finding)


def _kind_by_details(finding: Finding) -> GroundKind:
    signature, line = SignatureDetails.of(finding), LogLineDetails.of(finding)
    if StateFactDetails.of(finding) is not None or (signature is not None and signature.inherent):
        return GroundKind.STATE
    if signature is not None or line is not None:
        is_error = (signature or line).is_error  # type: ignore[union-attr]
        return GroundKind.STATE if is_error and not _names_another(finding) else GroundKind.LINE
    fault = fault_of(finding)
    if fault is not None and fault.name == CALLERS_FAIL.name:
        return GroundKind.NAMED
    if finding.kind == CALL_GAP.name:
        return GroundKind.SIDES
    row = ObservationDetails.of(finding)
    if row is not None and row.about == "comparison":
        by_version = any(label in PART_LABELS["version"] for label in row.labels)
        return GroundKind.VERSION if by_version else GroundKind.PART
    if row is not None and row.about in ("log_line", "log_template", "event", "state", "span"):
        return GroundKind.LINE
    if direction(finding) == STEADY:
        return GroundKind.ELSEWHERE
    return GroundKind.MOVED


def _names_another(finding: Finding) -> bool:
    details = SignatureDetails.of(finding) or LogLineDetails.of(finding)
    named = getattr(details, "names", None)
    return bool(named) and named != finding.subject


def is_about(finding: Finding, subject: str | None) -> bool:
    """Whether a finding is about the subject, or names it."""
    if subject is None:
        return False
    if finding.subject == subject:
        return True
    details = SignatureDetails.of(finding) or LogLineDetails.of(finding)
    if details is not None and getattr(details, "names", None) == subject:
        return True
    change = ChangeDetails.of(finding)
    if change is not None and change.concerns == subject:
        return True
    row = ObservationDetails.of(finding)
    if row is None:
        return False
    in_comparison = row.about == "comparison" and subject in row.labels.values()
    return in_comparison or subject.casefold() in row.quote.casefold()


def _held_back(verdict: ModelVerdict, ground: Ground) -> str:
    """What keeps the verdict from leading, apart from how sure anybody is."""
    match verdict.kind:
        case VerdictKind.AGREE:
            return ""
        case VerdictKind.UNDECIDABLE:
            return "it names no other answer"
        case VerdictKind.NOTHING_WRONG:
            return _not_calm(verdict, ground)
        case VerdictKind.SOMETHING_WRONG if verdict.subject is None:
            return _nothing_bad(verdict, ground)
        case _:
            return _not_carried(verdict, ground)


def _not_carried(verdict: ModelVerdict, ground: Ground) -> str:
    """Why the grounds do not carry another cause."""
    subject = verdict.subject or ""
    own = [finding for finding in _cited(verdict.grounds, ground) if is_about(finding, subject)]
    if not own:
        return f"none of its grounds is about {subject}"
    if verdict.change and not any(change_in(finding) == verdict.change for finding in own):
        return "the change that it blames is not among its grounds"
    late = _late_change(verdict, ground)
    if late:
        return late
    timely = [finding for finding in own if not _is_history(finding, ground)]
    if not timely:
        return f"what it cites of {subject} was so long before"
    kinds = {kind_of(assertion, subject, ground) for assertion in verdict.grounds}
    of_subject = {
        kind_of(assertion, subject, ground)
        for assertion in verdict.grounds
        if any(finding in timely for finding in _cited([assertion], ground))
    }
    if len(kinds) < 2 and not of_subject & DECISIVE:
        return "its grounds are all of one kind"
    return _explained_below(subject, timely, ground)


def _late_change(verdict: ModelVerdict, ground: Ground) -> str:
    if not verdict.change:
        return ""
    change = blamed_finding(verdict.change, ground)
    if change is None:
        return "nothing says when the change that it blames went live"
    onset, live = began(ground.diagnosis), went_live(change)
    if onset is not None and live is not None and live > onset + AFTER_THE_ONSET:
        return "the change that it blames went live after the trouble began"
    return ""


def blamed_finding(change: str, ground: Ground) -> Finding | None:
    """The finding or the row that says the most of a change."""
    about = [finding for finding in ground.findings.values() if change_in(finding) == change]
    return min(filter(_tells_of_change, about), key=_change_order, default=None)


def _tells_of_change(finding: Finding) -> bool:
    row = ObservationDetails.of(finding)
    return row is None or row.about == "change"


def _change_order(finding: Finding) -> int:
    """What code weighed comes before what it ruled out, and that before a row."""
    if finding.kind == NEAR:
        return 0
    return 1 if ChangeDetails.of(finding) is not None else 2


def went_live(change: Finding) -> datetime | None:
    """When a change did, by its finding or its row."""
    row = ObservationDetails.of(change)
    if change.onset is not None or row is None or not row.time:
        return change.onset
    return datetime.fromisoformat(row.time)


def _is_history(finding: Finding, ground: Ground) -> bool:
    """Whether it was so well before the trouble; a change may lie in wait."""
    state = StateFactDetails.of(finding)
    if state is not None and state.is_history:
        return True
    if finding.details.recovered and ground.diagnosis.verdict is not Verdict.RECOVERED:
        return True
    onset = began(ground.diagnosis) or ground.alert.started_at
    return not change_in(finding) and finding.onset is not None and finding.onset < onset - LATE


def _explained_below(subject: str, own: Sequence[Finding], ground: Ground) -> str:
    """A callee that is in trouble too, where all that is known of the subject is that it suffers:
    callers are slow and fail with those whom they call."""
    if not all(_only_suffers(finding) for finding in own if not change_in(finding)):
        return ""
    if any(change_in(finding) for finding in own):
        return ""
    below = ground.calls.downstream(subject)
    earliest = min((f.onset for f in own if f.onset is not None), default=None)
    for finding in ground.findings.values():
        if finding.subject == subject or finding.subject not in below:
            continue
        if fault_of(finding) is None or finding.strength < CLEAR or finding.details.recovered:
            continue
        uncertain = timedelta(seconds=finding.onset_uncertainty_s or 0.0)
        if earliest and finding.onset and finding.onset - uncertain > earliest + AFTER_THE_ONSET:
            continue
        return f"{finding.subject}, which it calls, is in trouble too"
    return ""


def _only_suffers(finding: Finding) -> bool:
    """Whether it says no more than that its subject is slow or fails."""
    fault = fault_of(finding)
    return fault is None or is_symptom(finding)


def _not_calm(verdict: ModelVerdict, ground: Ground) -> str:
    """Why the grounds do not show that nothing is wrong with what alerted."""
    alerting = ground.alert.service
    cited = _cited(verdict.grounds, ground)
    about = [f for f in cited if alerting is None or f.subject == alerting]
    calm = [
        finding
        for finding in about
        if finding.kind in (ALERT_IN_RANGE.name, ALERT_NOT_TRUE.name)
        or finding_kind(finding.kind).explains_alert
        or direction(finding) == STEADY
    ]
    if not calm:
        return "none of its grounds shows that what alerted is as usual"
    for finding in ground.findings.values():
        is_bad = is_symptom(finding) and finding.details.bad is not False
        felt = alerting is None or finding.subject == alerting
        if felt and is_bad and finding.strength >= DISPUTED and not finding.details.recovered:
            return f"{finding.id} shows that requests of {finding.subject} suffer"
    return ""


def _nothing_bad(verdict: ModelVerdict, ground: Ground) -> str:
    """Why the grounds do not show that something is wrong."""
    felt = {ground.alert.service, *ground.diagnosis.impact.services} - {None, ""}
    for finding in _cited(verdict.grounds, ground):
        is_bad = fault_of(finding) is not None or direction(finding) not in (None, STEADY)
        if is_bad and (not felt or finding.subject in felt) and not _is_history(finding, ground):
            return ""
    return "none of its grounds shows trouble of what alerted"


def _cited(assertions: Iterable[Assertion], ground: Ground) -> list[Finding]:
    ids = dict.fromkeys(f for assertion in assertions for f in assertion.findings)
    return [ground.findings[finding_id] for finding_id in ids if finding_id in ground.findings]
