"""From suspects and changes to ranked causes.

The order is the suspects' (see `explanations`); a change near the onset on the suspect, or on what
it calls, raises it and is attached. How sure the first may be is learned from graded answers, see
`confidence`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from analysis.changes.alternatives import KINDS as NO_CHANGE
from analysis.changes.alternatives import reason_for
from analysis.changes.nearby import NEAR, RULED_OUT
from analysis.logs.signature_findings import KIND as SIGNATURE
from analysis.ranking.confidence import Standing, confidence_of, confidences
from analysis.requests.topology import Topology
from analysis.suspects.explanations import HOLDS_UP, Suspect, trouble_of
from analysis.suspects.training_causes import TRAINING_CAUSES
from analysis.suspects.victims import TRAVELS, later
from analysis.vocabulary import Cause, Finding, Gap
from analysis.wording.phrases import plain

MAX_CAUSES = 10
MAX_SUPPORT = 8
MAX_AGAINST = 3
CLOSE = 0.8
"""The second suspect's trouble speaks against the first from this share of its score on."""
MAX_EFFECTS = 3
"""Findings of other services that this cause explains, cited beside its own."""
CHANGE_WEIGHT = 0.3
"""How far a change at full strength raises its suspect's score toward 1."""
FELT_BY_USERS = frozenset({"latency", "errors", "availability", "span_errors", "traffic"})
"""Kinds of trouble that an alert speaks of, and that tell nothing of why."""
RIVAL = 0.5
"""A suspect with at least this much of another's score is its rival."""

KINDS = {
    "resource": "resource_saturation",
    "network": "network",
    "own_time": "slow_code",
    "log_errors": "code_error",
    "flow_break": "code_path",
    "critical_path": "slow_code",
    "error_origin": "code_error",
    "fan_out": "slow_code",
    "log_flow": "code_path",
    "span_errors": "errors",
    "latency": "latency",
    "errors": "errors",
    "availability": "errors",
    "restarts": "restarts",
    "queue": "backlog",
    "traffic": "traffic",
    "other": "anomaly",
}
"""The cause's kind by the kind of trouble that speaks most for it; training kinds keep their
names."""
PHRASES = {
    "resource_saturation": "runs out of a resource",
    "network": "loses time on the network between its callers and itself",
    "slow_code": "became slower by itself",
    "code_error": "logs errors it did not log before",
    "code_path": "takes another path through its code",
    "latency": "became slow, and nothing it calls explains it",
    "errors": "fails, and nothing it calls explains it",
    "restarts": "restarts",
    "backlog": "builds up a backlog",
    "traffic": "sees other traffic than before",
    "anomaly": "behaves differently",
    "critical_path": "carries most of what became slower",
    "error_origin": "makes requests fail",
    "fan_out": "makes more calls than before",
} | {kind: cause.phrase for kind, cause in TRAINING_CAUSES.items()}
"""What is wrong, by the cause's kind; by the kind of trouble where that says it more exactly."""
NEXT_STEPS = {
    "resource_saturation": "Look at what uses the resource on {subject}, and add capacity or move "
    "the load.",
    "network": "Check the network path and the node that {subject} runs on.",
    "slow_code": "Profile {subject} in the affected operation.",
    "code_error": "Read the new error lines of {subject} and the code that writes them.",
    "code_path": "Compare the lines and calls of a failing request in {subject} with those of a "
    "good one.",
    "error_origin": "Read what {subject} answers and logs in one of the failing requests.",
    "fan_out": "Compare the calls that one request makes in {subject} with those of one from "
    "before the onset.",
    "latency": "Find out where {subject} spends its time since the onset: its load, its limits, "
    "what it waits for.",
    "errors": "Read the errors that {subject} answers with since the onset, and its own log.",
    "anomaly": "Find out what is different on {subject} since the onset.",
    "restarts": "Read the last lines and the exit reason of the instances of {subject} that ended.",
    "backlog": "Check the consumers of {subject}.",
    "traffic": "Find out where the traffic of {subject} comes from, and scale or shed it.",
    "straggler": "Compare the host, the input and the code of {subject} with another rank's.",
    "dataloader_stall": "Give {subject} more loader workers, or cache its input.",
    "communication": "Check the links and the collective settings of {subject}.",
    "external_dependency": "Read the provider's status page; until it is back, switch over, or "
    "off what needs it.",
    "data_problem": "Set the bad input aside, so that {subject} goes on without it, and find out "
    "who wrote it.",
    "infrastructure": "Move {subject} off what is in trouble, then repair that.",
    "demand": "Add capacity to {subject}, or shed the extra requests.",
}
LESS_TRAFFIC_STEP = (
    "Find out why fewer requests reach {subject}: its callers, its load balancer, "
    "its names and routes."
)
_RANKS = re.compile(r"ranks? \d")
CHANGE_STEP = (
    "Roll back {change} of {service}, or turn it off, and watch whether the signal returns."
)


