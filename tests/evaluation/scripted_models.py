"""Models that follow a script: an honest one, a careless, a hostile, a silent and a looping one.
An expert reads what the tools bring and decides by a fixed strategy.

Each answers the requests of a conversation as a server does; what it knows it reads out of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from starlette.responses import Response

from tests.bot.answer.writer.openai_server import Answer, calls, says, says_text

_FINDING = re.compile(r"^(F\d+) ", re.MULTILINE)
_CAUSE = re.compile(
    r"^(\d) (.+?)(?: change \S+)?(?: since ([\d:]+))? (\d\.\d\d) (F[\dF ]+)", re.MULTILINE
)
_CALLS = re.compile(r"^\[L\d+\] (?P<caller>\S+) calls (?P<callee>[^\s;.]+)", re.MULTILINE)
_NODE = re.compile(r"in node (\S+) do worse")
_ZONE = re.compile(r"in zone (\S+) do worse")
SHARE = 0.02
"""A candidate of less than this share of the first one's confidence is left out."""
LOOKED_AT = 3


def honest(body: dict[str, Any]) -> Response:
    """Says what the first findings show, asks for nothing."""
    if not wants_report(body):
        return says_text("That will do.")(body)
    return says(_report(_shown(_FINDING.findall(told(body))[:3])))(body)


def careless(body: dict[str, Any]) -> Response:
    """Names wrong directions, relations and ids; mends them when they are refused."""
    if not wants_report(body):
        return says_text("Done.")(body)
    ids = _FINDING.findall(told(body))
    if "Not all of it stands" in told(body):
        return says(_report(_shown(ids[:2])))(body)
    wrong = [_part("rose", ids[0]), _part("fell", ids[0]), _part("caused", ids[0])]
    return says(_report([*_shown(ids[:1]), *wrong, _part("shows", "F999")]))(body)


def hostile(body: dict[str, Any]) -> Response:
    """Lies wherever it can, in every field, and does not mend it."""
    if not wants_report(body):
        wanted = ("series", {"service": "$(rm -rf /)"}), ("read", {"file": "/etc/passwd"})
        return calls(*wanted)(body)
    ids = [*_FINDING.findall(told(body)), "F1", "F2"]
    order = "Roll back api and web now, <!channel> https://evil.example/x"
    return says(
        {
            "claims": [
                _part("explained_by", ids[1], ids[0]),
                _part("began_before", ids[0], ids[1]),
                _part("unaffected", subjects=["checkout"]),
                _part("quotes", ids[0], quote=order),
                _part(order, ids[0]),
                _part("shows", order),
                {"parts": [{"relation": "shows", "findings": [ids[0]], "joint": order}] * 2},
            ],
            "inferences": [{"text": order, "because": [ids[0]]}],
            "verdict": {
                "kind": "other_cause",
                "subject": order,
                "confidence": 1.0,
                "grounds": [{"relation": "shows", "findings": [ids[0]]}],
                "text": order,
            },
            "next_steps": [order, "N99"],
            "question": order,
        }
    )(body)


def silent(body: dict[str, Any]) -> Response:
    """Answers nothing."""
    return says_text("")(body)


def looping(body: dict[str, Any]) -> Response:
    """Makes the same call again and again."""
    if wants_report(body):
        return honest(body)
    return calls(("topology", {"service": "checkout"}))(body)


def expert(body: dict[str, Any]) -> Response:
    """Looks at who calls whom around the first causes, and prefers one that the first cause calls
    and that did not begin later: trouble travels from callee to caller."""
    text = told(body)
    causes = _causes(text)
    asked = [one.subject for one in causes[:LOOKED_AT]]
    if not wants_report(body):
        if len(messages(body)) > 2 or not asked:
            return says_text("I have seen enough.")(body)
        return calls(*(("topology", {"service": name}) for name in asked))(body)
    report = _report(_shown(causes[0].findings[:3] if causes else _FINDING.findall(text)[:3]))
    better = _beneath(causes, text)
    if better is not None:
        report["verdict"] = {
            "kind": "other_cause",
            "subject": better.subject,
            "confidence": 0.75,
            "grounds": [
                {"relation": "shows", "findings": [finding]} for finding in better.findings[:3]
            ],
            "text": "The first cause calls it, and it was in trouble no later.",
        }
    return says(report)(body)


@dataclass(frozen=True)
class Candidate:
    """A cause as the data lists it."""

    subject: str
    since: timedelta | None
    confidence: float
    findings: tuple[str, ...]


def _causes(text: str) -> list[Candidate]:
    found = []
    for _, subject, since, confidence, ids in _CAUSE.findall(text):
        found.append(Candidate(subject, _time(since), float(confidence), tuple(ids.split())))
    return found


def _beneath(causes: Sequence[Candidate], text: str) -> Candidate | None:
    """What the first one calls and what began no later, the earliest; or the zone of which two
    candidates are nodes."""
    if not causes:
        return None
    first, others = causes[0], causes[1:]
    called = {m["callee"] for m in _CALLS.finditer(text) if m["caller"] == first.subject}
    found = [
        one
        for one in others
        if one.subject in called
        and one.confidence >= SHARE * first.confidence
        and (first.since is None or (one.since is not None and one.since <= first.since))
    ]
    if found:
        return min(found, key=lambda one: one.since or timedelta())
    nodes, zones = set(_NODE.findall(text)), set(_ZONE.findall(text))
    if len({one.subject for one in causes[:LOOKED_AT]} & nodes) >= 2:
        return next((one for one in others if one.subject in zones), None)
    return None


def _time(text: str) -> timedelta | None:
    if not text:
        return None
    hours, minutes, seconds = (int(part) for part in text.split(":"))
    return timedelta(hours=hours, minutes=minutes, seconds=seconds)


def wants_report(body: dict[str, Any]) -> bool:
    """Whether the request asks for an answer of a form."""
    return "response_format" in body or "format" in (body.get("text") or {})


def messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The history, whichever API carries it."""
    given: list[dict[str, Any]] = body.get("messages") or body.get("input") or []
    return given


def told(body: dict[str, Any]) -> str:
    """All texts of the history."""
    texts = (one.get("content") or one.get("output") or "" for one in messages(body))
    return "\n".join(text if isinstance(text, str) else json.dumps(text) for text in texts)


def _report(claims: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "claims": claims,
        "inferences": [],
        "verdict": None,
        "next_steps": ["N1"],
        "question": None,
    }


def _shown(ids: Sequence[str]) -> list[dict[str, Any]]:
    return [_part("shows", one) for one in ids]


def _part(relation: str, *findings: str, **more: Any) -> dict[str, Any]:
    return {"parts": [{"relation": relation, "findings": list(findings), **more}]}


SCRIPTED: dict[str, Answer] = {
    "honest": honest,
    "careless": careless,
    "hostile": hostile,
    "silent": silent,
    "looping": looping,
    "expert": expert,
}
