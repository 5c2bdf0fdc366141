"""`label.json`: the truth about a case. No investigation reads it; grading does."""

from __future__ import annotations

import json
import re
from pathlib import Path

from pydantic import ValidationError

from faultline.analysis.case.files import MAX_JSON_BYTES, check_regular, is_there
from faultline.analysis.errors import EvidenceError
from faultline.analysis.vocabulary import Frozen, Verdict

NO_CHANGE = "none"
"""The culprit change of a case in which no change is to blame."""
_SYSTEM = re.compile(r"(.+?)(?:[-_. ]\d+(?=[-_. ]|$)|(?<=[^\d])\d+$)")


class CaseLabel(Frozen):
    """What is known of a case; whatever is absent is not graded. `decoys` are changes that are not
    to blame."""

    subject: str | None = None
    fault: str | None = None
    change: str | None = None
    decoys: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    """Services from the one that alerts down to the subject, along calls."""
    verdict: Verdict | None = None

    @property
    def gradable(self) -> bool:
        """Whether it says anything that an answer can be held against."""
        return any((self.subject, self.change, self.verdict))

    @property
    def fault_class(self) -> str:
        """The fault, in the label's own word, else whether a change is to blame."""
        if self.fault:
            return self.fault
        if not self.change:
            return "unnamed"
        return "no change" if self.change == NO_CHANGE else "a change"


def read_label(folder: Path) -> CaseLabel | None:
    """The case's label; None when it has none. Raises EvidenceError when it cannot be read."""
    file = folder / "label.json"
    if not is_there(file):
        return None
    # A foreign folder may hold a pipe or a huge file in its place.
    check_regular(file, MAX_JSON_BYTES)
    try:
        return CaseLabel.model_validate(json.loads(file.read_bytes()))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise EvidenceError(file.name, f"{place}: {first['msg']}") from error
    except (ValueError, OSError, RecursionError) as error:
        raise EvidenceError(file.name, f"is not readable JSON ({error})") from error


def system_of(name: str) -> str:
    """The folder's name up to its number: "train-ticket-07" is of "train-ticket"; all of it without
    a number."""
    match = _SYSTEM.match(name)
    return match[1] if match else name
