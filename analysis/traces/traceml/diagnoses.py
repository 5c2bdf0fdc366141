"""What TraceML's files say is wrong: our judgement of its measurements, and its own verdict as one
more piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis, Severity
from faultline.analysis.traces.doctor.rule import percent, short
from faultline.analysis.traces.flight_recorder.wording import Numbers, subject_of
from faultline.analysis.traces.judgement.thresholds import (
    INPUT_FIX,
    LATE_INPUT_FIX,
    PRESSURE_FIX,
    WARN_SHARE,
    pressure,
    severity_of,
)
from faultline.analysis.traces.readable import readable
from faultline.analysis.traces.reading.job_files import JobFile
from faultline.analysis.traces.traceml.session import (
    RankMemory,
    Straggler,
    TraceMLSession,
    TraceMLVerdict,
    creep,
    read_summary,
    reserved_share,
    shares,
    straggler,
)
from faultline.analysis.traces.traceml.telemetry import read_telemetry

MAX_SESSIONS = 64
SOURCE = "TraceML's measurements and thresholds (10 % warns, 20 % is critical from 20 steps on)"
CAUSES = {
    "input": "waits {own} ms for input, rank {victim} {other} ms",
    "h2d": "copies to its device for {own} ms, rank {victim} {other} ms",
    "optimizer": "spends {own} ms in its optimizer, rank {victim} {other} ms",
    "computation": "spends {own} ms in its forward pass, rank {victim} {other} ms",
    "residual": "spends {own} ms of the step outside forward, backward and optimizer, rank "
    "{victim} {other} ms",
}
FIXES = {
    "input": LATE_INPUT_FIX,
    "residual": "Look at what its loop does between the phases: logging, metrics, saves, Python "
    "code, host waits.",
    "": "Compare its host and device with another rank's; a profile of both shows what takes "
    "longer.",
}
VERDICTS = {
    "INPUT_STRAGGLER": "straggler",
    "COMPUTE_STRAGGLER": "straggler",
    "H2D_STRAGGLER": "straggler",
    "STRAGGLER": "straggler",
    "INPUT_BOUND": "dataloader_stall",
}
"""TraceML's verdicts that stand in where its measurements are not at hand -> our rule."""


def traceml_diagnoses(files: Iterable[JobFile]) -> tuple[list[JobDiagnosis], list[tuple[str, str]]]:
    """What the files' sessions say, and (file, problem) of those that cannot be read. Never raises
    for a file."""
    sessions, unread = _sessions(list(files)[: 3 * MAX_SESSIONS])
    job_diagnoses: list[JobDiagnosis] = []
    for session in sessions[:MAX_SESSIONS]:
        job_diagnoses += [
            d
            for d in session_diagnoses(session)
            # Several sessions may say the same of the same ranks: once is enough.
            if (d.rule, d.ranks) not in {(f.rule, f.ranks) for f in job_diagnoses}
        ]
    return job_diagnoses, unread


def session_diagnoses(session: TraceMLSession) -> list[JobDiagnosis]:
    """What one session says."""
    late = straggler(session)
    stragglers = [_straggler(session, late)] if late is not None else []
    stragglers += _shares(session, late)
    # TraceML's verdict stands in only where its measurements are missing.
    if session.ms is None and session.verdict is not None:
        stragglers += _taken_over(session.verdict)
    stragglers += [*_pressure(session.memory), *_creep(session.memory)]
    return stragglers + ([_verdict(session.verdict)] if session.verdict is not None else [])


