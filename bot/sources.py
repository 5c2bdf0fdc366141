"""From settings to connectors: one entry per configured source."""

from __future__ import annotations

from pathlib import Path

from analysis.case_folder import read_case
from analysis.vocabulary import Scope
from bot.settings import Settings
from connectors.base import Connector


def recorded_scope(case: Path) -> Scope:
    """The windows of a recorded case."""
    return read_case(case).scope
