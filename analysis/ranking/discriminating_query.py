"""The one next question that would separate the first two causes, and what each of them predicts as
its answer.

A kind of cause predicts something in each kind of evidence (`CauseKind.predicts`): where both
predict, and differently, asking for that evidence tells them apart. Preferred is what is not there
yet and what a configured connector can give.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import polars as pl

from faultline.analysis.analyzers import cause_kinds, fault_kind
from faultline.analysis.case.folder import Case
from faultline.analysis.case.windows import log_windows, metric_windows, span_windows
from faultline.analysis.kinds.fault_kinds import CauseKind
from faultline.analysis.kinds.signals import SYMPTOMS, classify
from faultline.analysis.requests.topology import Topology
from faultline.analysis.vocabulary import Cause, EvidenceKind, Finding, NextQuery, Window
from faultline.analysis.wording.phrases import plain

SURE = 0.75
CLEAR_MARGIN = 0.3
"""From this confidence of the first cause on, or at this lead over the second, no further question
is proposed."""
AROUND = timedelta(minutes=10)
"""The question's window begins this long before the first onset of either cause, and ends this long
after it."""
USEFUL = 0.2
ALIKE = 0.8
"""Worth of a question where both causes predict the same, each of itself: then both have to be
checked."""
MAX_HOPS = 3
NOT_THERE, SINGLE_SIDE = 1.0, 0.6
"""What asking brings where nothing was collected, and where only the baseline or only the incident
was. Where both are there, it brings nothing new."""

TELLS: Mapping[EvidenceKind, float] = {
    "spans": 1.0,
    "traces": 1.0,
    "metrics": 0.9,
    "logs": 0.8,
    "changes": 0.6,
}
"""How well a kind of evidence separates causes: spans say where time goes and who fails, changes
what coincides."""

CHANGED = "a change lies shortly before the onset"
BY_CALL = {
    "errors": ("fails in its own code", "fails only where its call to {callee} fails"),
    "latency": (
        "spends the added time in its own code",
        "spends the added time waiting for {callee}",
    ),
}
"""Of two causes one calls the other: what the caller's spans show if it is the cause, and if the
callee is."""
QUERY_WORDS = {
    "metrics": "metrics",
    "logs": "logs",
    "spans": "spans",
    "changes": "deploys, flags and configuration changes",
    "traces": "a profiler trace",
}


@dataclass(frozen=True)
class _Option:
    """One question that could be asked: about a service, with what each cause predicts, and what
    the question is worth."""

    kind: EvidenceKind
    service: str
    first: str
    second: str
    worth: float

    def rank(self) -> tuple[float, str, str]:
        """The worth, rounded so that the last bit of a float decides nothing, then the names."""
        return round(self.worth, 6), self.kind, self.service


def next_query(
    case: Case, causes: Sequence[Cause], findings: Sequence[Finding], topology: Topology
) -> NextQuery | None:
    """The question; None without a second cause, where the first is clear, or where nothing would
    separate them."""
    if len(causes) < 2:
        return None
    first, second = causes[0], causes[1]
    if first.confidence >= SURE or first.confidence - second.confidence >= CLEAR_MARGIN:
        return None
    have = _Collected(case)
    options: list[_Option] = []
    for kind in TELLS:
        if have.obtainable(kind):
            options += _options(kind, first, second, topology, have)
    option = max(options, key=_Option.rank, default=None)
    if option is None or option.worth < USEFUL:
        return None
    window = _window(case, (first, second), findings)
    return NextQuery(
        text=_text(option, window, first, second),
        kind=option.kind,
        service=option.service,
        window=window,
        prediction_first=option.first,
        prediction_second=option.second,
    )


def _options(
    kind: EvidenceKind, first: Cause, second: Cause, topology: Topology, have: _Collected
) -> Iterator[_Option]:
    if kind == "spans":
        yield from _by_call(first, second, topology, have)
    # Changes are compared by their presence, not by the predictions of kinds.
    if kind == "changes":
        yield from _by_change(first, second, have)
        return
    if_first, if_second = _predicted(first, kind), _predicted(second, kind)
    if if_first is None or if_second is None:
        return
    sameness = ALIKE if if_first == if_second else 1.0
    for cause in (first, second):
        new = have.novelty(kind, cause.subject, _kind_of(cause))
        yield _Option(
            kind,
            cause.subject,
            f"{plain(first.subject, 60)}: {if_first}",
            f"{plain(second.subject, 60)}: {if_second}",
            TELLS[kind] * new * sameness,
        )


def _by_call(
    first: Cause, second: Cause, topology: Topology, have: _Collected
) -> Iterator[_Option]:
    """One calls the other: the caller's own spans show where its time goes, or where it fails."""
    for caller, callee in ((first, second), (second, first)):
        if not 1 <= topology.downstream(caller.subject).get(callee.subject, 0) <= MAX_HOPS:
            continue
        kinds = (_kind_of(caller), _kind_of(callee))
        failing = any(kind is not None and kind.fails for kind in kinds)
        caller_text, called = BY_CALL["errors" if failing else "latency"]
        name = plain(caller.subject, 60)
        if_caller = f"{name} {caller_text}"
        if_callee = f"{name} {called.format(callee=plain(callee.subject, 60))}"
        # Keep the order of the causes, whichever of them is the caller.
        predictions = (if_caller, if_callee) if caller is first else (if_callee, if_caller)
        of_caller = have.novelty("spans", caller.subject, None)
        of_callee = have.novelty("spans", callee.subject, None)
        new = min(1.0, max(of_caller, of_callee))
        yield _Option("spans", caller.subject, *predictions, TELLS["spans"] * new)