def _sessions(files: Sequence[JobFile]) -> tuple[list[TraceMLSession], list[tuple[str, str]]]:
    """One session per database; a summary beside or above a database adds only its verdict to
    it."""
    databases: dict[Path, TraceMLSession] = {}
    summaries: dict[Path, TraceMLSession] = {}
    unread: list[tuple[str, str]] = []
    for file in files:
        name = file.path.name
        try:
            if name.endswith(".json"):
                summaries.setdefault(file.path.parent, read_summary(file.path))
            else:
                databases[file.path.parent] = read_telemetry(file.path)
        except EvidenceError as error:
            unread.append((name, error.problem))
    ml_sessions: list[TraceMLSession] = []
    for folder, session in databases.items():
        # A summary that is used here is no session by itself.
        beside = [summaries.pop(place) for place in (folder, folder.parent) if place in summaries]
        verdict = next((s.verdict for s in beside if s.verdict is not None), None)
        measured = session if session.ms is not None or not beside else beside[0]
        ml_sessions.append(_with_verdict(measured, session, verdict))
    return ml_sessions + list(summaries.values()), unread


def _with_verdict(
    measured: TraceMLSession, database: TraceMLSession, verdict: TraceMLVerdict | None
) -> TraceMLSession:
    return TraceMLSession(
        file=database.file,
        ranks=measured.ranks,
        ms=measured.ms,
        steps=measured.steps,
        strategy=database.strategy,
        gpu_clock=measured.gpu_clock,
        memory=database.memory,
        verdict=verdict,
        cut=database.cut,
    )


def _straggler(session: TraceMLSession, late: Straggler) -> JobDiagnosis:
    numbers = Numbers()
    statement = (
        f"{numbers.ranks([late.rank])} delays the others by "
        f"{numbers.say('wait_ms', short(late.wait_ms))} ms of a "
        f"step of {numbers.say('step_ms', short(late.step_ms))} ms, in "
        f"{numbers.say('steps', session.steps)} steps "
        "that TraceML timed"
    )
    if late.cause:
        statement += ": it " + CAUSES[late.cause].format(
            own=numbers.say("own_ms", short(late.rank_ms)),
            victim=numbers.say("other_rank", late.victim),
            other=numbers.say("other_ms", short(late.victim_ms)),
        )
    else:
        statement += "; which part of its step is late was not measured"
    # As in TraceML, a straggler of a sharded job only warns.
    severity: Severity = "warning" if late.sharded else severity_of(late.score, session.steps)
    return JobDiagnosis(
        rule="straggler",
        severity=severity,
        subject=subject_of([late.rank]),
        statement=statement,
        fix=FIXES.get(late.cause, FIXES[""]),
        source=SOURCE,
        numbers=numbers,
        ranks=(late.rank,),
        details={
            "blame_share": round(late.score, 4),
            "cause": late.cause or "not measured",
            "source": "TraceML",
        },
    )


def _shares(session: TraceMLSession, late: Straggler | None) -> list[JobDiagnosis]:
    phase_shares = shares(session)
    diagnoses = []
    # The straggler's diagnosis names the input already.
    if phase_shares.get("input", 0.0) >= WARN_SHARE and not (late and late.cause == "input"):
        diagnoses.append(
            _share(
                session,
                "dataloader_stall",
                phase_shares["input"],
                "of the step is waiting for input",
                INPUT_FIX,
                {"data_share": round(phase_shares["input"], 4)},
            )
        )
    if phase_shares.get("h2d", 0.0) >= WARN_SHARE:
        fix = (
            "pin_memory=True with .to(device, non_blocking=True), and copies that overlap with "
            "computation."
        )
        diagnoses.append(
            _share(
                session,
                "long_copies",
                phase_shares["h2d"],
                "of the step is copying to the device",
                fix,
                {},
            )
        )
    if phase_shares.get("residual", 0.0) >= WARN_SHARE and not (late and late.cause == "residual"):
        fix = FIXES["residual"].replace("its loop", "the loop")
        what = "of the step lies outside input, forward, backward and optimizer"
        diagnoses.append(
            _share(session, "time_outside_phases", phase_shares["residual"], what, fix, {})
        )
    return diagnoses


