"""A verdict on a deploy in words: for a terminal, as Markdown for a pull request, as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from faultline.analysis.deploys.verdict import Comparison, Decision, DeployVerdict, SignalCheck
from faultline.analysis.deploys.words import called, level_words
from faultline.analysis.wording.phrases import capitalised, number
from faultline.bot.answer.writer.plain_text import opened, shown

LABELS = {Decision.GO: "Go", Decision.HOLD: "Hold", Decision.ROLL_BACK: "Roll back"}
MOST_ROWS = 20
MOST_GAPS = 10


def as_json(verdict: DeployVerdict) -> dict[str, Any]:
    """The verdict as JSON values, without the gaps of sources that have nothing to do with it."""
    return verdict.model_dump(mode="json", exclude_none=True)


def lines(verdict: DeployVerdict) -> Iterator[str]:
    """For a terminal."""
    yield verdict.headline
    yield _span(verdict)
    for reason in verdict.reasons:
        yield f"  - {reason}"
    for missing in verdict.missing:
        yield f"  Missing: {missing}"
    for check in verdict.checks:
        was, now = level_words(check.signal, check.unit, check.before, check.after)
        yield (
            f"  {check.id:4} {_mark(check):11} {_name(check):34} {was} -> {now}  "
            f"({check.against}, p = {number(check.p, 2)})"
        )
    for gap in verdict.gaps[:MOST_GAPS]:
        yield f"  Not collected: {gap.kind} from {gap.source}: {gap.reason}"


def to_markdown(verdict: DeployVerdict) -> str:
    """For a pull request, with the evidence behind each row."""
    parts = [f"### {LABELS[verdict.decision]}: {shown(verdict.service)}", ""]
    parts += [shown(verdict.headline), ""]
    reasons = [*verdict.reasons, *verdict.missing]
    parts += [*(f"- {shown(reason)}" for reason in reasons), ""] if reasons else []
    if verdict.checks:
        parts += [
            "| | signal | compared with | before | after | p | evidence |",
            "|---|---|---|---|---|---|---|",
            *(_row(check) for check in verdict.checks[:MOST_ROWS]),
            "",
        ]
    more = len(verdict.checks) - MOST_ROWS
    if more > 0:
        parts += [f"And {more} more that are not worse.", ""]
    parts += [shown(_span(verdict)), ""]
    # Folded, so that a reviewer sees the verdict first.
    if verdict.evidence or verdict.gaps:
        parts += ["<details><summary>Evidence</summary>", "", *_evidence(verdict), "", "</details>"]
    return "\n".join(parts).rstrip() + "\n"


def _span(verdict: DeployVerdict) -> str:
    percent = number(100 * verdict.false_alarm_rate, 2)
    return (
        f"Deployed {verdict.deployed_at:%Y-%m-%d %H:%M:%S} UTC, judged "
        f"{verdict.judged_from:%H:%M:%S} to {verdict.judged_until:%H:%M:%S} UTC, look "
        f"{verdict.look} of {verdict.looks}. At most {percent} % of healthy deploys get a "
        "roll-back."
    )


def _evidence(verdict: DeployVerdict) -> Iterator[str]:
    for evidence in verdict.evidence:
        source = f"{shown(evidence.kind)} from {shown(evidence.source)}: {shown(evidence.query)}"
        yield f"- **{shown(evidence.id)}** {source}{opened(evidence.link)}"
    for gap in verdict.gaps[:MOST_GAPS]:
        yield f"- Not collected: {shown(gap.kind)} from {shown(gap.source)}: {shown(gap.reason)}"


def _row(check: SignalCheck) -> str:
    was, now = level_words(check.signal, check.unit, check.before, check.after)
    cells = [
        f"{check.id} {_mark(check)}".strip(),
        _name(check),
        check.against,
        was,
        now,
        number(check.p, 2),
        ", ".join(check.evidence),
    ]
    return "| " + " | ".join(shown(cell) for cell in cells) + " |"


def _mark(check: SignalCheck) -> str:
    if check.worse:
        return "was worse" if check.over else "worse"
    return "suspicious" if check.suspicious else ""


def _name(check: SignalCheck) -> str:
    name = capitalised(called(check.signal))
    return name if check.comparison is Comparison.BEFORE else f"{name}, canary"