def _by_change(first: Cause, second: Cause, have: _Collected) -> Iterator[_Option]:
    """A change of the one and none of the other speaks for the one; asked where no changes were
    collected at all."""
    if first.change or second.change:
        return
    for cause in (first, second):
        new = have.novelty("changes", cause.subject, None)
        predictions = [f"{plain(c.subject, 60)}: {CHANGED}" for c in (first, second)]
        yield _Option(
            "changes", cause.subject, predictions[0], predictions[1], TELLS["changes"] * ALIKE * new
        )


def _kind_of(cause: Cause) -> CauseKind | None:
    """The kind whose predictions hold. A change, and what has no name, is recognised by the signal
    that it moved."""
    cause_kind = cause_kinds().get(cause.kind)
    if cause_kind is not None and (cause_kind.predicts or fault_kind(cause.kind).training):
        return cause_kind
    moved = classify(cause.signal or "")
    return next((kind for kind in cause_kinds().values() if moved in kind.signals), None)


def _predicted(cause: Cause, evidence: EvidenceKind) -> str | None:
    """What this kind of evidence shows if the cause is right."""
    kind = _kind_of(cause)
    return kind.predicts.get(evidence) if kind else None


class _Collected:
    """What is there already: tables by service, and which connectors could give more."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._obtainable = frozenset(case.scope.obtainable)
        self._gaps = {gap.kind for gap in case.gaps}

    def obtainable(self, kind: EvidenceKind) -> bool:
        """Whether a configured connector gives this kind; where nobody said, one may."""
        is_job = bool(self._case.scope.job or self._case.alert.job)
        # Only training jobs leave profiler traces, and only services leave spans.
        if kind == "traces" and not is_job:
            return False
        if kind == "spans" and is_job:
            return False
        return not self._obtainable or kind in self._obtainable

    def novelty(self, kind: EvidenceKind, service: str, cause: CauseKind | None) -> float:
        """How much asking for it would bring beyond what was collected."""
        case = self._case
        if kind == "traces":
            return 0.0 if case.trace_files else NOT_THERE
        if kind == "changes":
            return 0.0 if case.changes.height else NOT_THERE
        rows = self._rows(kind, service, cause)
        if not rows.height:
            return NOT_THERE
        windows_of = {"metrics": metric_windows, "logs": log_windows, "spans": span_windows}[kind]
        time = "start" if kind == "spans" else "time"
        # One window alone cannot be compared: asking would bring the other.
        if not windows_of(case).both_in(rows, time):
            return SINGLE_SIDE
        # A gap says that more was there than came.
        return SINGLE_SIDE / 2 if kind in self._gaps else 0.0

    def _rows(self, kind: EvidenceKind, service: str, cause: CauseKind | None) -> pl.DataFrame:
        """What was collected of the service; of metrics, only signals that would show the cause."""
        case = self._case
        table = {"metrics": case.metrics, "logs": case.logs, "spans": case.spans}[kind]
        rows = table.filter(pl.col("service") == service)
        if kind != "metrics" or not rows.height:
            return rows
        symptoms = cause.measured_by if cause else SYMPTOMS
        signals = [signal for signal in rows["signal"].unique() if classify(signal) in symptoms]
        return rows.filter(pl.col("signal").is_in(signals))


def _window(case: Case, causes: Sequence[Cause], findings: Sequence[Finding]) -> Window:
    """Around the first onset of either cause, in whole minutes."""
    onsets: list[datetime] = [cause.onset for cause in causes if cause.onset is not None]
    # Without an onset of a cause, its findings tell when it began.
    if not onsets:
        cited = set().union(*(cause.findings for cause in causes))
        onsets = [f.onset for f in findings if f.id in cited and f.onset is not None]
    if not onsets:
        onsets = [max(case.alert.started_at, case.scope.incident.start)]
    onset = min(onsets).replace(second=0, microsecond=0)
    return Window(start=onset - AROUND, end=onset + AROUND)


def _text(option: _Option, window: Window, first: Cause, second: Cause) -> str:
    times = f"{window.start:%H:%M}-{window.end:%H:%M} UTC"
    first_name, other = plain(first.subject, 60), plain(second.subject, 60)
    if_first = option.first.removeprefix(f"{first_name}: ")
    if_other = option.second.removeprefix(f"{other}: ")
    what = QUERY_WORDS[option.kind]
    if if_first == if_other:
        return (
            f"To tell them apart, compare {what} of {first_name} and {other}, {times}: "
            f"it is the one where {if_first}."
        )
    phrase = f"To tell them apart, look at {what} of {plain(option.service, 60)}, {times}"
    return f"{phrase}: it is {first_name} if {if_first}, and {other} if {if_other}."
