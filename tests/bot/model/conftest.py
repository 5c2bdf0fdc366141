from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.model.abilities import forget_all
from tests.bot.model.cases import diagnosed_case


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    """No test knows what another learned of an endpoint."""
    forget_all()
    yield
    forget_all()


@pytest.fixture
def case(tmp_path: Path) -> Path:
    return diagnosed_case(tmp_path / "case")
