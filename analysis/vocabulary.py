"""The words everything else speaks: alert, scope, evidence, gap, finding, cause, verdict, report.

All values are frozen and serialise to the JSON files of a case folder. Times are UTC.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import (
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    model_serializer,
    model_validator,
)

# The kinds of findings and faults, on which this vocabulary stands, name tables too.
from faultline.analysis.kinds.evidence_kinds import EvidenceKind as EvidenceKind
from faultline.analysis.kinds.finding_details import FindingDetails
from faultline.analysis.kinds.finding_kinds import details_model
from faultline.analysis.kinds.place_names import place_identity
from faultline.analysis.kinds.signals import AlertQuery, SignalSource, WatchedSignal

ChangeKind = Literal["deploy", "config", "flag", "scale", "migration", "merge", "job", "restart"]


def _to_utc(value: Any) -> Any:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(UTC)
    return value


UtcTime = Annotated[AwareDatetime, BeforeValidator(_to_utc)]


class Frozen(BaseModel):
    """Base of all values that travel between layers."""

    # Files may hold more than this version knows; models are built when they are first used.
    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)


class Window(Frozen):
    """A half-open span of time [start, end); in JSON the pair `[start, end]`."""

    start: UtcTime
    end: UtcTime

    @model_validator(mode="before")
    @classmethod
    def _from_pair(cls, value: Any) -> Any:
        # People write cases by hand, so a window is a pair in the files.
        if isinstance(value, (list, tuple)):
            if len(value) != 2:
                raise ValueError("a window is a pair [start, end]")
            return {"start": value[0], "end": value[1]}
        return value

    @model_validator(mode="after")
    def _in_order(self) -> Window:
        if self.end < self.start:
            raise ValueError("a window must not end before it starts")
        return self

    @model_serializer
    def _as_pair(self) -> list[str]:
        return [self.start.isoformat(), self.end.isoformat()]

    @property
    def seconds(self) -> float:
        """Length in seconds."""
        return (self.end - self.start).total_seconds()


class Link(Frozen):
    """A link a human can open."""

    title: str
    url: str


QUESTION_PREFIX = "asked:"
"""How the fingerprint of what somebody asks about begins."""


class Alert(Frozen):
    """One alert, whatever vendor sent it. `labels` are the vendor's own, as text."""

    source: str
    title: str
    started_at: UtcTime
    id: str = ""
    status: Literal["firing", "resolved"] = "firing"
    service: str | None = None
    service_from: str | None = None
    """What names the service, as an answer says it: "its label deployment"."""
    host: str | None = None
    """The machine that it is about or that its object runs on, without a port."""
    signal: str | None = None
    system: str | None = None
    severity: str | None = None
    summary: str | None = None
    threshold: float | None = None
    observed: float | None = None
    labels: Mapping[str, str] = Field(default_factory=dict)
    links: tuple[Link, ...] = ()
    query: AlertQuery | None = None
    """What its monitor computes; only what the alert or its vendor says."""
    watches: WatchedSignal | None = None
    """What it watches, named or derived; None where nobody looked."""
    signal_source: SignalSource | None = None
    """Where `signal` comes from, where that is not the sender."""
    no_data: bool = False
    """Whether it fires because its rule got no data: then no threshold was crossed."""
    notes: tuple[str, ...] = ()
    """What is odd about the alert itself, a sentence each: a clock that is ahead."""

    @property
    def fingerprint(self) -> str:
        """Stable identity of what is alerting (16 hex digits), equal for each repeat of the same
        alert."""
        # The sender's own identity of the alert survives a changed title.
        fingerprint = self.labels.get("fingerprint") or self.labels.get("incident_key")
        parts = [self.source, fingerprint or ""]
        if not fingerprint:
            names = (self.title, self.service or "", self.signal or "")
            parts = [self.source, *names, *place_identity(self.labels)]
        # NUL keeps the parts apart: `a b` with `c` is another alert than `a` with `b c`.
        return hashlib.sha256("\x00".join(parts).encode()).hexdigest()[:16]

    @property
    def is_question(self) -> bool:
        """Whether somebody asked, and nothing alerted. `started_at` is the time that was asked
        about."""
        return self.labels.get("fingerprint", "").startswith(QUESTION_PREFIX)

    @property
    def job(self) -> str | None:
        """The training job the alert names, if any."""
        return self.labels.get("job_name") or self.labels.get("training_job")