def _share(
    session: TraceMLSession,
    rule: str,
    share: float,
    what: str,
    fix: str,
    details: dict[str, float | str],
) -> JobDiagnosis:
    numbers = Numbers()
    severity = "warning" if rule == "time_outside_phases" else severity_of(share, session.steps)
    return JobDiagnosis(
        rule=rule,
        severity=severity,
        subject="all ranks",
        statement=f"{numbers.say('percent', percent(share))} % {what}, as TraceML timed "
        f"{numbers.count('steps', session.steps, 'step')} of "
        f"{numbers.count('ranks', len(session.ranks), 'rank')}",
        fix=fix,
        source=SOURCE,
        numbers=numbers,
        details=details | {"source": "TraceML"},
    )


def _pressure(memory: Sequence[RankMemory]) -> list[JobDiagnosis]:
    full = sorted(
        (m for m in memory if pressure(reserved_share(m))), key=lambda m: -reserved_share(m)
    )
    severity = pressure(reserved_share(full[0])) if full else None
    if severity is None:
        return []
    numbers, ranks = Numbers(), sorted(m.rank for m in full)
    return [
        JobDiagnosis(
            rule="memory_pressure",
            severity=severity,
            subject=subject_of(ranks),
            statement=f"{numbers.ranks(ranks)}: up to "
            f"{numbers.say('percent', percent(reserved_share(full[0])))} % of the "
            "device's memory is reserved",
            fix=PRESSURE_FIX,
            source="TraceML (92 %, 97 %)",
            numbers=numbers,
            details={"source": "TraceML"},
        )
    ]


def _creep(memory: Sequence[RankMemory]) -> list[JobDiagnosis]:
    grown = sorted((m for m in memory if creep(m)), key=lambda m: -creep(m))
    if not grown:
        return []
    numbers, ranks = Numbers(), sorted(m.rank for m in grown)
    return [
        JobDiagnosis(
            rule="memory_growth",
            severity="warning",
            subject=subject_of(ranks),
            statement=f"{numbers.ranks(ranks)}: the peak of the device's memory rises by "
            f"{numbers.say('grown_mb', short(creep(grown[0]) / 1e6))} MB over "
            f"{numbers.say('steps', len(grown[0].peak_allocated))} steps",
            fix="Something outlives its step: keep loss.item() instead of losses, clear lists of "
            "outputs; a memory "
            "snapshot (torch.cuda.memory._dump_snapshot) names the line.",
            source="TraceML: early, middle and late steps rise, by 1 GiB over at least 50 steps",
            numbers=numbers,
            ranks=tuple(ranks) if len(grown) < len(memory) else (),
            details={"source": "TraceML"},
        )
    ]


def _taken_over(verdict: TraceMLVerdict) -> list[JobDiagnosis]:
    """TraceML's verdict as ours, where there is nothing to judge it by."""
    rule = VERDICTS.get(verdict.kind)
    if rule is None or verdict.severity not in ("warn", "crit"):
        return []
    numbers = Numbers()
    who = numbers.ranks(verdict.ranks) if verdict.ranks else "the job"
    return [
        JobDiagnosis(
            rule=rule,
            severity="critical" if verdict.severity == "crit" else "warning",
            subject=subject_of(verdict.ranks),
            statement=f"{who}: {_kind(verdict)}, as TraceML's summary says without measurements "
            f"of the ranks",
            fix=readable(verdict.action, 200),
            source="TraceML's own verdict",
            numbers=numbers,
            ranks=verdict.ranks,
            details={"source": "TraceML", "summary": readable(verdict.summary, 200)},
        )
    ]


def _verdict(verdict: TraceMLVerdict) -> JobDiagnosis:
    return JobDiagnosis(
        rule="traceml_verdict",
        severity="info",
        subject=subject_of(verdict.ranks),
        statement=f"TraceML's own verdict is {_kind(verdict)}",
        fix="",
        source="final_summary.json",
        details={
            "kind": readable(verdict.kind),
            "severity": readable(verdict.severity),
            "summary": readable(verdict.summary, 200),
            "action": readable(verdict.action, 200),
        },
    )


def _kind(verdict: TraceMLVerdict) -> str:
    # Every number in a statement has to be in `numbers`: drop the digits of a kind.
    return readable("".join(c for c in verdict.kind if not c.isdigit()).replace("_", " ").lower())
