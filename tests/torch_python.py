"""A Python that has PyTorch, which the project itself does not need.

`./run test` installs the CPU build into `.tools/torch` where pip finds one; FAULTLINE_TORCH_PYTHON
names another.
"""

from __future__ import annotations

import functools
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@functools.cache
def _found() -> str | None:
    for python in (
        os.environ.get("FAULTLINE_TORCH_PYTHON", ""),
        str(ROOT / ".tools/torch/bin/python"),
    ):
        if python and Path(python).exists():
            tried = subprocess.run(
                [python, "-c", "import torch"], capture_output=True, timeout=100, check=False
            )
            if tried.returncode == 0:
                return python
    return None


def torch_python() -> str:
    """The interpreter's path; skips the test where there is none."""
    found = _found()
    if found is None:
        pytest.skip("no Python with PyTorch (see FAULTLINE_TORCH_PYTHON in tests/torch_python.py)")
    return found
