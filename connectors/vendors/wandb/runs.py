"""What wandb alone answers about runs: the keys of their histories, and rows of system metrics.

Fields and queries: wandb 0.31.0, wandb/apis/public/runs.py and history.py (the range of steps in a
sample's specification: wandb/apis/public/history.py at 05d7f97).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from faultline.connectors.shared.training.training_runs import TrainingRun, measure_keys


class WandbRun(TrainingRun):
    """A run as the queries ask for it."""

    historyKeys: Any = None


def history_keys(run: WandbRun) -> list[str]:
    """The keys that are brought, those that are known to mean something; the plainest name of each
    measure first."""
    keys = run.historyKeys.get("keys") if isinstance(run.historyKeys, dict) else None
    if not isinstance(keys, dict):
        return []
    return measure_keys(keys)


def last_step(run: WandbRun) -> int:
    """The last step of the history; -1 where there is none."""
    step = run.historyKeys.get("lastStep") if isinstance(run.historyKeys, dict) else None
    return step if isinstance(step, int) and 0 <= step < 2**53 else -1


def event_rows(lines: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Rows of system metrics: each comes as a text that holds JSON."""
    for line in lines:
        try:
            row = json.loads(line) if isinstance(line, str) else line
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            yield row
