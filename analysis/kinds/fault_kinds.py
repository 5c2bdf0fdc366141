"""The table of fault kinds: what can be wrong with a service, and all that is known about it.

A kind of finding (`faultline.analysis.kinds.finding_kinds`) says what was measured; the fault kind
says what that speaks of. Several kinds of findings may speak of one fault, and an answer may call
several faults by one kind of cause (`CauseKind`). The weights were set on recorded fault cases. The
faults of training jobs are in `faultline.analysis.kinds.training_causes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from faultline.analysis.kinds.evidence_kinds import EvidenceKind
from faultline.analysis.kinds.signals import RESOURCES, SYMPTOMS, SignalClass

LOOK_FIRST = "Look at {subject} first."


@dataclass(frozen=True)
class CauseKind:
    """What answers call a cause: `Cause.kind`, which other programs read."""

    name: str
    phrase: str
    """What its subject does: "payments {phrase}"."""
    next_step: str
    """What to do about it. May name `{subject}`."""
    predicts: Mapping[EvidenceKind, str] = field(default_factory=dict)
    """What each kind of evidence shows if "it", the cause's subject, is of this kind."""
    signals: frozenset[SignalClass] = frozenset()
    """If a cause has no kind, a move of these classes suggests this one."""
    measured_by: frozenset[SignalClass] = SYMPTOMS
    """Classes of metrics that can show what it predicts of metrics."""
    fails: bool = False
    """Whether its subject fails, rather than being slow."""
    without_change: str = ""
    """Of what fails without any change of ours: what it says against a change."""


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault. Phrase and next step are those of its cause where it has none itself."""

    name: str
    weight: float
    """How far it speaks for its subject at full strength, of 1."""
    phrase: str = ""
    """What its subject does: "rank 2 {phrase}"."""
    next_step: str = ""
    """What to do about it. May name `{subject}`."""
    next_step_if_less: str = ""
    """The step instead, where the signal fell."""
    cause: CauseKind | None = None
    """What answers call it. Where this is None, the cause has the fault's name."""
    inherent: bool = False
    """Whether the subject has it by itself, and its callers feel it. Otherwise it is a symptom."""
    travels: Literal["slow", "fails"] | None = None
    """How it travels from a callee to its callers, which then show the same or worse."""
    delays_peers: bool = False
    """Whether all other ranks wait for the subject, so that their faults are its effect."""
    hangs: bool = False
    """Whether no rank of the job gets on."""
    training: bool = False
    """Whether it is a fault of a training job."""
    is_symptom: bool = False
    """Whether alerts are about it, and it does not say why."""
    has_impact: bool = False
    """Whether somebody outside of the subject notices it."""
    alerts_as: Literal["latency", "failures"] | None = None
    """What an alert that is about it speaks of."""
    rises_with_load: bool = False
    """Whether more requests alone bring it about."""
    sized_by_move: bool = False
    """Whether a small move of the signal beside a large one elsewhere counts less."""
    tables: tuple[EvidenceKind, ...] = ("metrics",)
    """The tables that would show it; a training job's files show its faults as well."""
    predicts: Mapping[EvidenceKind, str] = field(default_factory=dict)
    """As in `CauseKind`, where it is a cause by its own name."""

    def __post_init__(self) -> None:
        """Raises ValueError for a fault that no answer could put into words."""
        # Check at construction: a gap in the table must stop the start, not an answer.
        if not self.phrase and self.cause is None:
            raise ValueError(f"the fault {self.name!r} has neither a phrase nor a cause")

    @property
    def as_cause(self) -> CauseKind:
        """The kind of cause that answers call it by."""
        cause_kind = CauseKind(
            self.name, self.phrase, self.next_step or LOOK_FIRST, predicts=self.predicts
        )
        return self.cause or cause_kind

    @property
    def description(self) -> str:
        """What its subject does, in words."""
        return self.phrase or self.as_cause.phrase

    def step(self, direction: str | None = None) -> str:
        """What to do about it, given which way the signal moved ("up" or "down")."""
        if direction == "down" and self.next_step_if_less:
            return self.next_step_if_less
        return self.next_step or self.as_cause.next_step


