"""What is reported of a job: the same content for the terminal, the page and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from faultline.analysis.traces.across_ranks.comparison import RankComparison
from faultline.analysis.traces.across_ranks.rank_summary import RankSummary
from faultline.analysis.traces.across_ranks.step_breakdown import PARTS, WAIT
from faultline.analysis.traces.columns.events import PROFILER
from faultline.analysis.traces.doctor.diagnosis import JobDiagnosis
from faultline.analysis.traces.doctor.job import TrainingJob, job_of
from faultline.analysis.traces.doctor.nothing_wrong import doubts, nothing_wrong, unexplained_idle
from faultline.analysis.traces.doctor.rules import diagnose
from faultline.analysis.traces.job.telemetry import diagnoses_of_files
from faultline.trace_report.analysis_run import JobResult
from faultline.trace_report.rank_lines import RankLine, rank_line, window_parts_ms
from faultline.trace_report.registry import ACROSS_RANKS, cut, job_analyses

MAX_SHOWN = 32
"""Ranks in one chart."""
SOURCES = {
    "distributedInfo": "the traces say their ranks",
    "file name": "ranks come from the files' names",
    "order": "ranks come from the order of the files: neither traces nor names give them",
}

LEAST_MFU = 0.1
"""Percent; less would read as none."""


@dataclass(frozen=True)
class JobReport:
    """A job, analysed, diagnosed and ready to be shown."""

    result: JobResult
    job: TrainingJob
    compared: RankComparison | None
    """None without a trace."""
    lines: tuple[RankLine, ...]
    diagnoses: tuple[JobDiagnosis, ...]
    all_ranks: bool
    """Whether the analyses across ranks were asked for."""
    nothing_wrong: str
    """The sentence for a job with which nothing is wrong, or nothing for certain; "" where
    something is."""

    @property
    def verdict(self) -> str:
        """ "something_wrong", "nothing_certain" where a piece of information may be a trouble or
        idle accelerators are not explained, or "nothing_wrong"."""
        if any(d.severity != "info" for d in self.diagnoses):
            return "something_wrong"
        if doubts(self.diagnoses) or unexplained_idle(self.job) is not None:
            return "nothing_certain"
        return "nothing_wrong"

    @property
    def blamed(self) -> frozenset[int]:
        """Ranks that a diagnosis says are at fault."""
        blamed: set[int] = set()
        for diagnosis in self.diagnoses:
            if diagnosis.severity != "info":
                blamed.update(diagnosis.ranks)
        return frozenset(blamed)

    def shown(self) -> list[RankSummary]:
        """The ranks that a chart has room for, by rank: those at fault, and as many others as
        fit."""
        blamed = self.blamed
        by_need = sorted(self.result.summaries, key=lambda s: (s.rank not in blamed, s.rank))
        return sorted(by_need[:MAX_SHOWN], key=lambda s: s.rank)

    @property
    def facts(self) -> list[str]:
        """The job in a few words each."""
        lines = self.lines
        if not lines:
            return []
        ranks = _count(len(lines), "rank")
        world = _world_size(lines)
        if world is not None:
            ranks += f" of {world}"
        steps = _count(max(line.steps for line in lines), "step")
        timed = any(line.step_ms is not None for line in lines)
        length = f"{self.job.step_ns / 1e6:,.1f} ms {'a step' if timed else 'in all'}"
        facts = [ranks, steps, length]
        hosts = {line.host for line in lines if line.host}
        if hosts:
            facts.append(_count(len(hosts), "host"))
        devices = Counter(line.accelerator for line in lines)
        most_common = devices.most_common(1)[0][0]
        facts.append(f"{most_common} and others" if len(devices) > 1 else most_common)
        facts.append(f"{sum(line.events for line in lines):,} events")
        # Name a format only where it is not the usual one.
        facts += sorted({line.format for line in lines} - {PROFILER})
        if (mfu := self.mfu_percent) is not None:
            facts.append(f"MFU {mfu:.1f} %" if mfu >= LEAST_MFU else f"MFU under {LEAST_MFU} %")
        return facts

    @property
    def mfu_percent(self) -> float | None:
        """Mean of the ranks' model FLOPs utilization over their steps; None where a rank's is not
        known."""
        mfu_percents = []
        for rank in self.result.ranks:
            # The first row is that of all steps together.
            whole = next(iter(rank.rows.get("utilization", ())), None)
            if whole is None or whole["mfu_percent"] is None:
                return None
            mfu_percents.append(float(whole["mfu_percent"]))
        return sum(mfu_percents) / len(mfu_percents) if mfu_percents else None

    @property
    def step_parts(self) -> dict[int, dict[str, float]]:
        """Rank -> mean ms per step of each part, in the order of a stacked chart; of the window,
        without steps."""
        by_rank = {}
        if self.compared is not None:
            by_rank = {steps.rank: steps for steps in self.compared.steps}
        window_parts_mses_by_rank = {}
        for summary in self.result.summaries:
            steps = by_rank.get(summary.rank)
            if steps is not None and len(steps):
                window_parts_mses_by_rank[summary.rank] = {part: steps.ms(part) for part in PARTS}
            else:
                window_parts_mses_by_rank[summary.rank] = window_parts_ms(summary)
        return window_parts_mses_by_rank

    @property
    def rank_source_text(self) -> str:
        """One sentence; "" without ranks."""
        kinds = {line.rank_source for line in self.lines}
        return "; ".join(SOURCES[kind] for kind in SOURCES if kind in kinds)

    @property
    def dropped(self) -> dict[str, Any]:
        """All that was given and is not in the analyses, by kind."""
        files = [{"file": file, "why": why} for file, why in self.result.unread]
        events = {}
        analyses = []
        for rank in self.result.ranks:
            summary = rank.summary
            if summary.dropped:
                events[summary.file] = dict(summary.dropped)
            for name, why in sorted(rank.failed.items()):
                analyses.append({"rank": summary.rank, "analysis": name, "why": why})
        return {
            "files": files,
            "older_captures": list(self.result.older),
            "not_looked_at": dict(self.result.files.left_out),
            "events": events,
            "analyses": analyses,
        }


def report_of(result: JobResult, *, all_ranks: bool = True) -> JobReport:
    """Diagnose the job and word what is shown of it."""
    file_diagnoses = diagnoses_of_files(result.files)
    job = job_of(result.summaries, file_diagnoses, len(result.unread))
    diagnoses = tuple(diagnose(job))
    lines = _lines(result, job.comparison)
    serious = any(diagnosis.severity != "info" for diagnosis in diagnoses)
    all_well = ""
    if lines and not serious:
        all_well = nothing_wrong(job, diagnoses)
    return JobReport(result, job, job.comparison, lines, diagnoses, all_ranks, all_well)


def _lines(result: JobResult, compared: RankComparison | None) -> tuple[RankLine, ...]:
    if compared is None:
        return ()
    blames = {}
    if compared.comparable:
        blames = {blame.rank: blame.share for blame in compared.blame.ranks}
    waits = {}
    # Without a collective that two ranks share, nobody is known to wait for anybody.
    if len(compared.matched) > 0:
        waits = {steps.rank: steps.ms(WAIT) for steps in compared.steps if len(steps)}
    return tuple(rank_line(summary, waits, blames) for summary in result.summaries)


def answer(report: JobReport) -> dict[str, Any]:
    """What `--json` prints."""
    return {
        "ranks": [line.as_json() for line in report.lines],
        "summary": _summary(report),
        "analyses": rows_by_name(report),
        "diagnoses": [diagnosis_json(d) for d in report.diagnoses],
        "dropped": report.dropped,
    }


def diagnosis_json(diagnosis: JobDiagnosis) -> dict[str, Any]:
    """A diagnosis as JSON; `evidence` holds what the sentence rests on."""
    evidence = {
        "ranks": list(diagnosis.ranks),
        "steps": list(diagnosis.steps),
        "numbers": dict(diagnosis.numbers),
        "events": [asdict(event) for event in diagnosis.events],
        "details": dict(diagnosis.details),
    }
    return {
        "rule": diagnosis.rule,
        "severity": diagnosis.severity,
        "subject": diagnosis.subject,
        "statement": diagnosis.statement,
        "cost_ns": None if diagnosis.cost_ns is None else round(diagnosis.cost_ns),
        "evidence": evidence,
        "fix": diagnosis.fix,
        "source": diagnosis.source,
    }


def _summary(report: JobReport) -> dict[str, Any]:
    lines = report.lines
    lengths: list[float] = []
    for summary in report.job.ranks:
        lengths += summary.work_steps.ms.tolist()
    statement = report.nothing_wrong
    if not statement and report.diagnoses:
        statement = report.diagnoses[0].statement
    severities = Counter(diagnosis.severity for diagnosis in report.diagnoses)
    return {
        "verdict": report.verdict,
        "statement": statement,
        "ranks": len(lines),
        "world_size": _world_size(lines),
        "hosts": sorted({line.host for line in lines if line.host}),
        "rank_sources": sorted({line.rank_source for line in lines}),
        "steps": max((line.steps for line in lines), default=0),
        # Without steps `step_ns` is the length of the traces.
        "mean_step_ms": round(report.job.step_ns / 1e6, 3) if lengths else None,
        "median_step_ms": round(median(lengths), 3) if lengths else None,
        "events": sum(line.events for line in lines),
        "mfu_percent": None if (mfu := report.mfu_percent) is None else round(mfu, 2),
        "diagnoses": dict(severities),
        "step_ms": {
            str(rank): {name: round(ms, 3) for name, ms in parts.items()}
            for rank, parts in report.step_parts.items()
        },
    }


def _world_size(lines: Sequence[RankLine]) -> int | None:
    """The largest that a trace tells of; None where none does."""
    return max((line.world_size for line in lines if line.world_size), default=None)


def rows_by_name(report: JobReport) -> dict[str, list[dict[str, Any]]]:
    """The rows of each analysis as documents hold them, those of single ranks with their `rank`."""
    by_analysis: dict[str, list[dict[str, Any]]] = {}
    for name, rows in rows_of_job(report).items():
        # Rows of single ranks were cut by the process that analysed them.
        by_analysis[name] = cut(rows) if name in ACROSS_RANKS else rows
    for rank in report.result.ranks:
        for name, rows in rank.rows.items():
            all_rows = by_analysis.setdefault(name, [])
            for row in rows:
                all_rows.append({"rank": rank.summary.rank, **row})
    return dict(sorted(by_analysis.items()))


def rows_of_job(report: JobReport) -> dict[str, list[dict[str, Any]]]:
    """All rows of the analyses that are not of single ranks."""
    by_analysis: dict[str, list[dict[str, Any]]] = {}
    if report.compared and report.all_ranks:
        by_analysis |= job_analyses(report.compared)
    for file, rows in report.result.timelines.items():
        timeline = by_analysis.setdefault("memory_by_category", [])
        for row in rows:
            timeline.append({"file": file, **row})
    return by_analysis


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"
