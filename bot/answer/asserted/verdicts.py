"""A model's verdict held against the case: which of its grounds hold, and whether they may carry
another answer than code's.

That a ground is true does not make a verdict right: of 42 grounds of fifteen dissents, all true,
five dissents were wrong. So grounds of different kinds are wanted, kinds are weighed by what they
were worth there, and code looks for what refutes the whole.
"""

from __future__ import annotations

import re
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
_WORD = re.compile(r"[\w.-]+")
CLOSE_RIVAL = 0.25
"""A subject that code itself thinks this likely needs no grounds of a second kind."""
CLEAR = 0.5
"""From this strength on a callee's trouble may be what its callers show."""
DISPUTED = 0.6
"""From this strength on a symptom of the alerting service refutes "nothing is wrong"."""


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
    objection: str = ""
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
    rivals = [
        rival
        for rival in verdict.rivals[:MOST_RIVALS]
        if rival.subject.casefold() in ground.subjects and rival.finding in ground.findings
    ]
    verdict = verdict.model_copy(update={"grounds": tuple(grounds), "rivals": tuple(rivals)})
    objection = _objection(verdict, ground)
    something_wrong = verdict.kind is VerdictKind.SOMETHING_WRONG
    if objection and something_wrong and not _nothing_bad(verdict, ground):
        # Whose trouble it is may be unproved; that there is trouble is not.
        verdict = verdict.model_copy(update={"subject": None, "change": None})
        objection = ""
    return CheckedVerdict(verdict, tuple(claims), tuple(refused), objection)


_WHERE_CALM = {
    VerdictKind.NOTHING_WRONG: VerdictKind.AGREE,
    VerdictKind.OTHER_CAUSE: VerdictKind.SOMETHING_WRONG,
    VerdictKind.OTHER_CHANGE: VerdictKind.SOMETHING_WRONG,
}
"""What a kind comes to where code found nothing: any cause says that something is wrong."""
_ELSEWHERE = {
    VerdictKind.OTHER_CHANGE: VerdictKind.OTHER_CAUSE,
    VerdictKind.SOMETHING_WRONG: VerdictKind.OTHER_CAUSE,
}
"""And where code names a cause; which one it is tells the subject."""


def _placed(verdict: ModelVerdict, ground: Ground) -> ModelVerdict:
    """The verdict with names as the case spells them, and of the kind that it turns out to be: who
    names code's own cause agrees. Raises Refused."""
    subject = ground.subject(verdict.subject) if verdict.subject else None
    change = _change_named(verdict.change, ground) if verdict.change else None
    cause, is_calm = ground.cause, ground.diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT
    kind = (_WHERE_CALM if is_calm else _ELSEWHERE).get(verdict.kind, verdict.kind)
    if kind is VerdictKind.AGREE and is_calm:
        subject, change = None, None
    elif kind is VerdictKind.AGREE:
        if cause is None:
            raise Refused("code names no cause that one could agree with")
        subject, change = cause.subject, cause.change
    elif kind is VerdictKind.OTHER_CAUSE:
        if subject is None:
            raise Refused("it names no subject")
        if cause is not None and subject == cause.subject:
            kind = VerdictKind.AGREE if change == cause.change else VerdictKind.OTHER_CHANGE
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


_BY_RELATION = {
    "began_before": GroundKind.ORDER,
    "began_with": GroundKind.ORDER,
    "calls": GroundKind.CALL,
    "unaffected": GroundKind.ELSEWHERE,
}
_ROWS = frozenset({"log_line", "log_template", "event", "state", "span"})
"""Rows of tools that are what somebody wrote down, and no measurement."""


def kind_of(assertion: Assertion, verdict: ModelVerdict, ground: Ground) -> GroundKind:
    """What kind of evidence a ground of the verdict is."""
    subject = verdict.subject
    if assertion.relation in _BY_RELATION:
        return _BY_RELATION[assertion.relation]
    finding = ground.findings.get(assertion.findings[0]) if assertion.findings else None
    if finding is None:
        return GroundKind.LINE
    row, fault = ObservationDetails.of(finding), fault_of(finding)
    is_row = row is not None and row.about in _ROWS
    written = LogLineDetails.of(finding) or SignatureDetails.of(finding)
    by_callers = fault is not None and fault.name == CALLERS_FAIL.name
    # The first that holds decides.
    rules = (
        (_is_of_change(finding, verdict.change), GroundKind.CHANGE),
        # Another change, or what the alert itself says, is evidence of no cause.
        (bool(change_in(finding)), GroundKind.MOVED),
        (finding_kind(finding.kind).explains_alert, GroundKind.MOVED),
        (_is_of_place(finding, subject), GroundKind.PLACE),
        (_is_by_version(finding), GroundKind.VERSION),
        (PartDetails.of(finding) is not None or _is_comparison(finding), GroundKind.PART),
        (finding.subject != subject and is_about(finding, subject), GroundKind.NAMED),
        (_is_of_state(finding), GroundKind.STATE),
        (is_row or (row is None and written is not None), GroundKind.LINE),
        # A service in the middle is complained of for what it calls.
        (by_callers or finding.kind == CALL_GAP.name, GroundKind.SIDES),
        (direction(finding) == STEADY, GroundKind.ELSEWHERE),
    )
    return next((kind for holds, kind in rules if holds), GroundKind.MOVED)


