"""A plugin of pytest that tells coverage which test file runs, for `executed_lines`."""

from __future__ import annotations

import os
from collections.abc import Iterator

import coverage
import pytest

CONTEXT_VARIABLE = "FAULTLINE_TEST_FILE"
"""What a program that a test starts takes its context from."""


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """What fixtures of a whole file run belongs to the file, so the file is the context."""
    test_file = item.nodeid.partition("::")[0]
    if os.environ.get(CONTEXT_VARIABLE) != test_file:
        os.environ[CONTEXT_VARIABLE] = test_file
        measured = coverage.Coverage.current()
        if measured is not None:
            measured.switch_context(test_file)
    return (yield)
