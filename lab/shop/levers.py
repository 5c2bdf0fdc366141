"""What faults and changes move inside a service: plain numbers, set through its admin endpoint."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any


@dataclass
class ServiceLevers:
    """As a healthy service has them. A deploy keeps them; `clear` brings these values back."""

    extra_ms: float = 0.0
    """Added to its own processing of each request."""
    error_share: float = 0.0
    """Share of requests that end in an exception of the service's code."""
    error: str = ""
    """What such an exception says."""
    cpu_ms: float = 0.0
    """CPU time that each request uses up and that nothing else gets."""
    leak_mb: float = 0.0
    """Memory that each request keeps."""
    leaked_connections: float = 0.0
    """Share of queries whose database connection is never given back."""
    pool_size: int = 0
    """Connections of the pool; 0 is the layout's."""
    query_times: int = 1
    """How often each query is done, as a loop over rows does."""
    call_times: int = 1
    """The same for each call."""
    batch_sql: str = ""
    """What a batch job asks the database for, instead of the layout's query."""
    stuck: bool = False
    """Whether the consumer or the batch job waits forever."""
    hurry: float = 1.0
    """A batch job runs that many times as often."""
    disk_quota_kb: int = 20_000
    """Room in the spool folder; old files are cleared away before it is used up."""
    refuse_share: float = 0.0
    """Share of requests answered with 503 at once."""
    expired_certificate: bool = False
    timeouts_s: dict[str, float] = field(default_factory=dict)
    """Of calls, by callee, instead of the layout's."""
    retries: dict[str, int] = field(default_factory=dict)

    def update(self, values: dict[str, Any]) -> None:
        """Set the named ones. Raises ValueError for a name that is none."""
        names = {lever.name for lever in fields(self)}
        for name, value in values.items():
            if name not in names:
                raise ValueError(f"there is no lever {name!r}")
            setattr(self, name, value)
