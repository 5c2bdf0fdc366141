"""What an answer is about: the effect that somebody notices, what brings it about, and the change
behind that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from analysis.analyzers import fault_of, finding_kind
from analysis.changes.nearby import NEAR
from analysis.kinds.fault_kinds import (
    AVAILABILITY,
    CALLERS_FAIL,
    ERRORS,
    LATENCY,
    RESOURCE,
    RESTARTS,
    SPAN_ERRORS,
)
from analysis.kinds.finding_details import ChangeDetails, LogLineDetails, change_named
from analysis.kinds.finding_kinds import CHANGE_RULED_OUT
from analysis.phrasing.metric_forms import failing_share, grew_much
from analysis.phrasing.phrase import Part, Phrase, Slot, clock, name, say
from analysis.vocabulary import Alert, Cause, Diagnosis, Finding
from analysis.wording.names import change_name

_KINDS = {
    "config": "config change",
    "flag": "flag",
    "scale": "scaling",
    "merge": "merge",
    "migration": "migration",
}

EARLIER = timedelta(minutes=10)
"""An onset so long before the blamed change is another matter's: collection intervals and clocks
explain minutes at most."""
_ENDS = frozenset(
    {
        RESTARTS.name,
        "crash_loop",
        "crashed",
        "run_ended",
        "gpu_idle_alone",
        "gpu_missing",
        "gpu_spinning",
    }
)
MOSTLY = 0.5
_FAILING = frozenset({LATENCY.name, ERRORS.name, AVAILABILITY.name, SPAN_ERRORS.name})


@dataclass(frozen=True)
class Story:
    """The findings that make up an answer's first sentence."""

    cause: Cause | None
    effect: Finding | None
    """What somebody outside of the culprit notices."""
    mechanism: Finding | None
    """What is wrong with the culprit, where that is more than the effect."""
    change: Finding | None


def story_of(diagnosis: Diagnosis, alert: Alert) -> Story:
    """The story of the first cause."""
    cause = min(diagnosis.causes, key=lambda one: one.rank, default=None)
    known = {finding.id: finding for finding in diagnosis.findings}
    if cause is None:
        return Story(None, _effect(diagnosis, known, alert), None, None)
    cited = [known[one] for one in cause.findings if one in known]
    effect = _worst(_effect(diagnosis, known, alert), diagnosis)
    if effect is None or _is_fault(effect, RESTARTS.name):
        effect = _failing(cause, cited) or effect
    change = next((one for one in cited if _is_blamed(one, cause)), None)
    return Story(cause, effect, _mechanism(cited, cause, effect), change)


def is_explained(story: Story) -> bool:
    """Whether more than the place of the trouble is known."""
    if story.cause is None:
        return False
    if story.change is not None:
        return True
    return story.mechanism is not None and not _is_an_end(story.mechanism)


def _is_an_end(finding: Finding) -> bool:
    """Whether it says that something ended, hangs or fell silent, which has a reason of its own."""
    fault = fault_of(finding)
    return fault is not None and fault.name in _ENDS


def change_called(change: Finding, *, with_service: bool, with_time: bool = True) -> Phrase:
    """A change by its kind, short id, service and time: "deploy 559e94c of checkout (14:59)"."""
    details = ChangeDetails.of(change)
    kind = (details.change_kind if details else None) or change.signal or "change"
    given = (details.change if details else "") or ""
    time: Slot = ""
    if with_time and change.onset is not None:
        time = say(" ({time} UTC)", time=clock(change.onset))
    return say(
        "{kind} {id}{service}{time}",
        kind=_KINDS.get(kind, kind),
        id=Part(change_name(given), "name", change.id),
        service=say(" of {it}", it=name(change.subject)) if with_service else "",
        time=time,
    )


def tells_nothing(finding: Finding) -> bool:
    """Whether it is a log line that is merely new, rarer or missing: no reader learns from it why
    something fails."""
    details = LogLineDetails.of(finding)
    return details is not None and not details.is_error


