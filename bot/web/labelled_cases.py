"""Judged answers as labelled cases, for `faultline eval`: each case folder with a label.json of
what people said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faultline.analysis.case.folder import read_case, read_diagnosis
from faultline.analysis.errors import FaultlineError
from faultline.analysis.kinds.finding_details import changes_named
from faultline.analysis.vocabulary import Diagnosis, Scope, Verdict
from faultline.bot.answer.writer.quotable import folded, position_of
from faultline.bot.store.listing import AnswerLabel
from faultline.bot.web.case_zip import CaseArchive

NAME = "incident"
"""What folders are called, before the investigation's id: the name of the system in a table of
grades."""
SHORTEST_CHANGE = 7
"""Characters of a change's id that name it; as Git abbreviates its own."""


def truth_of(label: AnswerLabel, diagnosis: Diagnosis, scope: Scope) -> dict[str, Any]:
    """The content of label.json: the answer where it was right, else what the judge's words name of
    the case."""
    label_fields = {"dataset": "judged", "origin": label.investigation_id, "cause": label.cause}
    if not label.right:
        truth = {
            "subject": _subject_in(label.cause, diagnosis, scope),
            "change": _change_in(label.cause, diagnosis),
        }
    elif diagnosis.verdict in (Verdict.CAUSE_FOUND, Verdict.RECOVERED):
        cause = diagnosis.first_cause
        named = (
            {"subject": cause.subject, "fault": cause.kind, "change": cause.change} if cause else {}
        )
        truth = {**named, "verdict": diagnosis.verdict.value}
    else:
        truth = {"verdict": diagnosis.verdict.value}
    return {name: value for name, value in (label_fields | truth).items() if value}


def add_labelled(archive: CaseArchive, folder: Path, label: AnswerLabel) -> Iterator[bytes]:
    """One judged case with its label, in pieces of the archive. A case that cannot be read gives
    none."""
    try:
        truth = truth_of(label, read_diagnosis(folder), read_case(folder).scope)
    except (FaultlineError, OSError):
        return
    name = f"{NAME}-{label.investigation_id}"
    yield from archive.add_case(folder, name)
    yield archive.add_file(
        f"{name}/label.json", json.dumps(truth, indent=1, ensure_ascii=True).encode()
    )


def _subject_in(text: str, diagnosis: Diagnosis, scope: Scope) -> str | None:
    """The name of the case that the text names first, the longest where one holds another."""
    names = {*scope.services, *diagnosis.impact.services, *(f.subject for f in diagnosis.findings)}
    names |= {c.subject for c in diagnosis.causes}
    folded_text = folded(text)
    # The minus prefers the longer of two names at one position.
    positions = [(position_of(folded(n), folded_text), -len(n), n) for n in names if n.strip()]
    return min((f for f in positions if f[0] >= 0), default=(0, 0, None))[2]


def _change_in(text: str, diagnosis: Diagnosis) -> str | None:
    """The change that the text names by its id or the id's beginning."""
    words = {word.strip(".,;:()\"'").casefold() for word in text.split()}
    changes = changes_named(diagnosis.findings)
    for change in sorted(changes):
        low = change.casefold()
        if low in words or any(len(w) >= SHORTEST_CHANGE and low.startswith(w) for w in words):
            return change
    return None
