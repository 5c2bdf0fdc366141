"""All rules in their order of precedence, and `diagnose`.

Unusable capture, then dead ranks and hangs, then one-step outliers, then stragglers, then causes
that all ranks share. What an earlier rule explains is not said again by a later one: a straggler's
victims wait in communication and sit idle, so no rule accuses those.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from importlib import import_module

from faultline.analysis.traces.doctor.capture_rules import (
    CAPTURE_LIMITED,
    CAPTURE_UNUSABLE,
    PROFILER_OVERHEAD,
    capture_rules,
)
from faultline.analysis.traces.doctor.communication_rules import (
    COMMUNICATION,
    COMMUNICATION_BOUND,
    FSDP_EXPOSED,
    NO_OVERLAP,
    SLOW_LINK,
    communication_rules,
    slow_links,
)
from faultline.analysis.traces.doctor.device_rules import (
    GPU_IDLE,
    LAUNCH_BOUND,
    LAUNCH_QUEUE_FULL,
    TINY_KERNELS,
    device_rules,
)
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.doctor.host_rules import (
    HOST_SYNCS,
    LONG_COPIES,
    PAGEABLE_COPIES,
    host_rules,
)
from faultline.analysis.traces.doctor.input_rules import DATALOADER_STALL, input_rules
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rank_rules import (
    SLOW_KERNELS,
    SLOW_STEP,
    STRAGGLER,
    single_slow_steps,
    slow_kernels,
    stragglers,
)
from faultline.analysis.traces.doctor.rule import DoctorRule, JobRule
from faultline.analysis.traces.doctor.shared_rules import (
    ALL_RANKS_IDLE,
    SLOW_STEP_EVERYWHERE,
    all_idle,
    slow_everywhere,
)

MODULES = (
    "faultline.analysis.traces.doctor.memory_rules",
    "faultline.analysis.traces.doctor.host_rules",
)
"""Modules with `JOB_RULES`: rules that need nothing of the others. A new one is one line here."""


def _loaded(modules: Iterable[str]) -> tuple[JobRule, ...]:
    job_rules: list[JobRule] = []
    for module in modules:
        job_rules += import_module(module).JOB_RULES
    return tuple(job_rules)


JOB_RULES = _loaded(MODULES)
RULES: tuple[DoctorRule, ...] = (
    CAPTURE_UNUSABLE,
    PROFILER_OVERHEAD,
    CAPTURE_LIMITED,
    SLOW_STEP,
    SLOW_STEP_EVERYWHERE,
    ALL_RANKS_IDLE,
    STRAGGLER,
    SLOW_KERNELS,
    DATALOADER_STALL,
    NO_OVERLAP,
    FSDP_EXPOSED,
    SLOW_LINK,
    COMMUNICATION,
    COMMUNICATION_BOUND,
    HOST_SYNCS,
    PAGEABLE_COPIES,
    LONG_COPIES,
    TINY_KERNELS,
    LAUNCH_BOUND,
    GPU_IDLE,
    LAUNCH_QUEUE_FULL,
    *(job_rule.rule for job_rule in JOB_RULES),
)
"""The rules on profiler traces, in order of precedence. Those on dumps, metrics and logs stand
between the capture's and the outlier's."""

SEVERITIES: tuple[Severity, ...] = ("critical", "warning", "info")
"""In the order in which findings are given, whatever each costs."""


def diagnose(job: TrainingJob) -> list[JobDiagnosis]:
    """What is wrong with the job, the most certain cause first; [] where nothing is. Never raises
    for a trace.

    What stands under a capture that cannot be relied on, or one of fewer than two steps, is
    information only.
    """
    capture = capture_rules(job)
    diagnoses = _from_traces(job)
    unreliable = any(diagnosis.severity == "warning" for diagnosis in capture)
    if unreliable or not job.has_steps:
        diagnoses = [
            diagnosis
            # Launches are judged without steps: a server marks none.
            if diagnosis.rule == LAUNCH_BOUND.name and not unreliable
            else replace(diagnosis, severity="info")
            for diagnosis in diagnoses
        ]
    troubles, limits = _split(capture, "info")
    rest, certain = _split(job.file_diagnoses, "critical")
    all_diagnoses = [*troubles, *certain, *diagnoses, *rest, *limits]
    # The sort is stable: findings of one severity keep the order of precedence.
    all_diagnoses.sort(key=lambda diagnosis: SEVERITIES.index(diagnosis.severity))
    return all_diagnoses


def _split(
    diagnoses: Sequence[JobDiagnosis], severity: Severity
) -> tuple[list[JobDiagnosis], list[JobDiagnosis]]:
    """Those of other severities, and those of this one."""
    other_diagnoses = []
    same = []
    for diagnosis in diagnoses:
        if diagnosis.severity == severity:
            same.append(diagnosis)
        else:
            other_diagnoses.append(diagnosis)
    return other_diagnoses, same


def _from_traces(job: TrainingJob) -> list[JobDiagnosis]:
    rank_delays = stragglers(job)
    culprits = {rank for diagnosis in rank_delays for rank in diagnosis.ranks}
    slow: list[JobDiagnosis] = []
    shared: list[JobDiagnosis] = []
    if not rank_delays:
        slow = single_slow_steps(job)
        shared = _shared(job, slow)
    slow_devices = slow_kernels(job, culprits)
    input_stalls = input_rules(job, culprits)
    diagnoses = list(input_stalls)
    # A late rank or a slow device makes the others wait: blame no link or bucket for that.
    if not (rank_delays or slow or slow_devices):
        slow_transfers = slow_links(job)
        diagnoses += communication_rules(
            job, explained=bool(slow_transfers), waits_for_input=bool(input_stalls)
        )
        diagnoses += slow_transfers
    diagnoses += host_rules(job)
    diagnoses += _on_device(job, rank_delays or slow or shared)
    for rule in JOB_RULES:
        diagnoses += rule.find(job)
    return [*slow, *shared, *rank_delays, *slow_devices, *by_cost(diagnoses)]


def by_cost(diagnoses: Sequence[JobDiagnosis]) -> list[JobDiagnosis]:
    """Findings whose cost is known change places with one another, so that the dearest is first;
    the others stay where they are."""
    places = [i for i, diagnosis in enumerate(diagnoses) if diagnosis.cost_ns is not None]
    ordered = sorted((diagnoses[i] for i in places), key=lambda d: -(d.cost_ns or 0.0))
    ranked = list(diagnoses)
    for place, diagnosis in zip(places, ordered, strict=True):
        ranked[place] = diagnosis
    return ranked


def _shared(job: TrainingJob, slow: Sequence[JobDiagnosis]) -> list[JobDiagnosis]:
    """What all ranks share, outside of the steps that a slow rank explains."""
    explained: set[int] = set()
    for diagnosis in slow:
        for step in diagnosis.steps:
            # The others' wait for it may only show in the step after.
            explained.update((step, step + 1))
    shared = slow_everywhere(job, explained)
    for diagnosis in shared:
        explained.update(diagnosis.steps)
    return shared + all_idle(job, explained)


def _on_device(job: TrainingJob, explained: Sequence[JobDiagnosis]) -> list[JobDiagnosis]:
    """Ranks that wait for another, or all for what they share, are idle for its sake."""
    diagnoses = device_rules(job)
    if explained:
        diagnoses = [diagnosis for diagnosis in diagnoses if diagnosis.rule != GPU_IDLE.name]
    return diagnoses
