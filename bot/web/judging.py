"""The form under an answer: was this right? And the key that shows that it was sent from our own page.

A login's cookie is not sent along with forms of other sites; without an access token there is no cookie, and any page
in a browser on this machine could send a form here. What it cannot do is read our page, so it does not know the key.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass

from analysis.earlier import MIN_JUDGED
from bot.store.labels import MAX_CAUSE, MAX_WHO, Label, Record
from bot.web.access import same

MAX_FIELDS = 6
MAX_FIELD_BYTES = 16_384


@dataclass(frozen=True)
class Judging:
    """What the page shows of judgements: the one that holds, the record at this confidence, and the form's key."""

    label: Label | None
    record: Record
    key: str
    answered: bool
    """Whether there is an answer to judge."""

    @property
    def tells_record(self) -> bool:
        """Whether enough answers were judged."""
        return self.record.of >= MIN_JUDGED


@dataclass(frozen=True)
class Judgement:
    """A form that was filled in."""

    right: bool
    cause: str
    who: str


def form_key(secret: str, investigation_id: str) -> str:
    """The key of one investigation's form."""
    return hmac.new(secret.encode(), f"faultline judging {investigation_id}".encode(), hashlib.sha256).hexdigest()


def read_judgement(form: Mapping[str, object], secret: str, investigation_id: str) -> Judgement | str:
    """The judgement, or what is wrong with the form in one line."""
    given = {name: value for name, value in form.items() if isinstance(value, str)}
    if not same(given.get("key", ""), form_key(secret, investigation_id)):
        return (
            "This form is too old, or did not come from this page. Open the investigation again and send it from there."
        )
    if given.get("right") not in ("yes", "no"):
        return "Say whether the answer was right: yes or no."
    return Judgement(given["right"] == "yes", given.get("cause", "")[:MAX_CAUSE], given.get("who", "")[:MAX_WHO])
