"""What a finding carries beside its sentence: one small frozen model per kind of finding.

In `findings.json` details are an object with the names below. Every value has a default, so that a
case folder that an earlier version wrote, or that a person wrote by hand, can still be read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    ValidationError,
    model_serializer,
)


class DetailedFinding(Protocol):
    """What this table needs of a finding (`faultline.analysis.vocabulary.Finding`), which stands
    on it."""

    @property
    def signal(self) -> str | None: ...

    @property
    def details(self) -> FindingDetails: ...


AFinding = TypeVar("AFinding", bound=DetailedFinding)


class FindingDetails(BaseModel):
    """What may be asked of any finding. An analyzer that has no model uses this one."""

    # An added analyzer may carry values that nobody declares here.
    model_config = ConfigDict(frozen=True, extra="allow", populate_by_name=True, defer_build=True)

    signal_class: str | None = Field(default=None, alias="class")
    """A value of `SignalClass`."""
    direction: str | None = None
    """ "up" or "down"."""
    bad: bool | None = None
    """Whether the move is one that an incident makes."""
    recovered: bool = False
    """Whether the signal was back at its baseline at the end of the window."""
    fix: str | None = None
    """What an engineer should do about it."""
    source: str | None = None
    """Where the threshold or the meaning comes from."""

    @classmethod
    def of(cls, finding: DetailedFinding) -> Self | None:
        """The details of a finding if they are of this model, otherwise None."""
        details = finding.details
        return details if isinstance(details, cls) else None

    @classmethod
    def read(cls, raw_values: Mapping[str, Any]) -> Self:
        """Details as they were written. A value that does not fit the model is left out."""
        try:
            return cls.model_validate(raw_values)
        except ValidationError as error:
            # The place begins with the field's name, however deep inside the fault lies.
            wrong = {str(error["loc"][0]) for error in error.errors()}
        return cls.model_validate({name: v for name, v in raw_values.items() if name not in wrong})

    def written(self) -> dict[str, JsonValue]:
        """The JSON values by name, as in findings.json: those that were set, in declared order."""
        values: dict[str, JsonValue] = {}
        for name, field in type(self).model_fields.items():
            if name in self.model_fields_set:
                values[field.alias or name] = _json(getattr(self, name))
        for name, value in (self.model_extra or {}).items():
            values[name] = _json(value)
        return values

    @model_serializer
    def _serialized(self) -> dict[str, JsonValue]:
        return self.written()


def _json(value: Any) -> JsonValue:
    if isinstance(value, BaseModel):
        return {k: _json(v) for k, v in value.model_dump(by_alias=True).items()}
    if isinstance(value, Mapping):
        return {str(k): _json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(v) for v in value]
    json: JsonValue = value
    return json


class _Closed(FindingDetails):
    """Details whose values are all declared here; others are left out when they are read."""

    model_config = ConfigDict(extra="ignore")


class MetricShiftDetails(_Closed):
    """How far a series left its baseline; the shares are in [0, 1]."""

    unit: str | None = None
    """As its vendor has it."""
    interval_s: float | None = None
    """Usual time between two points of the series: what a count without a unit is per."""
    sigmas: float = 0.0
    """Size of the move in the baseline's own robust standard deviations."""
    points: int = 0
    baseline_points: int = 0
    quiet_share: float = 0.0
    """Share of windows without an incident that show such a move as well."""
    usual_at_this_hour: bool = False
    agreement: float | None = None
    """How far it is bad while the alerting signal is, and calm while that is calm, in [0, 1]; None
    where the alert has no course in time."""


class CallsIntoDetails(_Closed):
    """What its callers say of a service that they call."""

    callers: tuple[str, ...] = ()
    """The worst first."""
    lines: int = 0
    """Failing lines of the incident that name it."""
    unit: str | None = None
    """Of the levels that its worst caller measures, where it measures any."""
    is_calm_itself: bool = False
    """Whether it measures the same itself, and sees nothing of what its callers see: the trouble
    lies between them."""


class PlaceDetails(_Closed):
    """A place in which instances of several services are in trouble, beside those elsewhere."""

    place_kind: str = ""
    """The label that names it: "node", "zone", "cluster", ..."""
    services: tuple[str, ...] = ()
    """Those that are worse there, the worst first."""
    services_there: int = 0


class PartDetails(_Closed):
    """The parts of one service that are in trouble, beside its others."""

    part_kind: str = ""
    """"version", "cluster", "region", "tenant", "pod", "instance", "node" or "zone"."""
    parts: tuple[str, ...] = ()
    """Those that are worse, the worst first."""
    parts_known: int = 0


