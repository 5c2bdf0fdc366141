"""Exactly one post outside, whatever crashes: claim it in the store, look for it at the vendor,
only then send it.

A vendor's POST is not idempotent and a crash may fall on either side of it. So the right to post is
claimed in the store first. Whoever finds that somebody attempted before waits until that attempt
can no longer be under way, looks for the post at the vendor, and sends only when it is not there. A
vendor may apply a request long after its sender left it, so the post is looked for three times, a
lease apart. A live holder keeps renewing its claim, so that a second live worker waits for it
however long the vendor makes it wait.

Where the vendor certainly posted nothing (it refused, or was never reached), the claim is given
back, and the next attempt waits for nothing and looks for nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Protocol

from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import ConnectorError
from faultline.bot.runtime.threads import in_store
from faultline.bot.store.store import PostClaim

REQUEST_TIMEOUT_S = 8
"""Time limit of one request of the vendors' clients; whole seconds, as slack_sdk types it."""
LEASE = timedelta(seconds=10)
"""An attempt older than this has nobody behind it any more: the request's own time limit, and 2 s
for clocks of different machines and for a request that was already on the wire when its sender
died."""
LOOKS = 3
"""An attempt that does not show within this many leases never will: 30 s, as a gateway
leaves a request after 29 s by default
(https://aws.amazon.com/about-aws/whats-new/2024/06/amazon-api-gateway-integration-timeout-limit-29-seconds/)."""
RENEW_SHARE = 0.25
"""A live holder renews its claim four times per lease, so that one slow renewal does not lose
it."""
POLL_S = 0.25
"""How often a second worker looks whether the first has posted."""

NOT_DONE = frozenset({*range(400, 500), 503}) - {408}
"""Statuses with which a vendor says that it did not do what it was asked (RFC 9110, 15.5 and
15.6.4). After another 5xx it may have begun, or a gateway may have given up on it."""

Find = Callable[[], Awaitable[str | None]]
Send = Callable[[], Awaitable[str]]


class Claims(Protocol):
    """Where claims are kept: the store's posts, or those of the conversation."""

    def release_post(self, key: str, /, *, owner: str) -> None:
        """Forget the owner's attempt, which certainly posted nothing."""

    def claim_post(
        self, key: str, investigation_id: str, /, *, owner: str, lease: timedelta
    ) -> PostClaim:
        """Claim the right to post under `key`; the second argument is what the post is about."""

    def record_post(self, key: str, ref: str) -> None:
        """The vendor has it, under `ref`."""


async def post_once(
    store: Claims,
    key: str,
    investigation_id: str,
    *,
    owner: str,
    find: Find,
    send: Send,
    lease: timedelta = LEASE,
) -> str:
    """The ref of the one post under `key`, sent now or by anybody before. `find` and `send` may
    raise; call again then. `send` says by `ConnectorError.unchanged` that nothing was posted.

    Each call is a separate owner, so that a retry in the same process does not overtake its
    predecessor's request.
    """
    me = f"{owner}/{secrets.token_hex(4)}"

    def claim() -> PostClaim:
        return store.claim_post(key, investigation_id, owner=me, lease=lease)

    while True:
        claimed_from = datetime.now(UTC)
        granted = await in_store(claim)
        if granted.ref is not None:
            return granted.ref
        if not granted.mine:
            await asyncio.sleep(min(POLL_S, lease.total_seconds() / 4))
            continue
        post = _find_or_send(store, key, granted.attempted_before, find, send, claim, lease)
        try:
            ref = await _while_claimed(post, claim, claimed_from, lease)
        except _Refused as refused:
            # Whoever comes next waits where this fails, and that is all.
            with contextlib.suppress(SQLAlchemyError, TimeoutError):
                await in_store(partial(store.release_post, key, owner=me))
            raise refused.error from refused.error.__cause__
        if ref is not None:
            return ref


async def _find_or_send(
    store: Claims,
    key: str,
    attempted_before: datetime | None,
    find: Find,
    send: Send,
    claim: Callable[[], PostClaim],
    lease: timedelta,
) -> str | None:
    """The post's ref, or None where the claim was lost on the way."""
    ref = None
    if attempted_before is not None:
        ref = await _find_settled(find, attempted_before, lease)
        # This process may have stood still meanwhile, and another may be posting.
        if ref is None and not (await in_store(claim)).mine:
            return None
    if ref is None:
        try:
            ref = await send()
        except ConnectorError as error:
            if error.unchanged:
                raise _Refused(error) from error
            raise
    await in_store(store.record_post, key, ref)
    return ref


class _Refused(Exception):
    """The vendor certainly posted nothing. What `find` raises says nothing about that."""

    def __init__(self, error: ConnectorError) -> None:
        super().__init__(str(error))
        self.error = error


async def _find_settled(find: Find, attempted: datetime, lease: timedelta) -> str | None:
    """Look once the attempt can be under way no longer, and again while it may still show."""
    for look in range(1, LOOKS + 1):
        left = (attempted + look * lease - datetime.now(UTC)).total_seconds()
        # Of the looks whose time has passed, one is enough.
        if left <= 0 and look > 1:
            continue
        # A clock that was set back makes nobody wait for more than a lease.
        await asyncio.sleep(max(0.0, min(left, lease.total_seconds())))
        ref = await find()
        if ref is not None:
            return ref
    return None


async def _while_claimed(
    post: Awaitable[str | None],
    claim: Callable[[], PostClaim],
    claimed_from: datetime,
    lease: timedelta,
) -> str | None:
    """The post's ref, or None when the claim was lost on the way (this process had stood still for
    a lease)."""
    work = asyncio.ensure_future(post)
    renewing = asyncio.create_task(_renew_until_lost(claim, claimed_from, lease))
    try:
        await asyncio.wait({work, renewing}, return_when=asyncio.FIRST_COMPLETED)
        return work.result() if work.done() else None
    finally:
        # Nobody may post without a claim, so the work ends with it.
        for task in (work, renewing):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task


async def _renew_until_lost(
    claim: Callable[[], PostClaim], claimed_from: datetime, lease: timedelta
) -> None:
    """Renew the claim; return when it was ours no longer, or when the lease is over without a
    renewal. A database that is down for a moment is asked again."""
    ends = claimed_from + lease
    while (left := (ends - datetime.now(UTC)).total_seconds()) > 0:
        await asyncio.sleep(min(left, lease.total_seconds() * RENEW_SHARE))
        began = datetime.now(UTC)
        try:
            # A renewal that takes longer than the lease is worth nothing.
            async with asyncio.timeout((ends - began).total_seconds()):
                renewed = await in_store(claim)
        except (SQLAlchemyError, TimeoutError):
            continue
        # A renewal that came too late may have followed another worker's claim.
        if not renewed.mine or datetime.now(UTC) > ends:
            return
        ends = began + lease
