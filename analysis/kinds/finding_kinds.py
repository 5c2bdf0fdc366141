"""The table of finding kinds: how each is computed, what it carries, which fault it speaks of.

The kinds of the analyzers that come with Faultline are declared here, because a stored finding is
read back with its typed details wherever findings are read. An analyzer that is added declares its
kinds in its own file and names them in its `Analyzer`; `faultline.analysis.analyzers` is the list
of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib import import_module

import faultline.analysis.kinds.fault_kinds as fault
from faultline.analysis.kinds.evidence_kinds import EvidenceKind
from faultline.analysis.kinds.fault_kinds import FaultKind
from faultline.analysis.kinds.finding_details import (
    AlertHistoryDetails,
    CallPatternDetails,
    CallsIntoDetails,
    ChangeDetails,
    DetailedFinding,
    EarlierDetails,
    FailureDetails,
    FindingDetails,
    FlowBreakDetails,
    GpuDetails,
    JobDetails,
    LogLineDetails,
    MetricShiftDetails,
    NoChangeDetails,
    ObservationDetails,
    PartDetails,
    PlaceDetails,
    RecordDetails,
    RecoveryDetails,
    RequestPathDetails,
    RunStateDetails,
    SignatureDetails,
    SpanShiftDetails,
    StateFactDetails,
    StragglerDetails,
    TraceDetails,
    UnreadableDetails,
)
from faultline.analysis.kinds.signals import RESOURCES, SignalClass, is_headroom
from faultline.analysis.kinds.state_faults import FAMILIES, STATE_FAULTS
from faultline.analysis.kinds.training_causes import GPU_CAUSES, RULE_CAUSES, TRAINING_CAUSES


@dataclass(frozen=True)
class FindingKind:
    """One kind of finding."""

    name: str
    how: str
    """How it is computed, for people."""
    faults: tuple[FaultKind, ...] = ()
    """What it may speak of; with none it accuses nobody."""
    choose: Callable[[DetailedFinding], FaultKind | None] | None = None
    """Which of several faults a finding speaks of, if any. Without it, it is about the first."""
    details: type[FindingDetails] = FindingDetails
    """The model of `Finding.details`."""
    tables: tuple[EvidenceKind, ...] = ()
    """What it is computed from."""
    label: str = ""
    """What people call it; its name as words where this is empty."""
    tells_time: bool = False
    """Whether it says where requests spend their time."""
    explains_alert: bool = False
    """Whether it says why an alert fired although nothing is wrong."""
    always_listed: bool = False
    """Whether it stays in the answer however many findings are stronger."""
    is_memory: bool = False
    """Whether it says what earlier investigations knew, and is no evidence."""

    def fault_of(self, finding: DetailedFinding) -> FaultKind | None:
        """The fault that a finding of this kind speaks of; None when it accuses nobody."""
        if self.choose is not None:
            return self.choose(finding)
        return self.faults[0] if self.faults else None


_OF_STORES = frozenset({"statement_latency_mean", "command_latency_mean"})
"""Latencies that exporters of stores measure of the store's own work."""


def _fault_of_shift(finding: DetailedFinding) -> FaultKind | None:
    """The fault of a metric's move: by its class, where the move is one for the worse."""
    signal_class = SignalClass(finding.details.signal_class or SignalClass.OTHER.value)
    # Somebody sets a limit, so its move is no fault by itself.
    if signal_class is SignalClass.LIMIT or not finding.details.bad:
        return None
    if signal_class in RESOURCES:
        # Free memory falls where used memory rises: both say that it gets scarce.
        scarcer = "down" if is_headroom(finding.signal or "") else "up"
        return fault.RESOURCE if finding.details.direction == scarcer else None
    if finding.signal in _OF_STORES:
        return fault.STORE_LATENCY
    return fault.FAULT_OF_METRIC.get(signal_class, fault.OTHER)


def _fault_of_line(finding: DetailedFinding) -> FaultKind:
    details = LogLineDetails.of(finding)
    return fault.LOG_ERRORS if details and details.is_error else fault.LOG_FLOW


