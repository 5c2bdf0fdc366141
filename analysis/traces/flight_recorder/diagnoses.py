"""Hangs, dead ranks, NaN and crashes: what a job leaves beside profiler traces, as diagnoses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.flight_recorder.code_lines import code_lines
from faultline.analysis.traces.flight_recorder.collective import Dump, UnreadDump
from faultline.analysis.traces.flight_recorder.dead_ranks import dead_diagnosis, dead_ranks
from faultline.analysis.traces.flight_recorder.hang_wording import hang_diagnosis
from faultline.analysis.traces.flight_recorder.job_state import JobState
from faultline.analysis.traces.flight_recorder.matching import outlier_diagnosis
from faultline.analysis.traces.flight_recorder.moments import DumpMoment, moment_of_hang
from faultline.analysis.traces.flight_recorder.reading import read_dumps
from faultline.analysis.traces.flight_recorder.wording import Numbers, bounded, subject_of
from faultline.analysis.traces.job_logs.diagnoses import log_diagnoses, metrics_diagnoses
from faultline.analysis.traces.job_logs.metrics import read_metrics
from faultline.analysis.traces.job_logs.rank_logs import JobLogs, read_rank_logs
from faultline.analysis.traces.job_logs.span_diagnoses import span_diagnoses
from faultline.analysis.traces.job_logs.structured_log import read_structured_logs
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.capture_note import taken_at
from faultline.analysis.traces.reading.job_files import JobFiles
from faultline.analysis.traces.reading.stack_dumps import read_stack_dumps

# How long a job had been waiting when it was asked, against its own rhythm.
#
# A flight recorder read from a running job shows collectives under way even when all is well. Where
# the moment of asking is known, their age tells: work that is delayed is old beside the longest
# pause the job has had between collectives.

MIN_STANDING_S = 10.0
"""Younger is never a hang: steps of seconds, garbage collection and checkpoints of shards are usual
(our choice)."""
MIN_PAUSES = 3.0
"""Times the longest pause between two collectives of the same group that the recorder still holds
(our choice)."""
UNKNOWN_STANDING_S = 60.0
"""Where the recorder holds too few collectives to know the job's rhythm: compiling and loading take
long (our choice)."""
MIN_COLLECTIVES = 4
"""Collectives of the group before the pending one, from which its rhythm is known."""


@dataclass(frozen=True)
class PendingAge:
    """The oldest pending operation."""

    seconds: float
    """Since it was enqueued, at the moment of asking."""
    longest_pause_s: float | None
    """Between earlier collectives of its group; None where too few are known."""

    @property
    def is_hang(self) -> bool:
        """Whether that is longer than any work the job is known to do."""
        if self.longest_pause_s is None:
            return self.seconds >= UNKNOWN_STANDING_S
        return self.seconds >= max(MIN_STANDING_S, MIN_PAUSES * self.longest_pause_s)


def standing(dumps: Iterable[Dump], taken_ns: Mapping[str, int]) -> PendingAge | None:
    """The longest standing of any rank; None where nothing is pending or no moment is known."""
    pending_ages = []
    for dump in dumps:
        if dump.pending and dump.file in taken_ns:
            pending_ages.append(_of_rank(dump, taken_ns[dump.file]))
    return max(pending_ages, key=lambda age: (age.is_hang, age.seconds), default=None)


def _of_rank(dump: Dump, taken_ns: int) -> PendingAge:
    oldest = dump.pending[0]
    created = [
        entry.created_ns
        for entry in dump.entries
        if entry.group == oldest.group and entry.record < oldest.record and entry.created_ns > 0
    ]
    longest_pause_s = None
    if len(created) >= MIN_COLLECTIVES:
        created.append(oldest.created_ns)
        pauses = [later - earlier for earlier, later in itertools.pairwise(created)]
        longest_pause_s = max(pauses) / 1e9
    seconds = (taken_ns - oldest.created_ns) / 1e9
    # The clocks of the rank and of whoever asked may differ by a little.
    return PendingAge(max(0.0, seconds), longest_pause_s)


MAX_UNREAD = 50
"""Dumps that could not be read, listed in details."""
TIMEOUTS = ("nccl_watchdog_timeout", "gloo_timeout")
MISMATCH = "flight_recorder_mismatch"
DATA = "dataloader_stall"
"""Told once: by spans of all ranks rather than by one rank's metrics."""


