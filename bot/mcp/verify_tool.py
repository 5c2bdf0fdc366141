"""`verify`: ask the sources again, and say of each sentence whether it holds, then and now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Diagnosis, Finding, Section
from faultline.bot.investigation.verifying import (
    LATELY,
    ComparedNumber,
    Now,
    Then,
    Verification,
    VerifiedFinding,
    verify_now,
)
from faultline.bot.mcp.answer_tools import (
    Sentence,
    cited,
    items_of,
    proof_json,
    sentence_json,
    sentences_of,
)
from faultline.bot.mcp.open_cases import OpenCase
from faultline.bot.mcp.outgoing import Exact, when
from faultline.bot.mcp.tool import McpTool, OfInvestigation, Result, ToolRun
from faultline.bot.settings import Settings
from faultline.bot.web.replaying import HeavyWork

VERIFY_S = 400.0
"""Two collections of two minutes each at most, and the analysis of both."""
THENS: tuple[Then, ...] = ("not_found", "changed", "confirmed")
"""The worst first: a sentence is no better than the weakest finding that it rests on."""
HOLDS: Mapping[Then, bool | None] = {
    "confirmed": True,
    "changed": False,
    "not_found": False,
    "not_asked": None,
}
NO_SOURCE = (
    "this server has no connection to the sources of this answer, so nothing can be asked again: "
    "start `faultline mcp` where the sources are configured"
)


class Verifier:
    """Verifies answers with the sources of these settings, one at a time, in a process beside this
    one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._work = HeavyWork(deadline_s=VERIFY_S)

    async def __call__(self, folder: Path, findings: Sequence[Finding]) -> Verification:
        """Ask again. Raises FaultlineError."""
        verify_task = partial(verify_now, settings=self._settings, findings=tuple(findings))
        return await self._work.run(verify_task, folder)

    def close(self) -> None:
        """End the process."""
        self._work.close()


def verify_tool(verifier: Verifier | None) -> McpTool:
    """The tool; without a verifier it says why nothing can be asked."""

    async def call(run: ToolRun, arguments: OfInvestigation) -> Result:
        case = await run.case(arguments)
        if verifier is None:
            raise FaultlineError(NO_SOURCE)
        await run.report_progress("asking the sources again, twice")
        sentences = sentences_of(case.answered.view)
        findings = case.answered.view.findings_of(cited(sentences))
        verified = await verifier(case.folder, findings)
        return await case.outgoing(_verification_json(case, sentences, verified))

    return McpTool(
        "verify",
        "Verify an answer",
        "Ask the sources again what the answer rests on, over the same time and over the last "
        f"{LATELY.total_seconds() / 60:g} minutes. Says for each sentence whether it holds "
        "(confirmed, changed, not_found, not_asked) with both numbers, and whether it goes on "
        "(still, over, event, unknown). Takes as long as an investigation.",
        OfInvestigation,
        call,
        act="investigate",
    )


def _verification_json(
    case: OpenCase, sentences: Sequence[Sentence], verified: Verification
) -> dict[str, Any]:
    view = case.answered.view
    impact = _impact(case.answered.diagnosis, verified.same_time)
    return {
        "investigation": Exact(case.handle.investigation.id),
        "verified_at": when(verified.at),
        "sources_asked": list(verified.queried_sources),
        "sources_not_asked": list(verified.unqueried_sources),
        "sentences": [_sentence(sentence, verified, impact) for sentence in sentences],
        "impact": {number.name: {"then": number.then, "again": number.again} for number in impact},
        "findings": [
            {
                **proof_json(finding.finding, items_of(finding.finding, view)),
                "numbers": {
                    number.name: {"then": number.then, "again": number.again}
                    for number in finding.numbers
                }
                # What was not asked again keeps the numbers that were stated.
                or dict(finding.finding.numbers),
                "then": Exact(finding.then),
                "why": finding.why,
                "now": Exact(finding.now),
                "now_says": finding.now_says,
            }
            for finding in verified.findings.values()
        ],
        "stated": _decided(case.answered.diagnosis),
        "same_time_again": _decided(verified.same_time),
        "last_minutes": _decided(verified.lately),
    }


def _impact(stated: Diagnosis, again: Diagnosis | None) -> tuple[ComparedNumber, ...]:
    """The numbers of the impact, which no single finding has."""
    if again is None:
        return ()
    numbers = again.impact.numbers
    return tuple(
        ComparedNumber(name, value, numbers.get(name))
        for name, value in stated.impact.numbers.items()
    )


def _sentence(
    sentence: Sentence, verified: Verification, impact: Sequence[ComparedNumber]
) -> dict[str, Any]:
    findings = [
        verified.findings[finding] for finding in sentence.findings if finding in verified.findings
    ]
    then = _then(findings)
    is_impact = sentence.place == Section.HAPPENING.value
    # No finding has the impact's numbers, so compare them here.
    if is_impact and then == "confirmed" and not all(number.same for number in impact):
        then = "changed"
    return {
        **sentence_json(sentence),
        "then": Exact(then),
        "holds": HOLDS[then],
        "now": Exact(_now(findings)),
        "not_asked": [
            Exact(finding.finding.id) for finding in findings if finding.then == "not_asked"
        ],
    }


def _then(findings: Sequence[VerifiedFinding]) -> Then:
    for state in THENS:
        if any(finding.then == state for finding in findings):
            return state
    return "not_asked"


def _now(findings: Sequence[VerifiedFinding]) -> Now:
    # An event neither goes on nor ends.
    states = {finding.now for finding in findings} - {"event"}
    if not findings:
        return "unknown"
    if not states:
        return "event"
    if "still" in states:
        return "still"
    return "over" if states == {"over"} else "unknown"


def _decided(diagnosis: Diagnosis | None) -> dict[str, Any] | None:
    if diagnosis is None:
        return None
    first = diagnosis.first_cause
    return {
        "verdict": Exact(diagnosis.verdict.value),
        "confidence": diagnosis.confidence,
        "first_cause": first.subject if first else None,
        "change": first.change if first else None,
    }
