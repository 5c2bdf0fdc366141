"""The proof of an answer: for each sentence the findings it rests on, and for each finding the
numbers, how code computes them, and the queries with their windows that brought the rows.

With that anybody can ask the same sources the same queries and compute the same numbers. The tools
`evidence` and `verify` do both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from faultline.analysis.vocabulary import Claim, Evidence, Finding
from faultline.bot.answer.view import AnswerView
from faultline.bot.conversation.explain import how
from faultline.bot.mcp.outgoing import Exact, link, when

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
    sentences = [
        _sentence(claim.section.value, claim) for claim in (*view.ordered_claims, *view.beside)
    ]
    steps = [_sentence("next_step", claim) for claim in view.next_steps]
    return (headline, *sentences, *steps)


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
