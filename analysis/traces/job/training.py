"""Findings from what a training job left: profiler traces, flight recorder dumps, stack dumps,
metrics and logs.

Each diagnosis of the trace doctor that accuses is a finding by the rule's name; information is
in the details. What cannot be read or compared is said, never guessed. Traces are read one by one:
a rank's summary is all that stays. Where a trace was read before (`trace_versions`), its record is
taken instead; the findings are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.finding_details import TraceDetails
from faultline.analysis.kinds.finding_kinds import (
    RULE_KINDS,
    TRACE_UNREADABLE,
    TRACES_INCONCLUSIVE,
    TRAINING_HEALTHY,
    details_model,
    rule_kind,
)
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.columns.steps import PHASES
from faultline.analysis.traces.doctor.communication_rules import COMMUNICATION_BOUND
from faultline.analysis.traces.doctor.device_rules import LAUNCH_BOUND
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob, job_of
from faultline.analysis.traces.doctor.nothing_wrong import doubts, health
from faultline.analysis.traces.doctor.rules import JOB_RULES, diagnose
from faultline.analysis.traces.job.rank_reading import RankReading, put_together, read_ranks
from faultline.analysis.traces.job.telemetry import diagnoses_of_files
from faultline.analysis.traces.job.trace_records import TraceRecords
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.job_files import JobFile, JobFiles, sort_job_files, traces_of
from faultline.analysis.vocabulary import Finding, JobIdentity
from faultline.analysis.wording.phrases import counted

MAX_NAMED_FILES = 3
MAX_DIAGNOSES = 20
MAX_RANK_ROWS = 256
MAX_HOST = 100
HEALTHY_STRENGTH = 0.1
STRENGTH = {"critical": 0.7, "warning": 0.5}
"""How far a diagnosis stands out where its rule gives no share of time."""
INCOMPLETE = ("flight_recorder_incomplete", "telemetry_unread")
CAPTURE = ("capture_unusable", "profiler_overhead", "capture_limited")
"""Rules that are about the recording and of nobody's fault."""
ALWAYS_SO = (COMMUNICATION_BOUND.name, LAUNCH_BOUND.name)
"""Rules on what a job is like, rather than on what went wrong with it."""
FLIGHT_RECORDER = "flight recorder"
SIGNALS = {
    "straggler": "wait at collectives",
    "slow_step": "step time",
    "slow_step_everywhere": "step time",
    "dataloader_stall": "data loading",
    "throughput_drop": "throughput",
    "nan_loss": "loss",
    "loss_spike": "loss",
    "dead_rank": "logs and dumps",
    "flight_recorder_missing_rank": FLIGHT_RECORDER,
    "flight_recorder_mismatch": FLIGHT_RECORDER,
    "flight_recorder_device_stuck": FLIGHT_RECORDER,
    "flight_recorder_deadlock": FLIGHT_RECORDER,
    "flight_recorder_all_joined": FLIGHT_RECORDER,
    "stack_outlier": "stacks",
    "known_failure": "logs",
    "exception": "logs",
}
"""The signal that a finding of the rule speaks of."""


def training_findings(case: Case) -> list[Finding]:
    """Findings of the case's traces, with ids "T1", "T2", ...; none where the case has no
    traces."""
    records = TraceRecords(case.path)
    try:
        return _findings_of_files(case, records)
    except FaultlineError:
        raise
    except Exception:
        # Without records, or with traces that only a record holds, nothing else can be read.
        if not records.used or records.left_out:
            raise
    # A record may come from anybody: where one breaks the analysis, its trace is read instead.
    return _findings_of_files(case, None)


ANALYZER = Analyzer(
    training_findings,
    kinds=(
        *RULE_KINDS.values(),
        *(rule_kind(job_rule.fault) for job_rule in JOB_RULES if job_rule.fault is not None),
        TRAINING_HEALTHY,
        TRACES_INCONCLUSIVE,
        TRACE_UNREADABLE,
    ),
)


