"""What tests of several rooms of the bot share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from faultline.bot.runtime.process_pool import ProcessPool


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPool]:
    """One process, kept for all tests of a file: it takes longer to start than to do the work."""
    pool = ProcessPool(workers=1)
    yield pool
    pool.close()
