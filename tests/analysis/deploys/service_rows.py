"""Rows of one simulated service, for the tests of deploys."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from faultline.analysis.case.folder import Case
from faultline.analysis.deploys.question import DeployQuestion, Look
from faultline.analysis.deploys.verdict import DeployVerdict, SignalCheck
from faultline.analysis.deploys.verifying import judge_deploy
from tests.analysis.cases import write_case

DEPLOYED = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
FIRST, LAST = timedelta(hours=-6), timedelta(minutes=15)
LOOK = Look(1, 1, DEPLOYED + timedelta(minutes=2), DEPLOYED + LAST, 1.0)
STEP_S = 60


@dataclass(frozen=True)
class Service:
    """How a service does before the deploy and after it."""

    failing: tuple[float, float] = (0.004, 0.004)
    latency_ms: tuple[float, float] = (80.0, 80.0)
    per_second: float = 40.0
    seed: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    since: timedelta = FIRST
    until: timedelta = LAST
    name: str = "checkout"

    def rows(self) -> list[dict[str, Any]]:
        """Its metrics, a point a minute."""
        rng, found = np.random.default_rng(self.seed), []
        for at in range(int(self.since.total_seconds()), int(self.until.total_seconds()), STEP_S):
            late = at >= 0
            requests = int(rng.poisson(self.per_second * STEP_S))
            failed = int(rng.binomial(requests, self.failing[late])) if requests else 0
            noise = float(np.exp(rng.normal(0, 0.08)))
            values = {
                ("request_rate", "1/s"): requests / STEP_S,
                ("error_ratio", "ratio"): failed / requests if requests else 0.0,
                ("latency_p99", "ms"): self.latency_ms[late] * noise,
            }
            time = (DEPLOYED + timedelta(seconds=at)).isoformat()
            labels = json.dumps(self.labels) if self.labels else None
            for (signal, unit), value in values.items():
                row = {"time": time, "service": self.name, "signal": signal, "value": value}
                found.append({**row, "unit": unit, "labels": labels})
        return found


def case_of(
    folder: Path,
    services: Iterable[Service],
    more: Sequence[dict[str, Any]] = (),
    logs: Sequence[dict[str, Any]] = (),
) -> Case:
    rows = [row for one in services for row in one.rows()]
    return write_case(folder / "case", metrics=[*rows, *more], logs=logs)


def judged(case: Case, look: Look = LOOK, **parts: str) -> DeployVerdict:
    return judge_deploy(case, DeployQuestion("checkout", DEPLOYED, look, parts))


def check_of(verdict: DeployVerdict, signal: str, comparison: str = "before") -> SignalCheck:
    return next(
        one for one in verdict.checks if (one.signal, one.comparison) == (signal, comparison)
    )