def hang_diagnoses(files: JobFiles, until_us: int | None = None) -> list[JobDiagnosis]:
    """What flight recorder dumps, stack dumps, metrics and logs say is wrong; the most certain
    cause first.

    `until_us` is the moment up to which the files were collected, where that is known. Never raises
    for what a file holds: files that cannot be read are named in their own diagnosis
    ("flight_recorder_incomplete", info).
    """
    dumps, unread = read_dumps(file.path for file in files.of("flight_recorder"))
    logs = read_rank_logs(files.of("log", "structured_log"))
    moment = moment_of_hang(dumps, _other_ranks(files) if dumps else frozenset())
    blamed = _blamed(files, moment, logs, unread)
    spans = span_diagnoses(
        read_structured_logs(files.of("structured_log", "log")),
        stopped=_timed_out(logs),
        named=any(diagnosis.ranks for diagnosis in blamed),
        until_us=until_us,
    )
    diagnoses = [*blamed, *spans]
    diagnoses += log_diagnoses(logs, moment.state.world | files.ranks)
    diagnoses += _measured(files, spans)
    incomplete = _incomplete(moment.state, unread, dumps)
    if incomplete is not None:
        diagnoses.append(incomplete)
    return diagnoses


def _blamed(
    files: JobFiles, moment: DumpMoment, logs: JobLogs, unread: Sequence[UnreadDump]
) -> list[JobDiagnosis]:
    """Which ranks died or delay the others, by their dumps; else by stacks alone."""
    stacks = read_stack_dumps(file.path for file in files.of("stack_dump"))
    lines = code_lines(stacks, logs)
    taken_ns = taken_at(file.path for file in files.of("capture_note"))
    age = standing(moment.state.dumps.values(), taken_ns)
    severity = _severity(moment, logs, age)
    dead = dead_diagnosis(dead_ranks(moment.state, logs), moment.analysis, unread, lines, severity)
    hang = hang_diagnosis(moment.state, moment.analysis, lines, severity)
    # Stacks alone accuse only where dumps name nobody.
    if hang is None and dead is None:
        hang = outlier_diagnosis(stacks, "critical" if _timed_out(logs) else "info")
    elif hang is not None:
        if age is not None and age.is_hang:
            hang = _with_age(hang, age)
        if moment.went_on:
            went_on = f"{hang.statement}; later dumps show that the job went on"
            hang = replace(hang, statement=went_on)
    return _in_order(dead, hang)


def _timed_out(logs: JobLogs) -> bool:
    return any(logs.failed(name) for name in TIMEOUTS)


def _measured(files: JobFiles, spans: Sequence[JobDiagnosis]) -> list[JobDiagnosis]:
    """What the metrics say, without what the spans have said already."""
    metrics = read_metrics(files.of("metrics", "log", "structured_log", "wandb_run"))
    diagnoses = metrics_diagnoses(metrics)
    named_by_spans = {span.rule for span in spans}
    if DATA in named_by_spans or "straggler" in named_by_spans:
        diagnoses = [diagnosis for diagnosis in diagnoses if diagnosis.rule != DATA]
    return diagnoses


def _in_order(dead: JobDiagnosis | None, hang: JobDiagnosis | None) -> list[JobDiagnosis]:
    """Who is known to be dead, then who makes the job hang; a rank that is only silent says little
    beside a culprit."""
    if dead is None:
        return [] if hang is None else [hang]
    if hang is None:
        return [dead]
    if hang.rule == MISMATCH and hang.ranks:
        return [_with_victims(hang, dead)]
    # A hang without a culprit says little beside a rank that certainly died.
    if not hang.ranks:
        return [dead] if dead.severity == "critical" else [dead, hang]
    if dead.details["certain"]:
        return [dead, hang]
    return [hang, replace(dead, severity="info")]