SLOW_CODE = CauseKind(
    "slow_code",
    phrase="is itself slower",
    next_step="Profile {subject} in the affected operation.",
    predicts={
        "spans": "its own time rises in the operation that became slow",
        "metrics": "its latency rises while CPU, memory and disk stay",
        "logs": "it logs no errors, or only slow calls of its own",
    },
)
CODE_ERROR = CauseKind(
    "code_error",
    phrase="logs new errors",
    next_step="Read the new errors in the log of {subject}, and the code that writes them.",
    fails=True,
    predicts={
        "spans": "its own spans fail while those of what it calls succeed",
        "metrics": "its errors rise before those of its callers, at the same traffic",
        "logs": "it logs new errors with frames of its own code",
    },
)
CODE_PATH = CauseKind(
    "code_path",
    phrase="handles requests differently than before",
    next_step="Compare the lines and calls of a failing request in {subject} with those of a good "
    "one.",
    fails=True,
    predicts={
        "spans": "calls or operations of it that came before are missing",
        "logs": "lines that always came with an operation are missing",
    },
)
RESOURCE_SATURATION = CauseKind(
    "resource_saturation",
    phrase="uses more CPU, memory or disk than before",
    next_step="Find out what uses the CPU, memory or disk of {subject} (top, last rollout), then "
    "add capacity or move load.",
    signals=RESOURCES,
    measured_by=RESOURCES,
    predicts={
        "spans": "its own time rises in all of its operations",
        "metrics": "its CPU, memory or disk rises before its latency",
        "logs": "it logs that a pool, memory or a disk is full",
    },
)
NETWORK_LOSS = CauseKind(
    "network",
    phrase="is slow to reach over the network",
    next_step="Check the network path and the node that {subject} runs on.",
    measured_by=frozenset({SignalClass.NETWORK}),
    predicts={
        "spans": "its own time stays, and only the gap between its callers' spans and its own "
        "rises",
        "metrics": "retransmits or dropped packets of its node rise while its CPU stays",
        "logs": "its callers log timeouts and resets, and it logs none",
    },
)
SLOW = CauseKind(
    "latency",
    phrase="is slow, and nothing it calls explains it",
    next_step="Find out where {subject} spends its time now: its load, its limits, what it waits "
    "for.",
    signals=frozenset({SignalClass.LATENCY}),
    predicts={
        "spans": "its own time rises, and no call below it does",
        "metrics": "its latency rises before that of its callers",
        "logs": "its own slow calls or waits appear in its logs before its callers log any",
    },
)
FAILING = CauseKind(
    "errors",
    phrase="fails, and nothing it calls explains it",
    next_step="Read what {subject} answers with when it fails, and its own log.",
    signals=frozenset({SignalClass.ERRORS, SignalClass.AVAILABILITY}),
    fails=True,
    predicts={
        "spans": "its own spans fail while those of what it calls succeed",
        "metrics": "its errors rise before those of its callers",
        "logs": "it logs new errors, before its callers do",
    },
)
RESTARTING = CauseKind(
    "restarts",
    phrase="keeps restarting",
    next_step="Read why instances of {subject} ended: exit reason and last log lines.",
    signals=frozenset({SignalClass.RESTARTS}),
    measured_by=frozenset({SignalClass.RESTARTS}),
    fails=True,
    predicts={
        "spans": "its spans are missing for as long as a restart takes",
        "metrics": "its restarts are counted, and its memory falls at once",
        "logs": "its start-up lines are there, and the reason why it ended",
    },
)
BACKLOG = CauseKind(
    "backlog",
    phrase="builds up a backlog",
    next_step="Check the consumers of {subject}.",
    signals=frozenset({SignalClass.QUEUE}),
    measured_by=frozenset({SignalClass.QUEUE}),
    predicts={
        "spans": "its spans begin long after what asked for them",
        "metrics": "its queue grows while what it consumes per second stays or falls",
        "logs": "its consumers log failed or slow messages",
    },
)
OTHER_TRAFFIC = CauseKind(
    "traffic",
    phrase="gets different traffic than before",
    next_step="Find out where the traffic of {subject} comes from, and scale or shed it.",
    signals=frozenset({SignalClass.TRAFFIC}),
    measured_by=frozenset({SignalClass.TRAFFIC}),
    predicts={
        "spans": "the number of its requests changes first, from one caller",
        "metrics": "its request rate changes before anything else",
    },
)
ANOMALY = CauseKind(
    "anomaly",
    phrase="behaves differently",
    next_step="Find out what changed on {subject} since the onset.",
)
"""Also stands in for a kind of cause that nobody declares."""
CACHE_MISSES = CauseKind(
    "cache_misses",
    phrase="misses its cache more often",
    next_step="Find out why {subject} lost its entries (a flush, a restart, a new TTL, new keys), "
    "and protect what stands behind it.",
    signals=frozenset({SignalClass.HIT_RATIO}),
    measured_by=frozenset({SignalClass.HIT_RATIO, SignalClass.TRAFFIC}),
    predicts={
        "spans": "more requests go on to what stands behind the cache",
        "metrics": "its hit ratio falls before the load behind it rises",
    },
)
UNREACHED = CauseKind(
    "unreached",
    phrase="can't be reached by its callers as before",
    next_step="From a host of one of its callers, test {subject}: DNS, certificate, network path.",
    fails=True,
    measured_by=frozenset({SignalClass.ERRORS, SignalClass.LATENCY}),
    predicts={
        "spans": "calls to it fail or wait at its callers, whatever its own spans show",
        "metrics": "its callers' failures rise, and its own signals stay calm or are unknown",
        "logs": "its callers name it in their new error lines",
    },
)
PLACE_IN_TROUBLE = CauseKind(
    "place",
    phrase="hurts what runs there",
    next_step="Move what runs on {subject} elsewhere, then look at {subject} itself.",
    measured_by=SYMPTOMS | RESOURCES,
    predicts={
        "spans": "its own time rises, or fails, only in instances there",
        "metrics": "only the instances there are out of their baseline, whatever service they are "
        "of",
        "logs": "the failing instances are those that run there",
    },
)
EXTERNAL_DEPENDENCY = CauseKind(
    "external_dependency",
    phrase=ANOMALY.phrase,
    next_step="Read the provider's status page. Until it is back, fail over or switch off what "
    "needs it.",
    without_change="an external dependency is failing",
)
DATA_PROBLEM = CauseKind(
    "data_problem",
    phrase=ANOMALY.phrase,
    next_step="Set the bad input aside so that {subject} can go on, and find out who wrote it.",
    without_change="the input itself is bad",
)
INFRASTRUCTURE = CauseKind(
    "infrastructure",
    phrase=ANOMALY.phrase,
    next_step="Move load off {subject}, then find what fails there: node, disk or network.",
    without_change="the infrastructure below is in trouble",
)
DEMAND = CauseKind(
    "demand",
    phrase=ANOMALY.phrase,
    next_step="Add capacity to {subject}, or shed the extra requests.",
    without_change="demand surged",
)
WITHOUT_CHANGE = (EXTERNAL_DEPENDENCY, DATA_PROBLEM, INFRASTRUCTURE, DEMAND)
"""What fails without any change of ours."""

