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
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from faultline.analysis.case.folder import Case, json_bytes, read_case
from faultline.analysis.case.tables import place_copy
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
    """Let the model investigate the cases, and print the results. Raises SettingsError without a
    model."""
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
            # In a thread: the analysis would block the event loop.
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
        # Answers of an earlier run would tell the model what code decided.
        if item.name not in ("label.json", "findings.json", "report.json"):
            place_copy(item, case / item.name)
    diagnosis = replay(case).diagnosis
    (case / "findings.json").write_bytes(json_bytes(diagnosis))
    return diagnosis


@dataclass(frozen=True)
class _CaseTables:
    """The case that claims are compared with, and its findings before and after the model."""

    case: Case
    label: CaseLabel | None
    before: Diagnosis
    after: Diagnosis

    def verdicts(self, claims: Iterable[Sequence[Assertion]]) -> list[bool]:
        """Whether the claims are true, without those that the tables do not decide."""
        findings = {f.id: f for f in (*self.before.findings, *self.after.findings)}
        verdicts = []
        for claim in claims:
            parts = [is_true(part, findings, self.case, self.label) for part in claim]
            # A claim with an undecided part proves nothing either way.
            if parts and None not in parts:
                verdicts.append(all(parts))
        return verdicts


def _graded(
    folder: Path, label: CaseLabel | None, before: Diagnosis, outcome: Investigated, seconds: float
) -> ModelRun:
    report, use = outcome.report, outcome.report.model_use
    opinion = report.second_opinion
    truth = label.subject if label else None
    shown = [c.asserted for c in report.claims if c.asserted]
    tables = _CaseTables(read_case(folder), label, before, outcome.diagnosis)
    problem = None
    if label is None:
        problem = UNLABELLED
    elif not label.gradable:
        problem = NOTHING_TO_GRADE
    run = ModelRun(
        folder.name,
        right_before=_is_first(truth, before),
        right_after=_is_first(truth, outcome.diagnosis),
        opinion=opinion.subject if opinion else None,
        # Without a known truth an opinion is neither right nor wrong.
        opinion_right=opinion.subject == truth if opinion and truth else None,
        claims=len(shown),
        inferences=sum(c.section is Section.INFERRED for c in report.claims),
        refused=report.dropped,
        refused_true=tables.verdicts(outcome.refused).count(True),
        accepted_false=tables.verdicts(shown).count(False),
        seconds=seconds,
        problem=problem,
    )
    if use is None:
        return run
    # Half a sum would mislead.
    tokens = None
    if use.input_tokens is not None and use.output_tokens is not None:
        tokens = use.input_tokens + use.output_tokens
    return replace(
        run,
        by_model=report.written_by == use.name,
        ended=use.ended,
        rounds=use.rounds,
        tool_calls=use.tool_calls,
        tokens=tokens,
        cost_usd=use.cost_usd,
    )


def _is_first(truth: str | None, diagnosis: Diagnosis) -> bool | None:
    if truth is None:
        return None
    first = min(diagnosis.causes, key=lambda cause: cause.rank, default=None)
    return first is not None and first.subject == truth


def figures(runs: Sequence[ModelRun]) -> dict[str, Any]:
    """Sums over all cases, and each case."""
    # Unknown costs are left out: counted as nothing, they would make the sum too small.
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    tokens = [run.tokens for run in runs if run.tokens is not None]
    return {
        **_accuracy(runs),
        **_claim_counts(runs),
        "by_model": sum(run.by_model for run in runs),
        "tool_calls": sum(run.tool_calls for run in runs),
        "tokens": sum(tokens) if tokens else None,
        "cost_usd": round(sum(costs), 6) if costs else None,
        "seconds_median": round(statistics.median([run.seconds for run in runs]), 2)
        if runs
        else None,
        "cases": [asdict(run) for run in runs],
    }


def _accuracy(runs: Sequence[ModelRun]) -> dict[str, int]:
    """How often code's first cause and the second opinions were right, in the graded cases."""
    graded = [run for run in runs if run.right_before is not None]
    dissenting = [run for run in graded if run.opinion is not None]
    agreeing = [run for run in graded if run.opinion is None and run.by_model]
    return {
        "graded": len(graded),
        "first_right_before": [run.right_before for run in graded].count(True),
        "first_right_after": _right_after(graded),
        "second_opinions": len(dissenting),
        "second_opinions_right": [run.opinion_right for run in dissenting].count(True),
        "first_right_where_it_dissents": _right_after(dissenting),
        "agrees": len(agreeing),
        "first_right_where_it_agrees": _right_after(agreeing),
    }


def _claim_counts(runs: Sequence[ModelRun]) -> dict[str, int]:
    """Counts of the claims, by outcome, that the model made, in all cases."""
    return {
        "claims": sum(run.claims for run in runs),
        "inferences": sum(run.inferences for run in runs),
        "refused": sum(len(run.refused) for run in runs),
        "refused_although_true": sum(run.refused_true for run in runs),
        "accepted_although_false": sum(run.accepted_false for run in runs),
    }


def _right_after(runs: Sequence[ModelRun]) -> int:
    return [run.right_after for run in runs].count(True)


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
