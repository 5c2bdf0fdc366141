"""Statements about objects of a cluster or a cloud, by their own state: what exactly is missing,
refused or wrong with them, where the connector's words name it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from string import Formatter

from faultline.analysis.kinds.cluster_faults import NODES
from faultline.analysis.kinds.finding_details import PlaceDetails, StateFactDetails
from faultline.analysis.kinds.state_faults import STATE_FAULTS
from faultline.analysis.phrasing.state_details import (
    READERS,
    missing_key,
    missing_object,
    readable_quota,
)
from faultline.analysis.phrasing.statement import (
    Part,
    Phrase,
    Statement,
    Verb,
    Voice,
    listed,
    name,
    say,
)
from faultline.analysis.vocabulary import Finding

_OF_NODES = frozenset(fault.name for fault in NODES)
_CLAUSES: Mapping[str, str] = {
    "image_unavailable": "{{who}} cannot pull its image {detail}",
    "quota_exceeded": "{{who}} has used up its quota ({detail})",
    "limit_range_refused": "{{who}} refuses pods: {detail}",
    "sync_failed": "{object} cannot be synced from Git ({detail})",
    "webhook_unanswered": "admission webhook {name} does not answer ({detail})",
    "webhook_denied": "admission webhook {name} denies its pods: {detail}",
    "port_not_served": "{{who}} gets its traffic on port {detail}, where nothing listens",
    "traffic_blocked": "network policy {name} blocks calls from {detail} to {expected}",
    "route_to_nothing": "{object} leads to {detail}, which does not exist",
    "selector_matches_nothing": "{{whose}} Service selects pods with {detail}, and there are none",
    "certificate_expired": "{object} is not valid: {detail}",
    "probe_misconfigured": "{{whose}} probe asks {detail}, which it does not serve",
    "liveness_failing": "{{who}} is restarted because its liveness probe fails ({detail})",
    "readiness_failing": "{{who}} fails its readiness probe ({detail})",
    "start_blocked": "{{whose}} {detail}",
    "crash_loop": "{{who}} keeps crashing ({detail})",
    "job_failed": "{object} failed",
    "unschedulable": "{{who}} has instances that fit on no node ({detail})",
    "placement_impossible": "no node may take instances of {{who}} ({detail})",
    "autoscaler_at_maximum": "{{who}} has reached its maximum of {detail} instances",
    "autoscaler_blind": "{{whose}} autoscaler cannot read its metrics",
    "node_under_pressure": "{{who}} {detail}",
    "takes_over_database": "{{who}} takes {detail}",
    "taken_over_by_user": "{detail}",
}
"""By fact. The detail is the connector's value, or what the fact's reader finds in it."""


@dataclass(frozen=True)
class ObjectState:
    """What a connector says of an object."""

    fact: str
    kind: str
    namespace: str
    name: str
    value: str
    expected: str

    @property
    def object(self) -> str:
        """By kind and name, without its namespace: "Ingress shop-public"."""
        return f"{self.kind} {self.name}"

    @property
    def whole(self) -> str:
        """With its namespace, as `kubectl` takes it."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else self.object


def state_of(finding: Finding) -> ObjectState | None:
    """The state that a finding is about, where it is about one."""
    details = StateFactDetails.of(finding)
    if details is None or not details.objects or details.fact not in STATE_FAULTS:
        return None
    kind, _, name = details.objects[0].partition(" ")
    namespace, _, short = name.rpartition("/")
    value, expected = details.value, details.expected
    # A finding of an earlier version has them only in its sentence.
    if not value and not expected:
        value, expected = _read_back(finding.sentence, details.fact, details.objects[0])
    return ObjectState(details.fact, kind, namespace, short, value, expected)


def of_an_object(finding: Finding, voice: Voice) -> Statement | None:
    """Of an object's own state: its sentence, and in short what is wrong with the subject."""
    details = StateFactDetails.of(finding)
    if details is None or not details.objects:
        return None
    sentence = readable_quota(finding.sentence.strip().rstrip("."))
    whole = Phrase((Part(sentence, "name", finding.id),))
    return Statement(whole, None, shorter=_in_short(finding, voice))


def is_down(finding: Finding) -> bool:
    """Whether it says that not one instance of its subject runs."""
    state = state_of(finding)
    # An object that still has an instance is not down, however many are missing.
    return state is not None and state.fact == "replicas_missing" and state.value == "0"


def took_down(finding: Finding, *, as_pronoun: bool) -> Phrase:
    """What somebody did who left a service without instances: "took it down (0 of 2 instances)"."""
    state = state_of(finding)
    who = Voice(finding.subject, as_pronoun=as_pronoun).who
    running = f" (0 of {state.expected} instances)" if state and state.expected else ""
    return say("took {who} down{running}", who=who, running=Part(running, "words", finding.id))


