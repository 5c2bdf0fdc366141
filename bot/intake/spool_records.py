"""One alert as a line of the spool: a checksum, a blank, the alert as JSON, the end of the line.

A line whose checksum does not fit was torn by a crash, or damaged by the disk. JSON escapes
whatever is not ASCII, so that a line holds no other end of line.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from faultline.analysis.vocabulary import Alert
from faultline.bot.policy.values import Arrival, Delivery, ReplyTo
from faultline.bot.store.admitting import arrival_priority


@dataclass(frozen=True)
class TakenAlert:
    """An alert, and when it was taken."""

    arrival: Arrival
    taken_at: datetime

    @property
    def priority(self) -> int:
        """As in `faultline.bot.policy.priority`."""
        return arrival_priority(self.arrival)


def encode(taken: TakenAlert) -> bytes:
    """The line, with its end."""
    arrival = taken.arrival
    reply_to = asdict(arrival.reply_to)
    # Earlier releases read them under this name.
    reply_to["others"] = reply_to.pop("other_addresses")
    record = {
        "taken_at": taken.taken_at.isoformat(),
        "alert": arrival.alert.model_dump(mode="json"),
        "delivery": _delivery(arrival.delivery),
        "reply_to": reply_to,
        "question": arrival.question,
        "by_person": arrival.by_person,
        "priority_words": dict(arrival.priority_words),
    }
    text = json.dumps(record, separators=(",", ":")).encode("ascii")
    return b"%08x %s\n" % (zlib.crc32(text), text)


def decode(line: bytes) -> TakenAlert | None:
    """The alert of a whole line; None for one that was torn, damaged, or is not ours."""
    checksum, _, rest = line.partition(b" ")
    text = rest.removesuffix(b"\n")
    # Without its end of line it is torn, even where the checksum fits.
    if rest == text or checksum != b"%08x" % zlib.crc32(text):
        return None
    try:
        record = json.loads(text)
        reply_to = record["reply_to"]
        reply_to["other_addresses"] = reply_to.pop("others")
        arrival = Arrival(
            alert=Alert.model_validate(record["alert"]),
            delivery=_delivery_of(record["delivery"]),
            reply_to=ReplyTo(**reply_to),
            question=record["question"],
            by_person=record["by_person"],
            priority_words=record["priority_words"],
        )
        return TakenAlert(arrival, datetime.fromisoformat(record["taken_at"]))
    except (LookupError, TypeError, ValueError):  # another release wrote it
        return None


def _delivery(delivery: Delivery | None) -> dict[str, Any] | None:
    if delivery is None:
        return None
    return {**asdict(delivery), "at": delivery.at.isoformat() if delivery.at else None}


def _delivery_of(record: dict[str, Any] | None) -> Delivery | None:
    if record is None:
        return None
    at = datetime.fromisoformat(record["at"]) if record["at"] else None
    return Delivery(record["source"], record["id"], at, record["occurrence"])
