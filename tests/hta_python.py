"""A Python that has HTA (`traceinsight` on PyPI), which brings Jupyter and Plotly and which the
project itself does not need.

`./run test` installs what HTA's analyses import into `.tools/hta`; FAULTLINE_HTA_PYTHON names
another.
"""

from __future__ import annotations

import functools
import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
CALLS = Path(__file__).with_name("hta_calls.py")


@functools.cache
def _found() -> str | None:
    for python in (
        os.environ.get("FAULTLINE_HTA_PYTHON", ""),
        str(ROOT / ".tools/hta/bin/python"),
    ):
        if python and Path(python).exists():
            return python
    return None


def hta_python() -> str:
    """The interpreter's path; skips the test where there is none."""
    found = _found()
    if found is None:
        pytest.skip("no Python with HTA (see FAULTLINE_HTA_PYTHON in tests/hta_python.py)")
    return found


def hta_says(files: Mapping[int, Path], scratch: Path) -> dict[str, Any]:
    """What HTA's public calls give for these ranks: rows of tables, by call."""
    given = {str(rank): str(path) for rank, path in files.items()}
    ended = subprocess.run(
        [hta_python(), str(CALLS), json.dumps(given), str(scratch)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr[-2_000:]
    said: dict[str, Any] = json.loads((scratch / "hta.json").read_text())
    return said