def began(diagnosis: Diagnosis) -> datetime | None:
    """When the effect began, else the cause: one onset for every rendering."""
    first = min(diagnosis.causes, key=lambda cause: cause.rank, default=None)
    since = diagnosis.impact.since
    if first is None or since is None or first.onset is None or not first.change:
        return since or (first.onset if first else None)
    live = [one.onset for one in diagnosis.findings if _is_blamed(one, first)]
    # What moved long before the blamed change went live is not what the change did.
    if live and live[0] is not None and since < live[0] - EARLIER and first.onset > since:
        return first.onset
    return since


def _effect(diagnosis: Diagnosis, known: dict[str, Finding], alert: Alert) -> Finding | None:
    """The first symptom of the impact: what leads it, or else one of the alerting service."""
    for place, one in enumerate(diagnosis.impact.findings):
        finding = known.get(one)
        if finding is None or not _is_noticed(finding):
            continue
        if place == 0 or finding.subject == alert.service:
            return finding
    return None


def _worst(effect: Finding | None, diagnosis: Diagnosis) -> Finding | None:
    """Where most requests of a service fail, that it became slow is the lesser part."""
    if effect is None or not _is_fault(effect, LATENCY.name):
        return effect
    for finding in diagnosis.findings:
        if finding.subject == effect.subject and _fails_mostly(finding):
            return finding
    return effect


def _fails_mostly(finding: Finding) -> bool:
    if not (_is_fault(finding, ERRORS.name) or _is_fault(finding, AVAILABILITY.name)):
        return False
    share = failing_share(finding)
    return share is not None and share >= MOSTLY


def _failing(cause: Cause, cited: Sequence[Finding]) -> Finding | None:
    """The culprit's own failing or slow requests, where nobody measured its callers'."""
    own = [one for one in cited if one.subject == cause.subject and _is_measured_symptom(one)]
    return max(own, key=lambda one: one.strength, default=None)


def _is_measured_symptom(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.name in _FAILING


def _is_noticed(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is not None and (fault.is_symptom or fault.name == RESTARTS.name)


def _is_fault(finding: Finding, name: str) -> bool:
    fault = fault_of(finding)
    return fault is not None and fault.name == name


def _is_blamed(finding: Finding, cause: Cause) -> bool:
    return finding.kind == NEAR and bool(cause.change) and change_named(finding) == cause.change


def _mechanism(cited: list[Finding], cause: Cause, effect: Finding | None) -> Finding | None:
    """The leading finding about the culprit, unless that is the effect: then its strongest that
    says more than a symptom."""
    about = [one for one in cited if one.subject == cause.subject and _may_explain(one)]
    if not about:
        return None
    lead = about[0]
    others = [one for one in about if _explains(one)]
    best = max(others, key=_tells, default=None)
    vague = _is_fault(lead, CALLERS_FAIL.name) or LogLineDetails.of(lead) is not None
    if vague and best is not None and LogLineDetails.of(best) is None:
        # That callers cannot reach it, or that it logs errors, says less than what says why.
        return best
    if effect is None or not _says_the_same(lead, effect):
        return lead
    return best


def _may_explain(finding: Finding) -> bool:
    kind = finding_kind(finding.kind)
    return finding.kind not in (NEAR, CHANGE_RULED_OUT.name) and not kind.is_memory


def _tells(finding: Finding) -> tuple[bool, float]:
    """How much it explains: what a line means says more than the line."""
    is_line = LogLineDetails.of(finding) is not None
    return not is_line, finding.strength


def _explains(finding: Finding) -> bool:
    """Whether it says more than that the culprit is slow or fails."""
    if _is_symptom(finding) or tells_nothing(finding) or _is_fault(finding, CALLERS_FAIL.name):
        return False
    return not is_small_rise(finding)


def is_small_rise(finding: Finding) -> bool:
    """Whether a resource is used a little more, as any busy service uses it."""
    return _is_fault(finding, RESOURCE.name) and not grew_much(finding)


def _is_symptom(finding: Finding) -> bool:
    fault = fault_of(finding)
    return fault is None or fault.is_symptom


def _says_the_same(one: Finding, other: Finding) -> bool:
    """Whether both are symptoms of one service."""
    if one.id == other.id or one.sentence == other.sentence:
        return True
    calls_fail = _is_fault(one, CALLERS_FAIL.name)
    return one.subject == other.subject and _is_symptom(other) and (calls_fail or _is_symptom(one))
