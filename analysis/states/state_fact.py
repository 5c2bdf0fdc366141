"""One row of the table `states`, or what log lines say of an object in its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from faultline.analysis.kinds.state_fault import StateFault


@dataclass(frozen=True)
class StateFact:
    """One row of the table `states`, of a fact that is known."""

    fault: StateFault
    kind: str
    name: str
    namespace: str
    service: str | None
    place: str | None
    field: str
    value: str
    expected: str
    since: datetime | None
    query: str
    restored_by: str

    @property
    def object(self) -> str:
        """For humans: "Service shop/cart"."""
        if not self.namespace:
            return f"{self.kind} {self.name}"
        return f"{self.kind} {self.namespace}/{self.name}"
