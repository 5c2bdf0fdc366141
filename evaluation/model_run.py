"""`faultline eval CASES --model`: the model investigates labelled cases with its tools, one after
the other, as it would in an incident.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from faultline.analysis.case.files import place_copy
from faultline.analysis.case.folder import json_bytes, read_case
from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.analysis.vocabulary import Assertion, Diagnosis, Section
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.replay import replay
from faultline.bot.investigation.model.investigating import Investigated, investigate
from faultline.bot.settings import Settings
from faultline.evaluation.claim_truth import is_true
from faultline.evaluation.labels import CaseLabel, read_label
from faultline.evaluation.running import NOTHING_TO_GRADE, UNLABELLED, case_folders


@dataclass(frozen=True)
class ModelRun:
    """One case. What the label does not tell is None."""

    case: str
    right_before: bool | None = None
    """Whether code's first cause was the truth before the model looked."""
    right_after: bool | None = None
    """And after the evidence that the model asked for."""
    opinion: str | None = None
    """The subject of the second opinion."""
    opinion_right: bool | None = None
    by_model: bool = False
    ended: str = ""
    claims: int = 0
    """Claims as evidence that stand."""
    inferences: int = 0
    refused: tuple[str, ...] = ()
    refused_true: int = 0
    """Refused although the case's tables bear them out."""
    accepted_false: int = 0
    """Standing although the tables contradict them."""
    rounds: int = 0
    tool_calls: int = 0
    tokens: int | None = None
    cost_usd: float | None = None
    seconds: float = 0.0
    problem: str | None = None


def run_model(cases: Path, settings: Settings, *, json_: bool) -> None:
    """Let the model investigate the cases, and print what came of it. Raises SettingsError without
    a model."""
    if settings.model.name is None:
        raise SettingsError("model.name", "is not set, so there is no model to evaluate")
    runs = asyncio.run(run_all(case_folders(cases), settings))
    if json_:
        document = {"model": settings.model.name, **figures(runs)}
        sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    else:
        _print(runs, settings.model.name)


async def run_all(folders: Sequence[Path], settings: Settings) -> list[ModelRun]:
    """Each case, in their order; `problem` says why one was not run or not graded."""
    return [await _run(folder, settings) for folder in folders]


async def _run(folder: Path, settings: Settings) -> ModelRun:
    try:
        label = read_label(folder)
        with tempfile.TemporaryDirectory(prefix="faultline-eval-") as scratch:
            case = Path(scratch) / "case"
            before = await asyncio.to_thread(_prepared, folder, case)
            began = time.perf_counter()
            outcome = await investigate(case, settings)
            seconds = time.perf_counter() - began
            return _graded(folder, label, before, outcome, seconds)
    except FaultlineError as error:
        return ModelRun(folder.name, problem=plain(str(error), 200))


def _prepared(folder: Path, case: Path) -> Diagnosis:
    """The case without its label, with what code decides of it."""
    case.mkdir()
    for item in folder.iterdir():
        if item.name not in ("label.json", "findings.json", "report.json"):
            place_copy(item, case / item.name)
    diagnosis = replay(case).diagnosis
    (case / "findings.json").write_bytes(json_bytes(diagnosis))
    return diagnosis


def _graded(
    folder: Path, label: CaseLabel | None, before: Diagnosis, outcome: Investigated, seconds: float
) -> ModelRun:
    report, use = outcome.report, outcome.report.model_use
    opinion = report.second_opinion
    truth = label.subject if label else None
    shown = [c for c in report.claims if c.asserted]
    case = read_case(folder)
    findings = {f.id: f for f in (*before.findings, *outcome.diagnosis.findings)}

    def verdicts(claims: Iterable[Sequence[Assertion]]) -> list[bool]:
        """Of claims whose every part the tables decide."""
        decided = [[is_true(part, findings, case, label) for part in claim] for claim in claims]
        return [all(parts) for parts in decided if parts and None not in parts]

    return ModelRun(
        folder.name,
        right_before=_is_first(truth, before),
        right_after=_is_first(truth, outcome.diagnosis),
        opinion=opinion.subject if opinion else None,
        opinion_right=opinion.subject == truth if opinion and truth else None,
        by_model=use is not None and report.written_by == use.name,
        ended=use.ended if use else "",
        claims=len(shown),
        inferences=sum(c.section is Section.INFERRED for c in report.claims),
        refused=report.dropped,
        refused_true=sum(verdicts(outcome.refused)),
        accepted_false=verdicts(c.asserted for c in shown).count(False),
        rounds=use.rounds if use else 0,
        tool_calls=use.tool_calls if use else 0,
        tokens=_tokens(use.input_tokens, use.output_tokens) if use else None,
        cost_usd=use.cost_usd if use else None,
        seconds=seconds,
        problem=_why_not_graded(label),
    )


