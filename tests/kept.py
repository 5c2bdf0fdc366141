"""Texts that stand beside the tests which make them.

FAULTLINE_WRITE_KEPT=1 .venv/bin/pytest FILE     write those of these tests again
"""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

_TIME = re.compile(r"20\d\d-\d\d-\d\dT\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+]00:00)?")


def assert_kept(file: Path, text: str) -> None:
    """The text is what stands in the file. Read a difference as a reviewer would."""
    if "FAULTLINE_WRITE_KEPT" in os.environ:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"see {Path(__file__).name}"


def without_now(text: str) -> str:
    """The text with NOW for each time of the last day. What a test reads is older; what is stamped
    while it runs is not."""
    return _TIME.sub(_stamped, text)


def _stamped(match: re.Match[str]) -> str:
    moment = datetime.fromisoformat(match[0].removesuffix("Z")).replace(tzinfo=UTC)
    return "NOW" if datetime.now(UTC) - moment < timedelta(days=1) else match[0]
