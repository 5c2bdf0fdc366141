"""Settings of what is kept, and for how long."""

from __future__ import annotations

from pydantic import Field

from faultline.connectors.shared.settings.settings_types import Section

LONGEST_DAYS = 36_500


class RetentionSettings(Section):
    """When data is deleted, in days. 0 keeps it forever. What runs, waits or is open stays:
    docs/operating.md."""

    investigations_days: float = Field(default=400, ge=0, le=LONGEST_DAYS)
    """Finished investigations, with their progress, posts, feedback, memory, conversation and case
    folder."""
    cases_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Case folders, which hold the evidence: log lines, metrics, spans. The answer's headline
    stays."""
    conversations_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Questions in Slack, and their answers."""
    progress_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Progress lines."""
    deliveries_days: float = Field(default=400, ge=400, le=LONGEST_DAYS)
    """Ids of webhooks, which identify repeated deliveries and replayed requests."""
    changes_days: float = Field(default=90, ge=1, le=LONGEST_DAYS)
    """Changes reported to `/changes`."""
    calls_days: float = Field(default=90, ge=1, le=LONGEST_DAYS)
    """Calls between services, counted from when they were last seen."""
    engine_days: float = Field(default=14, ge=1, le=LONGEST_DAYS)
    """The engine's records of finished workflows, for `faultline doctor`."""
    sweep_minutes: float = Field(default=60, ge=1, le=1_440)
    """How often the workers look for data to delete, one worker at a time."""