def _is_first(truth: str | None, diagnosis: Diagnosis) -> bool | None:
    if truth is None:
        return None
    first = min(diagnosis.causes, key=lambda cause: cause.rank, default=None)
    return first is not None and first.subject == truth


def _tokens(sent: int | None, answer_tokens: int | None) -> int | None:
    return None if sent is None or answer_tokens is None else sent + answer_tokens


def _why_not_graded(label: CaseLabel | None) -> str | None:
    if label is None:
        return UNLABELLED
    return None if label.gradable else NOTHING_TO_GRADE


def figures(runs: Sequence[ModelRun]) -> dict[str, Any]:
    """Sums over all cases, and each case."""
    graded = [run for run in runs if run.right_before is not None]
    opinions = [run for run in graded if run.opinion is not None]
    agreeing = [run for run in graded if run.opinion is None and run.by_model]
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    tokens = [run.tokens for run in runs if run.tokens is not None]
    return {
        "graded": len(graded),
        "first_right_before": sum(bool(run.right_before) for run in graded),
        "first_right_after": sum(bool(run.right_after) for run in graded),
        "second_opinions": len(opinions),
        "second_opinions_right": sum(bool(opinion.opinion_right) for opinion in opinions),
        "first_right_where_it_dissents": sum(bool(opinion.right_after) for opinion in opinions),
        "agrees": len(agreeing),
        "first_right_where_it_agrees": sum(bool(run.right_after) for run in agreeing),
        "claims": sum(run.claims for run in runs),
        "inferences": sum(run.inferences for run in runs),
        "refused": sum(len(run.refused) for run in runs),
        "refused_although_true": sum(run.refused_true for run in runs),
        "accepted_although_false": sum(run.accepted_false for run in runs),
        "by_model": sum(run.by_model for run in runs),
        "tool_calls": sum(run.tool_calls for run in runs),
        "tokens": sum(tokens) if tokens else None,
        "cost_usd": round(sum(costs), 6) if costs else None,
        "seconds_median": round(statistics.median([run.seconds for run in runs]), 2)
        if runs
        else None,
        "cases": [asdict(run) for run in runs],
    }


def _print(runs: Sequence[ModelRun], name: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for run in runs:
        for case_line in _case_lines(run):
            console.print(case_line)
    f = figures(runs)
    cost = "not known" if f["cost_usd"] is None else f"${f['cost_usd']:.4f}"
    tokens = "not counted" if f["tokens"] is None else f"{f['tokens']:,}"
    for line in (
        f"{plain(name, 60)}: first cause right in {f['first_right_before']} of {f['graded']} "
        f"before, {f['first_right_after']} after",
        f"second opinions: {f['second_opinions']}, right {f['second_opinions_right']}; there code "
        f"was right in {f['first_right_where_it_dissents']}, and in "
        f"{f['first_right_where_it_agrees']} of {f['agrees']} where the model agreed",
        f"claims: {f['claims']} stand ({f['accepted_although_false']} false), {f['refused']} "
        f"refused ({f['refused_although_true']} true), {f['inferences']} inferences",
        f"{f['tool_calls']} tool calls, tokens {tokens}, cost {cost}, "
        f"{f['seconds_median']} s a case in the middle",
    ):
        console.print(Text(line))


def _case_lines(run: ModelRun) -> Iterator[Text]:
    facts = [f"{run.claims} claims", f"{len(run.refused)} refused", f"{run.seconds:.1f} s"]
    if run.opinion:
        right = {True: " (right)", False: " (wrong)", None: ""}[run.opinion_right]
        facts.append(f"would blame {plain(run.opinion, 40)}{right}")
    if not run.by_model:
        facts.append(f"built-in writer: {plain(run.ended, 80)}")
    sign = {True: "right", False: "wrong", None: "-"}[run.right_after]
    yield Text(f"{sign:>5}  {plain(run.case, 40)}  {', '.join(facts)}")
    if run.problem:
        yield Text(f"       {plain(run.problem, 140)}", style="dim")
    for reason in run.refused[:3]:
        yield Text(f"       refused: {plain(reason, 130)}", style="yellow")
