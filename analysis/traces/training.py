"""Findings from the profiler traces of a training job.

A straggler outranks everything that follows from it: waiting at collectives on the other ranks is no finding of its
own. What cannot be read or compared is said, never guessed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from statistics import median
from typing import Any

from analysis.case_folder import Case
from analysis.traces.columns import TraceColumns
from analysis.traces.extra_work import ExtraWork, extra_operation, extra_phase, readable, self_ms_by_name
from analysis.traces.kineto import read_traces
from analysis.traces.steps import PHASES, StepBreakdown, step_breakdown
from analysis.traces.straggler import MAX_IMPOSSIBLE, MIN_STEPS, BlameAnalysis, RankBlame, SlowStep, blame, slow_steps
from analysis.vocabulary import Finding

DATA_SHARE = 0.20
"""Share of the step in data loading that is critical (TraceML); 10 % is its warning, 5 % TensorBoard's."""
MAX_SLOW_STEPS = 3
MAX_NAMED_FILES = 3
HEALTHY_STRENGTH = 0.1


def training_findings(case: Case) -> list[Finding]:
    """Findings of the case's traces, with ids "T1", "T2", ...; none where the case has no traces."""
    if not case.trace_files:
        return []
    in_json = [p for p in case.trace_files if is_trace_name(p.name)]
    traces, errors = read_traces(in_json)
    problems = [(e.file, e.problem) for e in errors]
    problems += [(p.name, "is no profiler trace in JSON") for p in case.trace_files if not is_trace_name(p.name)]
    found = _unreadable(problems)
    if traces:
        found = _Job(case, traces).findings() + found
    evidence = case.evidence_ids("traces")
    return [f.model_copy(update={"id": f"T{n}", "evidence": evidence}) for n, f in enumerate(found, start=1)]


def is_trace_name(name: str) -> bool:
    """Whether a file under traces/ is named like a profiler trace."""
    return name.lower().endswith((".json", ".json.gz"))


