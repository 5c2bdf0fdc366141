"""What a box of the map says of its service: one state, in two or three words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from faultline.analysis.analyzers import fault_of
from faultline.analysis.kinds.finding_details import MetricShiftDetails
from faultline.analysis.kinds.signals import SignalClass, classify
from faultline.analysis.vocabulary import Finding, Verdict
from faultline.analysis.wording.amounts import LARGE_RATIO, amount, times, unit_of
from faultline.bot.answer.view import AnswerView

Role = Literal["culprit", "candidate", "affected", "other"]

BEGAN = "began here"
NORMAL = "normal"
NO_DATA = "no data"
NO_FINDINGS = "nothing found"
"""Where it is not recorded whether there were data of it at all."""
ALERTS = "it alerts"
AFFECTED = "affected"

_MEASURED = ("metrics", "logs", "spans")
_FAILS = frozenset({"span_errors", "call_errors"})
_MOVES: Mapping[SignalClass, tuple[str, str]] = {
    SignalClass.LATENCY: ("slower", "faster"),
    SignalClass.ERRORS: ("more errors", "fewer errors"),
    SignalClass.AVAILABILITY: ("more available", "less available"),
    SignalClass.RESTARTS: ("it restarts", "fewer restarts"),
    SignalClass.QUEUE: ("queue grows", "queue shrinks"),
    SignalClass.CPU: ("CPU use rose", "CPU use fell"),
    SignalClass.MEMORY: ("memory use rose", "memory use fell"),
    SignalClass.DISK: ("disk use rose", "disk use fell"),
    SignalClass.NETWORK: ("traffic rose", "traffic fell"),
    SignalClass.TRAFFIC: ("more requests", "fewer requests"),
    SignalClass.HIT_RATIO: ("more cache hits", "fewer cache hits"),
    SignalClass.CONNECTIONS: ("connections rose", "connections fell"),
}
"""What is said of a metric that rose, and of one that fell."""
_FIRST = (SignalClass.ERRORS, SignalClass.AVAILABILITY, SignalClass.LATENCY, SignalClass.RESTARTS)
"""The symptoms in the order in which a user feels them."""


@dataclass(frozen=True)
class BoxState:
    """The words, and the finding that they are taken from."""

    words: str
    finding: str | None = None


class BoxStates:
    """The states of the services of one answer."""

    def __init__(self, view: AnswerView) -> None:
        self.view = view
        self.over = view.verdict is Verdict.RECOVERED

    def of(self, service: str, role: Role, findings: Sequence[Finding]) -> BoxState:
        """What the box of this service says, given the findings about it."""
        if role == "culprit":
            return BoxState(BEGAN, _strongest(findings))
        if role == "candidate":
            return BoxState(self._candidate(service), _strongest(findings))
        impact_ids = self.view.impact.findings
        # First what the answer itself says of the service, then what its users feel most.
        for finding in sorted(
            findings, key=lambda finding: (finding.id not in impact_ids, *_urgency(finding))
        ):
            words = _symptom_text(finding)
            if words:
                return BoxState(f"was {words}" if self.over else words, finding.id)
        if role == "affected":
            alerts = service == self.view.alert.service
            return BoxState(ALERTS if alerts else AFFECTED, _strongest(findings))
        if findings:
            return BoxState(NO_FINDINGS, _strongest(findings))
        return BoxState(self._without_findings(service))

    def _candidate(self, service: str) -> str:
        """It is named, but the evidence does not establish it."""
        subjects = list(dict.fromkeys(cause.subject for cause in self.view.suspects))
        if len(subjects) == 1:
            return "suspected"
        return f"suspect {subjects.index(service) + 1}"

    def _without_findings(self, service: str) -> str:
        if not self._recorded:
            return NO_FINDINGS
        return NORMAL if service in self._measured else NO_DATA

    @cached_property
    def _recorded(self) -> bool:
        """Whether every piece of evidence says whose it is."""
        about = [evidence for evidence in self.view.evidence.values() if evidence.kind in _MEASURED]
        return bool(about) and all(evidence.services is not None for evidence in about)

    @cached_property
    def _measured(self) -> frozenset[str]:
        """The services that sent something."""
        services: set[str] = set()
        for evidence in self.view.evidence.values():
            # None means that nobody counted the rows, which does not prove silence.
            if evidence.kind in _MEASURED and evidence.rows != 0:
                services.update(evidence.services or ())
        return frozenset(services)


def _strongest(findings: Sequence[Finding]) -> str | None:
    finding = max(findings, key=lambda finding: finding.strength, default=None)
    return finding.id if finding else None


def _urgency(finding: Finding) -> tuple[bool, int, float]:
    """Failing first, then slow, then all else; the clearest first."""
    fault = fault_of(finding)
    symptom = fault is not None and fault.is_symptom
    kind = _class_of(finding)
    place = _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
    return not symptom, place, -finding.strength


def _class_of(finding: Finding) -> SignalClass:
    if finding.kind in _FAILS:
        return SignalClass.ERRORS
    return classify(finding.signal or "")


def _symptom_text(finding: Finding) -> str:
    """The finding in a few words; empty where it does not say how well the service works."""
    if finding.kind in _FAILS:
        share = finding.numbers.get("percent")
        return f"{amount(share, unit_of('', '%'))} fail" if share else ""
    details = MetricShiftDetails.of(finding)
    before, after = finding.numbers.get("baseline"), finding.numbers.get("incident")
    # A move for the better is no symptom.
    if details is None or before is None or after is None or details.bad is False:
        return ""
    kind = _class_of(finding)
    rose, fell = _MOVES.get(kind, ("", ""))
    if after <= before:
        return fell
    if kind is SignalClass.LATENCY and before > 0:
        return f"{_times(after / before)} slower"
    if kind is SignalClass.ERRORS:
        unit = unit_of(finding.signal or "", details.unit, (before, after))
        if unit.kind == "share":
            return f"{amount(after, unit)} fail"
        return f"{_times(after / before)} more errors" if after > before > 0 else rose
    return rose


def _times(ratio: float) -> str:
    """`3x`, as short as a box needs it."""
    return "far" if ratio > LARGE_RATIO else times(ratio)
