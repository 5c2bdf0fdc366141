"""Which places `trace` may read: below one of the configured `traces.locations`, and nothing else.

A location is a folder or `s3://bucket/prefix`; `{job}` in it stands for one name. What is asked for
must lie in it by whole path segments, so that `s3://bucket/traces` opens neither
`s3://bucket/traces-private` nor `s3://bucket`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

MAX_LOCATION = 1_024
_SEGMENT = re.compile(r"[^/\x00-\x1f\x7f?*\[\]\\]{1,255}")
_JOB = re.compile(r"\\\{job\\\}")


def allowed_place(address: str, locations: Sequence[str]) -> str | None:
    """The place to read, or None when it lies in no configured location."""
    address = address.strip().rstrip("/")
    if not address or len(address) > MAX_LOCATION:
        return None
    if address.startswith("/"):
        return _local(address, locations)
    if address.startswith("s3://") and _within_s3(address, locations):
        return address
    return None


def _within_s3(address: str, locations: Sequence[str]) -> bool:
    segments = address.removeprefix("s3://").split("/")
    if not all(
        (_SEGMENT.fullmatch(segment) is not None and segment not in (".", ".."))
        for segment in segments
    ):
        return False
    buckets = [
        location.removeprefix("s3://") for location in locations if location.startswith("s3://")
    ]
    return any(_below(segments, bucket) for bucket in buckets)


def _local(address: str, locations: Sequence[str]) -> str | None:
    """The real path, links followed, below the real path of a location."""
    try:
        real = Path(address).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    for location in locations:
        if location.startswith("s3://"):
            continue
        try:
            # The location with the links in front of `{job}` followed: what comes behind it is not
            # known yet. Raises OSError, ValueError or RuntimeError.
            if "{job}" not in location:
                pattern = str(Path(location or ".").resolve())
            else:
                head = location.partition("{job}")[0]
                base = Path(head or ".")
                # In `/data/run-{job}` the name `run-` is a part of the segment that varies.
                if not head.endswith("/"):
                    base = base.parent
                pattern = str(base.resolve()) + location[len(str(base)) :]
        except (OSError, ValueError, RuntimeError):
            continue
        if _below(str(real).strip("/").split("/"), pattern.strip("/")):
            return str(real)
    return None


def _below(segments: Sequence[str], location: str) -> bool:
    parts = location.strip("/").split("/")
    # A location of "/" would open the whole disk.
    if len(segments) < len(parts) or not parts[0]:
        return False
    patterns = (_JOB.sub(r"[^/]+", re.escape(part)) for part in parts)
    return all(re.fullmatch(p, s) for p, s in zip(patterns, segments, strict=False))