def _findings_of_files(case: Case, records: TraceRecords | None) -> list[Finding]:
    paths = [*case.trace_files]
    if records is not None:
        paths += records.left_out
    if not paths:
        return []
    # Sort: a trace that does not say its rank gets that of its place among the files.
    files = sort_job_files(sorted(paths), records.job_file if records else None)
    traces = traces_of(files)
    summaries, problems = put_together((file, _read(file, records)) for file in traces)
    problems += _never_read(files, traces)
    from_files = diagnoses_of_files(files, round(case.scope.incident.end.timestamp() * 1e6))
    job = job_of(summaries, from_files, len(problems))
    findings = _findings(case, job) + _unreadable(problems, from_files)
    evidence = case.evidence_ids("traces")
    numbered = []
    for n, finding in enumerate(findings, start=1):
        with_host = _with_host(finding, case.scope.training)
        numbered.append(with_host.model_copy(update={"id": f"T{n}", "evidence": evidence}))
    return numbered


def _read(file: JobFile, records: TraceRecords | None) -> RankReading:
    reading = records.reading(file.path) if records else None
    return reading or read_ranks(file)


def _never_read(files: JobFiles, traces: Sequence[JobFile]) -> list[tuple[str, str]]:
    """File and reason for each file that no reader understands."""
    read = {file.path for file in traces}
    # A report that was exported is read as its export.
    exported = {file.path.with_suffix("") for file in files.of("nsight_sqlite")}
    problems = []
    for file in files.of("other", "empty"):
        if file.path not in read:
            problems.append((file.path.name, _not_read(file)))
    for file in files.of("nsight_report"):
        if file.path.with_suffix("") not in exported:
            problems.append((file.path.name, _not_read(file)))
    return problems


def _not_read(file: JobFile) -> str:
    if file.kind == "nsight_report":
        return (
            "is a report of Nsight Systems, which only NVIDIA's `nsys export --type=sqlite` reads"
        )
    return "is empty" if file.kind == "empty" else "is no trace, dump or log of a training job"


def _findings(case: Case, job: TrainingJob) -> list[Finding]:
    """What accuses; else that nothing stands out, or why nothing can be said."""
    name = case.scope.job or case.alert.job or case.alert.service or "training job"
    diagnoses = diagnose(job)
    notes = _notes(name, job)
    serious, also = [], []
    for diagnosis in diagnoses:
        # What a job is like was so before the alert, too.
        if diagnosis.severity == "info" or diagnosis.rule in ALWAYS_SO:
            also.append(diagnosis.statement)
        else:
            serious.append(diagnosis)
    notes["also"] = also[:MAX_DIAGNOSES]
    accusing = [diagnosis for diagnosis in serious if diagnosis.rule not in CAPTURE][:MAX_DIAGNOSES]
    if accusing:
        return [_finding(name, diagnosis, notes) for diagnosis in accusing]
    if serious:
        unfit = serious[0]
        return [_inconclusive(name, unfit.statement, unfit.numbers, notes | {"fix": unfit.fix})]
    return [_unaccused(name, job, diagnoses, notes)] if job.ranks else []


def _unaccused(
    name: str, job: TrainingJob, diagnoses: Sequence[JobDiagnosis], notes: dict[str, Any]
) -> Finding:
    """That nothing stands out, or why that cannot be said."""
    # This is reached only with ranks, and with ranks there is a comparison.
    assert job.comparison is not None
    why_not = job.comparison.why_not
    if why_not is not None:
        return _inconclusive(name, why_not.sentence, why_not.numbers, notes)
    unsure = doubts(diagnoses)
    if unsure:
        sentence, numbers = _to_look_at(unsure)
        return _inconclusive(name, sentence, numbers, notes)
    sentence, numbers = health(job, diagnoses)
    return _plain(TRAINING_HEALTHY.name, name, HEALTHY_STRENGTH, sentence, numbers, notes)


