"""Claims as models made them about the kept answers (`tests.answers`): 120 honest ones, each with
the sentence that was meant, and false or hostile ones.

honest.jsonl: `repaired` is what the model sent after the reasons. false.jsonl: `becomes` is "true"
where a reader found that what code words of it is true and suggests nothing false; all others must
be refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from faultline.bot.answer.asserted.ground import Ground
from faultline.bot.answer.writer.payload import Redactor
from faultline.bot.investigation.model.drafts import CheckedDraft, check_draft, read_draft
from tests.answers.frozen import AnswerFile

FOLDER = Path(__file__).parent


def kept(name: str) -> list[dict[str, Any]]:
    """The lines of honest.jsonl or false.jsonl."""
    lines = (FOLDER / f"{name}.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


@cache
def ground(case: str, question: str = "") -> Ground:
    """The ground of a kept answer. Its tables were not kept: nothing is known of calls."""
    decided = AnswerFile(case).decided
    return Ground(decided.diagnosis, decided.alert, decided.gaps, question=question)


def said(given: dict[str, Any], case: str, question: str = "") -> CheckedDraft:
    """What stands of a draft, and what is refused."""
    claims = [{"parts": given["parts"]}] if given.get("parts") else []
    rest = {key: given.get(key) for key in ("inferences", "verdict")}
    draft = read_draft(json.dumps({"claims": claims, **rest}))
    return check_draft(draft, ground(case, question), Redactor())


def stands(given: dict[str, Any], case: str, question: str = "") -> bool:
    """Whether all of it does."""
    found = said(given, case, question)
    return bool(found.claims) and not found.refused


def systematic_lies() -> Iterator[tuple[str, dict[str, Any]]]:
    """Of each kept answer the lies that can be made of its findings by a rule: a wrong direction,
    somebody else's finding, two beginnings or cause and effect swapped, a clean bill for the
    culprit. Yields the case and the part."""
    for path in sorted((FOLDER.parents[2] / "answers" / "cases").glob("*.json")):
        case = path.stem
        for part in _lies_about(ground(case)):
            yield case, part


def _lies_about(about: Ground) -> Iterator[dict[str, Any]]:
    findings, cause = list(about.findings.values()), about.cause
    for one in findings:
        way = one.details.direction
        if way in ("up", "down"):
            yield {"relation": "fell" if way == "up" else "rose", "findings": [one.id]}
        for other in findings[:8]:
            if other.subject != one.subject:
                yield {"relation": "shows", "findings": [one.id], "subjects": [other.subject]}
            if one.onset and other.onset and one.onset < other.onset:
                yield {"relation": "began_before", "findings": [other.id, one.id]}
    if cause is None:
        return
    for service in {cause.subject, *about.diagnosis.impact.services}:
        yield {"relation": "unaffected", "subjects": [service]}
    yield {"relation": "candidate", "subjects": [cause.subject]}
    own = [one for one in findings if one.id in cause.findings and one.subject == cause.subject]
    for one in findings:
        if one.subject != cause.subject and not about.is_blamed_change(one):
            for effect in own:
                yield {"relation": "explained_by", "findings": [effect.id, one.id]}
