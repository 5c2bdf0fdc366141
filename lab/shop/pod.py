"""One replica of a service: what its process is given when it starts, as JSON between processes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class ShopPod:
    """One process of the shop. `program` says which: a service, the shoppers, exporter or proxy."""

    name: str
    service: str
    program: str
    cluster: str
    port: int
    folder: str
    small: bool = False
    version: str = "v1.0.0"
    database: str = ""
    redis_socket: str = ""
    collector: str = ""
    """Where spans go, as OTLP over HTTP; empty: nowhere."""
    sampled: float = 0.1
    """Share of traces that are sent, decided where a trace begins."""
    day_s: float = 3600.0
    load: float = 1.0
    memory_mb: int = 0
    """The supervisor kills the process above it; 0: never."""
    levers: dict[str, Any] = field(default_factory=dict)
    target: int = 0
    """The port behind a proxy."""

    def as_json(self) -> dict[str, Any]:
        """For the supervisor's standard input."""
        return asdict(self)

    @property
    def room(self) -> Path:
        """The shop's folder."""
        return Path(self.folder)