def _inconclusive(
    name: str, sentence: str, numbers: Mapping[str, float], notes: dict[str, Any]
) -> Finding:
    return _plain(TRACES_INCONCLUSIVE.name, name, 0.0, sentence, dict(numbers), notes)


def _to_look_at(unsure: Sequence[JobDiagnosis]) -> tuple[str, dict[str, float]]:
    """What may be wrong: the first of it, and how much more there is."""
    more = len(unsure) - 1
    first = f"not certain: {unsure[0].statement}"
    if not more:
        return first, dict(unsure[0].numbers)
    phrase = f"{first}; {counted(more, 'more thing')} to look at in the traces"
    return phrase, dict(unsure[0].numbers) | {"more_to_look_at": float(more)}


def _finding(name: str, diagnosis: JobDiagnosis, notes: dict[str, Any]) -> Finding:
    # Stragglers and input stalls give their share of time under different names.
    share = diagnosis.details.get("blame_share", diagnosis.details.get("data_share"))
    measured = notes | dict(diagnosis.details)
    accused: dict[str, Any] = {
        "severity": diagnosis.severity,
        "culprits": list(diagnosis.ranks[:MAX_RANK_ROWS]),
        "fix": diagnosis.fix,
        "source": diagnosis.source,
        "events": [asdict(event) for event in diagnosis.events],
    }
    effect, unit = _effect(diagnosis, share)
    return Finding(
        id="",
        kind=diagnosis.rule,
        subject=f"rank {diagnosis.ranks[0]}" if len(diagnosis.ranks) == 1 else name,
        signal=SIGNALS.get(diagnosis.rule, diagnosis.rule.replace("_", " ")),
        onset=_onset(diagnosis),
        onset_uncertainty_s=diagnosis.details.get("at_within_s"),
        effect=effect,
        effect_unit=unit,
        strength=_strength(diagnosis, share),
        sentence=diagnosis.statement,
        numbers=dict(diagnosis.numbers),
        details=details_model(diagnosis.rule).read(measured | accused),
    )


def _with_host(finding: Finding, job: JobIdentity | None) -> Finding:
    """The finding with the host of its one rank, if the job's settings name it: an engineer looks
    for that machine."""
    details = TraceDetails.of(finding)
    if job is None or details is None or len(details.culprits) != 1:
        return finding
    host = job.host_of(details.culprits[0])
    if host is None:
        return finding
    name = readable(host, MAX_HOST)
    sentence = f"{finding.sentence.rstrip('.')}; it runs on host {name}"
    # The host that the trace names outranks the one in the settings.
    with_host = details.model_copy(update={"host": details.host or name})
    return finding.model_copy(update={"sentence": sentence, "details": with_host})


def _onset(diagnosis: JobDiagnosis) -> datetime | None:
    """When it began, where the job's files say so."""
    try:
        return datetime.fromisoformat(str(diagnosis.details.get("at", "")))
    except ValueError:
        return None


def _effect(diagnosis: JobDiagnosis, share: float | None) -> tuple[float | None, str | None]:
    if share is not None:
        return round(share, 4), "share of step time"
    took, usual = diagnosis.numbers.get("step_ms"), diagnosis.numbers.get("median_step_ms")
    if diagnosis.rule == "slow_step" and took and usual:
        return round(took / usual, 2), "x"
    return None, None


def _strength(diagnosis: JobDiagnosis, share: float | None) -> float:
    if diagnosis.rule == "slow_step":
        return min(1.0, 0.3 + 0.4 * float(diagnosis.details.get("lost_share", 0.0)))
    if share is not None:
        return min(1.0, 0.5 + share / 2)
    return STRENGTH[diagnosis.severity]


def _plain(
    kind: str,
    subject: str,
    strength: float,
    sentence: str,
    numbers: dict[str, float],
    details: dict[str, Any],
) -> Finding:
    return Finding(
        id="",
        kind=kind,
        subject=subject,
        strength=strength,
        sentence=sentence,
        numbers=numbers,
        details=details_model(kind).read(details),
    )