def _with_victims(mismatch: JobDiagnosis, dead: JobDiagnosis) -> JobDiagnosis:
    """A rank that gets a tensor of another size than it expects dies of it: its end is part of what
    the odd rank did."""
    numbers = Numbers(mismatch.numbers)
    for name, value in dead.numbers.items():
        numbers.setdefault(f"dead_{name}", value)
    return replace(
        mismatch,
        severity="critical" if "critical" in (mismatch.severity, dead.severity) else dead.severity,
        statement=f"{mismatch.statement}; {dead.statement}",
        numbers=numbers,
        details={**mismatch.details, "dead": dead.details["dead"]},
    )


def _other_ranks(files: JobFiles) -> frozenset[int]:
    """Ranks that other files of the job are named after."""
    kinds = files.of(
        "log", "structured_log", "metrics", "stack_dump", "debug_answer", "flight_recorder"
    )
    return frozenset(f.rank for f in kinds if f.rank is not None)


def _with_age(hang: JobDiagnosis, stood: PendingAge) -> JobDiagnosis:
    numbers = Numbers(hang.numbers)
    statement = (
        f"{hang.statement}; this has stood for {numbers.say('stood_s', round(stood.seconds))} s"
    )
    return replace(
        hang,
        statement=statement,
        numbers=numbers,
        details={**hang.details, "stood_s": round(stood.seconds, 1)},
    )


def _severity(moment: DumpMoment, logs: JobLogs, age: PendingAge | None) -> Severity:
    """Dumps written by the watchdog, logged timeouts, what lasts over two dumps and what stood for
    long are hangs.

    A single answer of the debug server also shows collectives that are under way in a healthy job.
    """
    # The watchdog writes its dumps as pickles.
    by_watchdog = any(dump.form == "pickle" for dump in moment.state.dumps.values())
    if moment.went_on:
        return "warning" if by_watchdog else "info"
    stood = age is not None and age.is_hang
    if by_watchdog or moment.lasting or stood or _timed_out(logs):
        return "critical"
    return "info"


def _incomplete(
    state: JobState, unread: Sequence[UnreadDump], dumps: Sequence[Dump]
) -> JobDiagnosis | None:
    """Dumps that are missing or could not be read; None where nobody left one."""
    missing = sorted(state.without_dump) if dumps else []
    cut = [dump for dump in dumps if dump.cut_off]
    if not (unread or missing or cut):
        return None
    numbers = Numbers()
    parts = []
    if missing:
        parts.append(f"no dump that can be read of {numbers.ranks(missing)}")
    if unread:
        parts.append(_first_unread(numbers, unread))
    if cut:
        parts.append(f"{numbers.count('cut_off', len(cut), 'dump')} cut off")
    rows = []
    # File names and reasons are foreign text.
    for dump in unread[:MAX_UNREAD]:
        rows.append({"file": readable(dump.file, 200), "problem": readable(dump.problem, 200)})
    return JobDiagnosis(
        rule="flight_recorder_incomplete",
        severity="info",
        subject=subject_of(missing) if missing else "flight recorder",
        statement="; ".join(parts),
        fix="Dumps take seconds to write: leave the watchdog more time "
        "(TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC), and collect all ranks.",
        source="flight recorder dumps found beside each other",
        numbers=numbers,
        details={"without_dump": bounded(missing), "unread": rows},
    )


def _first_unread(numbers: Numbers, unread: Sequence[UnreadDump]) -> str:
    first = unread[0]
    more = ""
    if len(unread) > 1:
        more = f" and {numbers.say('more_unread', len(unread) - 1)} more"
    name = readable(PurePath(first.file).name)
    return f"{name} cannot be read ({readable(first.problem, 100)}){more}"
