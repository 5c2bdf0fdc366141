"""Windows of the traces around the events that diagnoses point to, embedded in the page for Perfetto.

The page hands a window to https://ui.perfetto.dev by postMessage after a click; nothing is uploaded.
https://perfetto.dev/docs/visualization/deep-linking-to-perfetto-ui
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from analysis.traces.doctor.diagnosis import EventReference

MAX_WINDOW_BYTES = 400_000
MAX_BYTES = 1_500_000
"""Of all windows together, packed; base64 makes them a third longer."""


@dataclass(frozen=True)
class Windows:
    """Embedded windows, and which event has which."""

    embedded: Mapping[str, str] = field(default_factory=dict)
    """Id -> JSON string of base64 of gzip of Chrome JSON."""
    by_event: Mapping[tuple[str, int], str] = field(default_factory=dict)

    def of(self, event: EventReference) -> str:
        """The id of the event's window; "" where there is none."""
        return self.by_event.get((event.file, event.event), "")
