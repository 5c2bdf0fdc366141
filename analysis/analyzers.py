"""All analyzers: one line each. Adding one is one new file with an `ANALYZER`, and one line here.

An analyzer names the kinds of findings that it returns, each with the fault that it speaks of.
Ranking, wording and pages look them up here, so that nothing else has to know a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module

from analysis.kinds.fault_kinds import (
    ANOMALY,
    FAULTS_OF_SERVICES,
    OTHER,
    WITHOUT_CHANGE,
    CauseKind,
    FaultKind,
)
from analysis.kinds.finding_kinds import Analyzer, FindingKind, declare, declared
from analysis.vocabulary import Finding

MODULES = (
    "analysis.metrics.shifts",
    "analysis.requests.span_shifts",
    "analysis.logs.signature_findings",
    "analysis.requests.flow",
    "analysis.traces.job.training",
    "analysis.training.run_states",
    "analysis.gpus.health",
)
"""The module of each analyzer, in the order in which they run."""


def _loaded(modules: Iterable[str]) -> tuple[Analyzer, ...]:
    """The analyzers of these modules. Raises TypeError for a module without one."""
    found = []
    for module in modules:
        analyzer = import_module(module).ANALYZER
        if not isinstance(analyzer, Analyzer):
            raise TypeError(f"{module}.ANALYZER is no Analyzer")
        declare(analyzer.kinds)
        found.append(analyzer)
    return tuple(found)


def _faults() -> dict[str, FaultKind]:
    """Every fault by its name. Raises ValueError when two have one name."""
    found = {fault.name: fault for fault in FAULTS_OF_SERVICES}
    for kind in declared().values():
        for fault in kind.faults:
            if found.setdefault(fault.name, fault) != fault:
                raise ValueError(f"two kinds of faults are called {fault.name!r}")
    return found


ANALYZERS = _loaded(MODULES)
FAULT_KINDS: Mapping[str, FaultKind] = _faults()
CAUSE_KINDS: Mapping[str, CauseKind] = {
    cause.name: cause for cause in (*(f.as_cause for f in FAULT_KINDS.values()), *WITHOUT_CHANGE)
}
"""What answers may call a cause, besides the kind of a change."""


def finding_kind(name: str) -> FindingKind:
    """A kind of finding by its name. A stored case may hold kinds that nobody declares any more."""
    unknown = FindingKind(name, how=f"By the analyzer of {name.replace('_', ' ')}")
    return declared().get(name, unknown)


def fault_of(finding: Finding) -> FaultKind | None:
    """The fault that a finding speaks of; None when it accuses nobody."""
    return finding_kind(finding.kind).fault_of(finding)


def fault_kind(name: str) -> FaultKind:
    """A fault by its name; for one that nobody declares, a fault of no particular kind."""
    return FAULT_KINDS.get(name, OTHER)


def is_training(finding: Finding) -> bool:
    """Whether the finding's kind is a fault of a training job."""
    fault = FAULT_KINDS.get(finding.kind)
    return fault is not None and fault.training


def phrase_of(name: str) -> str:
    """What a subject with this fault, or with a cause of this kind, does. Without numbers."""
    if name in FAULT_KINDS:
        return FAULT_KINDS[name].description
    return CAUSE_KINDS.get(name, ANOMALY).phrase
