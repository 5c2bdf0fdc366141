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
from itertools import pairwise
from pathlib import Path
from typing import Any, TypedDict

from rich.console import Console
from rich.text import Text

from faultline.analysis.case.folder import Case, json_bytes, read_case
from faultline.analysis.case.tables import place_copy
from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.analysis.vocabulary import (
    Assertion,
    DecisionPolicy,
    Diagnosis,
    Section,
    Verdict,
    VerdictKind,
)
from faultline.analysis.wording.phrases import plain
from faultline.bot.answer.replay import replay
from faultline.bot.investigation.model.investigating import Investigated, investigate
from faultline.bot.settings import Settings
from faultline.evaluation.claim_truth import is_true
from faultline.evaluation.labels import NO_CHANGE, CaseLabel, read_label
from faultline.evaluation.running import NOTHING_TO_GRADE, UNLABELLED, case_folders


@dataclass(frozen=True)
class ModelRun:
    """One case. What the label does not tell is None."""

    case: str
    right_before: bool | None = None
    """Whether code's first cause was the truth before the model looked."""
    right_after: bool | None = None
    """And after the evidence that the model asked for."""
    code_confidence: float = 0.0
    """Before the model looked; 0 where code held its cause back."""
    verdict: str | None = None
    """What kind of verdict the model gave."""
    outcome: str | None = None
    """Whether it agreed, led the answer, or stayed a dissent."""
    stated_confidence: float = 0.0
    """The model's own in its verdict."""
    carried: bool = False
    """Whether the verdict is another answer whose grounds carry it."""
    objection: str = ""
    """Why a verdict did not lead."""
    verdict_right: bool | None = None
    """Whether what the model named is the truth."""
    headline_right_before: bool | None = None
    """Whether code's answer was right: the verdict, and the first cause where there is one."""
    headline_right_after: bool | None = None
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
        record = record_of(runs, DecisionPolicy().least_confidence)
        document = {"model": settings.model.name, **figures(runs), "record": record}
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
        code_confidence=before.confidence,
        headline_right_before=_headline_right(label, before),
        headline_right_after=_headline_right(label, outcome.diagnosis),
        **_verdict_facts(label, outcome.diagnosis),
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


class _VerdictFacts(TypedDict, total=False):
    verdict: str
    outcome: str
    stated_confidence: float
    carried: bool
    objection: str
    verdict_right: bool | None


def _verdict_facts(label: CaseLabel | None, diagnosis: Diagnosis) -> _VerdictFacts:
    decision = diagnosis.decision
    if decision is None:
        return {}
    verdict = decision.verdict
    named: tuple[str | None, str | None] = (verdict.subject, verdict.change)
    calm = verdict.kind is VerdictKind.NOTHING_WRONG
    if verdict.kind is VerdictKind.AGREE:
        named = (decision.code_subject, decision.code_change)
        calm = decision.code_verdict is Verdict.NO_ACTIVE_INCIDENT
    return {
        "verdict": verdict.kind.value,
        "outcome": decision.outcome,
        "stated_confidence": verdict.confidence,
        "objection": decision.objection,
        "carried": verdict.kind is not VerdictKind.AGREE and not decision.refuted,
        "verdict_right": _right(label, (None, None) if calm else named, calm=calm),
    }


def _headline_right(label: CaseLabel | None, diagnosis: Diagnosis) -> bool | None:
    """Whether acting on the answer would be right. A cause that is held back is no answer."""
    calm = diagnosis.verdict is Verdict.NO_ACTIVE_INCIDENT
    first = diagnosis.first_cause
    if first is None or calm or diagnosis.verdict is Verdict.INSUFFICIENT_EVIDENCE:
        return _right(label, (None, None), calm=calm)
    return _right(label, (first.subject, first.change), calm=False)


def _right(
    label: CaseLabel | None, named: tuple[str | None, str | None], *, calm: bool
) -> bool | None:
    """Whether a subject with its change, or that nothing is wrong, is what the label says."""
    if label is None or not label.gradable:
        return None
    subject, change = named
    guilty = None if label.change == NO_CHANGE else label.change
    if label.subject is None and guilty is None:
        return calm or subject is None
    if calm or subject is None:
        return False
    right_place = label.subject is None or subject in (label.subject, *label.aliases)
    return right_place and (label.change is None or change == guilty)


def _is_first(truth: str | None, diagnosis: Diagnosis) -> bool | None:
    if truth is None:
        return None
    first = diagnosis.first_cause
    return first is not None and first.subject == truth


EDGES = (0.0, 0.5, 0.7, 0.9, 1.01)
"""Of the bins by code's confidence."""