def rank_causes(
    suspects: Sequence[Suspect],
    findings: Sequence[Finding],
    topology: Topology,
    gaps: Sequence[Gap],
    alerting: str | None = None,
) -> list[Cause]:
    """At most ten causes, the likeliest first; findings must have their ids."""
    changes = {s.subject: _change_for(s, i, findings, topology) for i, s in enumerate(suspects)}
    scored = sorted(
        ((_raised(s, changes[s.subject]), s) for s in suspects),
        key=lambda pair: (not pair[1].leads, -round(pair[0], 6), pair[1].subject),
    )
    if (
        scored and scored[0][1].leads
    ):  # what a clear straggler explains is its effect, and no other explanation
        scored = [pair for pair in scored if pair[1].explained_by != scored[0][1].subject]
    if not scored:
        return []
    first = confidence_of(
        standing([score for score, _ in scored], scored[0][1], suspects, alerting),
        metrics_missing=any(g.kind == "metrics" for g in gaps),
    )
    sure = confidences([score for score, _ in scored], first)
    reasons = sorted(
        (f for f in findings if f.kind in NO_CHANGE), key=lambda f: (-f.strength, f.id)
    )
    causes: list[Cause] = []
    for rank, (_, suspect) in enumerate(scored[:MAX_CAUSES], start=1):
        confidence = sure[rank - 1]
        blamed = changes[suspect.subject] is not None
        ruled_out = [
            f
            for f in findings
            if not blamed and f.kind == RULED_OUT and f.subject == suspect.subject
        ]
        effects = list(
            filter(None, (_symptom(s) for s in suspects if s.explained_by == suspect.subject))
        )[:MAX_EFFECTS]
        against = [*_against(suspect, [s for _, s in scored]), *ruled_out]
        reason = (
            None
            if blamed or rank > 1 or suspect.is_rank
            else reason_for(reasons, [suspect], topology)
        )
        causes.append(
            _cause(rank, suspect, changes[suspect.subject], reason, confidence, against, effects)
        )
    return causes


def _against(suspect: Suspect, others: Sequence[Suspect]) -> list[Finding]:
    """What speaks against it: trouble of others that explains its own, that began before it, or
    that it leaves open."""
    found = []
    for other in others:
        if other is suspect or not other.findings or other.explained_by == suspect.subject:
            continue
        explains = suspect.explained_by == other.subject
        rival = other.score >= RIVAL * suspect.score and later(suspect.findings, other.findings)
        if (
            explains
            or rival
            or (
                suspect is others[0] and other is others[1] and other.score >= CLOSE * suspect.score
            )
        ):
            found.append(other.findings[0])
    return found[:MAX_AGAINST]


def _symptom(suspect: Suspect) -> Finding | None:
    """What the suspect shows of another's trouble."""
    return next((f for f in suspect.findings if trouble_of(f) in TRAVELS), None)


def _change_for(
    suspect: Suspect, order: int, findings: Sequence[Finding], topology: Topology
) -> Finding | None:
    """The strongest near change on the suspect; for the first suspect also one on a service that it
    calls."""
    reach = topology.downstream(suspect.subject) if order == 0 else {suspect.subject: 0}
    near = [
        f
        for f in findings
        if f.kind == NEAR and (f.details.get("concerns") == suspect.subject or f.subject in reach)
    ]
    return min(near, key=lambda f: (-f.strength, f.id), default=None)


def _raised(suspect: Suspect, change: Finding | None) -> float:
    return suspect.score + (1 - suspect.score) * CHANGE_WEIGHT * (
        change.strength if change else 0.0
    )


