"""What an incident costs a training job: the share of its speed that is lost, and GPU-hours lost
per hour and so far.

A slow job loses 1 - now / before of its throughput, or 1 - before / now of its step time; one that
a straggler delays loses the wait of the others; one that hangs loses everything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from faultline.analysis.analyzers import fault_of, is_training
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import JobDetails
from faultline.analysis.metrics.recovery import recovered_at
from faultline.analysis.metrics.series import OF_A_GPU
from faultline.analysis.metrics.shifts import KIND as METRIC_SHIFT
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

CLEAR = 0.25
LEAST_LOST = 0.02
MOST_RANKS = 1_000_000
_THROUGHPUT = re.compile(
    r"(?i)throughput|(^|_)tps$|(tokens?|samples?|examples?|sequences?|steps?|iterations?|items?"
    r"|images?)"
    r"(_?per_?|/)(s|sec|second)s?$"
)
_STEP_TIME = re.compile(r"(?i)(step|iteration)_?(time|duration|ms|seconds)")


@dataclass(frozen=True)
class TrainingImpact:
    """`lost` is the share of the job's work, `so_far` in hours of a `device`: "GPU", or "rank"
    where none is seen."""

    job: str
    lost: float
    hangs: bool
    ranks: int | None
    device: str
    so_far: float | None
    since: datetime | None
    finding: Finding

    @property
    def sentence(self) -> str:
        """Half a sentence, its numbers as in `numbers`."""
        numbers, unit = self.numbers, f"{self.device}-hours"
        if self.hangs:
            sentence = f"{plain(self.job, 60)} stands still"
        else:
            sentence = (
                f"about {number(numbers['lost_percent'], 2)} % of the training's speed is lost"
            )
        if self.ranks is None:
            return sentence
        sentence += f", {number(numbers['lost_rate'], 3)} of {self.ranks} {unit} every hour"
        if "lost_so_far" in numbers:
            sentence += f", about {number(numbers['lost_so_far'], 2)} {unit} so far"
        return sentence

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers as they are quoted."""
        ranks = {}
        if not self.hangs:
            ranks["lost_percent"] = rounded(100 * self.lost, 2)
        if self.ranks is not None:
            ranks["ranks"] = float(self.ranks)
            ranks["lost_rate"] = rounded(self.lost * self.ranks, 3)
            if self.so_far is not None and rounded(self.so_far, 2) > 0:
                ranks["lost_so_far"] = rounded(self.so_far, 2)
        return ranks


class _Loss(NamedTuple):
    """The share of its speed that a job loses, by this finding."""

    lost: float
    finding: Finding


def training_impact(case: Case, findings: Sequence[Finding]) -> TrainingImpact | None:
    """What the job loses; None where the case is about none, or nothing says that it is slower."""
    job = job_of(case, findings)
    if job is None:
        return None
    loss = _hang(job, findings) or _measured(job, findings) or _straggler(findings)
    if loss is None or loss.lost < LEAST_LOST:
        return None
    ranks = ranks_of(case, job, findings)
    hours = _hours(case, loss.finding)
    return TrainingImpact(
        job=job,
        lost=loss.lost,
        hangs=_hangs(loss.finding),
        ranks=ranks,
        device="GPU" if _has_gpus(case) else "rank",
        so_far=loss.lost * ranks * hours if ranks is not None and hours > 0 else None,
        since=loss.finding.onset,
        finding=loss.finding,
    )


def _hours(case: Case, finding: Finding) -> float:
    """How long it has lasted; 0 where its onset is not known."""
    if finding.onset is None:
        return 0.0
    until = case.scope.incident.end
    # A job that recovered loses nothing more.
    if finding.details.recovered:
        until = recovered_at(case, finding) or until
    return (until - finding.onset).total_seconds() / 3600


def job_of(case: Case, findings: Sequence[Finding]) -> str | None:
    """The training job that the case is about."""
    job = case.scope.job or case.alert.job
    if job:
        return job
    for details in _job_details(findings):
        if details.job:
            return details.job
    return None


