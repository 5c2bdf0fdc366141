"""What a process that only asks connectors runs: it loads neither store nor engine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from faultline.bot.settings import Settings

if TYPE_CHECKING:
    from faultline.connectors.shared.contract.base import Check


def ask_connectors(settings: Settings) -> Sequence[Check]:
    """Ask every configured connector whether its credential works."""
    from faultline.connectors.asking import checks_of

    return checks_of(settings)