def _fault_of_signature(finding: DetailedFinding) -> FaultKind:
    """A failure that the service has by itself, or one that may come from what it calls."""
    details = SignatureDetails.of(finding)
    return TRAINING_CAUSES["known_failure"] if details and details.inherent else fault.LOG_ERRORS


def _fault_of_state(finding: DetailedFinding) -> FaultKind | None:
    """The fault of an object's state: that of the fact."""
    details = StateFactDetails.of(finding)
    state_fault = STATE_FAULTS.get(details.fact) if details else None
    return state_fault.fault if state_fault else None


METRIC_SHIFT = FindingKind(
    "metric_shift",
    how="Median and spread of the incident against the baseline; the onset by a two-sided CUSUM; "
    "how usual such a move is, by windows in which nothing was wrong",
    faults=(
        fault.RESOURCE,
        fault.LATENCY,
        fault.STORE_LATENCY,
        fault.ERRORS,
        fault.AVAILABILITY,
        fault.RESTARTS,
        fault.QUEUE,
        fault.CONNECTIONS,
        fault.MISSES,
        fault.TRAFFIC,
        fault.OTHER,
    ),
    choose=_fault_of_shift,
    details=MetricShiftDetails,
    tables=("metrics",),
)
SPAN_SELF_TIME = FindingKind(
    "span_own_time",
    how="What a visit to the service spends itself, its duration less its waits for others, "
    "against the baseline",
    faults=(fault.SELF_TIME,),
    details=SpanShiftDetails,
    tables=("spans",),
    tells_time=True,
)
CALL_GAP = FindingKind(
    "call_gap",
    how="Client span less the callee's span: time in which neither side was working, against the "
    "baseline",
    faults=(fault.NETWORK,),
    details=SpanShiftDetails,
    tables=("spans",),
    tells_time=True,
)
SPAN_ERRORS = FindingKind(
    "span_errors",
    how="Share of failed spans per service and operation, against the baseline",
    faults=(fault.SPAN_ERRORS,),
    details=SpanShiftDetails,
    tables=("spans",),
)
CRITICAL_PATH = FindingKind(
    "critical_path",
    how="Each request's time shared out over its critical path, against the baseline",
    faults=(fault.CRITICAL_PATH,),
    details=RequestPathDetails,
    tables=("spans",),
    tells_time=True,
)
ERROR_ORIGIN = FindingKind(
    "error_origin",
    how="The deepest failing span whose own calls do not fail",
    faults=(fault.ERROR_ORIGIN,),
    details=RequestPathDetails,
    tables=("spans",),
)
FAN_OUT = FindingKind(
    "fan_out",
    how="Calls of one operation per visit, or of one service per request, against the baseline",
    faults=(fault.FAN_OUT,),
    details=CallPatternDetails,
    tables=("spans", "metrics"),
)
RETRIES = FindingKind(
    "retries",
    how="Calls that are repeated after they failed, against the baseline",
    faults=(fault.SPAN_ERRORS,),
    details=CallPatternDetails,
    tables=("spans",),
)
CALLEE_MISSING = FindingKind(
    "callee_missing",
    how="Calls that no longer reach the server span that they always had",
    faults=(fault.AVAILABILITY,),
    details=CallPatternDetails,
    tables=("spans",),
)
CALLS_INTO = FindingKind(
    "calls_into",
    how="What its callers measure of the calls to it, and their failing lines that name it, beside "
    "what it shows itself",
    faults=(fault.CALLERS_FAIL,),
    details=CallsIntoDetails,
    tables=("metrics", "logs"),
    label="seen by its callers",
)
PLACE_CONTRAST = FindingKind(
    "place_contrast",
    how="Instances in one place beside those of the same services elsewhere, at the same time",
    faults=(fault.PLACE,),
    details=PlaceDetails,
    tables=("metrics",),
    label="one place",
)
PART_CONTRAST = FindingKind(
    "part_contrast",
    how="The versions, clusters, pods and so on of one service beside each other, at the same time",
    details=PartDetails,
    tables=("metrics",),
    label="one part of it",
)
FLOW_BREAK = FindingKind(
    "flow_break",
    how="A step that always followed another in a service's requests, and no longer comes",
    faults=(fault.FLOW_BREAK,),
    details=FlowBreakDetails,
    tables=("spans", "logs"),
)
LOG_NEW = FindingKind(
    "log_new",
    how="A template of log lines that the baseline does not have",
    faults=(fault.LOG_ERRORS, fault.LOG_FLOW),
    choose=_fault_of_line,
    details=LogLineDetails,
    tables=("logs",),
    label="new log line",
)
LOG_SURGE = FindingKind(
    "log_surge",
    how="A template of log lines, counted against the baseline's own counts (negative binomial)",
    faults=(fault.LOG_ERRORS, fault.LOG_FLOW),
    choose=_fault_of_line,
    details=LogLineDetails,
    tables=("logs",),
    label="more log lines",
)
LOG_VANISHED = FindingKind(
    "log_vanished",
    how="A template of log lines that the baseline predicts and that no longer comes",
    faults=(fault.LOG_FLOW,),
    details=LogLineDetails,
    tables=("logs",),
    label="log line gone",
)
FAILURE_SIGNATURE = FindingKind(
    "failure_signature",
    how="Lines that match a known failure, weighed against the baseline like any other line",
    faults=(TRAINING_CAUSES["known_failure"], fault.LOG_ERRORS),
    choose=_fault_of_signature,
    details=SignatureDetails,
    tables=("logs",),
)
ALERT_FLAPPING = FindingKind(
    "alert_flapping",
    how="The monitor's own states over a day",
    details=AlertHistoryDetails,
    tables=("monitors",),
    explains_alert=True,
    always_listed=True,
)
THRESHOLD_IN_NORMAL_RANGE = FindingKind(
    "threshold_in_normal_range",
    how="The baseline's points against the alert's threshold",
    details=AlertHistoryDetails,
    tables=("metrics",),
    explains_alert=True,
    always_listed=True,
)
USUAL_MOVE = FindingKind(
    "usual_move",
    how="How often the baseline moved as far and as long",
    details=AlertHistoryDetails,
    tables=("metrics",),
    explains_alert=True,
    always_listed=True,
)
ALERT_IN_RANGE = FindingKind(
    "alert_in_range",
    how="The alerting signal's level in the window against the range of its quiet past",
    details=AlertHistoryDetails,
    tables=("metrics",),
    always_listed=True,
)
ALERT_TRUE = FindingKind(
    "alert_true",
    how="The alert's own query, evaluated over the incident and the same hours of earlier days",
    details=AlertHistoryDetails,
    tables=("alert_query",),
    label="alert's query true",
    always_listed=True,
)
ALERT_ELSEWHERE_USUAL = FindingKind(
    "alert_elsewhere_usual",
    how="The series of the alert's own query in one place, beside the same service elsewhere",
    details=AlertHistoryDetails,
    tables=("alert_query",),
    label="other places as usual",
    always_listed=True,
)
ALERT_NOT_TRUE = FindingKind(
    "alert_not_true",
    how="The alert's own query, evaluated over the incident, held at no time",
    details=AlertHistoryDetails,
    tables=("alert_query",),
    label="alert's query not true",
    always_listed=True,
)
ALERT_OFTEN_TRUE = FindingKind(
    "alert_often_true",
    how="On how many of the last seven days the alert's own query held at the same hours, as far "
    "and as long",
    details=AlertHistoryDetails,
    tables=("alert_query",),
    label="alert's query often true",
    explains_alert=True,
    always_listed=True,
)
ALERT_QUERY_GONE = FindingKind(
    "alert_query_gone",
    how="What the alert's own query measures had data before, and has none now",
    details=AlertHistoryDetails,
    tables=("alert_query",),
    label="alert's series gone",
    always_listed=True,
)
SIGNAL_STOPPED = FindingKind(
    "signal_stopped",
    how="Usual steps that are missing at the end while other series go on",
    details=AlertHistoryDetails,
    tables=("metrics",),
    always_listed=True,
)
SIGNAL_RECOVERED = FindingKind(
    "signal_recovered",
    how="The first point after the last one that lay nearer to the incident's level than to the "
    "baseline's",
    details=RecoveryDetails,
    tables=("metrics",),
    always_listed=True,
)
CHANGE_NEAR = FindingKind(
    "change_near",
    how="When it reached production, where, what its text shares with what fails, and what fails "
    "without any change",
    details=ChangeDetails,
    tables=("changes",),
)
CHANGE_RULED_OUT = FindingKind(
    "change_ruled_out",
    how="Weighed like the other changes, and found wanting for the reason that it names",
    details=ChangeDetails,
    tables=("changes",),
)
EARLIER_INVESTIGATION = FindingKind(
    "earlier_investigation",
    how="An earlier cause, tested again on this case; it is no evidence",
    details=EarlierDetails,
    is_memory=True,
)
ANSWER_RECORD = FindingKind(
    "answer_record",
    how="How many earlier answers of this confidence people called right",
    details=RecordDetails,
    is_memory=True,
)
FLEET_RECORD = FindingKind(
    "fleet_record",
    how="How often earlier answers blamed this machine, beside how often chance would",
    details=EarlierDetails,
    is_memory=True,
)
OBSERVATION = FindingKind(
    "looked_at",
    how="Rows of the case that somebody asked for; it weighs in no answer",
    details=ObservationDetails,
)
TRAINING_HEALTHY = FindingKind(
    "training_healthy",
    how="No rule of the trace doctor accuses, and the ranks could be compared",
    details=TraceDetails,
    tables=("traces",),
)
TRACES_INCONCLUSIVE = FindingKind(
    "traces_inconclusive",
    how="What the recording lacks before its ranks can be compared",
    details=TraceDetails,
    tables=("traces",),
)
TRACE_UNREADABLE = FindingKind(
    "trace_unreadable",
    how="Files that no reader of the trace engine understands",
    details=UnreadableDetails,
    tables=("traces",),
)