def same_host(first: str, other: str) -> bool:
    """Whether two names mean the same machine: equal, or one is the other without its domain."""
    a, b = first.casefold(), other.casefold()
    short, long = sorted((a, b), key=len)
    # A short name of digits would be the beginning of an address.
    return a == b or ("." not in short and not short.isdigit() and long.startswith(short + "."))


class JobIdentity(Frozen):
    """The training job that an alert is about: who it is, where it runs, and where it leaves its
    files."""

    name: str
    run: str | None = None
    slurm_job_id: str | None = None
    pod: str | None = None
    node: str | None = None
    gpu: int | None = None
    rank: int | None = None
    """The rank that the alert speaks of."""
    hosts: tuple[str, ...] = ()
    """In the order of their ranks, without ports."""
    ranks_per_host: int | None = None
    ranks: int | None = None
    traces: tuple[str, ...] = ()
    dumps: tuple[str, ...] = ()
    logs: tuple[str, ...] = ()
    """Directories and `s3://bucket/prefix`."""
    unknown: tuple[str, ...] = ()
    """Locations that the alert does not say enough for, each with what is missing."""

    def host_of(self, rank: int) -> str | None:
        """The host of a rank, where hosts and ranks per host are known."""
        if not self.ranks_per_host or rank < 0 or rank // self.ranks_per_host >= len(self.hosts):
            return None
        # Ranks are numbered host by host.
        return self.hosts[rank // self.ranks_per_host]

    def rank_of(self, host: str, gpu: int) -> int | None:
        """The rank on a host's GPU, one process per GPU in their order."""
        if not self.ranks_per_host or not 0 <= gpu < self.ranks_per_host:
            return None
        # One machine may appear with its domain and without.
        numbers = (number for number, name in enumerate(self.hosts) if same_host(name, host))
        return next((number * self.ranks_per_host + gpu for number in numbers), None)


class AddedQuery(Frozen):
    """A query that an operator's runbook adds to what a connector asks by itself. `by` says who
    asks for it."""

    connector: str
    signal: str
    query: str
    by: str


class LogWords(Frozen):
    """Words that an operator's runbooks want looked for in the logs of the services in scope."""

    words: tuple[str, ...]
    by: str


class Scope(Frozen):
    """Where and when to look. Baselines for logs and spans are given only where they differ from
    `baseline`."""

    incident: Window
    baseline: tuple[Window, ...] = ()
    baseline_logs: tuple[Window, ...] | None = None
    baseline_spans: tuple[Window, ...] | None = None
    services: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    """(caller, callee) as the service catalogue has them."""
    connectors: tuple[str, ...] = ()
    obtainable: tuple[EvidenceKind, ...] = ()
    """Kinds of evidence that the configured connectors can give; empty where nobody said."""
    job: str | None = None
    training: JobIdentity | None = None
    queries: tuple[AddedQuery, ...] = ()
    log_words: LogWords | None = None
    data_since: UtcTime | None = None
    """When the data begins, where that is later than the baseline was meant to."""

    @property
    def logs_before(self) -> tuple[Window, ...]:
        """The baseline of what is reported in events: the same hours of earlier days are for
        metrics alone."""
        return self.baseline if self.baseline_logs is None else self.baseline_logs

    @property
    def events_from(self) -> datetime:
        """When changes, announcements and log lines begin to matter."""
        return min(w.start for w in (self.incident, *self.logs_before))

    def queries_of(self, connector: str) -> tuple[AddedQuery, ...]:
        """The queries that runbooks add for this connector."""
        return tuple(query for query in self.queries if query.connector == connector)


class Evidence(Frozen):
    """One item collected: the source, the query, and where the answer is in the case folder.

    `details` holds what is no table: an alert's body, a log entry, the rank of a trace. `services`,
    `signals` and `changes` (ids) are those of its rows, None where that is not known. `round` is
    given from the second on (`faultline.analysis.case.rounds`).
    """

    id: str
    kind: EvidenceKind
    source: str
    query: str
    window: Window | None = None
    link: str | None = None
    file: str | None = None
    rows: int | None = None
    bytes: int | None = None
    cut: str | None = None
    details: Mapping[str, str] = Field(default_factory=dict)
    services: tuple[str, ...] | None = None
    signals: tuple[str, ...] | None = None
    changes: tuple[str, ...] | None = None
    round: int | None = None

    def may_show(
        self, service: str | None, signal: str | None = None, change: str | None = None
    ) -> bool:
        """Whether rows of that service, of that signal and of that change, where these are given,
        may be among its own: they are, or the item does not say."""
        pairs = ((service, self.services), (signal, self.signals), (change, self.changes))
        # An item that does not say what it holds may hold it.
        return all(name is None or names is None or name in names for name, names in pairs)


class Gap(Frozen):
    """One item that could not be collected, and why, in words for the report."""

    id: str
    kind: EvidenceKind
    source: str
    query: str
    reason: str


class Finding(Frozen):
    """One fact established by code.

    `effect` is the size in `effect_unit` ("x" is a ratio of incident to baseline); `strength` in
    [0, 1] says how far it stands out from the baseline's own noise. `numbers` holds every number
    that `sentence` quotes, by name. `series` names the rows a chart of this finding shows, e.g.
    {"table": "metrics", "service": ..., "signal": ...}. `details` are of the model that the kind
    names in `faultline.analysis.kinds.finding_kinds`.
    """

    id: str
    kind: str
    subject: str
    signal: str | None = None
    onset: UtcTime | None = None
    onset_uncertainty_s: float | None = None
    effect: float | None = None
    effect_unit: str | None = None
    strength: float = Field(ge=0, le=1)
    sentence: str
    numbers: Mapping[str, float] = Field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    series: Mapping[str, str] = Field(default_factory=dict)
    details: SerializeAsAny[FindingDetails] = Field(default_factory=FindingDetails)

    @model_validator(mode="before")
    @classmethod
    def _typed_details(cls, value: Any) -> Any:
        """Details as JSON has them become those of the finding's kind."""
        if not isinstance(value, Mapping):
            return value
        details = value.get("details", {})
        if not isinstance(details, Mapping):
            return value
        model = details_model(str(value.get("kind")))
        # Details that do not fit their kind are lost; the finding stays.
        return {**value, "details": model.read(details)}


class Verdict(StrEnum):
    """What the investigation may conclude."""

    CAUSE_FOUND = "cause_found"
    RECOVERED = "recovered"
    NO_ACTIVE_INCIDENT = "no_active_incident"
    INSUFFICIENT_EVIDENCE = "insufficient_evidence"


class Cause(Frozen):
    """A ranked explanation. `change` is the id of the change to blame, `next_step` what the
    engineer should do."""

    rank: int = Field(ge=1)
    subject: str
    signal: str | None = None
    kind: str
    change: str | None = None
    confidence: float = Field(ge=0, le=1)
    onset: UtcTime | None = None
    summary: str
    next_step: str | None = None
    findings: tuple[str, ...]
    contradicting: tuple[str, ...] = ()


class Impact(Frozen):
    """Who and what is affected since when. The sentence cites `findings`."""

    sentence: str
    since: UtcTime | None = None
    services: tuple[str, ...] = ()
    numbers: Mapping[str, float] = Field(default_factory=dict)
    findings: tuple[str, ...] = ()


class NextQuery(Frozen):
    """What to ask for next, and what each of the first two causes predicts. `text` says all of it
    in a sentence."""

    text: str
    kind: EvidenceKind
    service: str
    window: Window
    prediction_first: str
    prediction_second: str


class Assertion(Frozen):
    """One thing that a model's claim says, as data, so that code can word it and check it again.

    Which of the fields count depends on the relation (`faultline.bot.answer.asserted.relations`).
    """

    relation: str
    subjects: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    quote: str = ""
    """Words of the source that is quoted."""
    joint: str = ""
    """What joins it to the assertion before it: "and", "while" or "but"."""


class VerdictKind(StrEnum):
    """What a model concludes about a diagnosis."""

    AGREE = "agree"
    """Code's first cause is the cause; where code found no incident, there is none."""
    OTHER_CAUSE = "other_cause"
    OTHER_CHANGE = "other_change"
    """The same subject by another change, or by none."""
    SOMETHING_WRONG = "something_wrong"
    """There is an incident where code found none."""
    NOTHING_WRONG = "nothing_wrong"
    UNDECIDABLE = "undecidable"


class Rival(Frozen):
    """Another explanation that a model weighed, and the finding that speaks most against it."""

    subject: str
    finding: str


class ModelVerdict(Frozen):
    """What a model concludes, with the grounds that code could verify."""

    kind: VerdictKind
    subject: str | None = None
    """Of the cause that it names."""
    change: str | None = None
    """The id of the change that it blames."""
    confidence: float = Field(ge=0, le=1)
    """The model's own."""
    grounds: tuple[Assertion, ...] = ()
    rivals: tuple[Rival, ...] = ()
    text: str = ""
    """Why, in the model's words, without figures."""
    would_decide: str = ""
    """What would tell, where it cannot decide."""


class DecisionPolicy(Frozen):
    """When a model's verdict leads an answer, and how sure the answer is then: measured for the
    model, or cautious numbers (docs/model.md)."""

    decides: Literal["never", "below_bar", "dissent_only"] = "below_bar"
    bar: float = 0.9
    """From this confidence of code on, its first cause stays."""
    least_confidence: float = 0.7
    """Of the model in its verdict, to lead."""
    agreed: float = 0.85
    """How often a cause is right that code and model both name; code's own confidence may be
    higher."""
    overruled: float = 0.65
    """How often a verdict is right that leads instead of code's first cause."""


class Decision(Frozen):
    """Who decided, where a model gave a verdict. Code's part is what it said without the model."""

    outcome: Literal["agreed", "led", "dissented"]
    """Whether the verdict agreed, led the answer, or stayed a dissent."""
    verdict: ModelVerdict
    model: str
    policy: DecisionPolicy
    code_verdict: Verdict
    code_confidence: float = Field(ge=0, le=1)
    code_subject: str | None = None
    code_change: str | None = None
    objection: str = ""
    """Why a dissenting verdict does not lead, in a few plain words."""
    refuted: bool = False
    """Whether that is what code found against its grounds, and not how sure anybody is."""


class Diagnosis(Frozen):
    """Everything that was decided, before anything is worded."""

    verdict: Verdict
    confidence: float = Field(ge=0, le=1)
    causes: tuple[Cause, ...]
    findings: tuple[Finding, ...]
    impact: Impact
    missing: tuple[str, ...] = ()
    """For `insufficient_evidence`: what would be needed, one sentence each."""
    next_query: NextQuery | None = None
    """What would separate the first two causes."""
    decision: Decision | None = None
    """None where no model gave a verdict. Where one leads, everything above is what it says."""

    @property
    def first_cause(self) -> Cause | None:
        """The cause that ranks first; None where there is none."""
        return min(self.causes, key=lambda cause: cause.rank, default=None)


class Section(StrEnum):
    """Where in an answer a sentence stands."""

    HAPPENING = "happening"
    """Who is affected, since when and how badly."""
    WHY = "why"
    """What shows the cause."""
    UNSURE = "unsure"
    """Evidence against it, or what is unknown."""
    CHECKED = "checked"
    """What was checked and ruled out."""
    EARLIER = "earlier"
    """What memory knows."""
    INFERRED = "inferred"
    """What a model concludes in its own words. No evidence shows it."""
    SECOND_OPINION = "second_opinion"
    """What a model would rather say, where that does not lead the answer."""


class Claim(Frozen):
    """One sentence of the report and the findings it rests on."""

    text: str
    findings: tuple[str, ...]
    section: Section = Section.WHY
    asserted: tuple[Assertion, ...] = ()
    """What it says, where a model chose it; code worded the text from this."""


class Guidance(Frozen):
    """What an operator's runbook says about an alert: beside the findings, never one of them."""

    runbook: str
    kind: Literal["expected", "owner", "next_step", "link"]
    text: str
    """One harmless line."""
    url: str | None = None
    """Only of a link, and only to a host that the settings name."""


class ModelUse(Frozen):
    """What asking a language model took, whether or not its words stand. Tokens as the server
    counted them."""

    name: str
    rounds: int = 0
    """Answers of the model."""
    tool_calls: int = 0
    """Calls of tools that were carried out."""
    input_tokens: int | None = None
    """With those from the cache; None where the server gives no numbers."""
    cached_tokens: int | None = None
    """Of `input_tokens`, those that the server had kept from earlier rounds."""
    output_tokens: int | None = None
    cost_usd: float | None = None
    """None where the prices are not set or the server gives no numbers."""
    seconds: float = 0.0
    ended: str = "answered"
    """Why it stopped: "answered", or in a few words the limit or failure that ended it."""


BUILT_IN_WRITER = "built-in"
"""Who wrote a report without a model."""


class Report(Frozen):
    """The worded answer. `written_by` is "built-in" or the model's name; `dropped` tells what the
    guard removed."""

    headline: str
    claims: tuple[Claim, ...]
    next_steps: tuple[Claim, ...] = ()
    written_by: str = BUILT_IN_WRITER
    dropped: tuple[str, ...] = ()
    model_use: ModelUse | None = None
    """None where no model was asked."""
    guidance: tuple[Guidance, ...] = ()
    """Added by code after everything else was worded; it rests on no finding."""
