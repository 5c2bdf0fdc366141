"""Cases that are held, once per run."""

from __future__ import annotations

from pathlib import Path

import pytest

from faultline.bot.conversation.answered_case import AnsweredCase
from tests.bot.conversation.cases import answered, demo, healthy, write_shop


@pytest.fixture(scope="session")
def shop(tmp_path_factory: pytest.TempPathFactory) -> AnsweredCase:
    """A slow shop: its database is out of CPU."""
    return answered(write_shop(tmp_path_factory.mktemp("shop") / "case"))


@pytest.fixture(scope="session")
def slow_rank() -> AnsweredCase:
    """The demo's training job."""
    return demo()


@pytest.fixture(scope="session")
def nothing_wrong() -> AnsweredCase:
    """The demo's healthy job."""
    return healthy()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Somewhere to write."""
    return tmp_path / "case"
