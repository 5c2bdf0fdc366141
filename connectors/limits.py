"""What one connector may take: time, bytes, rows, requests."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """What one connector may take for one investigation."""

    deadline_s: float = 20.0
    max_bytes: int = 32 * 1024 * 1024
    max_rows: int = 500_000
    requests_per_s: float = 10.0
    concurrency: int = 4
