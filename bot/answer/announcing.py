"""First messages, posted as soon as an alert is accepted: they do not wait until a worker has a
place free.

One event loop in the worker, in a thread of its own. Each channel has one post on its way at a
time, so that a channel which its vendor limits, or which does not answer, keeps no other waiting.
Several workers may do so at once: each investigation is claimed in the store. What could not be
announced is left to the investigation's own step, as is what was claimed by a worker that died.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from analysis.errors import ConnectorError
from bot.answer.outcome import ReplyTarget
from bot.runtime.pulse import PULSE
from bot.runtime.step_watch import first_message_posted
from bot.store.announcing import Announcing, Due
from bot.store.store import Investigation, Store

log = logging.getLogger("faultline.announcing")

CHANNELS_AT_ONCE = 40
"""Channels in which a worker posts first messages at the same time; each waits for the vendor most
of the time. A reply target may want fewer (`bot.policy.reply_targets.ReplyLimits`)."""
LONGEST_STOP_S = 2.0
"""Posts that are on their way when the worker stops are waited for so long. Then whoever comes next
looks for them."""


class Announce:
    """Posts what is due, in a thread of its own."""

    def __init__(
        self,
        store: Store,
        targets: Sequence[ReplyTarget],
        *,
        every_s: float,
        channels_at_once: int = CHANNELS_AT_ONCE,
    ) -> None:
        self._store = store
        self._announcing = Announcing(store.engine)
        self._targets = targets
        self._channels_at_once = channels_at_once
        self._every_s = every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="announcing", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Stop; what is due stays in the store."""
        self._stopping.set()
        self._thread.join(LONGEST_STOP_S + 1)

    def _run(self) -> None:
        asyncio.run(self.announce_until(self._stopping))

    async def announce_until(self, stopping: threading.Event) -> None:
        """Look every few moments, and at once for the next of a channel whose post has arrived."""
        busy: dict[asyncio.Task[None], str] = {}
        while not stopping.is_set():
            PULSE.beat("announcing")
            for one in await self._due(busy):
                busy[asyncio.create_task(self._announce(one))] = one.channel
            if busy:
                done, _ = await asyncio.wait(
                    busy, timeout=self._every_s, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    del busy[task]
            else:
                await asyncio.sleep(self._every_s)
        if busy:
            await asyncio.wait(busy, timeout=LONGEST_STOP_S)

    async def _due(self, busy: dict[asyncio.Task[None], str]) -> list[Due]:
        free = self._channels_at_once - len(busy)
        if free <= 0:
            return []
        try:
            return await asyncio.to_thread(self._announcing.due, free, set(busy.values()))
        except (SQLAlchemyError, OSError) as error:
            log.warning("announcing: %s; tried again in %g s", type(error).__name__, self._every_s)
            return []

    async def _announce(self, due: Due) -> None:
        try:
            if await asyncio.to_thread(
                self._announcing.claim, due.investigation_id, datetime.now(UTC)
            ):
                await self._announce_everywhere(due.investigation_id)
        except (SQLAlchemyError, OSError) as error:
            log.warning(
                "announcing %s: %s; its step will", due.investigation_id, type(error).__name__
            )
            await asyncio.sleep(self._every_s)
        except Exception:  # the edge of the loop: it must outlive what nobody thought of
            log.exception("announcing %s: its step will", due.investigation_id)
            await asyncio.sleep(self._every_s)

    async def _announce_everywhere(self, investigation_id: str) -> None:
        investigation = await asyncio.to_thread(self._store.get, investigation_id)
        if investigation is None:
            return
        for target in self._targets:
            if target.wanted(investigation):
                await self._announce_at(target, investigation)

    async def _announce_at(self, target: ReplyTarget, investigation: Investigation) -> None:
        began = datetime.now(UTC)
        try:
            await target.announce(investigation)
            await first_message_posted(investigation, target.name, began)
        except ConnectorError as error:
            said = (investigation.id, f"announce {target.name}", str(error))
            key = f"announce {target.name}: at once"
            await asyncio.to_thread(self._store.add_progress, *said, key=key)
