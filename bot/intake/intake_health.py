"""Whether alerts get into the database, by when it last took a write and by what waits."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from faultline.bot.intake.spool import Spool

NOT_STORED_S = 10.0
"""An alert is stored within milliseconds, or moved within a second or two of the database's
return. One that waits longer finds a database that takes no writes."""
SILENT_S = 30.0
"""Where no alert comes, a write is tried every `moving.PROBE_EVERY_S`: this is two that failed."""
HUNG_S = 60.0
"""After this a restart is tried. Longer than a failover of a managed database takes as a rule, so
that this alone restarts nothing."""
RESTARTED = "restarted"
"""The file that says that a restart was tried since the database last took a write."""


class IntakeHealth:
    """Of one web process. Never waits for the database or the disk, but for what says so."""

    def __init__(
        self,
        spool: Spool,
        *,
        survives_restart: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`survives_restart` is whether the spool is still there after a restart."""
        self.spool = spool
        self._survives_restart = survives_restart
        self._clock = clock
        self._written_at = clock()
        self._marker: Path = spool.directory / RESTARTED
        self._restarted_before = self._marker.exists()

    def written(self) -> None:
        """The database took a write just now."""
        self._written_at = self._clock()

    def silent_s(self) -> float:
        """Seconds since the database last took a write, or since the start."""
        return self._clock() - self._written_at

    def not_stored_s(self) -> float:
        """How long the oldest alert has waited that was taken and is not in the database."""
        oldest = self.spool.figures().oldest_at
        if oldest is None:
            return 0.0
        # Not negative, even when the clock was set back.
        return max(0.0, (datetime.now(UTC) - oldest).total_seconds())

    def not_storing(self) -> str | None:
        """Why no alert sent here would be in the database soon, in words that anybody may read."""
        waits, silent = self.not_stored_s(), self.silent_s()
        if waits > NOT_STORED_S:
            return f"the oldest alert that is not stored has waited {waits:.0f} s"
        if silent > SILENT_S:
            return f"the store took no write for {silent:.0f} s"
        return None

    def not_taking(self) -> str | None:
        """Why an alert sent here would be answered 503."""
        not_storing = self.not_storing()
        figures = self.spool.figures()
        full = figures.alerts >= self.spool.max_alerts or figures.bytes >= self.spool.max_bytes
        return not_storing if figures.problem or full else None

    def hung(self) -> str | None:
        """Why this process should be started again: alerts wait, nothing could be written, and that
        was not tried yet in this outage."""
        # A restart would lose what waits, or has not helped in this outage.
        if not self._survives_restart or self._restarted_before:
            return None
        waits, silent = self.not_stored_s(), self.silent_s()
        if waits <= HUNG_S or silent <= HUNG_S:
            return None
        return f"alerts have waited {waits:.0f} s and nothing could be written for {silent:.0f} s"

    def note_restart(self) -> None:
        """So that the next process does not ask for a restart in the same outage. May wait for the
        disk; raises OSError."""
        self._marker.touch(mode=0o600)

    def end_outage(self) -> None:
        """The database takes writes: in the next outage a restart may help. May wait for the
        disk; raises OSError."""
        if self._restarted_before and self.silent_s() < NOT_STORED_S:
            self._marker.unlink(missing_ok=True)
            self._restarted_before = False
