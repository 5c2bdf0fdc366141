"""Faultline as a library: analyse a recorded incident, or the traces of a training job.

    import faultline

    answer = faultline.investigate("cases/checkout-slow")
    print(answer.headline)

    import faultline.traces

    job = faultline.traces.open("runs/*.json.gz")
    print(job.kernels())

What this package exports is stable: docs/python.md. Everything else is not.
"""

from analysis.errors import EvidenceError, FaultlineError, SettingsError
from analysis.vocabulary import Cause, Finding, Gap, Impact, Verdict
from faultline.investigation import Investigation, investigate

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
