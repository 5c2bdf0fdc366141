"""The values that the store takes and gives: alerts as they come in, investigations, progress,
posts, deploys that are to be watched."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Literal

from pydantic import Field

from faultline.analysis.deploys.question import SHORTEST, Look, looks_left, looks_of
from faultline.analysis.errors import SettingsError
from faultline.analysis.kinds.signals import PART_LABELS
from faultline.analysis.secrets.redaction import masked, masked_model
from faultline.analysis.vocabulary import Alert, Frozen, UtcTime
from faultline.bot.policy.priority import USUAL

Status = Literal["accepted", "running", "done", "failed", "joined"]
"""`joined`: it became a part of another investigation before it had an answer."""
ENDED: tuple[Status, ...] = ("done", "failed", "joined")
Outcome = Literal[
    "started",
    "joined",
    "grouped",
    "duplicate",
    "resolved",
    "muted",
    "excluded",
    "surplus",
    "spooled",
]
"""`joined`: a repeat of an open alert; `grouped`: another alert of an incident that is investigated
already; `muted`, `excluded` by a rule and `surplus` over a channel's rate: recorded, not
investigated; `spooled`: in the host's spool, and classified once the database takes it."""


@dataclass(frozen=True)
class Delivery:
    """Identity of one delivery: the vendor and its id for it.

    `at`: the vendor's own time of what it tells, by which the beginning and the end of one alert
    are put in order; `occurrence`: which occurrence of the alert it is, where the vendor reports
    the same one again and again."""

    source: str
    id: str
    at: datetime | None = None
    occurrence: str | None = None


@dataclass(frozen=True)
class ReplyTo:
    """Where an investigation's answer goes, as the alert itself says."""

    slack_channel: str | None = None
    slack_thread: str | None = None
    pagerduty_incident: str | None = None
    other_addresses: Mapping[str, str] = field(default_factory=dict)
    """Addresses at other reply targets: the target's name to what it alone understands."""


_NAMES = ("source", "id", "status")
"""Fields of an alert by which the bot itself knows it."""


def masked_alert(alert: Alert) -> Alert:
    """The alert with the secrets in it masked. An id that is one becomes another id, which is the
    same for each repeat."""
    clean = masked_model(alert, keep=_NAMES)
    labels = {name: alert.labels[name] for name in _IDENTITIES if name in alert.labels}
    # These labels tell alerts apart: one mask for all of them would make them one.
    identities = {name: _identity(value) for name, value in labels.items()}
    if any(clean.labels.get(name) != value for name, value in identities.items()):
        clean = clean.model_copy(update={"labels": {**clean.labels, **identities}})
    identity = _identity(alert.id)
    return clean if identity == alert.id else clean.model_copy(update={"id": identity})


_IDENTITIES = ("fingerprint", "incident_key")
_clean: dict[int, Alert] = {}
"""Alerts that were masked, by their identity. On its way into the store an alert is in several
arrivals, each of which sees to it."""
MOST_CLEAN = 256


def _identity(value: str) -> str:
    if masked(value) == value:
        return value
    return "masked-" + hashlib.sha256(value.encode("utf-8", "replace")).hexdigest()[:16]


@dataclass(frozen=True)
class Arrival:
    """One alert as it came in."""

    alert: Alert
    delivery: Delivery | None = None
    reply_to: ReplyTo = ReplyTo()
    question: str | None = None
    by_person: bool = False
    """Somebody asked for it: no mute, rule or rate holds it back, and it joins no other
    investigation."""
    priority_words: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """Severities of its alert source, beside those of `faultline.bot.policy.priority`."""

    def __post_init__(self) -> None:
        """No part of an alert is stored before the secrets in it are masked."""
        alert = self.alert
        # Ids are reused: only the very same object counts.
        if _clean.get(id(alert)) is alert:
            masked_once = alert
        else:
            clean = masked_alert(alert)
            if len(_clean) >= MOST_CLEAN:
                _clean.clear()
            _clean[id(clean)] = clean
            masked_once = clean
        # The dataclass is frozen.
        object.__setattr__(self, "alert", masked_once)
        if self.question is not None:
            object.__setattr__(self, "question", masked(self.question))


