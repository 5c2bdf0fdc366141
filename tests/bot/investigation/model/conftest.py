from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from faultline.bot.investigation.model.abilities import forget_all
from tests.bot.investigation.model.cases import diagnosed_case


@pytest.fixture(autouse=True)
def _fresh_process() -> Iterator[None]:
    """No test knows what another learned of an endpoint."""
    forget_all()
    yield
    forget_all()


@pytest.fixture(scope="session")
def diagnosed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Diagnosed once; `case` is a copy of it."""
    return diagnosed_case(tmp_path_factory.mktemp("diagnosed") / "case")


@pytest.fixture
def case(tmp_path: Path, diagnosed: Path) -> Path:
    return Path(shutil.copytree(diagnosed, tmp_path / "case"))
