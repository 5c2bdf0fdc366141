"""`faultline trace diff BASE NEW`: what grew from one job to another, for people and for CI."""

from __future__ import annotations

import re

from analysis.errors import SettingsError

_LIMIT = re.compile(r"(\d{1,6}(?:\.\d{1,6})?)\s*%?")


def run_diff(base: str, new: str, *, fail_over: str | None, as_json: bool, jobs: int | None, progress: bool) -> int:
    """Run the command; the exit code. Raises EvidenceError when one of the jobs cannot be read."""
    limit = percent(fail_over)
    raise SettingsError("trace diff", f"{base} {new} {limit} {as_json} {jobs} {progress}")


def percent(text: str | None) -> float | None:
    """ "5%" or "5" as 5.0. Raises SettingsError for what is no percentage."""
    if text is None:
        return None
    found = _LIMIT.fullmatch(text.strip())
    if found is None:
        raise SettingsError("--fail-over", f"{text!r} is no percentage, like 5%")
    return float(found[1])