RUN_ENDED = FindingKind(
    "run_ended",
    how="The state of the training run, as its tracker reports it",
    faults=(TRAINING_CAUSES["run_ended"],),
    details=RunStateDetails,
    tables=("monitors",),
)
BY_DOCTOR = "By a rule of the trace doctor on the job's traces, dumps and logs"
BY_COUNTERS = "A GPU's counters against its own baseline, and against the other GPUs of the job"
_DETAILS_OF_RULES: Mapping[str, type[FindingDetails]] = {
    "straggler": StragglerDetails,
    "known_failure": FailureDetails,
    # Counters tell of it as well as logs do, and each carries its own details.
    "ib_error": JobDetails,
}


def rule_kind(cause: FaultKind) -> FindingKind:
    """What a rule of the trace doctor finds, by the name of the fault that it accuses of."""
    return FindingKind(
        cause.name,
        how=BY_DOCTOR,
        faults=(cause,),
        details=_DETAILS_OF_RULES.get(cause.name, TraceDetails),
        tables=("traces",),
    )


RULE_KINDS: Mapping[str, FindingKind] = {
    name: rule_kind(cause) for name, cause in RULE_CAUSES.items()
}
"""Rules of the trace doctor; each is a fault by its own name."""
GPU_KINDS: Mapping[str, FindingKind] = {
    name: FindingKind(
        name, how=BY_COUNTERS, faults=(cause,), details=GpuDetails, tables=("metrics",)
    )
    for name, cause in GPU_CAUSES.items()
}
"""Signs of a GPU; each is a fault by its own name."""
NO_CHANGE_KINDS: Mapping[str, FindingKind] = {
    cause.name: FindingKind(
        cause.name,
        how="What fails without a change, by the log lines and metrics of the services that fail",
        details=NoChangeDetails,
        tables=("logs", "metrics"),
    )
    for cause in fault.WITHOUT_CHANGE
}
_OF_STATES = {
    "route_state": "What a Service, an Ingress or a network policy names, beside what is there",
    "start_state": "What containers that cannot start wait for",
    "end_state": "How the containers' last runs ended",
    "probe_state": "What probes ask for, beside what containers serve",
    "placing_state": "What the scheduler and the workload's controller say of missing pods",
    "limit_state": "What a namespace refuses, by its quota, its limit range and its phase",
    "saturation_state": "What an exporter measures of limits, pools and queues, against the "
    "thresholds of published alert rules",
    "volume_state": "The state of volume claims, and what kubelets say of mounting and filling "
    "them",
    "scaling_state": "Conditions of autoscalers and disruption budgets",
    "node_state": "Conditions, cordons, taints and resources of nodes, beside where the "
    "unwell pods run",
    "database_state": "Status and events of a database instance, as its cloud or exporter "
    "reports them",
    "cloud_state": "What a cloud says of machines, node groups and its own services",
    "provider_state": "What a provider's status page reports, where a service that the alert "
    "depends on calls the provider or logs failures that name it",
}
STATE_KINDS: Mapping[str, FindingKind] = {
    name: FindingKind(
        name,
        how=f"{_OF_STATES[name]}; one that began long before the alert counts less",
        faults=tuple(fact.fault for fact in facts),
        choose=_fault_of_state,
        details=StateFactDetails,
        tables=("states",),
    )
    for name, facts in FAMILIES.items()
}
"""What an object's own state shows, by the kind of object."""
UPSTREAM_INCIDENT = FindingKind(
    "upstream_incident",
    how="What a provider's status page reports. It accuses nobody while no service of the alert is "
    "known to call the provider",
    details=StateFactDetails,
    tables=("states",),
    label="incident of a provider",
    always_listed=True,
)
BUILT_IN: tuple[FindingKind, ...] = (
    METRIC_SHIFT,
    SPAN_SELF_TIME,
    CALL_GAP,
    SPAN_ERRORS,
    CRITICAL_PATH,
    ERROR_ORIGIN,
    FAN_OUT,
    RETRIES,
    CALLEE_MISSING,
    CALLS_INTO,
    PLACE_CONTRAST,
    PART_CONTRAST,
    FLOW_BREAK,
    LOG_NEW,
    LOG_SURGE,
    LOG_VANISHED,
    FAILURE_SIGNATURE,
    ALERT_FLAPPING,
    THRESHOLD_IN_NORMAL_RANGE,
    USUAL_MOVE,
    ALERT_TRUE,
    ALERT_ELSEWHERE_USUAL,
    ALERT_NOT_TRUE,
    ALERT_OFTEN_TRUE,
    ALERT_QUERY_GONE,
    ALERT_IN_RANGE,
    SIGNAL_STOPPED,
    SIGNAL_RECOVERED,
    CHANGE_NEAR,
    CHANGE_RULED_OUT,
    EARLIER_INVESTIGATION,
    ANSWER_RECORD,
    FLEET_RECORD,
    OBSERVATION,
    TRAINING_HEALTHY,
    TRACES_INCONCLUSIVE,
    TRACE_UNREADABLE,
    RUN_ENDED,
    *STATE_KINDS.values(),
    UPSTREAM_INCIDENT,
    *RULE_KINDS.values(),
    *GPU_KINDS.values(),
    *NO_CHANGE_KINDS.values(),
)
_declared: dict[str, FindingKind] = {kind.name: kind for kind in BUILT_IN}


def declare(kinds: Iterable[FindingKind]) -> None:
    """Add the kinds of an analyzer. Raises ValueError when two kinds have one name."""
    for kind in kinds:
        if _declared.setdefault(kind.name, kind) != kind:
            raise ValueError(f"two kinds of findings are called {kind.name!r}")


def declared() -> Mapping[str, FindingKind]:
    """Every kind whose analyzer was imported, by its name."""
    return _declared


def details_model(kind: str) -> type[FindingDetails]:
    """The model of a kind's details; of a kind that nobody declared, one that keeps all values."""
    if kind not in _declared:
        # It may be one of an added analyzer's, which declares its kinds once it is imported. The
        # list of analyzers lies above this room, so it is asked by name.
        import_module("faultline.analysis.analyzers").analyzers()
    declaration = _declared.get(kind)
    return declaration.details if declaration else FindingDetails