RESOURCE = FaultKind(
    "resource",
    weight=0.9,
    cause=RESOURCE_SATURATION,
    inherent=True,
    rises_with_load=True,
    sized_by_move=True,
)
NETWORK = FaultKind(
    "network",
    weight=0.85,
    cause=NETWORK_LOSS,
    inherent=True,
    has_impact=True,
    alerts_as="latency",
    tables=("spans",),
)
SELF_TIME = FaultKind(
    "own_time", weight=0.6, cause=SLOW_CODE, inherent=True, alerts_as="latency", tables=("spans",)
)
FLOW_BREAK = FaultKind(
    "flow_break", weight=0.9, cause=CODE_PATH, inherent=True, tables=("spans", "logs")
)
CRITICAL_PATH = FaultKind(
    "critical_path",
    weight=0.5,
    phrase="takes most of the added time",
    cause=SLOW_CODE,
    inherent=True,
    tables=("spans",),
)
ERROR_ORIGIN = FaultKind(
    "error_origin",
    weight=0.7,
    phrase="makes requests fail",
    next_step="Read what {subject} answers and logs in one of the failing requests.",
    cause=CODE_ERROR,
    inherent=True,
    tables=("spans",),
)
FAN_OUT = FaultKind(
    "fan_out",
    weight=0.5,
    phrase="makes more calls per request than before",
    next_step="Compare the calls that one request makes in {subject} with those of one from before "
    "the onset.",
    cause=SLOW_CODE,
    inherent=True,
    tables=("spans", "metrics"),
)
LOG_ERRORS = FaultKind(
    "log_errors",
    weight=0.75,
    cause=CODE_ERROR,
    travels="fails",
    has_impact=True,
    tables=("logs",),
)
LOG_FLOW = FaultKind("log_flow", weight=0.45, cause=CODE_PATH, tables=("logs",))
SPAN_ERRORS = FaultKind(
    "span_errors",
    weight=0.6,
    cause=FAILING,
    travels="fails",
    is_symptom=True,
    has_impact=True,
    alerts_as="failures",
    tables=("spans",),
)
LATENCY = FaultKind(
    "latency",
    weight=0.6,
    cause=SLOW,
    travels="slow",
    is_symptom=True,
    has_impact=True,
    alerts_as="latency",
    rises_with_load=True,
)
STORE_LATENCY = FaultKind(
    "store_latency",
    weight=0.8,
    cause=SLOW,
    inherent=True,
    travels="slow",
    is_symptom=True,
    has_impact=True,
    rises_with_load=True,
)
"""Time that a store itself spends on a statement or a command: it calls nobody for it. Requests
above it are slow or time out, so it counts fully whichever the alert is about."""
ERRORS = FaultKind(
    "errors",
    weight=0.6,
    cause=FAILING,
    travels="fails",
    is_symptom=True,
    has_impact=True,
    alerts_as="failures",
    rises_with_load=True,
)
AVAILABILITY = FaultKind(
    "availability",
    weight=0.6,
    cause=FAILING,
    travels="fails",
    is_symptom=True,
    has_impact=True,
    alerts_as="failures",
    sized_by_move=True,
)
RESTARTS = FaultKind("restarts", weight=0.7, cause=RESTARTING, has_impact=True)
QUEUE = FaultKind("queue", weight=0.45, cause=BACKLOG, travels="slow", rises_with_load=True)
CONNECTIONS = FaultKind(
    "connections",
    weight=0.45,
    phrase="holds more connections or threads than before",
    cause=RESOURCE_SATURATION,
    rises_with_load=True,
)
MISSES = FaultKind("cache_misses", weight=0.6, cause=CACHE_MISSES, inherent=True)
CALLERS_FAIL = FaultKind(
    "unreached", weight=0.6, cause=UNREACHED, inherent=True, tables=("metrics", "logs")
)
PLACE = FaultKind("place", weight=0.75, cause=PLACE_IN_TROUBLE, inherent=True)
TRAFFIC = FaultKind(
    "traffic",
    weight=0.3,
    next_step_if_less="Find out why fewer requests reach {subject}: its callers, its load "
    "balancer, its names and routes.",
    cause=OTHER_TRAFFIC,
    is_symptom=True,
    rises_with_load=True,
)
OTHER = FaultKind("other", weight=0.3, cause=ANOMALY)

