"""Hangs, dead ranks, NaN and crashes: what a job leaves beside profiler traces, as diagnoses."""

from __future__ import annotations

from analysis.traces.doctor.diagnosis import Diagnosis
from analysis.traces.job_files import JobFiles


def hang_diagnoses(files: JobFiles) -> list[Diagnosis]:
    """What flight recorder dumps, stack dumps, metrics and logs say is wrong; the most certain cause first.

    Never raises for what a file holds: files that cannot be read are named in a diagnosis of their own
    ("flight_recorder_incomplete", info).
    """
    _ = files
    return []
