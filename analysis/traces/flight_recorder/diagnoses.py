"""Hangs, dead ranks, NaN and crashes: what a job leaves beside profiler traces, as diagnoses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePath

from analysis.traces.doctor.diagnosis import Diagnosis, Severity
from analysis.traces.flight_recorder.code_lines import code_lines
from analysis.traces.flight_recorder.collective import Dump, UnreadDump
from analysis.traces.flight_recorder.dead_ranks import dead_diagnosis, dead_ranks
from analysis.traces.flight_recorder.hang_wording import hang_diagnosis
from analysis.traces.flight_recorder.job_state import JobState
from analysis.traces.flight_recorder.moments import Moment, moment_of_hang
from analysis.traces.flight_recorder.reading import read_dumps
from analysis.traces.flight_recorder.stack_outliers import outlier_diagnosis
from analysis.traces.flight_recorder.standing import Standing, standing
from analysis.traces.flight_recorder.wording import Numbers, bounded, subject_of
from analysis.traces.job_logs.diagnoses import log_diagnoses, metrics_diagnoses
from analysis.traces.job_logs.metrics import read_metrics
from analysis.traces.job_logs.rank_logs import JobLogs, read_rank_logs
from analysis.traces.job_logs.span_diagnoses import span_diagnoses
from analysis.traces.job_logs.structured_log import read_structured_logs
from analysis.traces.readable import readable
from analysis.traces.reading.capture_note import taken_at
from analysis.traces.reading.job_files import JobFiles
from analysis.traces.reading.stack_dumps import read_stack_dumps

TIMEOUTS = ("nccl_watchdog_timeout", "gloo_timeout")
DATA = "dataloader_stall"
"""Told once: by spans of all ranks rather than by one rank's metrics."""


def hang_diagnoses(files: JobFiles, until_us: int | None = None) -> list[Diagnosis]:
    """What flight recorder dumps, stack dumps, metrics and logs say is wrong; the most certain
    cause first.

    `until_us` is the moment up to which the files were collected, where that is known. Never raises
    for what a file holds: files that cannot be read are named in a diagnosis of their own
    ("flight_recorder_incomplete", info).
    """
    dumps, unread = read_dumps(f.path for f in files.of("flight_recorder"))
    logs = read_rank_logs(files.of("log", "structured_log"))
    moment = moment_of_hang(dumps, _other_ranks(files) if dumps else frozenset())
    stacks = read_stack_dumps(f.path for f in files.of("stack_dump"))
    lines = code_lines(stacks, logs)
    stood = standing(
        moment.state.dumps.values(), taken_at(f.path for f in files.of("capture_note"))
    )
    severity = _severity(moment, logs, stood)
    dead = dead_diagnosis(dead_ranks(moment.state, logs), moment.analysis, unread, lines, severity)
    hang = hang_diagnosis(moment.state, moment.analysis, lines, severity)
    if hang is not None and stood is not None and stood.is_hang:
        hang = _with_age(hang, stood)
    if hang is not None and moment.went_on:
        hang = replace(hang, statement=f"{hang.statement}; later dumps show that the job went on")
    if hang is None and dead is None:
        hang = outlier_diagnosis(
            stacks, "critical" if any(logs.failed(name) for name in TIMEOUTS) else "info"
        )
    blamed = [*_in_order(dead, hang)]
    spans = span_diagnoses(
        read_structured_logs(files.of("structured_log", "log")),
        stopped=any(logs.failed(name) for name in TIMEOUTS),
        named=any(d is not None and d.ranks for d in blamed),
        until_us=until_us,
    )
    measured = metrics_diagnoses(
        read_metrics(files.of("metrics", "log", "structured_log", "wandb_run"))
    )
    found = [
        *blamed,
        *spans,
        *log_diagnoses(logs, moment.state.world | files.ranks),
        *(
            d
            for d in measured
            if d.rule != DATA or not {s.rule for s in spans} & {DATA, "straggler"}
        ),
    ]
    found.append(_incomplete(moment.state, unread, dumps))
    return [d for d in found if d is not None]


def _in_order(dead: Diagnosis | None, hang: Diagnosis | None) -> list[Diagnosis | None]:
    """Who is known to be dead, then who makes the job hang; a rank that is only silent says little
    beside a culprit."""
    if dead is None or hang is None:
        return [dead, hang]
    if not hang.ranks:
        return [dead] if dead.severity == "critical" else [dead, hang]
    return [dead, hang] if dead.details["certain"] else [hang, replace(dead, severity="info")]


def _other_ranks(files: JobFiles) -> frozenset[int]:
    """Ranks that other files of the job are named after."""
    kinds = files.of(
        "log", "structured_log", "metrics", "stack_dump", "debug_answer", "flight_recorder"
    )
    return frozenset(f.rank for f in kinds if f.rank is not None)


def _with_age(hang: Diagnosis, stood: Standing) -> Diagnosis:
    numbers = Numbers(hang.numbers)
    said = f"{hang.statement}; this has stood for {numbers.say('stood_s', round(stood.seconds))} s"
    return replace(
        hang,
        statement=said,
        numbers=numbers,
        details={**hang.details, "stood_s": round(stood.seconds, 1)},
    )


def _severity(moment: Moment, logs: JobLogs, stood: Standing | None) -> Severity:
    """Dumps written by the watchdog, logged timeouts, what lasts over two dumps and what stood for
    long are hangs.

    A single answer of the debug server also shows collectives that are under way in a healthy job.
    """
    written = any(d.form == "pickle" for d in moment.state.dumps.values())
    logged = any(logs.failed(name) for name in TIMEOUTS)
    if moment.went_on:
        return "warning" if written else "info"
    stands = stood is not None and stood.is_hang
    return "critical" if written or moment.lasting or logged or stands else "info"


def _incomplete(
    state: JobState, unread: Sequence[UnreadDump], dumps: Sequence[Dump]
) -> Diagnosis | None:
    """Dumps that are missing or could not be read; None where nobody left one."""
    missing = sorted(state.without_dump) if dumps else []
    cut = [d for d in dumps if d.cut_off]
    if not (unread or missing or cut):
        return None
    numbers = Numbers()
    parts = []
    if missing:
        parts.append(f"no dump that can be read of {numbers.ranks(missing)}")
    if unread:
        first = unread[0]
        more = f" and {numbers.say('more_unread', len(unread) - 1)} more" if len(unread) > 1 else ""
        parts.append(
            f"{readable(PurePath(first.file).name)} cannot be read "
            f"({readable(first.problem, 100)}){more}"
        )
    if cut:
        parts.append(f"{numbers.count('cut_off', len(cut), 'dump')} cut off")
    return Diagnosis(
        rule="flight_recorder_incomplete",
        severity="info",
        subject=subject_of(missing) if missing else "flight recorder",
        statement="; ".join(parts),
        fix="Dumps take seconds to write: leave the watchdog more time "
        "(TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC), "
        "and collect all ranks.",
        source="flight recorder dumps found beside each other",
        numbers=numbers,
        details={
            "without_dump": bounded(missing),
            "unread": [
                {"file": readable(u.file, 200), "problem": readable(u.problem, 200)}
                for u in unread[:50]
            ],
        },
    )