FAULTS_OF_SERVICES: tuple[FaultKind, ...] = (
    RESOURCE,
    NETWORK,
    SELF_TIME,
    FLOW_BREAK,
    CRITICAL_PATH,
    ERROR_ORIGIN,
    FAN_OUT,
    LOG_ERRORS,
    LOG_FLOW,
    SPAN_ERRORS,
    LATENCY,
    STORE_LATENCY,
    ERRORS,
    AVAILABILITY,
    RESTARTS,
    QUEUE,
    CONNECTIONS,
    MISSES,
    CALLERS_FAIL,
    PLACE,
    TRAFFIC,
    OTHER,
)
FAULT_OF_METRIC: Mapping[SignalClass, FaultKind] = {
    SignalClass.LATENCY: LATENCY,
    SignalClass.ERRORS: ERRORS,
    SignalClass.AVAILABILITY: AVAILABILITY,
    SignalClass.RESTARTS: RESTARTS,
    SignalClass.QUEUE: QUEUE,
    SignalClass.CONNECTIONS: CONNECTIONS,
    SignalClass.HIT_RATIO: MISSES,
    SignalClass.TRAFFIC: TRAFFIC,
    SignalClass.NETWORK: TRAFFIC,
} | dict.fromkeys(RESOURCES, RESOURCE)
"""The fault that a bad move of a metric speaks of; of other classes it is `OTHER`."""
