"""Findings from what a training job left: profiler traces, flight recorder dumps, stack dumps,
metrics and logs.

Each diagnosis of the trace doctor that accuses is a finding by the rule's name; information stands
in the details. What cannot be read or compared is said, never guessed. Traces are read one by one:
a rank's summary is all that stays. Where a trace was read before (`trace_versions`), its record is
taken instead; the findings are the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

from analysis.case.folder import Case
from analysis.errors import FaultlineError
from analysis.kinds.finding_details import TraceDetails
from analysis.kinds.finding_kinds import (
    RULE_KINDS,
    TRACE_UNREADABLE,
    TRACES_INCONCLUSIVE,
    TRAINING_HEALTHY,
    Analyzer,
    details_model,
    rule_kind,
)
from analysis.traces.columns.steps import PHASES
from analysis.traces.doctor.diagnosis import Diagnosis
from analysis.traces.doctor.job import TrainingJob, job_of
from analysis.traces.doctor.nothing_wrong import doubts, health
from analysis.traces.doctor.rules import JOB_RULES, diagnose
from analysis.traces.job.rank_reading import RankReading, put_together, read_ranks
from analysis.traces.job.telemetry import told_by_files
from analysis.traces.job.trace_records import TraceRecords
from analysis.traces.readable import readable
from analysis.traces.reading.job_files import JobFile, sort_job_files, traces_of
from analysis.vocabulary import Finding, JobIdentity
from analysis.wording.phrases import counted

MAX_NAMED_FILES = 3
MAX_DIAGNOSES = 20
MAX_RANK_ROWS = 256
MAX_HOST = 100
HEALTHY_STRENGTH = 0.1
STRENGTH = {"critical": 0.7, "warning": 0.5}
"""How far a diagnosis stands out where its rule gives no share of time."""
INCOMPLETE = ("flight_recorder_incomplete", "telemetry_unread")
CAPTURE = ("capture_unusable", "profiler_overhead", "capture_limited")
"""Rules that speak of the recording and of nobody's fault."""
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
        return _told(case, records)
    except FaultlineError:
        raise
    except Exception:
        if not records.used or records.left_out:
            raise
    return _told(case, None)  # a record may be anybody's: its trace decides


ANALYZER = Analyzer(
    training_findings,
    kinds=(
        *RULE_KINDS.values(),
        *(rule_kind(one.fault) for one in JOB_RULES if one.fault is not None),
        TRAINING_HEALTHY,
        TRACES_INCONCLUSIVE,
        TRACE_UNREADABLE,
    ),
)


def _told(case: Case, records: TraceRecords | None) -> list[Finding]:
    paths = sorted((*case.trace_files, *(records.left_out if records else ())))
    if not paths:
        return []
    files = sort_job_files(paths, records.known if records else None)
    traces = traces_of(files)
    summaries, problems = put_together((file, _read(file, records)) for file in traces)
    exports = {f.path.with_suffix("") for f in files.of("nsight_sqlite")}
    reports = [f for f in files.of("nsight_report") if f.path.with_suffix("") not in exports]
    read = {f.path for f in traces}
    unknown = [f for f in files.of("other", "empty") if f.path not in read]
    problems += [(f.path.name, _not_read(f)) for f in (*unknown, *reports)]
    told = told_by_files(files, round(case.scope.incident.end.timestamp() * 1e6))
    job = job_of(summaries, told, len(problems))
    found = _findings(case, job) + _unreadable(problems, told)
    found = [_with_host(f, case.scope.training) for f in found]
    evidence = case.evidence_ids("traces")
    return [
        f.model_copy(update={"id": f"T{n}", "evidence": evidence})
        for n, f in enumerate(found, start=1)
    ]


def _read(file: JobFile, records: TraceRecords | None) -> RankReading:
    return (records.reading(file.path) if records else None) or read_ranks(file)


def _not_read(file: JobFile) -> str:
    if file.kind == "nsight_report":
        return (
            "is a report of Nsight Systems, which only NVIDIA's `nsys export --type=sqlite` reads"
        )
    return "is empty" if file.kind == "empty" else "is no trace, dump or log of a training job"


def _findings(case: Case, job: TrainingJob) -> list[Finding]:
    """What accuses; else that nothing stands out, or why nothing can be said."""
    name = case.scope.job or case.alert.job or case.alert.service or "training job"
    said = diagnose(job)
    notes = _notes(name, job) | {
        "also": [d.statement for d in said if d.severity == "info"][:MAX_DIAGNOSES]
    }
    accusing = [d for d in said if d.severity != "info" and d.rule not in CAPTURE][:MAX_DIAGNOSES]
    if accusing:
        return [_finding(name, d, notes) for d in accusing]
    unfit = next((d for d in said if d.rule in CAPTURE and d.severity != "info"), None)
    if unfit is not None:
        notes |= {"fix": unfit.fix}
        return [
            _plain(TRACES_INCONCLUSIVE.name, name, 0.0, unfit.statement, dict(unfit.numbers), notes)
        ]
    if not job.ranks:
        return []
    assert job.comparison is not None
    if job.comparison.why_not is None:
        sentence, numbers = health(job, said)
        unsure = doubts(said)
        kind, strength = (
            (TRACES_INCONCLUSIVE.name, 0.0) if unsure else (TRAINING_HEALTHY.name, HEALTHY_STRENGTH)
        )
        if unsure:
            sentence, numbers = _to_look_at(unsure)
        return [_plain(kind, name, strength, sentence, numbers, notes)]
    why = job.comparison.why_not
    return [_plain(TRACES_INCONCLUSIVE.name, name, 0.0, why.sentence, why.numbers, notes)]


