"""The form under an answer: was this right?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from faultline.analysis.case.earlier import is_telling
from faultline.bot.store.listing import MAX_CAUSE, MAX_WHO, AnswerLabel, Record

MAX_FIELDS = 6
MAX_FIELD_BYTES = 16_384


@dataclass(frozen=True)
class Judging:
    """What the page shows of judgements: the one that holds and the record at this confidence."""

    label: AnswerLabel | None
    record: Record
    answered: bool
    """Whether there is an answer to judge."""

    @property
    def tells_record(self) -> bool:
        """Whether enough answers were judged."""
        return is_telling(self.record.of)


@dataclass(frozen=True)
class Judgement:
    """A form that was filled in."""

    right: bool
    cause: str
    who: str


def read_judgement(form: Mapping[str, object]) -> Judgement | str:
    """The judgement, or what is wrong with the form in one line."""
    values = {name: value for name, value in form.items() if isinstance(value, str)}
    if values.get("right") not in ("yes", "no"):
        return "Say whether the answer was right: yes or no."
    return Judgement(
        values["right"] == "yes",
        values.get("cause", "")[:MAX_CAUSE],
        values.get("who", "")[:MAX_WHO],
    )