def _is_of_change(finding: Finding, change: str | None) -> bool:
    return change is not None and change_in(finding) == change


def _is_comparison(finding: Finding) -> bool:
    row = ObservationDetails.of(finding)
    return row is not None and row.about == "comparison"


def _is_of_place(finding: Finding, subject: str | None) -> bool:
    """Whether it holds the subject, a zone or a node, against the others."""
    row = ObservationDetails.of(finding)
    if row is not None:
        return _is_comparison(finding) and subject in row.labels.values()
    return PlaceDetails.of(finding) is not None and finding.subject == subject


def _is_by_version(finding: Finding) -> bool:
    part, row = PartDetails.of(finding), ObservationDetails.of(finding)
    if part is not None:
        return part.part_kind == "version"
    labels = row.labels if row is not None and _is_comparison(finding) else {}
    return any(label in PART_LABELS["version"] for label in labels)


def _is_of_state(finding: Finding) -> bool:
    """Whether it is the subject's own state, or an error that it logs about itself."""
    if StateFactDetails.of(finding) is not None:
        return True
    signature, line = SignatureDetails.of(finding), LogLineDetails.of(finding)
    if signature is not None:
        return signature.inherent or (signature.is_error and not _names_another(finding))
    return line is not None and line.is_error and not _names_another(finding)


def _names_another(finding: Finding) -> bool:
    name = _service_named(finding)
    return name is not None and name != finding.subject


def _service_named(finding: Finding) -> str | None:
    """The called service that lines name."""
    details = SignatureDetails.of(finding) or LogLineDetails.of(finding)
    return details.names if details is not None else None


def is_about(finding: Finding, subject: str | None) -> bool:
    """Whether a finding is about the subject, or names it."""
    if subject is None:
        return False
    if subject in (finding.subject, _service_named(finding)):
        return True
    change, row = ChangeDetails.of(finding), ObservationDetails.of(finding)
    if change is not None:
        return change.concerns == subject
    if row is None:
        return False
    return _is_of_place(finding, subject) or subject.casefold() in row.quote.casefold()


def _objection(verdict: ModelVerdict, ground: Ground) -> str:
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
    about = [f for f in cited_by(verdict.grounds, ground) if is_about(f, subject)]
    if not about:
        return f"none of its grounds is about {subject}"
    if verdict.change and (why_not := _change_objection(verdict.change, about, ground)):
        return why_not
    timely = [finding for finding in about if not _is_history(finding, ground)]
    if not timely:
        return f"what it cites of {subject} was so long before"
    return _kinds_objection(verdict, timely, ground)


def _kinds_objection(verdict: ModelVerdict, timely: Sequence[Finding], ground: Ground) -> str:
    """Why grounds that hold are too few, or are what a callee's trouble would bring."""
    subject = verdict.subject or ""
    kinds, of_subject = set(), set()
    for assertion in verdict.grounds:
        kinds.add(kind := kind_of(assertion, verdict, ground))
        if any(finding in timely for finding in cited_by([assertion], ground)):
            of_subject.add(kind)
    rivals = {c.subject for c in ground.diagnosis.causes if c.confidence >= CLOSE_RIVAL}
    if len(kinds) < 2 and not of_subject & DECISIVE and subject not in rivals:
        return "its grounds are all of one kind"
    # That the subject is the right one code says itself, where only the change is in question.
    other_change = verdict.kind is VerdictKind.OTHER_CHANGE
    if other_change or any(_tells_a_cause(finding, verdict, ground) for finding in timely):
        return ""
    if subject not in ground.calls.services and subject not in rivals:
        return f"{subject} only suffers, and whom it calls is not known"
    return _explained_below(subject, timely, ground)


