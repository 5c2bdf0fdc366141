"""How often a step is tried again, and how a reply rests between two tries: by the monotonic clock
alone."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable

from dbos import DBOS
from obstore.exceptions import GenericError
from sqlalchemy.exc import IntegrityError, InterfaceError, InternalError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from faultline.analysis.errors import FaultlineError

STORE_AWAY = (OperationalError, InterfaceError, InternalError, IntegrityError, PoolTimeout)
"""The store is locked, full or away, or another worker wrote the same row first: the step is tried
again."""
STORE_TRIES = 70
"""After 1 s, then each time a tenth later: for about two hours in all."""
CASES_PATIENCE_S = 900.0
"""A case store that is full or does not answer is tried for so long. Then the alert gets an
explanation, which needs the store alone."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


def cases_away(error: BaseException) -> bool:
    """Whether the case store, or the disk for copies of cases, is full or away. obstore's
    GenericError is whatever is none of its more precise kinds (not found, not permitted): a full
    disk, a server that does not answer."""
    return isinstance(error, GenericError) or (isinstance(error, OSError) and error.errno in FULL)


def worth_another() -> Callable[[BaseException], bool]:
    """Whether a step that failed so is to be tried again; for one step, from now on."""
    began = time.monotonic()

    def worth(error: BaseException) -> bool:
        # Only STORE_TRIES limits these.
        if isinstance(error, STORE_AWAY):
            return True
        return cases_away(error) and time.monotonic() - began < CASES_PATIENCE_S

    return worth


def reason(error: Exception) -> str:
    """Why an investigation ended without an answer, for whoever waits for it."""
    if isinstance(error, FaultlineError):
        return str(error)
    if cases_away(error):
        return f"the case store is full or does not answer ({type(error).__name__})"
    return f"unexpected {type(error).__name__}"


async def rest(seconds: float) -> None:
    """Wait, once also over crashes. DBOS's own sleep notes the time of day to wake at, so that a
    clock that is set back would make it last as much longer; a record of it, from another release,
    counts as waited."""
    await DBOS.run_step_async({"name": "DBOS.sleep"}, _waited, seconds)


async def _waited(seconds: float) -> float:
    await asyncio.sleep(seconds)
    return time.time()
