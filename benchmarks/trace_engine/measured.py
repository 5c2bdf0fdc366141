"""What one child process measured: CPU seconds (its own children's too), as JSON on standard
output."""

from __future__ import annotations

import json
import resource
import sys
from collections.abc import Callable
from typing import Any


def cpu_seconds() -> float:
    """User and system time of this process and of its finished children."""
    getrusage, children = (
        resource.getrusage(resource.RUSAGE_SELF),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    return getrusage.ru_utime + getrusage.ru_stime + children.ru_utime + children.ru_stime


class Measured:
    """Figures under their names; one that fails is an error under its name."""

    def __init__(self) -> None:
        self.figures: dict[str, float | str] = {}

    def time(self, name: str, call: Callable[[], Any]) -> Any:
        """Run once; keep the smaller figure where the name was measured before."""
        began = cpu_seconds()
        try:
            result = call()
        except Exception as error:  # noqa: BLE001  whatever the analysis raises is its figure
            self.figures[name] = f"fails: {type(error).__name__}: {str(error)[:100]}"
            return None
        took = cpu_seconds() - began
        before = self.figures.get(name)
        self.figures[name] = min(before, took) if isinstance(before, float) else took
        return result

    def send(self) -> None:
        """Print all figures as the last line."""
        sys.stdout.write("\n" + json.dumps(self.figures) + "\n")
