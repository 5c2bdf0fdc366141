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


def allowed_place(asked: str, locations: Sequence[str]) -> str | None:
    """The place to read, or None when it lies in no configured location."""
    asked = asked.strip().rstrip("/")
    if not asked or len(asked) > MAX_LOCATION:
        return None
    if asked.startswith("s3://"):
        return asked if _within_s3(asked, locations) else None
    return _local(asked, locations) if asked.startswith("/") else None


def _within_s3(asked: str, locations: Sequence[str]) -> bool:
    segments = asked.removeprefix("s3://").split("/")
    if not all(_SEGMENT.fullmatch(s) and s not in (".", "..") for s in segments):
        return False
    return any(
        _below(segments, one.removeprefix("s3://")) for one in locations if one.startswith("s3://")
    )


def _local(asked: str, locations: Sequence[str]) -> str | None:
    """The real path, links followed, below the real path of a location."""
    try:
        real = Path(asked).resolve()
    except (OSError, ValueError, RuntimeError):
        return None
    for one in locations:
        if one.startswith("s3://"):
            continue
        fixed = Path(one.partition("{job}")[0] or ".")
        base = (
            fixed if one.partition("{job}")[0].endswith("/") or "{job}" not in one else fixed.parent
        )
        try:
            pattern = (
                str(base.resolve()) + one[len(str(base)) :]
                if "{job}" in one
                else str(base.resolve())
            )
        except (OSError, ValueError, RuntimeError):
            continue
        if _below(str(real).strip("/").split("/"), pattern.strip("/")):
            return str(real)
    return None


def _below(segments: Sequence[str], location: str) -> bool:
    wanted = location.strip("/").split("/")
    if len(segments) < len(wanted) or not wanted[0]:
        return False
    patterns = (_JOB.sub(r"[^/]+", re.escape(part)) for part in wanted)
    return all(re.fullmatch(p, s) for p, s in zip(patterns, segments, strict=False))
