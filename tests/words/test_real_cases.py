"""On recorded incidents: what their findings say, said plainly, stays; the same with one thing
wrong goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis.vocabulary import Alert, Claim, Diagnosis, Finding, Verdict
from analysis.wording.phrases import number
from bot.answer.replay import replay
from bot.answer.writer.guard import Guard

OURS = Path(__file__).resolve().parents[2] / "demo" / "cases"
RECORDED = ("petshop-02", "petshop-06", "rootcausebench-01", "rootcausebench-05")
MAX_FINDINGS = 12


def honest(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """Plain sentences that the findings support."""
    for f in _shifts(diagnosis):
        before, after = f.numbers["baseline"], f.numbers["incident"]
        verb = "rose" if after > before else "fell"
        yield f"{f.subject} {f.signal} {verb} from {number(before)} to {number(after)}.", f.id
        yield (
            f"The {f.signal} of {f.subject} is now {number(after)}, its baseline is "
            f"{number(before)}.",
            f.id,
        )
        if f.onset:
            yield f"{f.subject} shows the first symptom at {f.onset:%H:%M:%S} UTC.", f.id
        if "ratio" in f.numbers:
            yield f"{f.subject} {f.signal} {verb} {number(f.numbers['ratio'])}x.", f.id


def corrupted(diagnosis: Diagnosis) -> Iterator[tuple[str, str]]:
    """The same with one thing wrong."""
    cause = diagnosis.causes[0] if diagnosis.verdict is Verdict.CAUSE_FOUND else None
    for f in _shifts(diagnosis):
        before, after = f.numbers["baseline"], f.numbers["incident"]
        verb, other = ("rose", "fell") if after > before else ("fell", "rose")
        yield f"{f.subject} {f.signal} {verb} from {number(after)} to {number(before)}.", f.id
        yield f"{f.subject} {f.signal} {other} to {number(after)}.", f.id
        yield f"{f.subject} {f.signal} {verb} to {number(after * 1.37)}.", f.id
        yield f"{f.subject} {f.signal} certainly {verb}.", f.id
        yield f"{f.subject} {f.signal} is unchanged.", f.id
        yield f"{f.subject} {f.signal} {verb} because of a network outage.", f.id
        yield f"{f.subject} {f.signal} {verb}, ask @channel.", f.id
        yield f"{f.subject} {f.signal} {verb}, all is fine.", f.id
        yield f"Restart {f.subject}.", f.id
        yield f"{f.subject} {f.signal} {verb} to {number(after)}.", "F9999"
        if (
            cause
            and f.id not in cause.findings
            and f.subject not in cause.summary
            and cause.subject != f.subject
        ):
            yield f"{cause.subject} fails because of {f.subject}.", f"{f.id} {cause.findings[0]}"


def _shifts(diagnosis: Diagnosis) -> list[Finding]:
    found = [
        f
        for f in diagnosis.findings
        if f.kind == "metric_shift" and f.signal and f.numbers["baseline"]
    ]
    return found[:MAX_FINDINGS]


def faults(
    diagnosis: Diagnosis, alert: Alert, sentences: Iterator[tuple[str, str]]
) -> dict[str, str | None]:
    guard = Guard(diagnosis, alert)
    return {
        text: guard.fault_of_claim(Claim(text=text, findings=tuple(ids.split())))
        for text, ids in sentences
    }


def check(diagnosis: Diagnosis, alert: Alert) -> None:
    if diagnosis.verdict is Verdict.CAUSE_FOUND:
        assert {t: f for t, f in faults(diagnosis, alert, honest(diagnosis)).items() if f} == {}
        assert [t for t, f in faults(diagnosis, alert, corrupted(diagnosis)).items() if not f] == []


def test_on_the_recorded_training_job() -> None:
    replayed = replay(OURS / "slow-rank")
    check(replayed.diagnosis, replayed.case.alert)


@pytest.mark.parametrize("name", RECORDED)
def test_on_public_cases(shared: Path, name: str) -> None:
    replayed = replay(shared / "cases" / name)
    check(replayed.diagnosis, replayed.case.alert)
