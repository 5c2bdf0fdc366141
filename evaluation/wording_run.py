"""`faultline eval CASES --model`: the model words labelled cases, one after the other, as it would
in an incident."""

from __future__ import annotations

import asyncio
import json
import math
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bot.investigation.model.writing import write_report
from rich.console import Console
from rich.text import Text

from analysis.errors import FaultlineError, SettingsError
from analysis.requests.topology import read_topology
from analysis.vocabulary import Report
from analysis.wording.phrases import plain
from bot.answer.replay import replay
from bot.settings.model import ModelSettings
from evaluation.labels import CaseLabel, read_label
from evaluation.running import NOTHING_TO_GRADE, UNLABELLED, case_folders
from evaluation.wording_grades import points


@dataclass(frozen=True)
class Worded:
    """One case worded by the model. `points` is None where it is not graded, `built_in` those
    without the model."""

    case: str
    points: int | None = None
    built_in: int | None = None
    headline: str = ""
    by_model: bool = False
    kept: int = 0
    dropped: tuple[str, ...] = ()
    cost_usd: float | None = None
    seconds: float = 0.0
    problem: str | None = None


def run_wording(cases: Path, model: ModelSettings, *, json_: bool) -> None:
    """Word and grade the cases, and print what came of it. Raises SettingsError without a model."""
    if model.name is None:
        raise SettingsError("model.name", "is not set, so there is no model to evaluate")
    found = asyncio.run(word_all(case_folders(cases), model))
    if not json_:
        _print(found, model.name)
        return
    document = {"model": model.name, **figures(found)}
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


async def word_all(folders: Sequence[Path], model: ModelSettings) -> list[Worded]:
    """Each case worded, in their order; `problem` says why one is not."""
    return [await _word(folder, model) for folder in folders]


async def _word(folder: Path, model: ModelSettings) -> Worded:
    try:
        label = read_label(folder)
        replayed = await asyncio.to_thread(replay, folder)
        calls = await asyncio.to_thread(read_topology, replayed.case)
    except FaultlineError as error:
        return Worded(folder.name, problem=plain(str(error), 200))
    diagnosis, case = replayed.diagnosis, replayed.case
    began = time.perf_counter()
    report = await write_report(diagnosis, case.alert, case.gaps, model)
    seconds = time.perf_counter() - began
    given = label or CaseLabel()
    return Worded(
        folder.name,
        points=points(report, given, diagnosis.verdict, calls),
        built_in=points(replayed.report, given, diagnosis.verdict, calls),
        headline=report.headline,
        by_model=report.written_by == model.name,
        kept=_kept(report, replayed.report),
        dropped=report.dropped,
        cost_usd=report.model_use.cost_usd if report.model_use else None,
        seconds=seconds,
        problem=_why_not_graded(label),
    )


def _why_not_graded(label: CaseLabel | None) -> str | None:
    if label is None:
        return UNLABELLED
    return None if label.gradable else NOTHING_TO_GRADE


def _kept(report: Report, built_in: Report) -> int:
    """Sentences of the model that are left."""
    own = {*built_in.claims, *built_in.next_steps}
    return sum(claim not in own for claim in (*report.claims, *report.next_steps))


def figures(worded: Sequence[Worded]) -> dict[str, Any]:
    """Points, sentences, cost and seconds of all cases, and each case."""
    graded = [w.points for w in worded if w.points is not None]
    without = [w.built_in for w in worded if w.built_in is not None]
    costs = [w.cost_usd for w in worded if w.cost_usd is not None]
    asked = [w.seconds for w in worded if w.headline]
    return {
        "points": round(statistics.fmean(graded), 1) if graded else None,
        "points_built_in": round(statistics.fmean(without), 1) if without else None,
        "graded": len(graded),
        "by_points": {str(p): graded.count(p) for p in (100, 65, 35, 0)},
        "by_model": sum(w.by_model for w in worded),
        "sentences_kept": sum(w.kept for w in worded),
        "sentences_dropped": sum(len(w.dropped) for w in worded),
        "cost_usd": round(sum(costs), 6) if costs else None,
        "p50_s": _percentile(asked, 50),
        "p95_s": _percentile(asked, 95),
        "cases": [asdict(w) for w in worded],
    }


def _percentile(values: Sequence[float], percent: int) -> float | None:
    """The nearest-rank percentile."""
    if not values:
        return None
    ranked = sorted(values)
    rank = max(1, math.ceil(percent / 100 * len(ranked)))
    return round(ranked[rank - 1], 2)


def _print(worded: Sequence[Worded], name: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for one in worded:
        for line in _case_lines(one):
            console.print(line)
    total = figures(worded)
    by_points = ", ".join(f"{count} with {p}" for p, count in total["by_points"].items())
    graded = f"{total['points']} points of 100 on {total['graded']} cases"
    console.print(Text(f"{plain(name, 60)}: {graded} ({by_points})"))
    console.print(Text(f"the built-in writer: {total['points_built_in']} points"))
    cost = "not known: set model.price_per_million_input"
    if total["cost_usd"] is not None:
        cost = f"${total['cost_usd']:.4f}"
    sentences = f"{total['sentences_kept']} sentences kept, {total['sentences_dropped']} dropped"
    console.print(Text(f"{sentences}; cost {cost}; p50 {total['p50_s']} s, p95 {total['p95_s']} s"))


def _case_lines(one: Worded) -> Iterator[Text]:
    shown = "-" if one.points is None else str(one.points)
    facts = f"{one.kept} kept, {len(one.dropped)} dropped"
    if one.cost_usd is not None:
        facts += f", ${one.cost_usd:.4f}"
    facts += f", {one.seconds:.1f} s"
    if not one.by_model:
        facts += ", built-in writer"
    yield Text(f"{shown:>4}  {plain(one.case, 40)}  {facts}")
    for line in (one.headline, one.problem):
        if line:
            yield Text(f"      {plain(line, 140)}", style="dim")
    for reason in one.dropped[:3]:
        yield Text(f"      removed: {plain(reason, 130)}", style="yellow")
