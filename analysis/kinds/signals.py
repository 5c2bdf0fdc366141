"""What a signal measures, read from its name: the names of metrics differ between vendors, their
words do not.

The words are those of the Prometheus naming guide, the OpenTelemetry semantic conventions and
CloudWatch.
"""

from __future__ import annotations

import re
from enum import StrEnum
from functools import lru_cache


class SignalClass(StrEnum):
    """The families of signals that behave alike in an incident."""

    LATENCY = "latency"
    ERRORS = "errors"
    AVAILABILITY = "availability"
    RESTARTS = "restarts"
    QUEUE = "queue"
    CPU = "cpu"
    MEMORY = "memory"
    DISK = "disk"
    NETWORK = "network"
    TRAFFIC = "traffic"
    LIMIT = "limit"
    LOSS = "loss"
    HIT_RATIO = "hit_ratio"
    """Of a cache."""
    CONNECTIONS = "connections"
    """Slots of a pool: connections, sessions, threads, file descriptors."""
    CERTIFICATE = "certificate"
    JOB = "job"
    """Work that runs once or on a schedule: backups, batch jobs."""
    GPU = "gpu"
    HARDWARE = "hardware"
    OTHER = "other"


SYMPTOMS = frozenset(
    {SignalClass.LATENCY, SignalClass.ERRORS, SignalClass.AVAILABILITY, SignalClass.RESTARTS}
)
"""What a caller feels; these travel from callee to caller."""
RESOURCES = frozenset({SignalClass.CPU, SignalClass.MEMORY, SignalClass.DISK})
"""What a service runs out of by itself."""

# The first match decides, so special words stand before general ones.
_WORDS = (
    (SignalClass.LIMIT, r"(^|_)(limit|quota|capacity_total|requested|learning_rate|lr)(_|$)"),
    # A sum of seconds grows with the requests as well as with their duration, so it tells neither.
    (SignalClass.OTHER, r"(seconds|duration)_sum$"),
    (SignalClass.MEMORY, r"gc_(pause|time|duration)"),
    (SignalClass.HIT_RATIO, r"hits?_?(ratio|rate|percent)"),
    (SignalClass.RESTARTS, r"restart|oom|crash|evict"),
    (
        SignalClass.ERRORS,
        r"err|5xx|4xx|40[0-9]|50[0-9]|fail|exception|timeout|reject|throttle_ratio|dropped"
        r"|unhealthy",
    ),
    (SignalClass.AVAILABILITY, r"availab|success|ready|uptime|healthy|apdex"),
    (
        SignalClass.CONNECTIONS,
        r"(?<!re)(connections|conn|hikaricp)(_|$)(?!.*(lat|dur|time|sec))"
        r"|busy_(threads|workers)|active_requests|pool_(util|usage|in_use|busy)",
    ),
    (
        SignalClass.QUEUE,
        r"queue|backlog|lag|depth|buffer|pending|oldest|saturation|inflight|lock_?wait|deadlock"
        r"|longest_(transaction|query)|blocked",
    ),
    (
        SignalClass.LATENCY,
        r"lat(ency)?(_?p?\d+)?$|latency|duration|response_?time|elapsed|ttft|step_time|(^|_)p\d\d"
        r"|requests?_seconds(_max|_mean|_avg)?$",
    ),
    (SignalClass.CPU, r"cpu|throttl|load_?(avg|1|5)"),
    (SignalClass.MEMORY, r"mem|heap|rss|swap|working_set"),
    (SignalClass.NETWORK, r"net|rx|tx|packet|retrans|bandwidth"),
    (
        SignalClass.TRAFFIC,
        r"request|rps|qps|workload|traffic|throughput|per_(sec|second|min|minute)$|invocations"
        r"|calls",
    ),
    (SignalClass.DISK, r"disk|sysread|syswrite|iops|fs_|filesystem|volume"),
    (SignalClass.LOSS, r"(^|_)(loss|perplexity)$"),
)
_HEADROOM = re.compile(r"(^|_)(mem_?)?(free|avail(able)?|remaining|idle|headroom|unused)(_|$)")
_PATTERNS = tuple((kind, re.compile(words)) for kind, words in _WORDS)
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")


@lru_cache(maxsize=4096)
def classify(signal: str) -> SignalClass:
    """The class of a signal by its name; OTHER when no word is known."""
    name = _words(signal)
    kinds = [kind for kind, pattern in _PATTERNS if pattern.search(name)] or [SignalClass.OTHER]
    if kinds[0] is SignalClass.AVAILABILITY and is_headroom(signal):  # memory that is available
        return next((kind for kind in kinds if kind in RESOURCES), kinds[0])
    return kinds[0]


@lru_cache(maxsize=4096)
def is_headroom(signal: str) -> bool:
    """Whether the signal counts what is left of a resource, so that a fall is the bad move: free
    memory, idle CPU."""
    return bool(_HEADROOM.search(_words(signal)))


def _words(signal: str) -> str:
    return _CAMEL.sub("_", signal).lower().replace(".", "_").replace("-", "_")


def is_bad(kind: SignalClass, direction: str, *, headroom: bool = False) -> bool:
    """Whether a move in `direction` ("up" or "down") is the kind of move an incident makes."""
    if headroom and kind in RESOURCES:
        return direction == "down"
    if kind in (SignalClass.AVAILABILITY, SignalClass.HIT_RATIO):
        return direction == "down"
    if kind in SYMPTOMS or kind in (
        SignalClass.QUEUE,
        SignalClass.CPU,
        SignalClass.DISK,
        SignalClass.LOSS,
        SignalClass.CONNECTIONS,
    ):
        return direction == "up"
    return kind is not SignalClass.LIMIT
