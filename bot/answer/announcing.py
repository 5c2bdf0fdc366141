"""First messages, posted as soon as an alert is accepted: they do not wait until a worker has a
place free.

One event loop in the worker, in its own thread. Each channel has one post on its way at a
time, so that a channel which its vendor limits, or which does not answer, keeps no other waiting.
Several workers may do so at once: each investigation is claimed in the store. What could not be
announced is left to the investigation's own step, as is what was claimed by a worker that died.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.outcome import ReplyTarget
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.runtime.instrumentation import first_message_posted
from faultline.bot.runtime.threads import go_first, in_store
from faultline.bot.store.messages import Announcing, Due
from faultline.bot.store.store import Store, StoredInvestigation

log = logging.getLogger("faultline.announcing")

CHANNELS_AT_ONCE = 40
"""Channels in which a worker posts first messages at the same time; each waits for the vendor most
of the time. A reply target may want fewer (`faultline.bot.policy.reply_targets.ReplyLimits`)."""
LONGEST_STOP_S = 2.0
"""How long a worker that stops waits for posts that are on their way. Whoever comes next looks for
the rest."""


class Announce(BackgroundLoop):
    """Posts what is due. Each turn begins posts, which go on while the loop is idle."""

    def __init__(
        self,
        store: Store,
        targets: Sequence[ReplyTarget],
        *,
        every_s: float,
        rest_s: float | None = None,
        channels_at_once: int = CHANNELS_AT_ONCE,
    ) -> None:
        """`rest_s` is `every_s` unless given."""
        rest_s = every_s if rest_s is None else rest_s
        super().__init__("announcing", every_s=every_s, rest_s=rest_s, part="announcing")
        self._store = store
        self._announcing = Announcing(store.engine)
        self._targets = targets
        self._channels_at_once = channels_at_once
        self._retry_after_s = rest_s
        self._runner = asyncio.Runner()
        self._posting: dict[asyncio.Task[None], str] = {}

    def turn(self) -> bool:
        """Begin what is due in channels that have no post on its way."""
        free = self._channels_at_once - len(self._posting)
        if free > 0:
            self._runner.run(self._begin(free))
        return False

    def idle(self, seconds: float | None) -> None:
        """Let posts go on until the next turn, which comes as soon as one of them has arrived."""
        if not self._posting:
            super().idle(seconds)
        elif not self.stopping.is_set():
            # Where posts are on their way, nothing wakes it.
            self._runner.run(self._some_arrive(min(seconds or 0.0, self._retry_after_s)))

    def ended(self) -> None:
        """Give posts that are on their way a moment to arrive."""
        if self._posting:
            self._runner.run(_wait_for(self._posting, LONGEST_STOP_S))
        self._runner.close()

    async def _begin(self, most: int) -> None:
        go_first()
        busy_channels = set(self._posting.values())
        # In a thread, so that posts on their way go on while the database is slow.
        for due in await in_store(self._announcing.due, most, busy_channels):
            posting = asyncio.create_task(self._announce(due))
            self._posting[posting] = due.channel

    async def _some_arrive(self, seconds: float | None) -> None:
        done, _ = await asyncio.wait(
            self._posting, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
        )
        for posting in done:
            del self._posting[posting]

    async def _announce(self, due: Due) -> None:
        try:
            if await in_store(self._announcing.claim, due.investigation_id, datetime.now(UTC)):
                await self._announce_everywhere(due.investigation_id)
        except (SQLAlchemyError, OSError) as error:
            log.warning(
                "announcing %s: %s; its step will", due.investigation_id, type(error).__name__
            )
            # Keep the channel taken meanwhile, so that a store that fails is not asked again at
            # once.
            await asyncio.sleep(self._retry_after_s)
        except Exception:  # the edge of the loop: it must outlive what nobody thought of
            log.exception("announcing %s: its step will", due.investigation_id)
            await asyncio.sleep(self._retry_after_s)

    async def _announce_everywhere(self, investigation_id: str) -> None:
        investigation = await in_store(self._store.get, investigation_id)
        if investigation is None:
            return
        for target in self._targets:
            if target.expects_answer(investigation):
                await self._announce_at(target, investigation)

    async def _announce_at(self, target: ReplyTarget, investigation: StoredInvestigation) -> None:
        began = datetime.now(UTC)
        try:
            await target.announce(investigation)
            await first_message_posted(investigation, target.name, began)
        except ConnectorError as error:
            # Only noted: the investigation's own step posts what could not be announced.
            progress_step = (investigation.id, f"announce {target.name}", str(error))
            key = f"announce {target.name}: at once"
            await in_store(self._store.add_progress, *progress_step, key=key)


async def _wait_for(tasks: Iterable[asyncio.Task[None]], at_most_s: float) -> None:
    await asyncio.wait(tasks, timeout=at_most_s)
