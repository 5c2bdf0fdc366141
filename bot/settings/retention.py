"""Settings of what is kept, and for how long."""

from __future__ import annotations

from pydantic import Field

from connectors.settings_types import Section

LONGEST_DAYS = 36_500


class RetentionSettings(Section):
    """What is deleted when, in days; 0 keeps it forever. What runs, waits or is open stays:
    docs/operating.md."""

    investigations_days: float = Field(default=400, ge=0, le=LONGEST_DAYS)
    """An investigation that ended goes with all that hangs on it: progress, posts, judgement, what
    is remembered of it for later ones, its conversation and its case folder."""
    cases_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Its case folder, which holds the evidence: log lines, metrics, spans. The answer's headline
    stays."""
    conversations_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Questions that were asked in Slack, and what was answered."""
    progress_days: float = Field(default=90, ge=0, le=LONGEST_DAYS)
    """Its lines of progress."""
    deliveries_days: float = Field(default=400, ge=400, le=LONGEST_DAYS)
    """Ids of webhooks, by which a second delivery is known as one, and a request that was recorded
    and sent again."""
    changes_days: float = Field(default=90, ge=1, le=LONGEST_DAYS)
    """Changes that were reported to `/changes`."""
    calls_days: float = Field(default=90, ge=1, le=LONGEST_DAYS)
    """Calls between services, counted from when they were last seen."""
    engine_days: float = Field(default=14, ge=1, le=LONGEST_DAYS)
    """What the engine keeps of workflows that ended, for `faultline doctor`."""
    sweep_minutes: float = Field(default=60, ge=1, le=1_440)
    """How often the workers look for what is to be deleted; one of them at a time."""
