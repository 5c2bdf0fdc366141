"""The trace engine as a library: profiler traces, dumps and logs of a training job.

    import faultline.traces as ft

    job = ft.open("runs/*.json.gz")
    job.diagnose()
    job.temporal()

Opening is cheap. Traces are parsed when something is asked of them, each analysis is made once, and
every table is a Polars frame.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis as Diagnosis
from faultline.analysis.traces.native.lane import why_slow
from faultline.trace_report.registry import ANALYSES, chosen
from faultline.traces.job import Job
from faultline.traces.ranks import KEEP_BYTES, JobRanks

__all__ = ["ANALYSES", "Diagnosis", "Job", "open"]


def open(
    *paths: str | Path,
    analyses: Sequence[str] | None = None,
    processes: int | None = None,
    steps: str = "",
    keep_bytes: int = KEEP_BYTES,
) -> Job:
    """Open the files of one job.

    `paths` are files, folders, patterns, archives or `s3://bucket/prefix`. Archives are unpacked
    and buckets downloaded now, nothing is parsed before it is asked for. `analyses` are the names
    of `ANALYSES` that `tables` and `to_dict` hold (all of them if not given). `processes` read
    traces side by side (one per core if not given). `steps` names the ranges that are steps, where
    the profiler marked none, as "iter *". Traces that are unpacked longer than `keep_bytes` in all
    are read again for each question, in separate processes.

    Warns where the compiled library is missing. Raises EvidenceError when there is nothing to read,
    SettingsError for an unknown analysis.
    """
    if slow := why_slow():
        warnings.warn(slow, RuntimeWarning, stacklevel=2)
    names = None if analyses is None else chosen(",".join(analyses))
    locations = tuple(str(path) for path in paths)
    return Job(JobRanks(locations, steps, processes, keep_bytes), names)
