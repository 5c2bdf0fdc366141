"""Where requests stop following their usual path: a step that always came after another no longer
comes.

Comparing the event patterns of requests with those of a fault-free phase, and taking the deepest
break for the culprit's, are the ideas of Nezha (Yu et al., FSE 2023). Requests that stop right
after their calls to one service, in two or more of its callers, accuse that service: else each
caller's own code would have to have broken at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from faultline.analysis.analyzers import Analyzer
from faultline.analysis.case.folder import Case
from faultline.analysis.kinds.finding_details import FlowBreakDetails
from faultline.analysis.kinds.finding_kinds import FLOW_BREAK
from faultline.analysis.requests.path_breaks import request_breaks
from faultline.analysis.requests.paths import START, request_paths
from faultline.analysis.vocabulary import Finding
from faultline.analysis.wording.phrases import number, plain, rounded

KIND = FLOW_BREAK.name
MAX_PER_SERVICE = 3
MAX_FINDINGS = 30
"""Findings in all, the clearest breaks first."""
STEP_TEXT = 120
_NUMBER = re.compile(r"(?<![\w.])\d+(?:\.\d+)?")


def flow_breaks(case: Case) -> list[Finding]:
    """At most three findings per service, the clearest breaks; empty without spans on both
    sides."""
    paths = request_paths(case)
    if paths is None:
        return []
    breaks = request_breaks(paths)
    evidence = (*case.evidence_ids("spans"), *case.evidence_ids("logs"))
    clearest = _clearest(breaks.in_service.iter_rows(named=True))[:MAX_FINDINGS]
    findings = [_in_service(row, evidence) for row in clearest]
    return findings + _behind_callers(breaks.behind, evidence)


ANALYZER = Analyzer(flow_breaks, kinds=(FLOW_BREAK,))


def _clearest(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Of each service the first rows, each step once."""
    clearests: list[dict[str, Any]] = []
    steps_by_service: dict[str, set[tuple[str, str]]] = {}
    for row in rows:
        observed_steps = steps_by_service.setdefault(row["service"], set())
        # Report a missing step once, not again as the step before the next one.
        steps = {(row["operation"], row["step"]), (row["operation"], row["then"])}
        if steps & observed_steps or len(observed_steps) >= 2 * MAX_PER_SERVICE:
            continue
        observed_steps |= steps
        clearests.append(row)
    return clearests


def _in_service(row: Mapping[str, Any], evidence: tuple[str, ...]) -> Finding:
    service, operation = plain(row["service"]), plain(row["operation"], 60)
    step, then = _words(row["step"]), _words(row["then"])
    percent, before = _percents(row)
    reaching, on = f' that reach "{step}"', "go on"
    # Nothing comes before the start, so there is no step to quote.
    if row["step"] == START:
        reaching, on = "", "get past their start"
    how = on if row["ended"] else f'come to "{then}"'
    sentence = (
        f"{number(percent, 3)} % of the {service} requests through {operation}{reaching} {how}, "
        f"where the baseline predicts {number(before, 3)} %."
    )
    return _finding(row["service"], [row], sentence, evidence, _strength(row))


def _behind_callers(rows: pl.DataFrame, evidence: tuple[str, ...]) -> list[Finding]:
    """One finding per service after whose calls the requests of two or more callers break."""
    findings = []
    clearest = rows.unique(["callee", "service"], keep="first", maintain_order=True)
    by_callee = clearest.partition_by("callee", as_dict=True, maintain_order=True)
    for (callee,), callers in by_callee.items():
        row, two = callers.head(2).iter_rows(named=True)
        (a, a_before), (b, b_before) = _percents(row), _percents(two)
        sentence = (
            f"{number(a, 3)} % of the requests of {plain(row['service'])} and {number(b, 3)} % of "
            "those of "
            f"{plain(two['service'])} go on after their calls to {plain(str(callee))}, where the "
            "baseline predicts "
            f"{number(a_before, 3)} % and {number(b_before, 3)} %."
        )
        findings.append(_finding(str(callee), [row, two], sentence, evidence, _strength(row)))
    return findings


def _finding(
    subject: str,
    rows: list[dict[str, Any]] | list[Mapping[str, Any]],
    sentence: str,
    evidence: tuple[str, ...],
    strength: float,
) -> Finding:
    numbers: dict[str, float] = {}
    for i, row in enumerate(rows):
        after = f"_{i + 1}" if i else ""
        numbers[f"percent{after}"], numbers[f"baseline_percent{after}"] = _percents(row)
    # Every number in a sentence must be known, those in quoted log lines too.
    quotations = " ".join(re.findall(r'"[^"]*"', sentence))
    for i, quoted in enumerate(_NUMBER.findall(quotations), start=1):
        numbers[f"quoted_{i}"] = float(quoted)
    row = rows[0]
    return Finding(
        id="",
        kind=KIND,
        subject=subject,
        signal="request flow",
        effect=rounded(numbers["percent"] - numbers["baseline_percent"], 3),
        effect_unit="percentage points",
        strength=strength,
        sentence=sentence,
        numbers=numbers,
        evidence=evidence,
        series={"table": "spans", "service": row["service"], "operation": row["operation"]},
        details=FlowBreakDetails(
            signal_class="other",
            bad=True,
            after=_words(row["step"]),
            event=_words(row["then"]),
            callers=tuple(r["service"] for r in rows) if len(rows) > 1 else (),
            requests=row["n"],
            baseline_requests=row["n_before"],
        ),
    )


def _strength(row: Mapping[str, Any]) -> float:
    """In [0, 1]: how much of the path is lost by the service's own doing, and how sure that is."""
    sure = 1.0 - math.exp(-(row["sigmas"] - 2.0))
    lost = max(0.0, (row["expected"] - row["share"]) * row["own"])
    return round(min(1.0, math.sqrt(lost) * sure), 4)


def _percents(row: Mapping[str, Any]) -> tuple[float, float]:
    return rounded(100 * row["share"], 3), rounded(100 * row["expected"], 3)


def _words(step: str) -> str:
    text, at, place = step.rpartition(" @")
    step = f"{text.replace(place, '')} at {place}" if at and place else step
    return plain(step.replace("<*>", "*").replace('"', "'"), STEP_TEXT)