def _notes(name: str, job: TrainingJob) -> dict[str, Any]:
    """What every finding's details carry: the job, how ranks were recognised, what was lost in
    reading."""
    compared = job.comparison
    if compared is None:
        return {"job": name, "ranks": []}
    ranks = compared.job.ranks
    facts: dict[str, Any] = {
        "job": name,
        "ranks": [summary.rank for summary in ranks],
        "rank_source": sorted({summary.rank_source for summary in ranks}),
        "dropped": _dropped(ranks),
        "per_rank": _rank_rows(job),
    }
    if compared.job.missing_count:
        facts["ranks_without_trace"] = compared.job.missing_count
    if compared.job.left_out:
        facts["older_traces_left_out"] = len(compared.job.left_out)
    if compared.clocks.offset.any():
        offsets = {}
        for summary, offset_ns in zip(ranks, compared.clocks.offset.tolist(), strict=True):
            offsets[str(summary.rank)] = offset_ns / 1e6
        facts["clock_offset_ms"] = offsets
    if compared.matched.unmatched:
        facts["collectives_unmatched"] = compared.matched.unmatched
    return facts


def _dropped(ranks: Iterable[RankSummary]) -> dict[str, Mapping[str, int]]:
    """By file, what its reader had to leave out."""
    dropped: dict[str, Mapping[str, int]] = {}
    for summary in ranks:
        if any(summary.dropped.values()):
            dropped[summary.file] = summary.dropped
    return dropped


def _rank_rows(job: TrainingJob) -> list[dict[str, Any]]:
    """The table of ranks: milliseconds per step."""
    assert job.comparison is not None
    blame = {blamed.rank: blamed.share for blamed in job.comparison.blame.ranks}
    rows: list[dict[str, Any]] = []
    for step in job.comparison.steps[:MAX_RANK_ROWS]:
        share = blame.get(step.rank)
        row: dict[str, Any] = {
            "rank": step.rank,
            "step ms": round(step.step_ms, 1),
            "waits ms": round(step.ms("communication wait"), 1),
            "blame share": round(share, 3) if share is not None else None,
        }
        for phase in PHASES:
            row[f"{phase} ms"] = round(step.ms(phase), 2)
        rows.append(row)
    return rows


def _unreadable(
    problems: Sequence[tuple[str, str]], diagnoses: Sequence[JobDiagnosis]
) -> list[Finding]:
    """One finding per kind of problem, naming the first files; then what dumps could not be
    read."""
    by_problem: dict[str, list[str]] = defaultdict(list)
    for file, problem in problems:
        by_problem[problem].append(file)
    unreadable_files = [_unreadable_files(problem, files) for problem, files in by_problem.items()]
    for diagnosis in diagnoses:
        if diagnosis.rule in INCOMPLETE:
            unreadable_files.append(_unreadable_dumps(diagnosis))
    return unreadable_files


def _unreadable_files(problem: str, files: list[str]) -> Finding:
    named = ", ".join(readable(file) for file in files[:MAX_NAMED_FILES])
    more = len(files) - MAX_NAMED_FILES
    numbers = {}
    if more > 0:
        named += f" and {more} more"
        numbers["more_files"] = float(more)
    details = {"files": files, "problem": problem}
    sentence = f"{named}: {problem}"
    return _plain(TRACE_UNREADABLE.name, readable(files[0]), 0.0, sentence, numbers, details)


def _unreadable_dumps(diagnosis: JobDiagnosis) -> Finding:
    details = {"problem": diagnosis.statement} | dict(diagnosis.details)
    return _plain(
        TRACE_UNREADABLE.name,
        diagnosis.subject,
        0.0,
        diagnosis.statement,
        dict(diagnosis.numbers),
        details,
    )
