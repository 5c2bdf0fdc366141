"""From the store to the engine's queue: what was accepted is dispatched at once, and again until it was."""

from __future__ import annotations

import asyncio
import logging

from dbos import error as dbos_error
from sqlalchemy.exc import SQLAlchemyError

from bot.engine import Dispatcher
from bot.store.store import Store

log = logging.getLogger("faultline.dispatch")

SWEEP_S = 2.0
"""How often the store is asked for what a crash, or a database that was away, left undispatched."""


class DispatchLoop:
    """Runs in the web process."""

    def __init__(self, store: Store, dispatcher: Dispatcher) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wake(self) -> None:
        """Something was accepted. May be called from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    async def run(self) -> None:
        """Dispatch for ever."""
        self._loop = asyncio.get_running_loop()
        while True:
            try:
                await asyncio.to_thread(self._dispatch)
            except (SQLAlchemyError, dbos_error.DBOSException) as error:
                log.warning("dispatch: %s; tried again in %g s", type(error).__name__, SWEEP_S)
            try:
                async with asyncio.timeout(SWEEP_S):
                    await self._woken.wait()
            except TimeoutError:
                continue
            self._woken.clear()

    def _dispatch(self) -> None:
        ids = self._store.undispatched()
        for investigation_id in ids:
            self._dispatcher.enqueue(investigation_id)
        if ids:
            self._store.mark_dispatched(ids)