def record_of(runs: Sequence[ModelRun], least_confidence: float) -> list[dict[str, Any]]:
    """What the model achieved by code's confidence, as `model.record` takes it. A verdict counts as
    one that leads if its grounds hold, whatever the settings let it do."""
    rows = []
    for least, below in pairwise(EDGES):
        inside = [run for run in runs if least <= run.code_confidence < below]
        agreed = [run for run in inside if run.verdict == "agree"]
        leading = [
            run for run in inside if run.carried and run.stated_confidence >= least_confidence
        ]
        rows.append(
            {
                "least": least,
                "below": below,
                "agreed": len(agreed),
                "agreed_right": [run.verdict_right for run in agreed].count(True),
                "verdicts": len(leading),
                "verdicts_right": [run.verdict_right for run in leading].count(True),
                "code_right": [run.headline_right_before for run in leading].count(True),
            }
        )
    return rows


def figures(runs: Sequence[ModelRun]) -> dict[str, Any]:
    """Sums over all cases, and each case."""
    # Unknown costs are left out: counted as nothing, they would make the sum too small.
    costs = [run.cost_usd for run in runs if run.cost_usd is not None]
    tokens = [run.tokens for run in runs if run.tokens is not None]
    counts = ("claims", "inferences", "by_model", "tool_calls")
    return {
        **_accuracy(runs),
        **{name: sum(getattr(run, name) for run in runs) for name in counts},
        "refused": sum(len(run.refused) for run in runs),
        "refused_although_true": sum(run.refused_true for run in runs),
        "accepted_although_false": sum(run.accepted_false for run in runs),
        "tokens": sum(tokens) if tokens else None,
        "cost_usd": round(sum(costs), 6) if costs else None,
        "seconds_median": round(statistics.median([run.seconds for run in runs]), 2)
        if runs
        else None,
        "cases": [asdict(run) for run in runs],
    }


def _accuracy(runs: Sequence[ModelRun]) -> dict[str, int]:
    """How often the answers were right before and after the model, and its verdicts."""
    graded = [run for run in runs if run.headline_right_before is not None]
    agreed = [run for run in graded if run.outcome == "agreed"]
    led = [run for run in graded if run.outcome == "led"]
    dissented = [run for run in graded if run.outcome == "dissented"]
    return {
        "graded": len(graded),
        "right_before": [run.headline_right_before for run in graded].count(True),
        "right_after": _right_after(graded),
        "agreed": len(agreed),
        "agreed_right": _right_after(agreed),
        "led": len(led),
        "led_right": _right_after(led),
        "mended": sum(_turned(run, to=True) for run in led),
        "broken": sum(_turned(run, to=False) for run in led),
        "dissented": len(dissented),
        "dissents_right": [run.verdict_right for run in dissented].count(True),
    }


def _turned(run: ModelRun, *, to: bool) -> bool:
    return run.headline_right_before is not to and run.headline_right_after is to


def _right_after(runs: Sequence[ModelRun]) -> int:
    return [run.headline_right_after for run in runs].count(True)


def _print(runs: Sequence[ModelRun], name: str) -> None:
    console = Console(highlight=False, soft_wrap=True)
    for run in runs:
        for case_line in _case_lines(run):
            console.print(case_line)
    f = figures(runs)
    cost = "not known" if f["cost_usd"] is None else f"${f['cost_usd']:.4f}"
    tokens = "not counted" if f["tokens"] is None else f"{f['tokens']:,}"
    for line in (
        f"{plain(name, 60)}: answer right in {f['right_before']} of {f['graded']} before, "
        f"{f['right_after']} after",
        f"verdicts: {f['agreed']} agree ({f['agreed_right']} right), {f['led']} led "
        f"({f['led_right']} right; {f['mended']} mended a wrong answer, {f['broken']} broke a "
        f"right one), {f['dissented']} dissent ({f['dissents_right']} right)",
        f"claims: {f['claims']} stand ({f['accepted_although_false']} false), {f['refused']} "
        f"refused ({f['refused_although_true']} true), {f['inferences']} inferences",
        f"{f['tool_calls']} tool calls, tokens {tokens}, cost {cost}, "
        f"{f['seconds_median']} s a case in the middle",
    ):
        console.print(Text(line))


def _case_lines(run: ModelRun) -> Iterator[Text]:
    facts = [f"{run.claims} claims", f"{len(run.refused)} refused", f"{run.seconds:.1f} s"]
    if run.verdict:
        right = {True: " (right)", False: " (wrong)", None: ""}[run.verdict_right]
        facts.append(f"{run.verdict.replace('_', ' ')}, {run.outcome}{right}")
    if not run.by_model:
        facts.append(f"built-in writer: {plain(run.ended, 80)}")
    sign = {True: "right", False: "wrong", None: "-"}[run.headline_right_after]
    yield Text(f"{sign:>5}  {plain(run.case, 40)}  {', '.join(facts)}")
    if run.problem:
        yield Text(f"       {plain(run.problem, 140)}", style="dim")
    for reason in run.refused[:3]:
        yield Text(f"       refused: {plain(reason, 130)}", style="yellow")
