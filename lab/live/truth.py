"""The truth about an incident: sealed before it begins, shown when the answer is there."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass, field

from faultline.lab.shop.faults import NO_CHANGE, ShopIncident


@dataclass(frozen=True)
class LiveTruth:
    """What was done to the shop."""

    seed: int
    fault: str
    title: str
    subject: str
    """The culprit; empty where nothing is wrong."""
    accepts: tuple[str, ...]
    """Other names for it."""
    kinds: tuple[str, ...]
    """Kinds of cause that show that the fault was seen."""
    guilty: bool
    """Whether a change did it."""
    nonce: str = field(default_factory=lambda: secrets.token_hex(8))
    """Nobody can find the truth from its seal by trying."""

    @classmethod
    def of(cls, incident: ShopIncident) -> LiveTruth:
        """Of an incident that has been drawn."""
        fault = incident.fault
        subject = "" if fault.calm else incident.target
        return cls(
            seed=incident.seed,
            fault=fault.name,
            title=fault.title,
            subject=subject,
            accepts=(subject, *fault.accepts),
            kinds=fault.kinds,
            guilty=fault.changed is not None,
        )

    @property
    def seal(self) -> str:
        """Published before the incident: whoever has the truth later can check it."""
        # Sorted keys give the same bytes, and so the same seal, wherever it is checked.
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def label(self, change: str, decoys: tuple[str, ...]) -> dict[str, object]:
        """label.json, as `faultline eval` reads it."""
        label: dict[str, object] = {
            "fault": self.fault,
            "change": change or NO_CHANGE,
            "decoys": list(decoys),
            "verdict": "cause_found" if self.subject else "no_active_incident",
        }
        if self.subject:
            label["subject"] = self.subject
        return label
