"""The alert that always fires, by which a monitoring shows that it works: heard, never
investigated.

Prometheus calls it Watchdog (https://runbooks.prometheus-operator.dev/runbooks/general/watchdog/).
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from faultline.bot.policy.values import Arrival
from faultline.bot.settings import Settings

SOURCE = "alertmanager"


class Watchdog:
    """Of one web process; `note_firing` is called for what others heard, too."""

    def __init__(self, settings: Settings) -> None:
        self._name = settings.heartbeat.watchdog_alert
        self._missing_after = timedelta(minutes=settings.heartbeat.watchdog_minutes)
        self._fired_at: datetime | None = None
        self._saved_at: datetime | None = None

    def without(self, arrivals: Sequence[Arrival], now: datetime) -> list[Arrival]:
        """The alerts without the one that always fires; that is noted."""
        other_arrivals: list[Arrival] = []
        for arrival in arrivals:
            if not self._is(arrival):
                other_arrivals.append(arrival)
            # Its end arrives as well, but then it is no longer firing.
            elif arrival.alert.status != "resolved":
                self.note_firing(now)
        return other_arrivals

    def _is(self, arrival: Arrival) -> bool:
        alert = arrival.alert
        name = alert.labels.get("alertname")
        return bool(self._name) and alert.source == SOURCE and name == self._name

    def note_firing(self, at: datetime) -> None:
        """It was heard, here or by another process."""
        self._fired_at = max(at, self._fired_at or at)

    def unsaved(self) -> datetime | None:
        """When it was heard last, where that is not saved yet."""
        return self._fired_at if self._fired_at != self._saved_at else None

    def saved(self, at: datetime) -> None:
        """What was heard until then is in the database."""
        self._saved_at = at

    def silent_s(self, now: datetime | None = None) -> float | None:
        """Seconds since it was heard; None where it never was."""
        if self._fired_at is None:
            return None
        return max(0.0, ((now or datetime.now(UTC)) - self._fired_at).total_seconds())

    def missing(self, now: datetime | None = None) -> str | None:
        """That it is missing, in words."""
        silent = self.silent_s(now)
        return None if silent is None else missing_after(silent, self._missing_after, self._name)


def missing_after(silent_s: float, limit: timedelta, name: str) -> str | None:
    """That the alert of that name is missing, in words; None within the limit."""
    if silent_s <= limit.total_seconds():
        return None
    return f"{name} has not arrived from Alertmanager for {silent_s / 60:.0f} min"