def _to_look_at(unsure: Sequence[Diagnosis]) -> tuple[str, dict[str, float]]:
    """What may be a trouble: the first of it, and how much more there is."""
    more = len(unsure) - 1
    first = f"not certain: {unsure[0].statement}"
    if not more:
        return first, dict(unsure[0].numbers)
    said = f"{first}; {counted(more, 'more thing')} to look at in the traces"
    return said, dict(unsure[0].numbers) | {"more_to_look_at": float(more)}


def _finding(name: str, diagnosis: Diagnosis, notes: dict[str, Any]) -> Finding:
    share = next(
        (diagnosis.details[k] for k in ("blame_share", "data_share") if k in diagnosis.details),
        None,
    )
    measured = dict(notes) | dict(diagnosis.details)
    accused: dict[str, Any] = {
        "severity": diagnosis.severity,
        "culprits": list(diagnosis.ranks[:MAX_RANK_ROWS]),
        "fix": diagnosis.fix,
        "source": diagnosis.source,
        "events": [asdict(e) for e in diagnosis.events],
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
    """Where the one rank it speaks of runs, if the job's settings tell: that machine is what an
    engineer looks for."""
    details = TraceDetails.of(finding)
    if job is None or details is None or len(details.culprits) != 1:
        return finding
    host = job.host_of(details.culprits[0])
    if host is None:
        return finding
    name = readable(host, MAX_HOST)
    said = f"{finding.sentence.rstrip('.')}; it runs on host {name}"
    with_host = details.model_copy(update={"host": details.host or name})
    return finding.model_copy(update={"sentence": said, "details": with_host})


def _onset(diagnosis: Diagnosis) -> datetime | None:
    """When it began, where the job's files say so."""
    try:
        return datetime.fromisoformat(str(diagnosis.details.get("at", "")))
    except ValueError:
        return None


def _effect(diagnosis: Diagnosis, share: float | None) -> tuple[float | None, str | None]:
    if share is not None:
        return round(share, 4), "share of step time"
    took, usual = diagnosis.numbers.get("step_ms"), diagnosis.numbers.get("median_step_ms")
    return (
        (round(took / usual, 2), "x")
        if diagnosis.rule == "slow_step" and took and usual
        else (None, None)
    )


def _strength(diagnosis: Diagnosis, share: float | None) -> float:
    if diagnosis.rule == "slow_step":
        return min(1.0, 0.3 + 0.4 * float(diagnosis.details.get("lost_share", 0.0)))
    return min(1.0, 0.5 + share / 2) if share is not None else STRENGTH[diagnosis.severity]


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
    """What every finding's details carry: the job, how ranks were told, what was lost in
    reading."""
    compared = job.comparison
    if compared is None:
        return {"job": name, "ranks": []}
    ranks = compared.job.ranks
    facts: dict[str, Any] = {
        "job": name,
        "ranks": [s.rank for s in ranks],
        "rank_source": sorted({s.rank_source for s in ranks}),
        "dropped": {s.file: s.dropped for s in ranks if any(s.dropped.values())},
        "per_rank": _rank_rows(job),
    }
    if compared.job.missing_count:
        facts["ranks_without_trace"] = compared.job.missing_count
    if compared.job.left_out:
        facts["older_traces_left_out"] = len(compared.job.left_out)
    if compared.clocks.offset.any():
        facts["clock_offset_ms"] = {
            str(s.rank): o / 1e6
            for s, o in zip(ranks, compared.clocks.offset.tolist(), strict=True)
        }
    if compared.matched.unmatched:
        facts["collectives_unmatched"] = compared.matched.unmatched
    return facts


def _rank_rows(job: TrainingJob) -> list[dict[str, Any]]:
    """The table of ranks: milliseconds per step."""
    assert job.comparison is not None
    blame = {r.rank: r.share for r in job.comparison.blame.ranks}
    rows: list[dict[str, Any]] = []
    for own in job.comparison.steps[:MAX_RANK_ROWS]:
        phases = {f"{phase} ms": round(own.ms(phase), 2) for phase in PHASES}
        share = blame.get(own.rank)
        rows.append(
            {
                "rank": own.rank,
                "step ms": round(own.step_ms, 1),
                "waits ms": round(own.ms("communication wait"), 1),
                "blame share": round(share, 3) if share is not None else None,
            }
            | phases
        )
    return rows


def _unreadable(problems: Sequence[tuple[str, str]], told: Sequence[Diagnosis]) -> list[Finding]:
    """One finding per kind of problem, naming the first files; then what dumps could not be
    read."""
    by_problem: dict[str, list[str]] = defaultdict(list)
    for file, problem in problems:
        by_problem[problem].append(file)
    found = []
    for problem, files in by_problem.items():
        named = ", ".join(readable(f) for f in files[:MAX_NAMED_FILES])
        more = len(files) - MAX_NAMED_FILES
        found.append(
            _plain(
                TRACE_UNREADABLE.name,
                readable(files[0]),
                0.0,
                f"{named}{f' and {more} more' if more > 0 else ''}: {problem}",
                {"more_files": float(more)} if more > 0 else {},
                {"files": files, "problem": problem},
            )
        )
    for diagnosis in told:
        if diagnosis.rule in INCOMPLETE:
            details = {"problem": diagnosis.statement} | dict(diagnosis.details)
            found.append(
                _plain(
                    TRACE_UNREADABLE.name,
                    diagnosis.subject,
                    0.0,
                    diagnosis.statement,
                    dict(diagnosis.numbers),
                    details,
                )
            )
    return found
