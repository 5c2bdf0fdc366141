"""What an incident costs a training job: the share of its speed that is lost, and GPU-hours lost
per hour and so far.

A slow job loses 1 - now / before of its throughput, or 1 - before / now of its step time; one that
a straggler holds up loses the wait of the others; one that hangs loses everything.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from analysis.analyzers import fault_of, is_training
from analysis.case.folder import Case
from analysis.kinds.finding_details import JobDetails
from analysis.metrics.gpu_signals import OF_A_GPU
from analysis.metrics.recovery import recovered_at
from analysis.metrics.shifts import KIND as METRIC_SHIFT
from analysis.vocabulary import Finding
from analysis.wording.phrases import number, plain, rounded

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
        n, unit = self.numbers, f"{self.device}-hours"
        if self.hangs:
            said = f"{plain(self.job, 60)} stands still"
        else:
            said = f"about {number(n['lost_percent'], 2)} % of the training's speed is lost"
        if self.ranks is None:
            return said
        said += f", {number(n['lost_rate'], 3)} of {self.ranks} {unit} every hour"
        return said + (
            f", about {number(n['lost_so_far'], 2)} {unit} so far" if "lost_so_far" in n else ""
        )

    @property
    def numbers(self) -> dict[str, float]:
        """The numbers as they are quoted."""
        found = {} if self.hangs else {"lost_percent": rounded(100 * self.lost, 2)}
        if self.ranks is not None:
            found |= {"ranks": float(self.ranks), "lost_rate": rounded(self.lost * self.ranks, 3)}
            if self.so_far is not None and rounded(self.so_far, 2) > 0:
                found["lost_so_far"] = rounded(self.so_far, 2)
        return found


def training_impact(case: Case, findings: Sequence[Finding]) -> TrainingImpact | None:
    """What the job loses; None where the case is about none, or nothing says that it is slower."""
    job = job_of(case, findings)
    if job is None:
        return None
    told = _hang(job, findings) or _measured(job, findings) or _straggler(findings)
    if told is None or told[0] < LEAST_LOST:
        return None
    lost, finding = told
    ranks = ranks_of(case, job, findings)
    since = finding.onset
    until = recovered_at(case, finding) if finding.details.recovered else None
    hours = ((until or case.scope.incident.end) - since).total_seconds() / 3600 if since else None
    so_far = lost * ranks * hours if ranks is not None and hours is not None and hours > 0 else None
    return TrainingImpact(
        job=job,
        lost=lost,
        hangs=_hangs(finding),
        ranks=ranks,
        device="GPU" if _has_gpus(case) else "rank",
        so_far=so_far,
        since=since,
        finding=finding,
    )


def job_of(case: Case, findings: Sequence[Finding]) -> str | None:
    """The training job that the case is about."""
    told = (details.job for f in findings if is_training(f) and (details := JobDetails.of(f)))
    return case.scope.job or case.alert.job or next(filter(None, told), None)


def ranks_of(case: Case, job: str, findings: Sequence[Finding]) -> int | None:
    """How many ranks the job has, one device each: by its identity, its labels, its traces or its
    series."""
    training = case.scope.training
    given = case.alert.labels.get("world_size", "")
    jobs = (JobDetails.of(f) for f in findings if is_training(f))
    traced = max((len(details.ranks) for details in jobs if details), default=0)
    series = case.metrics["service"].drop_nulls().unique() if case.metrics.height else None
    counted = int(series.str.starts_with(f"{job}/rank ").sum()) if series is not None else 0
    known = (
        training.ranks if training else None,
        int(given) if given.isdecimal() and len(given) < 8 else None,
    )
    return next((n for n in (*known, traced, counted) if n and 0 < n <= MOST_RANKS), None)


def _hang(job: str, findings: Sequence[Finding]) -> tuple[float, Finding] | None:
    hangs = [f for f in findings if _hangs(f) and f.strength >= CLEAR and not f.details.recovered]
    if not hangs or any(
        f.kind == METRIC_SHIFT and _is_speed(job, f) and _lost(f) < 0.5 for f in findings
    ):
        return None
    return 1.0, min(hangs, key=lambda f: (f.onset is None, -f.strength, f.id))


def _hangs(finding: Finding) -> bool:
    """Whether it says that no rank gets on: data-parallel training waits for every rank."""
    fault = fault_of(finding)
    return fault is not None and fault.hangs


def _measured(job: str, findings: Sequence[Finding]) -> tuple[float, Finding] | None:
    """By the job's own throughput, else its step time, else those of a rank."""
    slower = [f for f in findings if f.kind == METRIC_SHIFT and _is_speed(job, f) and _lost(f) > 0]
    if not slower:
        return None
    best = min(
        slower,
        key=lambda f: (f.subject != job, not _THROUGHPUT.search(f.signal or ""), -f.strength, f.id),
    )
    return _lost(best), best


def _straggler(findings: Sequence[Finding]) -> tuple[float, Finding] | None:
    for finding in findings:
        wait, step = finding.numbers.get("wait_ms_per_step"), finding.numbers.get("step_ms")
        if finding.kind == "straggler" and wait and step and 0 < wait < step:
            return wait / step, finding
    return None


def _is_speed(job: str, finding: Finding) -> bool:
    own = finding.subject == job or finding.subject.startswith(f"{job}/")
    signal = finding.signal or ""
    return own and bool(_THROUGHPUT.search(signal) or _STEP_TIME.search(signal))


def _lost(finding: Finding) -> float:
    before, now = finding.numbers.get("baseline", 0.0), finding.numbers.get("incident", 0.0)
    faster, slower = (before, now) if _THROUGHPUT.search(finding.signal or "") else (now, before)
    return max(0.0, 1 - slower / faster) if faster > 0 and slower >= 0 else 0.0


def _has_gpus(case: Case) -> bool:
    """Whether anything that was collected or said is about GPUs: jobs also train on processors."""
    if case.scope.training is not None and case.scope.training.gpu is not None:
        return True
    if any("gpu" in f"{k} {v}".lower() for k, v in case.alert.labels.items()):
        return True
    return case.metrics.height > 0 and bool(case.metrics["signal"].is_in(list(OF_A_GPU)).any())
