"""What is said of a job that no diagnosis accuses: that nothing is wrong or, where something may
be, that."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from faultline.analysis.traces.doctor.capture_rules import CAPTURE_LIMITED
from faultline.analysis.traces.doctor.device_rules import LAUNCH_QUEUE_FULL, LOW_USE
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.host_rules import TENSOR_CORES_UNUSED
from faultline.analysis.traces.doctor.job import TrainingJob
from faultline.analysis.traces.doctor.rule import ms, percent, plural
from faultline.analysis.traces.readable import readable

NO_DOUBT = frozenset(
    {
        CAPTURE_LIMITED.name,
        LAUNCH_QUEUE_FULL.name,
        TENSOR_CORES_UNUSED.name,
        "flight_recorder_incomplete",
        "telemetry_unread",
        "memory_held",
        "traceml_verdict",
    }
)
"""Rules whose information is about the recording, or of what could be better; any other may be a
trouble: a hang in one answer of the debug server, what rests on a recording that cannot be relied
on."""
MAX_NAMED = 3


def doubts(diagnoses: Sequence[JobDiagnosis]) -> list[JobDiagnosis]:
    """Information that may be a problem."""
    return [d for d in diagnoses if d.severity == "info" and d.rule not in NO_DOUBT]


def nothing_wrong(job: TrainingJob, diagnoses: Sequence[JobDiagnosis] = ()) -> str:
    """One sentence, with its numbers, for a job in which `diagnoses` accuses nobody."""
    return health(job, diagnoses)[0]


def health(
    job: TrainingJob, diagnoses: Sequence[JobDiagnosis] = ()
) -> tuple[str, dict[str, float]]:
    """The sentence, and every number in it. With doubts it does not say that nothing is wrong."""
    unsure = doubts(diagnoses)
    numbers: dict[str, float] = {}
    verdict = "nothing wrong"
    idle = unexplained_idle(job)
    if idle is not None:
        numbers["used_percent"] = percent(idle)
        verdict = (
            f"no rule says why the accelerators work only {numbers['used_percent']:g} % of the time"
        )
    if unsure:
        numbers["to_look_at"] = float(len(unsure))
        verdict = (
            f"nothing certain, but {plural(len(unsure), 'thing')} to look at ({_subjects(unsure)})"
        )
    if not job.ranks:
        return f"{verdict} that can be seen without a trace" if not unsure else verdict, numbers
    numbers["step_ms"] = ms(job.step_ns)
    steps = job.step_count or max(s.facts.steps for s in job.ranks)
    if steps:
        numbers["steps"] = float(steps)
        phrase = f"{verdict}: {plural(steps, 'step')} of {numbers['step_ms']:g} ms"
    else:
        phrase = f"{verdict}: {numbers['step_ms']:g} ms without marked steps"
    numbers["ranks"] = float(job.count)
    phrase += f" on {plural(job.count, 'rank')}"
    if job.count > 1 and job.comparison is not None and job.comparison.why_not is not None:
        why = job.comparison.why_not
        numbers |= {f"compared_{name}": value for name, value in why.numbers.items()}
        phrase += f"; it is unknown which rank delays the others: {why.sentence}"
    return phrase + _blame(job, numbers) + _busy(job, numbers), numbers


def unexplained_idle(job: TrainingJob) -> float | None:
    """How busy the accelerators are, where that is too little to call the job well; None where they
    are busy, or there are none."""
    if not job.ranks or not all(s.has_accelerator for s in job.ranks):
        return None
    busy = median(s.facts.device.busy_share for s in job.ranks)
    return busy if busy < LOW_USE else None


def _subjects(unsure: Sequence[JobDiagnosis]) -> str:
    # dict.fromkeys drops repeats and keeps the order.
    names = list(dict.fromkeys(readable(d.subject) for d in unsure))
    return ", ".join(names[:MAX_NAMED]) + (", ..." if len(names) > MAX_NAMED else "")


def _blame(job: TrainingJob, numbers: dict[str, float]) -> str:
    if job.compared is None:
        return ""
    worst = max(job.compared.blame.ranks, key=lambda r: r.share)
    # Less than half a percent rounds to nothing worth a name.
    if not percent(worst.share):
        return "; no rank delays the others"
    numbers |= {"rank": float(worst.rank), "blame_percent": percent(worst.share)}
    blame = (
        f"; no rank delays the others persistently, the most is rank {worst.rank} with "
        f"{numbers['blame_percent']:g} % of the time"
    )
    if not worst.steps_blamed:
        return blame
    numbers["steps_blamed"] = float(worst.steps_blamed)
    return f"{blame}, in {plural(worst.steps_blamed, 'step')}"


def _busy(job: TrainingJob, numbers: dict[str, float]) -> str:
    if "used_percent" in numbers or not all(s.has_accelerator for s in job.ranks):
        return ""
    numbers["busy_percent"] = percent(median(s.facts.device.busy_share for s in job.ranks))
    return f"; accelerators are busy {numbers['busy_percent']:g} % of the time"
