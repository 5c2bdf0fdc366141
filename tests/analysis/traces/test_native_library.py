from __future__ import annotations

import platform
import sys

import pytest

from analysis.traces.native.library import load


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"), reason="not a platform we build for"
)
def test_the_compiled_library_is_there() -> None:
    assert load().fl_version() > 0