@dataclass(frozen=True)
class Accepted:
    """How an alert was classified."""

    outcome: Outcome
    investigation_id: str | None


@dataclass(frozen=True)
class GroupedAlert:
    """An alert that joined the investigation of another, and why, in a few words."""

    alert: Alert
    fingerprint: str
    at: datetime
    why: str
    repeats: int = 0
    resolved_at: datetime | None = None


@dataclass(frozen=True)
class StoredInvestigation:
    """One investigation as the rest of the bot sees it."""

    id: str
    alert: Alert
    question: str | None
    status: Status
    repeats: int
    reply_to: ReplyTo
    accepted_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    resolved_at: datetime | None
    verdict: str | None
    confidence: float | None
    headline: str | None
    culprit: str | None = None
    """The subject that the answer blames, as it is named there."""
    explained: bool | None = None
    """Whether the answer says why it is in trouble, not only where; unknown of older answers."""
    related: tuple[GroupedAlert, ...] = ()
    """Alerts of the same incident that joined it, in the order in which they came."""
    quiet_until: datetime | None = None
    """It arrived in quiet hours: its channel gets a digest when they end, and nothing before."""
    rate_limited: int = 0
    """Alerts that came to its channel after it and were not investigated: the channel's rate was
    used up."""
    runs: int = 0
    """How often it was run again because its alerts grew beyond its services."""
    team: str = ""
    """Whose it is, by the settings when its alert came; "" where it belongs to no team."""
    priority: int = USUAL
    """As in `faultline.bot.policy.priority`: 0 urgent, 1 high, 2 usual, 3 low."""
    joined_id: str | None = None
    """The investigation that it became a part of."""


@dataclass(frozen=True)
class Progress:
    """One line of live progress; `seq` grows."""

    seq: int
    at: datetime
    stage: str
    text: str


@dataclass(frozen=True)
class PostClaim:
    """The right to post under a key. `ref` is set when it was posted before; `attempted_before`
    when someone tried."""

    mine: bool
    ref: str | None = None
    attempted_before: datetime | None = None


WAIT, WARM_UP, BASELINE = timedelta(minutes=15), timedelta(minutes=2), timedelta(hours=6)
LONGEST_WAIT, LONGEST_BASELINE = timedelta(hours=24), timedelta(days=7)
SETTLES = timedelta(seconds=20)
"""After a look's end, until its last points can be read: a scrape and the store behind it."""
OLDEST = timedelta(days=3_660)
SHORT = timedelta(minutes=1)


class DeployToCheck(Frozen):
    """One deploy, and how it is looked at."""

    service: str
    deployed_at: UtcTime
    wait: timedelta = WAIT
    warm_up: timedelta = WARM_UP
    baseline: timedelta = BASELINE
    parts: Mapping[str, str] = Field(default_factory=dict)
    """The parts that got the deploy, by kind."""
    places: Mapping[str, str] = Field(default_factory=dict)
    """Where it is, by label: only sources that cover it are asked."""

    def checked(self, now: datetime) -> DeployToCheck:
        """Itself. Raises SettingsError for what cannot be judged."""
        # A pipeline's clock may be slightly ahead.
        if self.deployed_at > now + SHORT:
            raise SettingsError("since", "lies in the future")
        if self.deployed_at < now - OLDEST:
            raise SettingsError("since", "lies more than ten years back")
        if not self.warm_up + SHORTEST <= self.wait <= LONGEST_WAIT:
            raise SettingsError(
                "wait", "must be at least 2 minutes longer than warm-up, and at most 24h"
            )
        for kind in self.parts:
            if kind not in PART_LABELS:
                text = ", ".join(PART_LABELS)
                raise SettingsError("canary", f"{kind[:40]!r} is none of {text}")
        if not 2 * self.wait <= self.baseline <= LONGEST_BASELINE:
            raise SettingsError("baseline", "must be at least twice as long as wait, at most 7d")
        return self

    def looks(self, now: datetime, done: int = 0) -> tuple[Look, ...]:
        """The looks that are left at `now` after the first `done`. The first of them may be due."""
        every = looks_of(self.deployed_at, self.wait, self.warm_up)
        return looks_left(every[done:], now - SETTLES)


def due_at(look: Look) -> datetime:
    """When a look can be taken."""
    return look.end + SETTLES
