"""Alerts that may be of one incident are accepted one after the other, whichever host takes them;
all others side by side.

On PostgreSQL, by advisory locks of the accepting transaction: one for the alert itself, without
which it is not accepted, and those of what it is about, so that related alerts see each other. A
host that is lost inside its transaction keeps its locks until the server ends its session
(`faultline.bot.store.waits`). Until then alerts it had in hand are refused, and others that are
about the same are accepted without seeing them: at worst, one more investigation. SQLite takes its
one lock for each transaction that writes.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import text
from sqlalchemy.orm import Session

from faultline.analysis.errors import FaultlineError
from faultline.bot.policy.admission import Policy
from faultline.bot.policy.relation import keys_of, sought_keys
from faultline.bot.policy.values import Arrival
from faultline.bot.store.admitting import is_on_request

WAIT_S = 1.0
"""Transactions that accept alerts take some ms; one that takes this long is not waited for."""
REMEMBERED_S = 5.0
"""How long a lock that timed out is only tried and not waited for."""
PAUSES_S = (0.002, 0.005, 0.01, 0.02, 0.04)
BUCKETS = 512
"""Locks of what alerts are about, in all: PostgreSQL has room for 64 of each connection
(`max_locks_per_transaction`), and a batch of alerts may be about thousands of things."""
TRY = text(
    "SELECT set_config('lock_timeout', :wait, true), l.key, CASE WHEN l.alone"
    " THEN pg_try_advisory_xact_lock(l.key) ELSE pg_try_advisory_xact_lock_shared(l.key) END AS got"
    " FROM unnest(CAST(:keys AS bigint[]), CAST(:alone AS boolean[])) AS l (key, alone)"
)


class IncidentBusy(FaultlineError):
    """Another host has alerts of the same incident in hand, and does not end. `blocked` are the
    places of the refused alerts in their sequence; the others can be accepted without them."""

    def __init__(self, blocked: Iterable[int]) -> None:
        self.blocked = frozenset(blocked)
        super().__init__("another host has alerts of the same incident in hand; try again")


@dataclass(frozen=True)
class IncidentLocks:
    """The locks for a sequence of alerts. `alert_keys` are those of each alert; `about` says of
    each of the others whether nobody else may share it."""

    alert_keys: tuple[int, ...]
    about: dict[int, bool]

    def try_all(self, session: Session) -> set[int]:
        """Take the free locks until the transaction ends, and return the busy ones. From here on
        the transaction waits for rows no longer than WAIT_S."""
        # An alert's own lock is never shared.
        alone = self.about | dict.fromkeys(self.alert_keys, True)
        parameters = {"keys": list(alone), "alone": list(alone.values())}
        execute = session.execute(TRY, parameters | {"wait": f"{WAIT_S * 1000:.0f}"})
        return {key for _, key, got in execute if not got}

    def refused(self, busy: set[int]) -> list[int]:
        """Places of the alerts whose own locks are busy."""
        return [place for place, key in enumerate(self.alert_keys) if key in busy]


def locks_of(arrivals: Sequence[Arrival], policy: Policy) -> IncidentLocks:
    """The locks for alerts that are accepted together."""
    about: dict[int, bool] = {}
    for arrival in arrivals:
        alone, shared = _about(arrival, policy)
        about |= dict.fromkeys(map(_bucket, alone), True)
        # `setdefault`: a key that one of the alerts is about stays exclusive.
        for key in map(_bucket, shared):
            about.setdefault(key, False)
    return IncidentLocks(tuple(_number(arrival.alert.fingerprint) for arrival in arrivals), about)


def _about(arrival: Arrival, policy: Policy) -> tuple[list[str], list[str]]:
    """What the alert is about, and what alerts related to it may be about."""
    # Requests and resolutions join nothing by what they are about.
    if is_on_request(arrival) or arrival.alert.status == "resolved":
        return [], []
    channel = policy.channel(arrival)
    alone = [f"channel:{channel}"] if policy.per_hour(channel) is not None else []
    if policy.groups == "off":
        return alone, []
    traits = policy.traits(arrival.alert)
    trait_keys = keys_of(traits, policy.topology)
    return [*alone, *trait_keys], [
        key for key in sought_keys(traits, policy.topology) if key not in trait_keys
    ]


class Patience:
    """How long a store waits for locks: not again for one that has just timed out."""

    def __init__(self) -> None:
        self._in_vain: dict[int, float] = {}

    def until(self, locks: IncidentLocks) -> float:
        """The time, of `time.monotonic`, at which the wait ends."""
        now = time.monotonic()
        timeouts = self._in_vain
        if timeouts and any(
            timeouts.get(key, 0.0) > now for key in (*locks.alert_keys, *locks.about)
        ):
            return now
        return now + WAIT_S

    def ended(self, busy: set[int]) -> None:
        """These timed out."""
        now = time.monotonic()
        # Forget those that are over, so that the table does not grow.
        remaining = {key: until for key, until in self._in_vain.items() if until > now}
        self._in_vain = remaining | dict.fromkeys(busy, now + REMEMBERED_S)


def _number(name: str) -> int:
    # An advisory lock of one key takes a signed 64-bit integer.
    digest = hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def _bucket(key: str) -> int:
    return _number(f"about {_number(key) % BUCKETS}")
