"""`faultline investigate`: the production analysis on a recorded case, worded by the built-in
writer.

If the case holds a report that a model wrote, that report is shown, without what the findings no
longer support.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import Case, read_case, read_diagnosis, read_report
from faultline.analysis.case.gap_groups import grouped
from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import BUILT_IN_WRITER, Diagnosis, Frozen, Report, Section
from faultline.bot.answer.asserted.ground import ground_of
from faultline.bot.answer.deciding import judged
from faultline.bot.answer.finding_ids import claims_renamed, verdict_renamed, with_stable_ids
from faultline.bot.answer.guidance import guidance_text, with_guidance
from faultline.bot.answer.lines import INFERRED
from faultline.bot.answer.view import AnswerView, answer_view
from faultline.bot.answer.writer.built_in import word
from faultline.bot.answer.writer.guard import keep_supported
from faultline.bot.answer.writer.plain_text import quotable

OF_THE_MODEL = "Of the model"
"""Before the lines of a dissent, which the line below the headline has announced."""
MOST_RIVALS = 4
"""Causes besides the first that the terminal shows."""
VERDICT_STYLE = {
    "cause_found": "bold red",
    "recovered": "bold green",
    "no_active_incident": "bold green",
    "insufficient_evidence": "bold yellow",
}


@dataclass(frozen=True)
class Replayed:
    """A case, what code decided of it, and how that is worded."""

    case: Case
    diagnosis: Diagnosis
    report: Report
    timings: dict[str, float]

    @cached_property
    def view(self) -> AnswerView:
        """What the answer says."""
        case = self.case
        return answer_view(
            case.alert, self.diagnosis, self.report, gaps=case.gaps, evidence=case.evidence
        )


def replay(folder: Path) -> Replayed:
    """Analyse the case again. Raises EvidenceError when it cannot be read."""
    from faultline.analysis.diagnosis import diagnose

    began = time.perf_counter()
    case = read_case(folder)
    diagnosis, stored = _stored(case, diagnose(case))
    analyzed = time.perf_counter()
    report = with_guidance(stored or word(diagnosis, case.alert, case.gaps), case.runbooks)
    timings = {
        "analyze_s": round(analyzed - began, 3),
        "write_s": round(time.perf_counter() - analyzed, 3),
    }
    return Replayed(case, diagnosis, report, timings)


def _stored(case: Case, diagnosis: Diagnosis) -> tuple[Diagnosis, Report | None]:
    """The diagnosis as the stored verdict of a model leaves it, and the report that a model wrote,
    both without what today's findings do not support; None where there is no such report."""
    try:
        report, stored_diagnosis = read_report(case.path), read_diagnosis(case.path)
    except EvidenceError:
        return diagnosis, None
    if report.written_by == BUILT_IN_WRITER:
        return diagnosis, None
    # The analysis of today numbers its findings differently.
    _, names = with_stable_ids(stored_diagnosis, diagnosis, ())
    decision = stored_diagnosis.decision
    if decision is not None:
        verdict = verdict_renamed(decision.verdict, names)
        ground = ground_of(case, diagnosis)
        diagnosis = judged(verdict, ground, decision.policy, decision.model)
    renamed = report.model_copy(
        update={"claims": claims_renamed(report.claims, names), "dropped": ()}
    )
    ground = ground_of(case, diagnosis)
    return diagnosis, keep_supported(renamed, diagnosis, case.alert, gaps=case.gaps, ground=ground)


def as_json(replayed: Replayed) -> dict[str, Any]:
    """What `--json` prints; see DESIGN in the documentation for the keys."""
    return json_of(replayed.view) | {"timings": replayed.timings}


def json_of(view: AnswerView) -> dict[str, Any]:
    """An answer in JSON values: verdict, causes, findings, impact, and what is missing."""
    return {
        "verdict": view.verdict.value,
        "confidence": view.confidence,
        "headline": view.headline,
        **({"decision": view.decision.model_dump(mode="json")} if view.decision else {}),
        "causes": _dump(view.causes),
        "findings": _dump(tuple(view.findings.values())),
        "impact": view.impact.model_dump(mode="json"),
        "missing": list(view.missing),
        "gaps": _dump(view.gaps),
    }


def print_json(replayed: Replayed) -> None:
    """Print the answer as one JSON document."""
    sys.stdout.write(json.dumps(as_json(replayed), indent=1, ensure_ascii=False) + "\n")


def print_report(replayed: Replayed) -> None:
    """Print the answer for a person."""
    # Late: the bot's processes read this module too, and print nothing.
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    view = replayed.view
    verdict = view.verdict.value.replace("_", " ")
    decided = Text(verdict, style=VERDICT_STYLE[view.verdict.value])
    if view.confidence > 0:
        decided.append(f", confidence {view.confidence:.2f}", style="not bold dim")
    console.print(decided)
    console.print(Text(view.headline, style="bold"))
    if view.decision_line:
        console.print(Text(view.decision_line, style="italic"))
    labels = {Section.INFERRED: f"{INFERRED}: ", Section.SECOND_OPINION: f"{OF_THE_MODEL}: "}
    for claim in view.ordered_claims:
        text = Text(f"  {labels.get(claim.section, '')}{claim.text} ")
        console.print(text, Text(" ".join(claim.findings), style="cyan"))
    for step in (*view.next_steps, *view.routing):
        console.print(Text("  next: ", style="bold"), Text(step.text))
    for line in view.guidance:
        console.print(Text(f"  {guidance_text(line)}", style="magenta"), Text(line.url or ""))
    for sentence in view.missing:
        console.print(Text("  missing: ", style="yellow"), Text(quotable(sentence)))
    if view.other_causes and view.established:
        console.print(Text("other candidates", style="dim"))
        for cause in view.other_causes[:MOST_RIVALS]:
            phrase = f"  {cause.rank}. {quotable(cause.summary)} ({cause.confidence:.2f})"
            console.print(Text(phrase, style="dim"))
    for group in grouped(view.gaps):
        ids = ", ".join(gap.id for gap in group.gaps)
        console.print(Text(f"  {ids} {group.source}: {quotable(group.reason)}", style="yellow"))


def _dump(values: Sequence[Frozen]) -> list[dict[str, Any]]:
    return [value.model_dump(mode="json") for value in values]
