"""From the store to the engine's queues, once an investigation has ended: messages to edit, and
runs to make again; and to reply targets, the digests of quiet hours.

In the worker, beside `faultline.bot.queue.dispatch`. Several workers may do so at once: each
workflow's id says what it is for, so that it is queued once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Protocol

from faultline.analysis.errors import ConnectorError
from faultline.bot.answer.outcome import PostsDigests, ReplyTarget
from faultline.bot.queue.engine_database import (
    ENGINE_ERRORS,
    INVESTIGATIONS,
    WORKFLOW_INVESTIGATE,
    WORKFLOW_REPLY,
    reply_queue,
)
from faultline.bot.runtime.components import BackgroundLoop
from faultline.bot.store.messages import (
    EDIT_EVERY,
    DueDigest,
    DueUpdates,
    MessageRevision,
    Rerun,
)
from faultline.bot.store.store import Store

log = logging.getLogger("faultline.message_updates")

WAIT_AFTER_REFUSAL_S = 60.0
"""A digest that could not be posted is tried again after this."""


class Enqueue(Protocol):
    """The engine's queue: the same workflow id again changes nothing."""

    def __call__(self, queue: str, workflow: str, workflow_id: str, *arguments: str) -> None:
        """Queue one workflow."""


class MessageUpdates(BackgroundLoop):
    """Looks in the store when it changes, and every few seconds for what is due by now."""

    expected_errors = ENGINE_ERRORS

    def __init__(
        self,
        store: Store,
        targets: Sequence[ReplyTarget],
        enqueue: Enqueue,
        *,
        every_s: float,
        rest_s: float = 0.0,
        edit_every: timedelta = EDIT_EVERY,
    ) -> None:
        super().__init__("message updates", every_s=every_s, rest_s=rest_s, part="retelling")
        self._store = store
        self._due = DueUpdates(store.engine, edit_every=edit_every)
        self._targets = targets
        self._enqueue = enqueue
        self._refused: dict[tuple[str, str], datetime] = {}

    def turn(self) -> bool:
        """Look once."""
        self.look()
        return False

    def look(self, now: datetime | None = None) -> None:
        """Queue and post what is due."""
        now = now or datetime.now(UTC)
        for rerun in self._due.to_rerun():
            self._run_again(rerun)
        for revision in self._due.revisions(now):
            self._update(revision, now)
        for digest in self._due.due_digests(now):
            self._post(digest, self._posting(), now)

    def _run_again(self, rerun: Rerun) -> None:
        workflow_id = f"{rerun.investigation_id}:again{rerun.number}"
        self._enqueue(INVESTIGATIONS, WORKFLOW_INVESTIGATE, workflow_id, rerun.investigation_id)

    def _update(self, due: MessageRevision, now: datetime) -> None:
        """Queued first, marked then: a crash between queues the same ids again, which changes
        nothing."""
        investigation = self._store.get(due.investigation_id)
        if investigation is not None:
            for target in self._targets:
                if target.expects_answer(investigation):
                    self._enqueue_edit(due, target.name)
        self._due.mark_notified(due, now)

    def _enqueue_edit(self, due: MessageRevision, target: str) -> None:
        # Workflows that an earlier version queued bear this id, so it stays as it is.
        workflow_id = f"{due.investigation_id}:{target}:told{due.revision}"
        arguments = (due.investigation_id, target)
        self._enqueue(reply_queue(target), WORKFLOW_REPLY, workflow_id, *arguments)

    def _posting(self) -> list[PostsDigests]:
        posts_digests: list[PostsDigests] = []
        for target in self._targets:
            if isinstance(target, PostsDigests) and target.posts_digests:
                posts_digests.append(target)
        return posts_digests

    def _post(self, digest: DueDigest, posting: Sequence[PostsDigests], now: datetime) -> None:
        """At every target; one that posted it already is asked again and does nothing then."""
        if not posting:
            return
        # A list, not a generator: after one target has failed, the others still post.
        done = [self._post_at(target, digest, now) for target in posting]
        if all(done):
            self._due.digested(digest, now)

    def _post_at(self, target: PostsDigests, digest: DueDigest, now: datetime) -> bool:
        """Whether nothing is left to do at this target."""
        key = (target.name, digest.channel)
        refused = self._refused.get(key)
        # `abs`: a clock that was set back must not silence a target for hours.
        if refused and abs((now - refused).total_seconds()) < WAIT_AFTER_REFUSAL_S:
            return False
        try:
            investigations = self._store.some(digest.investigation_ids)
            asyncio.run(target.post_digest(digest, investigations))
        except ConnectorError as error:
            self._refused[key] = now
            log.warning("digest: %s; %s", error, "tried again" if error.retryable else "given up")
            # What no retry can mend counts as done, or it would be tried for ever.
            return not error.retryable
        return True
