"""What one connector may take: time, bytes, rows, requests."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pydantic import Field

from faultline.connectors.shared.settings.settings_types import Section


@dataclass(frozen=True)
class Limits:
    """What one connector may take for one investigation."""

    deadline_s: float = 20.0
    max_bytes: int = 32 * 1024 * 1024
    max_rows: int = 500_000
    requests_per_s: float = 10.0
    concurrency: int = 4


class ConnectorSettings(Section):
    """The keys that the sections of all connectors have."""

    deadline_s: float | None = Field(default=None, ge=2, le=600)
    """Seconds it may collect for one investigation. Unset: as on the connector's page."""
    max_mb: float | None = Field(default=None, gt=0, le=65_536)
    """MiB it may read for one investigation. Unset: as on the connector's page."""

    def limits(self, usual: Limits) -> Limits:
        """The connector's usual limits with what the settings say."""
        if self.deadline_s is not None:
            usual = replace(usual, deadline_s=self.deadline_s)
        if self.max_mb is not None:
            usual = replace(usual, max_bytes=round(self.max_mb * 1024 * 1024))
        return usual
