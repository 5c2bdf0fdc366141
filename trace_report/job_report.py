"""What is reported of a job: the same content for the terminal, the page and JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from statistics import median
from typing import Any

from analysis.traces.across_ranks.comparison import Comparison
from analysis.traces.across_ranks.rank_summary import RankSummary
from analysis.traces.across_ranks.step_breakdown import PARTS, WAIT
from analysis.traces.doctor.diagnosis import Diagnosis
from analysis.traces.doctor.job import TrainingJob, job_of
from analysis.traces.doctor.nothing_wrong import doubts, nothing_wrong
from analysis.traces.doctor.rules import diagnose
from analysis.traces.job.telemetry import told_by_files
from trace_report.analysis_run import JobResult
from trace_report.job_analyses import job_analyses
from trace_report.rank_lines import RankLine, rank_line, window_parts_ms

MAX_SHOWN = 32
"""Ranks in one chart."""
SOURCES = {
    "distributedInfo": "the traces say their ranks",
    "file name": "ranks are told by the files' names",
    "order": "ranks are told by the order of the files: neither traces nor names say them",
}


@dataclass(frozen=True)
class JobReport:
    """A job, analysed, diagnosed and ready to be shown."""

    result: JobResult
    job: TrainingJob
    compared: Comparison | None
    """None without a trace."""
    lines: tuple[RankLine, ...]
    diagnoses: tuple[Diagnosis, ...]
    all_ranks: bool
    """Whether the analyses across ranks were asked for."""
    nothing_wrong: str
    """The sentence for a job with which nothing is wrong, or nothing for certain; "" where
    something is."""

    @property
    def verdict(self) -> str:
        """ "something_wrong", "nothing_certain" where a piece of information may be a trouble, or
        "nothing_wrong"."""
        if any(d.severity != "info" for d in self.diagnoses):
            return "something_wrong"
        return "nothing_certain" if doubts(self.diagnoses) else "nothing_wrong"

    @property
    def blamed(self) -> frozenset[int]:
        """Ranks that a diagnosis says are at fault."""
        return frozenset(rank for d in self.diagnoses if d.severity != "info" for rank in d.ranks)

    def shown(self) -> list[RankSummary]:
        """The ranks that a chart has room for, by rank: those at fault, and as many others as
        fit."""
        summaries = self.result.summaries
        by_need = sorted(summaries, key=lambda s: (s.rank not in self.blamed, s.rank))
        return sorted(by_need[:MAX_SHOWN], key=lambda s: s.rank)

    @property
    def facts(self) -> list[str]:
        """The job in a few words each."""
        lines = self.lines
        if not lines:
            return []
        worlds = [line.world_size for line in lines if line.world_size]
        of = f" of {max(worlds)}" if worlds else ""
        facts = [
            f"{_count(len(lines), 'rank')}{of}",
            _count(max(line.steps for line in lines), "step"),
        ]
        timed = any(line.step_ms is not None for line in lines)
        facts.append(f"{self.job.step_ns / 1e6:,.1f} ms {'a step' if timed else 'in all'}")
        hosts = {line.host for line in lines if line.host}
        if hosts:
            facts.append(_count(len(hosts), "host"))
        devices = Counter(line.accelerator for line in lines)
        facts.append(devices.most_common(1)[0][0] + (" and others" if len(devices) > 1 else ""))
        facts.append(f"{sum(line.events for line in lines):,} events")
        return facts

    @property
    def step_parts(self) -> dict[int, dict[str, float]]:
        """Rank -> mean ms per step of each part, in the order of a stacked chart; of the window,
        without steps."""
        found = {}
        told = {s.rank: s for s in self.compared.steps} if self.compared else {}
        for summary in self.result.summaries:
            steps = told.get(summary.rank)
            if steps is not None and len(steps):
                found[summary.rank] = {part: steps.ms(part) for part in PARTS}
            else:
                found[summary.rank] = window_parts_ms(summary)
        return found

    @property
    def how_ranks_were_told(self) -> str:
        """One sentence; "" without ranks."""
        kinds = {line.rank_source for line in self.lines}
        return "; ".join(SOURCES[kind] for kind in SOURCES if kind in kinds)

    @property
    def dropped(self) -> dict[str, Any]:
        """All that was given and is not in the analyses, by kind."""
        ranks = [(r, r.summary) for r in self.result.ranks]
        return {
            "files": [{"file": file, "why": why} for file, why in self.result.unread],
            "older_captures": list(self.result.older),
            "not_looked_at": dict(self.result.files.left_out),
            "events": {s.file: dict(s.dropped) for _, s in ranks if s.dropped},
            "analyses": [
                {"rank": s.rank, "analysis": name, "why": why}
                for r, s in ranks
                for name, why in sorted(r.failed.items())
            ],
        }


def report_of(result: JobResult, *, all_ranks: bool = True) -> JobReport:
    """Diagnose the job and word what is shown of it."""
    told = told_by_files(result.files)
    job = job_of(result.summaries, told, len(result.unread))
    diagnoses = tuple(diagnose(job))
    serious = any(d.severity != "info" for d in diagnoses)
    compared = job.comparison
    lines = _lines(result, compared)
    return JobReport(
        result,
        job,
        compared,
        lines,
        diagnoses,
        all_ranks,
        "" if serious or not lines else nothing_wrong(job, diagnoses),
    )


def _lines(result: JobResult, compared: Comparison | None) -> tuple[RankLine, ...]:
    if compared is None:
        return ()
    several = len(compared.matched) > 0
    blames = {b.rank: b.share for b in compared.blame.ranks} if compared.comparable else {}
    waits = {s.rank: s.ms(WAIT) for s in compared.steps if len(s)} if several else {}
    return tuple(rank_line(s, waits, blames) for s in result.summaries)


def answer(report: JobReport) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "ranks": [line.as_json() for line in report.lines],
        "summary": _summary(report),
        "analyses": _analyses(report),
        "diagnoses": [diagnosis_json(d) for d in report.diagnoses],
        "dropped": report.dropped,
    }


def diagnosis_json(d: Diagnosis) -> dict[str, Any]:
    """A diagnosis as JSON; `evidence` holds what the sentence rests on."""
    events = [
        {
            "rank": e.rank,
            "file": e.file,
            "event": e.event,
            "name": e.name,
            "start_ns": e.start_ns,
            "duration_ns": e.duration_ns,
            "step": e.step,
        }
        for e in d.events
    ]
    evidence = {
        "ranks": list(d.ranks),
        "steps": list(d.steps),
        "numbers": dict(d.numbers),
        "events": events,
        "details": dict(d.details),
    }
    return {
        "rule": d.rule,
        "severity": d.severity,
        "subject": d.subject,
        "statement": d.statement,
        "evidence": evidence,
        "fix": d.fix,
        "source": d.source,
    }


def _summary(report: JobReport) -> dict[str, Any]:
    lines = report.lines
    lengths = [ms for summary in report.job.ranks for ms in summary.own_steps.ms.tolist()]
    worlds = [line.world_size for line in lines if line.world_size]
    severities = Counter(d.severity for d in report.diagnoses)
    return {
        "verdict": report.verdict,
        "statement": report.nothing_wrong
        or (report.diagnoses[0].statement if report.diagnoses else ""),
        "ranks": len(lines),
        "world_size": max(worlds) if worlds else None,
        "hosts": sorted({line.host for line in lines if line.host}),
        "rank_sources": sorted({line.rank_source for line in lines}),
        "steps": max((line.steps for line in lines), default=0),
        "mean_step_ms": round(report.job.step_ns / 1e6, 3) if lengths else None,
        "median_step_ms": round(median(lengths), 3) if lengths else None,
        "events": sum(line.events for line in lines),
        "diagnoses": dict(severities),
        "step_ms": {str(rank): _rounded(parts) for rank, parts in report.step_parts.items()},
    }


def _analyses(report: JobReport) -> dict[str, list[dict[str, Any]]]:
    ranks = report.result.ranks
    found = job_analyses(report.compared) if report.compared and report.all_ranks else {}
    for name in dict.fromkeys(name for r in ranks for name in r.rows):
        found[name] = [
            {"rank": r.summary.rank, **row} for r in ranks for row in r.rows.get(name, ())
        ]
    for file, rows in report.result.timelines.items():
        found.setdefault("memory_by_category", []).extend({"file": file, **row} for row in rows)
    return dict(sorted(found.items()))


def _rounded(parts: dict[str, float]) -> dict[str, float]:
    return {name: round(ms, 3) for name, ms in parts.items()}


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
