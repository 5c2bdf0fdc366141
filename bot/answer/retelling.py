"""From the store to the engine's queues, once an investigation has ended: messages to edit, and
runs to make again.

In the worker, beside `bot.queue.dispatch`. Several workers may do so at once: each workflow's id
says what it is for, so that it is queued once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Protocol

from analysis.errors import ConnectorError
from bot.answer.outcome import ReplyTarget
from bot.queue.engine import INVESTIGATIONS, WORKFLOW_INVESTIGATE, WORKFLOW_REPLY, reply_queue
from bot.runtime.background_loop import BackgroundLoop
from bot.store.retelling import DueDigest, Rerun, Retelling, Retold
from bot.store.store import Investigation, Store

log = logging.getLogger("faultline.retelling")

WAIT_AFTER_REFUSAL_S = 60.0
"""A digest that could not be posted is tried again after this."""


class Enqueue(Protocol):
    """The engine's queue: the same workflow id again changes nothing."""

    def __call__(self, queue: str, workflow: str, workflow_id: str, *arguments: str) -> None:
        """Queue one workflow."""


class PostsDigests(Protocol):
    """Where a channel is told what came in its quiet hours."""

    async def post_digest(self, digest: DueDigest, investigations: Sequence[Investigation]) -> None:
        """Post it once. Raises ConnectorError."""


class Retell(BackgroundLoop):
    """Looks at the store every few moments, in a thread of its own."""

    def __init__(
        self,
        store: Store,
        places: Sequence[ReplyTarget],
        enqueue: Enqueue,
        digests: PostsDigests | None,
        *,
        every_s: float,
    ) -> None:
        super().__init__("retelling", every_s=every_s, part="retelling")
        self._store = store
        self._retelling = Retelling(store.engine)
        self._places = places
        self._enqueue = enqueue
        self._digests = digests
        self._refused: dict[str, datetime] = {}

    def turn(self) -> bool:
        """Look once."""
        self.look()
        return False

    def look(self, now: datetime | None = None) -> None:
        """Queue and post what is due."""
        now = now or datetime.now(UTC)
        for rerun in self._retelling.to_rerun():
            self._run_again(rerun)
        for due in self._retelling.to_retell(now):
            self._tell_again(due, now)
        for digest in self._retelling.due_digests(now) if self._digests else ():
            self._post(digest, now)

    def _run_again(self, rerun: Rerun) -> None:
        workflow_id = f"{rerun.investigation_id}:again{rerun.number}"
        self._enqueue(INVESTIGATIONS, WORKFLOW_INVESTIGATE, workflow_id, rerun.investigation_id)

    def _tell_again(self, due: Retold, now: datetime) -> None:
        """Queued first, marked then: a crash between queues the same ids again, which changes
        nothing."""
        investigation = self._store.get(due.investigation_id)
        for place in self._places if investigation else ():
            if investigation and place.wanted(investigation):
                workflow_id = f"{due.investigation_id}:{place.name}:told{due.changes}"
                self._enqueue(
                    reply_queue(place.name),
                    WORKFLOW_REPLY,
                    workflow_id,
                    due.investigation_id,
                    place.name,
                )
        self._retelling.retold(due, now)

    def _post(self, digest: DueDigest, now: datetime) -> None:
        refused = self._refused.get(digest.channel)
        if self._digests is None or (
            refused and abs((now - refused).total_seconds()) < WAIT_AFTER_REFUSAL_S
        ):
            return
        try:
            asyncio.run(
                self._digests.post_digest(digest, self._store.some(digest.investigation_ids))
            )
        except ConnectorError as error:
            self._refused[digest.channel] = now
            log.warning("digest: %s; %s", error, "tried again" if error.retryable else "given up")
            if error.retryable:
                return
        self._retelling.digested(digest, now)
