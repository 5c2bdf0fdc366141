"""All analyzers: one line each. Adding one is one new file with an `ANALYZER`, and one line here.

An analyzer names the kinds of findings that it returns, each with the fault that it speaks of.
Ranking, wording and pages look them up here, so that nothing else has to know a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.fault_kinds import (
    ANOMALY,
    FAULTS_OF_SERVICES,
    OTHER,
    WITHOUT_CHANGE,
    CauseKind,
    FaultKind,
)
from faultline.analysis.kinds.finding_kinds import FindingKind, declare, declared
from faultline.analysis.vocabulary import Finding

MODULES = (
    "faultline.analysis.metrics.shifts",
    "faultline.analysis.requests.span_shifts",
    "faultline.analysis.logs.signature_findings",
    "faultline.analysis.requests.path_breaks",
    "faultline.analysis.traces.job.training",
    "faultline.analysis.training.run_states",
    "faultline.analysis.gpus.health",
    "faultline.analysis.states.weighing",
    "faultline.analysis.external",
)
"""The module of each analyzer, in the order in which they run."""


@dataclass(frozen=True)
class Analyzer:
    """A function from a case to findings, and every kind of finding that it may return."""

    find: Callable[[Case], Sequence[Finding]]
    kinds: tuple[FindingKind, ...]


@cache
def analyzers() -> tuple[Analyzer, ...]:
    """All of them, imported when they are first asked for.

    Processes that only show answers need their names and not the analyzers, which take a second to
    import. Raises TypeError for a module without one, ValueError when two kinds have one name.
    """
    all_analyzers = []
    for module in MODULES:
        analyzer = import_module(module).ANALYZER
        if not isinstance(analyzer, Analyzer):
            raise TypeError(f"{module}.ANALYZER is no Analyzer")
        declare(analyzer.kinds)
        all_analyzers.append(analyzer)
    return tuple(all_analyzers)


def _faults() -> dict[str, FaultKind]:
    """Every fault by its name. Raises ValueError when two have one name."""
    faults = {fault.name: fault for fault in FAULTS_OF_SERVICES}
    for kind in declared().values():
        for fault in kind.faults:
            # Several kinds may share one fault; two faults may not share a name.
            if faults.setdefault(fault.name, fault) != fault:
                raise ValueError(f"two kinds of faults are called {fault.name!r}")
    return faults


# Taken at import, before any analyzer declares its kinds.
_BUILT_IN_KINDS = frozenset(declared())
_BUILT_IN_FAULTS: Mapping[str, FaultKind] = _faults()
"""Those of the kinds in `faultline.analysis.kinds`, which no analyzer has to be imported for."""


@cache
def fault_kinds() -> Mapping[str, FaultKind]:
    """Every fault by its name."""
    analyzers()
    return _faults()


@cache
def cause_kinds() -> Mapping[str, CauseKind]:
    """What answers may call a cause, besides the kind of a change."""
    causes = [*(fault.as_cause for fault in fault_kinds().values()), *WITHOUT_CHANGE]
    return {cause.name: cause for cause in causes}


def finding_kind(name: str) -> FindingKind:
    """A kind of finding by its name. A stored case may hold kinds that nobody declares any more."""
    if name not in declared():
        analyzers()
    unknown = FindingKind(name, how=f"By the analyzer of {name.replace('_', ' ')}")
    return declared().get(name, unknown)


def fault_of(finding: Finding) -> FaultKind | None:
    """The fault that a finding speaks of; None when it accuses nobody."""
    return finding_kind(finding.kind).fault_of(finding)


def fault_kind(name: str) -> FaultKind:
    """A fault by its name; for one that nobody declares, a fault of no particular kind."""
    return _fault_by_name(name) or OTHER


def is_training(finding: Finding) -> bool:
    """Whether the finding's kind is a fault of a training job."""
    fault = _fault_by_name(finding.kind)
    return fault is not None and fault.training


def phrase_of(name: str) -> str:
    """What a subject with this fault, or with a cause of this kind, does. Without numbers."""
    fault = _fault_by_name(name)
    if fault is not None:
        return fault.description
    return cause_kinds().get(name, ANOMALY).phrase


def _fault_by_name(name: str) -> FaultKind | None:
    built_in = _BUILT_IN_FAULTS.get(name)
    if built_in is not None or name in _BUILT_IN_KINDS:
        # Most kinds of findings are no faults by their own name, and need no import to say so.
        return built_in
    return fault_kinds().get(name)