class SpanShiftDetails(_Closed):
    """Spans of one service, or between two, against the baseline's."""

    delta_ms: float | None = None
    spans: int = 0
    baseline_spans: int = 0
    caller: str | None = None
    """Of a gap between two services, as `callee`."""
    callee: str | None = None


class CallPatternDetails(_Closed):
    """A change in how one service calls another."""

    caller: str = ""


class RequestPathDetails(_Closed):
    """Requests whose time or failure was traced to one service."""

    how: str = ""
    """Of slow requests "own" or "lost"; of failing ones "own", "waited", "unreached" or
    "outside"."""
    requests: int = 0
    baseline_requests: int | None = None


class FlowBreakDetails(_Closed):
    """A step of a request that no longer follows another."""

    after: str = ""
    event: str = ""
    callers: tuple[str, ...] = ()
    """The services that no longer make the call, where several do not."""
    requests: int = 0
    baseline_requests: int = 0


class LineDetails(_Closed):
    """A kind of log line: its template, and a line of it as it was written."""

    template: str = ""
    example: str = ""


class LogLineDetails(LineDetails):
    """A template of log lines against the baseline."""

    is_error: bool = False
    lines: int = 0
    baseline_lines: int = 0
    error_class: str | None = None
    frame: str | None = None
    """The frame of our own code that wrote it, as "file:line function"."""
    code: str | None = None
    names: str | None = None
    """Another service that the line names."""
    lines_cut: int | None = None
    """Lines that were not read, where there were too many."""


class SignatureDetails(LineDetails):
    """A known failure that log lines, or the alert's own text, show."""

    is_error: bool = False
    signature: str = ""
    """Its name in `failure_signatures.toml`."""
    meaning: str = ""
    accuses: str = ""
    inherent: bool = Field(default=False, alias="own")
    """Whether the service has it by itself, and not from what it calls."""
    hosts: tuple[str, ...] = ()
    names: str | None = None
    """The called service that the lines name, where they are about one."""
    lines: int = 0
    baseline_lines: int = 0


class ObservationDetails(LineDetails):
    """One row that somebody asked for, so that a program can check a sentence about it.

    Module `faultline.bot.investigation.model.tools.contract` says what each field holds per kind of
    row."""

    about: str = ""
    """The kind of row: "series", "log_line", "diff_line", ..."""
    direction: str | None = None
    """ "rose", "fell" or "unaffected" against the baseline; None where nothing is compared."""
    departed: bool | None = None
    """Whether it left the variation of its baseline; None where nothing is compared."""
    time: str = ""
    """When it happened, ISO 8601 in UTC."""
    unit: str | None = None
    """Of the numbers that are values of the signal, as its vendor has it."""
    quote: str = ""
    """Somebody else's text: one line, secrets masked, no mark-up. May be quoted letter by
    letter."""
    labels: Mapping[str, str] = Field(default_factory=dict)
    """Of its series: the pod, the zone, the rank."""
    points: tuple[tuple[str, float], ...] = ()
    """Times (ISO 8601) and values of a series that was shown as numbers."""
    change: str = ""
    """Id of the change."""
    file: str = ""
    line: int | None = None
    """Of a diff: the file, and the line's number in the diff, from 1."""
    side: str = ""
    """Of a diff's line: "added", "removed" or "unchanged"."""
    trace_id: str = ""
    expression: str = ""
    """What was calculated, or the query that was asked."""


class StateFactDetails(_Closed):
    """What is wrong with objects of a cluster or a cloud, by their own state."""

    fact: str = ""
    """Its name in `faultline.analysis.kinds.state_faults`."""
    objects: tuple[str, ...] = ()
    """As "Kind namespace/name"."""
    services: tuple[str, ...] = ()
    """Those that it bears on."""
    places: tuple[str, ...] = ()
    """Nodes on which the objects are."""
    value: str = ""
    """What is wrong with the first of them, as the connector has it."""
    expected: str = ""
    """What was to be there instead."""
    restored_by: str | None = None
    """What writes the state back where somebody undoes it by hand."""
    is_history: bool = False
    """Whether it was so before the baseline began: then it is no mechanism of what is new."""
    explained_by: str | None = None
    """The subject of the fact that brought this one about, if one did."""
    called_as: tuple[str, ...] = ()
    """Of a provider: names and domains by which services call it."""


class RunStateDetails(_Closed):
    """A training run that ended or fell silent."""

    state: str = ""
    run: str = ""


class RecoveryDetails(_Closed):
    """A signal that came back."""

    left_at: str = ""
    """When it had left its baseline, ISO 8601."""


