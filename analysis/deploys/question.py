"""What is asked about a deploy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from faultline.analysis.deploys.looks import Look


@dataclass(frozen=True)
class DeployQuestion:
    """One deploy, and the look at it."""

    service: str
    deployed_at: datetime
    look: Look
    parts: Mapping[str, str] = field(default_factory=dict)
    """The parts that got the deploy, by kind: `{"cluster": "eu-1"}`. Unset: whatever is new."""
