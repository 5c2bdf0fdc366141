"""Faultline as a library: analyse a recorded incident, or the traces of a training job.

    import faultline

    answer = faultline.investigate("cases/checkout-slow")
    print(answer.headline)

    import faultline.traces

    job = faultline.traces.open("runs/*.json.gz")
    print(job.kernels())

What this package exports is stable: docs/python.md. Everything else is not.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from faultline.analysis.errors import EvidenceError, FaultlineError, SettingsError
    from faultline.analysis.vocabulary import Cause, Finding, Gap, Impact, Verdict
    from faultline.investigation import Investigation, investigate

_MODULES = {
    "Cause": "faultline.analysis.vocabulary",
    "EvidenceError": "faultline.analysis.errors",
    "FaultlineError": "faultline.analysis.errors",
    "Finding": "faultline.analysis.vocabulary",
    "Gap": "faultline.analysis.vocabulary",
    "Impact": "faultline.analysis.vocabulary",
    "Investigation": "faultline.investigation",
    "SettingsError": "faultline.analysis.errors",
    "Verdict": "faultline.analysis.vocabulary",
    "investigate": "faultline.investigation",
}
"""Where each exported name is defined."""

__all__ = [
    "Cause",
    "EvidenceError",
    "FaultlineError",
    "Finding",
    "Gap",
    "Impact",
    "Investigation",
    "SettingsError",
    "Verdict",
    "investigate",
]


def __getattr__(name: str) -> object:
    # Every command imports this package first, and few need the tables and the analysis.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value
