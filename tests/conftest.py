"""Fixtures shared by every room's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


@pytest.fixture(scope="session")
def shared() -> Path:
    """The public data sets beside the project; a test that needs them skips where they are missing."""
    if not (SHARED / "data").is_dir():
        pytest.skip("the public data sets are not beside the project")
    return SHARED / "data"
