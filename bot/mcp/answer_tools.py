"""`answer`, `findings` and `evidence`: what an investigation found, and the proof of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from faultline.analysis.errors import FaultlineError
from faultline.analysis.vocabulary import Claim, Evidence, Finding
from faultline.bot.answer.foreign_text import single_line
from faultline.bot.answer.replay import json_of
from faultline.bot.answer.view import AnswerView
from faultline.bot.conversation.measured import how
from faultline.bot.investigation.verifying import compared, same_finding
from faultline.bot.mcp.open_cases import OpenCase
from faultline.bot.mcp.outgoing import Exact, link, values_of, when
from faultline.bot.mcp.tool import McpTool, OfInvestigation, Result, ToolRun
from faultline.bot.runtime.threads import in_thread

# The proof of an answer: for each sentence the findings it rests on, and for each finding the
# numbers, how code computes them, and the queries with their windows that brought the rows.
#
# With that anybody can ask the same sources the same queries and compute the same numbers. The
# tools `evidence` and `verify` do both.

MOST_ITEMS = 4
"""Queries that are shown for one finding; the others are counted."""


@dataclass(frozen=True)
class Sentence:
    """One sentence of an answer and the findings it rests on."""

    place: str
    """`headline`, a section of the report, or `next_step`."""
    text: str
    findings: tuple[str, ...]


def sentences_of(view: AnswerView) -> tuple[Sentence, ...]:
    """Every sentence of the answer, in order."""
    # What the headline rests on: the first cause, or, where nothing is blamed, the impact.
    if view.established and view.cause is not None:
        first = view.cause.findings
    else:
        first = view.impact.findings
    headline = Sentence("headline", view.headline, first)
    decided = [Sentence("decision", view.decision_line, ())] if view.decision_line else []
    sentences = [
        _sentence(claim.section.value, claim) for claim in (*view.ordered_claims, *view.beside)
    ]
    steps = [_sentence("next_step", claim) for claim in (*view.next_steps, *view.routing)]
    return (headline, *decided, *sentences, *steps)


def _sentence(place: str, claim: Claim) -> Sentence:
    return Sentence(place, claim.text, claim.findings)


def cited(sentences: Iterable[Sentence]) -> tuple[str, ...]:
    """The findings of all of them, each once."""
    return tuple(dict.fromkeys(finding for sentence in sentences for finding in sentence.findings))


def sentence_json(sentence: Sentence) -> dict[str, Any]:
    """A sentence with the ids of what proves it."""
    return {
        "place": Exact(sentence.place),
        "text": sentence.text,
        "findings": [Exact(finding) for finding in sentence.findings],
    }


def proof_json(finding: Finding, items: Sequence[Evidence]) -> dict[str, Any]:
    """A finding with what is needed to check it."""
    proof = {
        **finding_json(finding),
        "effect": finding.effect,
        "effect_unit": finding.effect_unit,
        "numbers": dict(finding.numbers),
        "computed": how(finding),
        "evidence": [Exact(item.id) for item in items],
        "queries": [evidence_json(item) for item in items[:MOST_ITEMS]],
    }
    if len(items) > MOST_ITEMS:
        proof["more_queries"] = len(items) - MOST_ITEMS
    return proof


def finding_json(finding: Finding) -> dict[str, Any]:
    """What a finding says; keys as in `faultline investigate --json`."""
    return {
        "id": Exact(finding.id),
        "kind": Exact(finding.kind),
        "subject": finding.subject,
        "signal": finding.signal,
        "onset": when(finding.onset),
        "strength": finding.strength,
        "sentence": finding.sentence,
    }


def evidence_json(item: Evidence) -> dict[str, Any]:
    """What was asked of which source, over which time."""
    return {
        "id": Exact(item.id),
        "kind": Exact(item.kind),
        "source": item.source,
        "query": Exact(item.query),
        "window": [when(item.window.start), when(item.window.end)] if item.window else None,
        "rows": item.rows,
        "cut": item.cut,
        "link": link(item.link),
    }


def items_of(finding: Finding, view: AnswerView) -> list[Evidence]:
    """The evidence of a finding that the case holds."""
    return [
        view.evidence[evidence_id]
        for evidence_id in finding.evidence
        if evidence_id in view.evidence
    ]


PAGE = 40
MOST_NAMES = 30


class FindingsArguments(OfInvestigation):
    about: str | None = Field(
        default=None,
        max_length=200,
        description="Only findings whose subject, signal, kind or sentence holds these words.",
    )
    skip: int = Field(default=0, ge=0, le=100_000, description="How many to leave out, to page on.")


class EvidenceArguments(OfInvestigation):
    finding: str = Field(
        min_length=1,
        max_length=40,
        description="Id of a finding, such as F3, or of a row that another tool showed, such as "
        "L2.",
    )


async def answer(run: ToolRun, arguments: OfInvestigation) -> Result:
    """The answer, each sentence with its proof."""
    case = await run.case(arguments)
    return await case.outgoing(await in_thread(_answer, case))


def _answer(case: OpenCase) -> dict[str, Any]:
    view = case.answered.view
    sentences = sentences_of(view)
    # Cited ones first; the rest is sorted, so that the same case gives the same result.
    shown = view.findings_of(tuple(dict.fromkeys([*cited(sentences), *sorted(view.rests_on)])))
    json = json_of(view)
    json["findings"] = [proof_json(finding, items_of(finding, view)) for finding in shown]
    return {
        "investigation": Exact(case.handle.investigation.id),
        "verdict": json.pop("verdict"),
        "confidence": json.pop("confidence"),
        "how_sure": view.how_sure,
        "headline": json.pop("headline"),
        "sentences": [sentence_json(sentence) for sentence in sentences],
        **json,
        "other_findings": len(view.findings) - len(shown),
        "written_by": view.written_by,
    }


async def findings(run: ToolRun, arguments: FindingsArguments) -> Result:
    """All findings, the strongest first."""
    case = await run.case(arguments)
    words = (arguments.about or "").casefold()
    ranked_findings = sorted(case.model_session.findings, key=lambda finding: -finding.strength)
    matching = [finding for finding in ranked_findings if words in _search_text(finding)]
    shown = matching[arguments.skip : arguments.skip + PAGE]
    value: dict[str, Any] = {
        "findings": [
            {**finding_json(finding), "numbers": dict(finding.numbers)} for finding in shown
        ],
        "of": len(matching),
    }
    if arguments.skip + len(shown) < len(matching):
        value["next"] = f"skip={arguments.skip + len(shown)}"
    return await case.outgoing(value)


def _search_text(finding: Finding) -> str:
    parts = (finding.subject, finding.signal or "", finding.kind, finding.sentence)
    return " ".join(parts).casefold()


async def evidence(run: ToolRun, arguments: EvidenceArguments) -> Result:
    """One finding: queries, windows, values, and its numbers computed again from the rows."""
    case = await run.case(arguments)
    finding = _finding(case, arguments.finding)
    items = {item.id: item for item in case.model_session.case.evidence}
    finding_evidence = [
        items[evidence_id] for evidence_id in finding.evidence if evidence_id in items
    ]
    value = proof_json(finding, finding_evidence)
    value["values"] = await in_thread(values_of, case.model_session.case, finding)
    value["recomputed"] = await _recomputed(case, finding)
    return await case.outgoing(value)


def _finding(case: OpenCase, finding_id: str) -> Finding:
    findings_by_id = {finding.id: finding for finding in case.model_session.findings}
    named_finding = findings_by_id.get(finding_id.strip())
    if named_finding is None:
        some = ", ".join(list(findings_by_id)[:MOST_NAMES])
        more = ", ..." if len(findings_by_id) > MOST_NAMES else ""
        raise FaultlineError(
            f"there is no finding {single_line(finding_id, 40)!r} here; there are {some}{more}"
        )
    return named_finding


async def _recomputed(case: OpenCase, finding: Finding) -> dict[str, Any]:
    # What was looked up just now has no earlier number to compare with.
    if all(case_finding.id != finding.id for case_finding in case.answered.diagnosis.findings):
        return {"same": True, "how": "computed from the case's rows when it was looked up"}
    again = same_finding(finding, (await case.recomputed()).findings)
    if again is None:
        return {"same": False, "how": "today's analysis of the stored rows has no such finding"}
    numbers = compared(finding, again)
    return {
        "same": all(number.same for number in numbers),
        "how": "the whole analysis again, over the rows that were stored",
        "numbers": {
            number.name: {"stated": number.then, "now": number.again} for number in numbers
        },
    }


ANSWERING = (
    McpTool(
        "answer",
        "Answer with its proof",
        "The answer of an investigation: verdict, confidence, headline, causes, impact, next "
        "steps, and what is missing. Each sentence names its findings; each finding comes with its "
        "numbers, how they are computed, and the queries and windows that show them.",
        OfInvestigation,
        answer,
    ),
    McpTool(
        "findings",
        "All findings",
        "Everything that code established, cited by the answer or not, the strongest first.",
        FindingsArguments,
        findings,
    ),
    McpTool(
        "evidence",
        "Evidence of one finding",
        "One finding in full: the queries with their windows and links, the values behind it, and "
        "its numbers computed again from the stored rows.",
        EvidenceArguments,
        evidence,
    ),
)