def standing(
    scores: Sequence[float], first: Suspect, others: Sequence[Suspect], alerting: str | None = None
) -> Standing:
    """How the first suspect stands; `scores` are all suspects', the first one's first."""
    top, second = scores[0], scores[1] if len(scores) > 1 else 0.0
    return Standing(
        lead=max(0.0, top - second) / top if top > 0 else 0.0,
        share=top / sum(scores) if top > 0 else 0.0,
        victims=sum(other.explained_by == first.subject for other in others),
        symptoms_only=set(first.felt) <= FELT_BY_USERS
        and (first.subject == alerting or len(scores) == 1),
        gone=all(f.details.get("recovered") for f in first.findings),
    )


def _cause(
    rank: int,
    suspect: Suspect,
    change: Finding | None,
    reason: Finding | None,
    confidence: float,
    against: Sequence[Finding],
    effects: Sequence[Finding],
) -> Cause:
    trouble = suspect.main_trouble
    kind = KINDS.get(trouble, trouble)
    support = suspect.findings[:MAX_SUPPORT]
    lead = next((f for f in suspect.findings if trouble_of(f) == trouble), support[0])
    phrase = _phrase(suspect, rank)
    explained = kind in TRAINING_CAUSES or lead.kind == SIGNATURE
    named = explained and (lead.sentence.startswith(suspect.subject) or _names_ranks(lead))
    summary = (
        _closed(lead.sentence)
        if named
        else f"{plain(suspect.subject)} {phrase}: {_closed(lead.sentence)}"
    )
    advice = str(lead.details.get("fix") or "") if explained else ""
    step = _step(trouble, lead)
    if reason is not None and reason.subject == suspect.subject and trouble == "resource":
        reason = None  # what it runs out of is told already
    if reason is not None:
        summary, kind = (
            f"{summary} {_closed(reason.sentence)}",
            kind if kind in TRAINING_CAUSES else reason.kind,
        )
        step, advice = NEXT_STEPS[reason.kind], advice if lead.kind == SIGNATURE else ""
    if change is not None:
        summary = f"{summary} {_closed(change.sentence)}"
        step, advice = CHANGE_STEP, ""
        kind = kind if trouble in HOLDS_UP else str(change.details["change_kind"])
    cited = [lead, *support, *(f for f in (change, reason) if f is not None), *effects]
    return Cause(
        rank=rank,
        subject=suspect.subject,
        signal=lead.signal,
        kind=kind,
        change=str(change.details["change"]) if change else None,
        confidence=confidence,
        onset=suspect.onset,
        summary=summary,
        next_step=advice
        or step.format(
            subject=plain(suspect.subject),
            change=plain(str(change.details["change"])[:40], 40) if change else "",
            service=plain(change.subject) if change else "",
        ),
        findings=tuple(dict.fromkeys(f.id for f in cited)),
        contradicting=tuple(
            dict.fromkeys(f.id for f in against if f.id not in {c.id for c in cited})
        )[:MAX_AGAINST],
    )


def _names_ranks(finding: Finding) -> bool:
    """Whether it is told of ranks of a job: of several it is the job's finding, but the job is not
    who is accused."""
    return finding.kind in TRAINING_CAUSES and _RANKS.match(finding.sentence) is not None


def _phrase(suspect: Suspect, rank: int) -> str:
    """What is wrong with the suspect, and whether what it calls explains it."""
    phrase = phrase_of(suspect.main_trouble)
    if not suspect.explained_by:
        return phrase
    part = "explains only a part of it" if rank == 1 else "may explain it"
    return phrase.replace("nothing it calls explains it", f"{plain(suspect.explained_by)} {part}")


def _step(trouble: str, lead: Finding) -> str:
    if trouble == "traffic" and lead.details.get("direction") == "down":
        return LESS_TRAFFIC_STEP
    return NEXT_STEPS.get(trouble) or NEXT_STEPS.get(
        KINDS.get(trouble, trouble), "Look at {subject} first."
    )


def phrase_of(trouble: str) -> str:
    """What is wrong with a subject that has this kind of trouble, without its numbers."""
    return PHRASES.get(trouble) or PHRASES.get(KINDS.get(trouble, trouble), PHRASES["anomaly"])


def _closed(sentence: str) -> str:
    return sentence.rstrip(".") + "."
