"""Asks connectors whether their credentials work, each within its own time.

It loads neither store nor engine, because a process that does nothing else asks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from faultline.analysis.errors import FaultlineError
from faultline.analysis.secrets.redaction import masked
from faultline.connectors.registry import build_connectors
from faultline.connectors.shared.contract.base import Check, Connector
from faultline.connectors.shared.settings.shared_settings import SharedSettings

CHECK_WITHIN_S = 15.0


def checks_of(settings: SharedSettings) -> Sequence[Check]:
    """Ask every configured connector, side by side."""
    return asyncio.run(all_of(build_connectors(settings)))


async def all_of(connectors: Sequence[Connector]) -> Sequence[Check]:
    """Ask these."""
    return await asyncio.gather(*(bounded(c.name, c.check) for c in connectors))


async def bounded(
    name: str, check: Callable[[], Awaitable[Check]], within_s: float = CHECK_WITHIN_S
) -> Check:
    """What a check says, within a limit in seconds; one that fails says why. Vendors have a hand
    in the words, so the secrets in them are masked."""
    try:
        async with asyncio.timeout(within_s):
            answer = await check()
        return replace(answer, line=masked(answer.line), unread=tuple(map(masked, answer.unread)))
    except TimeoutError:
        return Check(name, False, f"no answer within {within_s:g} s")
    except FaultlineError as error:
        return Check(name, False, masked(str(error)))
    except Exception as error:  # noqa: BLE001  the edge of a check: the others still run
        return Check(name, False, f"unexpected {type(error).__name__}")