def _job_details(findings: Sequence[Finding]) -> Iterator[JobDetails]:
    for finding in findings:
        details = JobDetails.of(finding) if is_training(finding) else None
        if details is not None:
            yield details


def ranks_of(case: Case, job: str, findings: Sequence[Finding]) -> int | None:
    """How many ranks the job has, one device each: by its identity, its labels, its traces or its
    series."""
    training = case.scope.training
    traced = [len(details.ranks) for details in _job_details(findings)]
    # How many ranks of the job have metrics under their name.
    if not case.metrics.height:
        rank_series = 0
    else:
        services = case.metrics["service"].drop_nulls().unique()
        rank_series = int(services.str.starts_with(f"{job}/rank ").sum())
    # The job's own figure comes first: some ranks may send nothing.
    for ranks in (
        training.ranks if training else None,
        _world_size(case),
        max(traced, default=0),
        rank_series,
    ):
        if ranks and 0 < ranks <= MOST_RANKS:
            return ranks
    return None


def _world_size(case: Case) -> int | None:
    world_size = case.alert.labels.get("world_size", "")
    # Bound the length before int(): a label is foreign text.
    return int(world_size) if world_size.isdecimal() and len(world_size) < 8 else None


def _hang(job: str, findings: Sequence[Finding]) -> _Loss | None:
    hangs = []
    for finding in findings:
        if _hangs(finding) and finding.strength >= CLEAR and not finding.details.recovered:
            hangs.append(finding)
        # A job that still does half of its work does not hang, whatever else says so.
        if _is_speed(job, finding) and _lost(finding) < 0.5:
            return None
    if not hangs:
        return None
    return _Loss(1.0, min(hangs, key=lambda f: (f.onset is None, -f.strength, f.id)))


def _hangs(finding: Finding) -> bool:
    """Whether it says that no rank gets on: data-parallel training waits for every rank."""
    fault = fault_of(finding)
    return fault is not None and fault.hangs


def _measured(job: str, findings: Sequence[Finding]) -> _Loss | None:
    """By the job's own throughput, else its step time, else those of a rank."""
    slower = [f for f in findings if _is_speed(job, f) and _lost(f) > 0]
    if not slower:
        return None
    finding = min(
        slower, key=lambda f: (f.subject != job, not _is_throughput(f), -f.strength, f.id)
    )
    return _Loss(_lost(finding), finding)


def _straggler(findings: Sequence[Finding]) -> _Loss | None:
    for finding in findings:
        wait, step = finding.numbers.get("wait_ms_per_step"), finding.numbers.get("step_ms")
        if finding.kind == "straggler" and wait and step and 0 < wait < step:
            return _Loss(wait / step, finding)
    return None


def _is_speed(job: str, finding: Finding) -> bool:
    """Whether it is a shift of the job's own throughput or step time, or of a rank's."""
    if finding.kind != METRIC_SHIFT:
        return False
    if finding.subject != job and not finding.subject.startswith(f"{job}/"):
        return False
    return _is_throughput(finding) or _STEP_TIME.search(finding.signal or "") is not None


def _is_throughput(finding: Finding) -> bool:
    return _THROUGHPUT.search(finding.signal or "") is not None


def _lost(finding: Finding) -> float:
    """The share of the speed that is lost, of a finding that `_is_speed`."""
    before, now = finding.numbers.get("baseline", 0.0), finding.numbers.get("incident", 0.0)
    # Speed is work per time: a step that takes longer does less of it.
    faster, slower = (before, now) if _is_throughput(finding) else (now, before)
    if faster <= 0 or slower < 0:
        return 0.0
    return max(0.0, 1 - slower / faster)


def _has_gpus(case: Case) -> bool:
    """Whether anything that was collected or said is about GPUs: jobs also train on processors."""
    if case.scope.training is not None and case.scope.training.gpu is not None:
        return True
    for label, value in case.alert.labels.items():
        if "gpu" in f"{label} {value}".lower():
            return True
    return case.metrics.height > 0 and bool(case.metrics["signal"].is_in(list(OF_A_GPU)).any())