class AlertHistoryDetails(_Closed):
    """What the alert's own past says; which of these is set depends on the kind."""

    unit: str | None = None
    """Of the alerting signal, as its vendor has it."""
    usual_minutes: float | None = None
    runs: int | None = None
    others_of_service: int | None = None
    days_felt: int | None = None
    """On how many of the days on which the alert's query was true users noticed."""
    place: dict[str, str] = Field(default_factory=dict)
    """Namespace, version, zone and the like of all series for which the alert's query is true."""


class ChangeDetails(_Closed):
    """A change near the onset, or one that was ruled out."""

    change: str = ""
    change_kind: str | None = None
    title: str | None = None
    place: str | None = None
    concerns: str | None = None
    """The suspect that the change was held against."""
    link: str | None = None
    before: str | None = None
    """The version, the replicas or the value that it replaced."""
    after: str | None = None
    restored_by: str | None = None
    """What writes the new state back where somebody undoes it by hand."""
    reason: str | None = None
    """Why it was ruled out."""
    bears_on: str | None = None
    bearing: float | None = None
    """In [0, 1]: how much its text shares with what fails."""
    quoted: tuple[str, ...] = ()


class NoChangeDetails(_Closed):
    """What fails without any change of ours."""

    reason: str = ""
    services: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


class TestedRow(BaseModel):
    """An earlier investigation that was tested on this case, as the page lists it."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    investigation: str = ""
    when: str = ""
    alert: str = ""
    recalled_for: str = Field(default="", alias="recalled for")
    cause: str = ""
    outcome: str = ""


class EarlierDetails(_Closed):
    """An earlier cause that was tested on this case."""

    investigation: str = ""
    outcome: str = ""
    shows_in: tuple[str, ...] = ()
    """Ids of the findings in which it shows again."""
    tested: tuple[TestedRow, ...] = ()


class RecordDetails(_Closed):
    """How often answers of one level of confidence were right; bounds in [0, 1]."""

    at_least: float = Field(default=0.0, alias="from")
    below: float = 1.0


class UnreadableDetails(FindingDetails):
    """Files of a training job that cannot be read, and why."""

    files: tuple[str, ...] = ()
    problem: str = ""


class JobDetails(FindingDetails):
    """A finding about a training job.

    What else its rule measured stands beside the declared values: rows for the page's tables,
    which no code reads by name.
    """

    job: str = ""
    ranks: tuple[int, ...] = ()
    """Every rank that was seen, or, of a device's finding, the ranks on it."""
    host: str | None = None
    node: str | None = None


class TraceDetails(JobDetails):
    """What the files of a training job show."""

    rank_source: tuple[str, ...] = ()
    """Where the ranks' numbers come from."""
    dropped: Mapping[str, Mapping[str, int]] = Field(default_factory=dict)
    """By file, what was lost in reading it."""
    per_rank: tuple[Mapping[str, JsonValue], ...] = ()
    also: tuple[str, ...] = ()
    """Statements of the trace doctor that accuse nobody."""
    severity: str | None = None
    culprits: tuple[int, ...] = ()
    operation: str | Mapping[str, JsonValue] | None = None
    """What it was doing; of a hang the collective with its sizes and ranks."""
    events: tuple[Mapping[str, JsonValue], ...] = ()
    """Events of the trace that a person can open."""


class StragglerDetails(TraceDetails):
    """A rank that delays the others; times in milliseconds per step."""

    rank: int | None = None
    blame_share: float | None = None
    """Share of the step time that the others wait for it, in [0, 1]."""
    phase: str | None = None
    phases_ms: Mapping[str, float] = Field(default_factory=dict)
    others_phases_ms: Mapping[str, float] = Field(default_factory=dict)
    """The other ranks' medians."""


class FailureDetails(TraceDetails):
    """A known failure in a rank's log."""

    signature: str = ""
    line: str = ""
    count: int = 0


class GpuDetails(JobDetails):
    """What the counters of GPUs, or of their hosts' network ports, show."""

    hosts: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    """As "host/number"."""
    events: tuple[str, ...] = ()
    """Why the clock was lowered, in words."""
    minutes: float | None = None
    xids: tuple[int, ...] = ()


def change_named(finding: DetailedFinding) -> str | None:
    """The id of the change that a finding is about, if it is about one."""
    details = ChangeDetails.of(finding)
    return (details.change or None) if details else None


def changes_named(findings: Iterable[DetailedFinding]) -> set[str]:
    """The ids of all changes that findings are about."""
    return {change for finding in findings if (change := change_named(finding))}


def change_finding(findings: Iterable[AFinding], change: str) -> AFinding | None:
    """The first finding about this change."""
    return next((finding for finding in findings if change_named(finding) == change), None)