class _Job:
    """The traces of one job, one per rank, compared."""

    def __init__(self, case: Case, traces: Sequence[TraceColumns]) -> None:
        latest = {t.rank: t for t in sorted(traces, key=_start)}
        self.traces = [latest[rank] for rank in sorted(latest)]
        self.analysis: BlameAnalysis = blame(self.traces)
        self.breakdowns: list[StepBreakdown] = [
            step_breakdown(trace, steps, self.analysis.waits_of(trace.rank))
            for trace, steps in zip(self.traces, self.analysis.steps, strict=True)
        ]
        self.job = case.scope.job or case.alert.job or case.alert.service or "training job"
        self._notes = self._facts(len(traces) - len(latest))

    def findings(self) -> list[Finding]:
        """Stragglers, else outlier steps; data loading; else that nothing stands out."""
        stragglers = self.analysis.stragglers
        found = [self._straggler(charged) for charged in stragglers]
        if not stragglers:
            found += [self._slow_step(s) for s in slow_steps(self.analysis)[:MAX_SLOW_STEPS]]
        found += self._dataloader()
        if found:
            return found
        return [self._healthy() if self.analysis.comparable else self._inconclusive()]

    def _facts(self, older: int) -> dict[str, Any]:
        """What every finding's details carry: the job, how ranks were told, what was lost in reading."""
        worlds = [t.world_size for t in self.traces if t.world_size]
        offsets = self.analysis.clock_offset_ns
        facts: dict[str, Any] = {
            "job": self.job,
            "ranks": [t.rank for t in self.traces],
            "rank_source": sorted({t.rank_source for t in self.traces}),
            "dropped": {t.file: dict(t.dropped) for t in self.traces if t.dropped},
            "per_rank": [self._rank_row(trace, own) for trace, own in zip(self.traces, self.breakdowns, strict=True)],
        }
        if worlds and max(worlds) > len(self.traces):
            facts["ranks_without_trace"] = max(worlds) - len(self.traces)
        if older:
            facts["older_traces_left_out"] = older
        if offsets.any():
            facts["clock_offset_ms"] = {
                str(t.rank): o / 1e6 for t, o in zip(self.traces, offsets.tolist(), strict=True)
            }
        if self.analysis.collectives.unmatched:
            facts["collectives_unmatched"] = self.analysis.collectives.unmatched
        return facts

    def _rank_row(self, trace: TraceColumns, own: StepBreakdown) -> dict[str, Any]:
        """One line of the table of ranks: milliseconds per step."""
        share = next((round(r.share, 3) for r in self.analysis.ranks if r.rank == trace.rank), None)
        phases = {f"{name} ms": round(ms, 2) for name, ms in own.phases.items()}
        return {
            "rank": trace.rank,
            "step ms": round(own.step_ms, 1),
            "waits ms": round(own.wait_ms, 1),
            "blame share": share,
        } | phases

    def _straggler(self, charged: RankBlame) -> Finding:
        place = self.analysis.collectives.ranks.index(charged.rank)
        own, others = self.breakdowns[place], [b for i, b in enumerate(self.breakdowns) if i != place]
        steps = self.analysis.step_count
        wait = charged.blame_ns / 1e6 / steps
        numbers = {
            "rank": float(charged.rank),
            "steps_blamed": float(charged.steps_blamed),
            "steps": float(steps),
            "wait_ms_per_step": _short(wait),
            "step_ms": _short(self.analysis.median_step_ms),
        }
        sentence = (
            f"rank {charged.rank} holds up {charged.steps_blamed} of {steps} steps: the other ranks wait "
            f"{numbers['wait_ms_per_step']:g} ms of each {numbers['step_ms']:g} ms step for it"
        )
        phase = extra_phase(own, others)
        operation = self._extra_operation(place, phase.extra_ms if phase else wait)
        why, why_numbers = _why(phase, operation)
        return Finding(
            id="",
            kind="straggler",
            subject=f"rank {charged.rank}",
            signal="wait at collectives",
            effect=round(charged.share, 4),
            effect_unit="share of step time",
            strength=min(1.0, 0.5 + charged.share / 2),
            sentence=sentence + why,
            numbers=numbers | why_numbers,
            details=self._notes
            | {
                "rank": charged.rank,
                "host": self.traces[place].host,
                "blame_share": round(charged.share, 4),
                "steps_blamed": charged.steps_blamed,
                "steps": steps,
                "wait_ms_per_step": wait,
                "phase": phase.name if phase else None,
                "operation": operation.name if operation else None,
                "phases_ms": own.phases,
                "others_phases_ms": {p: median(o.phases[p] for o in others) for p in PHASES},
            },
        )

    def _extra_operation(self, place: int, explained_ms: float) -> ExtraWork | None:
        by_rank = [self_ms_by_name(t, s) for t, s in zip(self.traces, self.analysis.steps, strict=True)]
        return extra_operation(by_rank[place], by_rank[:place] + by_rank[place + 1 :], explained_ms)

    def _slow_step(self, slow: SlowStep) -> Finding:
        place = self.analysis.collectives.ranks.index(slow.rank)
        trace, steps = self.traces[place], self.analysis.steps[place]
        usual = self_ms_by_name(trace, steps.only(set(steps.number.tolist()) - {slow.step}))
        during = extra_operation(self_ms_by_name(trace, steps.only({slow.step})), [usual], slow.blame_ms)
        numbers = {
            "rank": float(slow.rank),
            "step": float(slow.step),
            "step_ms": _short(slow.step_ms),
            "median_step_ms": _short(slow.median_ms),
        }
        sentence = (
            f"step {slow.step} took {numbers['step_ms']:g} ms on rank {slow.rank} while the others waited; "
            f"a usual step takes {numbers['median_step_ms']:g} ms"
        )
        if during:
            numbers["operation_ms"] = _short(during.own_ms)
            sentence += f"; `{during.name}` took {numbers['operation_ms']:g} ms of it"
        share = slow.blame_ms * 1e6 / max(self.analysis.wall_ns, 1)
        return Finding(
            id="",
            kind="slow_step",
            subject=f"rank {slow.rank}",
            signal="step time",
            effect=round(slow.step_ms / slow.median_ms, 2),
            effect_unit="x",
            strength=min(1.0, 0.3 + 0.4 * share),
            sentence=sentence,
            numbers=numbers,
            details=self._notes
            | {
                "rank": slow.rank,
                "host": trace.host,
                "step": slow.step,
                "wait_ms": slow.blame_ms,
                "operation": during.name if during else None,
            },
        )

    def _dataloader(self) -> list[Finding]:
        """Data loading is the largest part of the step on every rank."""
        stalled = [b for b in self.breakdowns if b.data_share >= DATA_SHARE and _mostly_data(b)]
        if len(stalled) < len(self.breakdowns):
            return []
        share = median(b.data_share for b in self.breakdowns)
        numbers = {
            "data_ms": _short(median(b.phases["data loading"] for b in self.breakdowns)),
            "step_ms": _short(median(b.step_ms for b in self.breakdowns)),
            "ranks": float(len(self.breakdowns)),
        }
        in_process = any("_SingleProcessDataLoaderIter" in name for t in self.traces for name in t.names)
        sentence = (
            f"{_all_ranks(len(self.breakdowns))} spend {numbers['data_ms']:g} ms of each {numbers['step_ms']:g} ms "
            "step waiting for the data loader" + (", which runs in the training process itself" if in_process else "")
        )
        return [
            Finding(
                id="",
                kind="dataloader_stall",
                subject=self.job,
                signal="data loading",
                effect=round(share, 4),
                effect_unit="share of step time",
                strength=min(1.0, 0.5 + share / 2),
                sentence=sentence,
                numbers=numbers,
                details=self._notes | {"data_share": share, "in_training_process": in_process},
            )
        ]

    def _healthy(self) -> Finding:
        worst = max(self.analysis.ranks, key=lambda r: r.share)
        numbers = {
            "rank": float(worst.rank),
            "blame_percent": _short(worst.share * 100),
            "steps_blamed": float(worst.steps_blamed),
            "steps": float(self.analysis.step_count),
            "step_ms": _short(self.analysis.median_step_ms),
        }
        return Finding(
            id="",
            kind="training_healthy",
            subject=self.job,
            strength=HEALTHY_STRENGTH,
            sentence=(
                f"no rank holds up the others persistently: over {self.analysis.step_count} steps of "
                f"{numbers['step_ms']:g} ms the most is rank {worst.rank} with {numbers['blame_percent']:g} % of the "
                f"time, at {worst.steps_blamed} of these steps"
            ),
            numbers=numbers,
            details=self._notes,
        )

    def _inconclusive(self) -> Finding:
        sentence, numbers = self._why_not_comparable()
        return Finding(
            id="",
            kind="traces_inconclusive",
            subject=self.job,
            strength=0.0,
            sentence=sentence,
            numbers=numbers,
            details=self._notes,
        )

    def _why_not_comparable(self) -> tuple[str, dict[str, float]]:
        steps = self.analysis.step_count
        if len(self.traces) < 2:
            return "the trace of one rank alone cannot show which rank holds up the others", {}
        if steps < MIN_STEPS:
            said = (
                f"the traces have {steps} steps in common; {MIN_STEPS} are needed to tell a straggler from an outlier"
            )
            return said, {"steps": float(steps), "steps_needed": float(MIN_STEPS)}
        if not len(self.analysis.collectives):
            return "no collective of one rank has a counterpart on every other rank in the traces", {}
        percent = {"percent": _short(self.analysis.impossible * 100), "percent_allowed": MAX_IMPOSSIBLE * 100}
        said = (
            f"{percent['percent']:g} % of the collectives end on one rank before another has entered: the clocks of "
            "the traces do not agree, or they are not of the same steps "
            f"({percent['percent_allowed']:g} % is the limit)"
        )
        return said, percent


