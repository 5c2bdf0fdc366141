"""Texts that stand beside the tests which make them.

FAULTLINE_WRITE_KEPT=1 .venv/bin/pytest FILE     write those of these tests again
"""

from __future__ import annotations

import os
from pathlib import Path


def assert_kept(file: Path, text: str) -> None:
    """The text is what stands in the file. Read a difference as a reviewer would."""
    if "FAULTLINE_WRITE_KEPT" in os.environ:
        file.write_text(text, encoding="utf-8")
    assert text == file.read_text(encoding="utf-8"), f"see {Path(__file__).name}"
