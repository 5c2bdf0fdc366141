"""What else a job leaves behind beside profiler traces, dumps and logs, as diagnoses."""

from __future__ import annotations

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.flight_recorder.wording import Numbers
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.file_kinds import TRACES
from faultline.analysis.traces.reading.job_files import JobFiles

MAX_LISTED = 50
OUT_OF_MEMORY = "out_of_memory"


def diagnoses_of_files(files: JobFiles, until_us: int | None = None) -> list[JobDiagnosis]:
    """What all files beside profiler traces say: dumps, stacks, logs and metrics first, then
    telemetry.

    `until_us` is the moment up to which the files were collected (us since 1970), where that is
    known.

    A rank that ran out of memory is reported once: by its snapshot, which knows why, rather than by
    its log.
    """
    if all(file.kind in TRACES for file in files.files):
        return []
    # Late: reading logs takes Polars and the signatures of failures, half a second of CPU.
    from faultline.analysis.traces.flight_recorder.diagnoses import hang_diagnoses

    job_diagnoses, measured = hang_diagnoses(files, until_us), telemetry_diagnoses(files)
    explained = {rank for d in measured if d.rule == OUT_OF_MEMORY for rank in d.ranks}
    rest = [
        d
        for d in job_diagnoses
        if not (d.rule == OUT_OF_MEMORY and d.ranks and explained.issuperset(d.ranks))
    ]
    return [*rest, *measured]


def telemetry_diagnoses(files: JobFiles) -> list[JobDiagnosis]:
    """What memory snapshots and TraceML's files say is wrong.

    Never raises for what a file holds: a separate diagnosis names the files that cannot be read
    ("telemetry_unread", info).
    """
    from faultline.analysis.traces.memory_snapshot.diagnoses import snapshot_diagnoses
    from faultline.analysis.traces.traceml.diagnoses import traceml_diagnoses

    memory, left = snapshot_diagnoses(files.of("memory_snapshot"))
    measured, unread = traceml_diagnoses(files.of("traceml"))
    return [*memory, *measured, *_unread([*left, *unread])]


def _unread(unread: list[tuple[str, str]]) -> list[JobDiagnosis]:
    if not unread:
        return []
    numbers = Numbers()
    name, problem = unread[0]
    more = f" and {numbers.say('more_unread', len(unread) - 1)} more" if len(unread) > 1 else ""
    return [
        JobDiagnosis(
            rule="telemetry_unread",
            severity="info",
            subject=readable(name),
            statement=f"{readable(name)} {readable(problem, 100)}{more}",
            fix="",
            source="files found beside each other",
            numbers=numbers,
            details={
                "unread": [
                    {"file": readable(n, 200), "problem": readable(p, 200)}
                    for n, p in unread[:MAX_LISTED]
                ]
            },
        )
    ]