def _why(phase: ExtraWork | None, operation: ExtraWork | None) -> tuple[str, dict[str, float]]:
    """The end of a straggler's sentence: where its extra time goes."""
    text, numbers = "", {}
    if phase:
        numbers = {"phase_ms": _short(phase.own_ms), "others_phase_ms": _short(phase.others_ms)}
        text = f"; its {phase.name} takes {numbers['phase_ms']:g} ms"
        text += f" where the others take {numbers['others_phase_ms']:g} ms"
        if phase.ratio is not None:
            numbers["ratio"] = _short(phase.ratio)
            text += f" ({numbers['ratio']:g}x)"
    if operation:
        numbers["operation_ms"] = _short(operation.own_ms)
        text += f", {numbers['operation_ms']:g} ms of it in `{operation.name}`"
    return text, numbers


def _mostly_data(breakdown: StepBreakdown) -> bool:
    data = breakdown.phases["data loading"]
    return data >= breakdown.wait_ms and all(data >= ms for ms in breakdown.phases.values())


def _all_ranks(count: int) -> str:
    return f"all {count} ranks" if count > 1 else "1 of 1 ranks"


def _start(trace: TraceColumns) -> int:
    return int(trace.ts.min()) if len(trace) else 0


def _short(value: float) -> float:
    """As it stands in a sentence: whole from 10 on, one decimal below."""
    return float(round(value)) if abs(value) >= 10 else round(value, 1)


def _unreadable(problems: Sequence[tuple[str, str]]) -> list[Finding]:
    """One finding per kind of problem, naming the first files."""
    by_problem: dict[str, list[str]] = defaultdict(list)
    for file, problem in problems:
        by_problem[problem].append(file)
    found = []
    for problem, files in by_problem.items():
        named = ", ".join(readable(f) for f in files[:MAX_NAMED_FILES])
        more = len(files) - MAX_NAMED_FILES
        numbers = {"more_files": float(more)} if more > 0 else {}
        found.append(
            Finding(
                id="",
                kind="trace_unreadable",
                subject=readable(files[0]),
                strength=0.0,
                sentence=f"{named}{f' and {more} more' if more > 0 else ''}: {problem}",
                numbers=numbers,
                details={"files": files, "problem": problem},
            )
        )
    return found