def _in_short(finding: Finding, voice: Voice) -> Phrase | None:
    state = state_of(finding)
    if state is None:
        return None
    words = _words(state)
    who = voice.who
    # A node's name alone does not tell a reader that it is a node.
    if (
        state.fact in _OF_NODES
        and not voice.as_pronoun
        and not (re.match(rf"{state.kind}[-_.\d]", finding.subject, re.IGNORECASE) is not None)
    ):
        who = Part(f"{state.kind.lower()} {finding.subject}", "name")
    if not words:
        words = "{who} " + _escaped(STATE_FAULTS[state.fact].fault.description)
    phrase = say(words, who=who, whose=voice.whose)
    return Phrase(tuple(_cited(part, finding) for part in phrase.parts))


def _cited(part: Part, finding: Finding) -> Part:
    return part if part.role == "name" else Part(part.text, part.role, finding.id)


def _words(state: ObjectState) -> str:
    """The clause with what the connector's words name; empty where they name nothing."""
    value, expected = _escaped(state.value), _escaped(state.expected)
    if state.fact == "replicas_missing" and value and expected:
        down = "is down" if value == "0" else "runs too few instances"
        return f"{{who}} {down} ({value} of {expected} instances)"
    absent = missing_object(state.value)
    if absent is not None:
        kind, name = absent[0], _escaped(absent[1])
        if state.fact == "volume_unavailable":
            return f"{{who}} waits for a volume of {kind} {name}, which does not exist"
        return f"{{whose}} {kind} {name} does not exist"
    key = missing_key(state.value)
    if key is not None:
        return f"key {_escaped(key[0])} is missing in {key[1]} {_escaped(key[2])}"
    if state.fact == "volume_full" and state.kind == "PersistentVolumeClaim":
        return f"volume {_escaped(state.name)} of {{who}} is full"
    clause = _CLAUSES.get(state.fact)
    if clause is None:
        return ""
    read = READERS.get(state.fact)
    detail = read(state.value) if read is not None else state.value
    # A clause with an empty slot would be no sentence: the general description stands instead.
    if not detail or ("{expected}" in clause and not expected):
        return ""
    return clause.format(
        detail=_escaped(detail),
        expected=expected,
        name=_escaped(state.name),
        object=_escaped(state.object),
    )


def _escaped(text: str) -> str:
    # Foreign text may hold braces, which `say` would take for slots.
    return text.replace("{", "{{").replace("}", "}}")


def _read_back(sentence: str, fact: str, name: str) -> tuple[str, str]:
    """Value and expected from the finding's sentence: an earlier version has them only there."""
    pattern = ""
    for words, slot, _, _ in Formatter().parse(STATE_FAULTS[fact].says):
        pattern += re.escape(words)
        if slot == "object":
            pattern += re.escape(name)
        elif slot is not None:
            pattern += f"(?P<{slot}>.+?)"
    ends = r"(?:; same for \d+ more|; \d+ of \d+ failing pods? run there|, for \d+ days?)*\.?$"
    match = re.search(pattern + ends, sentence)
    slots = match.groupdict() if match else {}
    return slots.get("value") or "", slots.get("expected") or ""


# Statements about places (nodes, zones, clusters) and what runs there.

NAMED = 3
FAIL_OR_SLOW = Verb("are in trouble", "were in trouble", "get into trouble")
FAIL_OR_SLOW_SINGULAR = Verb("is in trouble", "was in trouble", "get into trouble")


def worse_there(finding: Finding, voice: Voice) -> Statement | None:
    """Of a place in which services do worse than their instances elsewhere."""
    details = PlaceDetails.of(finding)
    if details is None or not details.services or not details.place_kind:
        return None
    where = Part(_called(details.place_kind, finding.subject), "name", finding.id)
    worse, there = len(details.services), max(details.services_there, len(details.services))
    named = listed([name(service) for service in details.services], most=NAMED)
    do = FAIL_OR_SLOW_SINGULAR if worse == 1 else FAIL_OR_SLOW
    at = "on" if details.place_kind in ("node", "host") else "in"
    short = say("{at} {where} and not elsewhere", at=at, where=where)
    of = f"{worse} of the {there} services that run both there and elsewhere"
    if worse == there:
        of = f"all {there} services that run both there and elsewhere" if there > 2 else ""
        of = "both services that run there and elsewhere" if there == 2 else of
    rest = say("{short} ({of})", short=short, of=of) if of else short
    return Statement(named, do, rest, short)


def _called(kind: str, place: str) -> str:
    """A place with its kind, unless its name begins with that: "node ip-10-0-3", "node-04"."""
    return place if place.lower().startswith(kind.lower()) else f"{kind} {place}"