def _tells_a_cause(finding: Finding, verdict: ModelVerdict, ground: Ground) -> bool:
    """Whether it says more than what a caller shows of a callee's trouble, or a busy service of its
    load: that it is slow, fails, is complained of, or uses more."""
    if change_in(finding):
        return _is_of_change(finding, verdict.change)
    if _is_of_place(finding, verdict.subject) or _is_by_version(finding):
        return True
    row = ObservationDetails.of(finding)
    if row is not None and row.about in _ROWS:
        # A line that names another service tells of that one.
        words = set(_WORD.findall(row.quote.casefold())) - {finding.subject.casefold()}
        return words.isdisjoint(ground.subjects)
    fault = fault_of(finding)
    if fault is None or is_symptom(finding) or _names_another(finding):
        return False
    return not (fault.name == CALLERS_FAIL.name or fault.rises_with_load)


def _change_objection(change: str, about: Sequence[Finding], ground: Ground) -> str:
    """Why a change that is blamed is none that could be."""
    if change not in map(change_in, about):
        return "the change that it blames is not among its grounds"
    finding = blamed_finding(change, ground)
    if finding is None:
        return "nothing says when the change that it blames went live"
    onset, live = began(ground.diagnosis), went_live(finding)
    if onset is not None and live is not None and live > onset + AFTER_THE_ONSET:
        return "the change that it blames went live after the trouble began"
    return ""


def blamed_finding(change: str, ground: Ground) -> Finding | None:
    """The finding or the row that says the most of a change: what code weighed comes before what it
    ruled out, and that before a row."""
    weighed: list[Finding] = []
    ruled_out: list[Finding] = []
    rows: list[Finding] = []
    for finding in ground.findings.values():
        if change_in(finding) != change:
            continue
        row = ObservationDetails.of(finding)
        if row is None:
            (weighed if finding.kind == NEAR else ruled_out).append(finding)
        elif row.about == "change":
            rows.append(finding)
    return next(iter((*weighed, *ruled_out, *rows)), None)


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


def _explained_below(subject: str, about: Sequence[Finding], ground: Ground) -> str:
    """A callee that is in trouble too: callers are slow and fail with those whom they call."""
    callees = set(ground.calls.downstream(subject)) - {subject}
    earliest = min((f.onset for f in about if f.onset is not None), default=None)
    troubled = [
        finding
        for finding in ground.findings.values()
        if finding.subject in callees and fault_of(finding) is not None
    ]
    for finding in troubled:
        uncertain = AFTER_THE_ONSET + timedelta(seconds=finding.onset_uncertainty_s or 0.0)
        later = earliest and finding.onset and finding.onset > earliest + uncertain
        if finding.strength >= CLEAR and not finding.details.recovered and not later:
            return f"{finding.subject}, which it calls, is in trouble too"
    return ""


def _not_calm(verdict: ModelVerdict, ground: Ground) -> str:
    """Why the grounds do not show that nothing is wrong with what alerted."""
    alerting = ground.alert.service
    if not any(_tells_calm(finding, ground) for finding in cited_by(verdict.grounds, ground)):
        return "none of its grounds shows that what alerted is as usual"
    for finding in ground.findings.values():
        is_felt = is_symptom(finding) and finding.subject == (alerting or finding.subject)
        is_bad = finding.details.bad is not False and not finding.details.recovered
        if is_felt and is_bad and finding.strength >= DISPUTED:
            return f"{finding.id} shows that requests of {finding.subject} suffer"
    return ""


def _tells_calm(finding: Finding, ground: Ground) -> bool:
    """Whether it says of what alerted that it is as usual, or why it fired all the same. That
    something else is steady says nothing of it."""
    alert = ground.alert
    if alert.service is not None and finding.subject != alert.service:
        return False
    explains = finding_kind(finding.kind).explains_alert
    if explains or finding.kind in (ALERT_IN_RANGE.name, ALERT_NOT_TRUE.name):
        return True
    return finding.signal == alert.signal and direction(finding) == STEADY


def _nothing_bad(verdict: ModelVerdict, ground: Ground) -> str:
    """Why the grounds do not show that something is wrong."""
    felt = {ground.alert.service, *ground.diagnosis.impact.services} - {None, ""}
    for finding in cited_by(verdict.grounds, ground):
        is_bad = fault_of(finding) is not None or direction(finding) not in (None, STEADY)
        if is_bad and (not felt or finding.subject in felt) and not _is_history(finding, ground):
            return ""
    return "none of its grounds shows trouble of what alerted"


def cited_by(assertions: Iterable[Assertion], ground: Ground) -> list[Finding]:
    """The findings that they cite, each once."""
    ids = dict.fromkeys(f for assertion in assertions for f in assertion.findings)
    return [ground.findings[finding_id] for finding_id in ids if finding_id in ground.findings]
