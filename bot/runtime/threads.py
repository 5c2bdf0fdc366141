"""The two doors for calls that block, on an event loop: `in_store` for the database, `in_thread`
for files, pictures and the case store.

`asyncio.to_thread` has one pool of threads for everything, so that a database that hangs keeps file
reads waiting, and no bound on how long a call is waited for. ruff forbids it outside this module
(`banned-api` in pyproject.toml).
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import time
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import ParamSpec, TypeVar

from faultline.bot.runtime import measures
from faultline.bot.runtime.replaced_threads import ReplacedThreads

P = ParamSpec("P")
R = TypeVar("R")

STORE_THREADS = 8
"""As many as a process has connections to the database (`faultline.bot.store.connections`): more
threads would only wait for a connection."""
STORE_DEADLINE_S = 120.0
"""Longer than the database's own limits: a connection is waited for 30 s, SQLite's lock another
30 s. What takes longer than both together hangs."""
HANGS_S = 35.0
"""A call that takes longer than the wait for SQLite's lock, or for a connection, gets no answer
soon: its thread is replaced, so that other calls find one."""
SLOW_S = 5.0
"""A call usually takes milliseconds; one that takes this long is worth a line in the log."""

log = logging.getLogger("faultline.store")

_store = ReplacedThreads(STORE_THREADS, hangs_after_s=HANGS_S, name="store")

_goes_first: ContextVar[bool] = ContextVar("goes_first", default=False)


def go_first(first: bool = True) -> None:
    """From here on, in this task, calls of the store overtake those of others: for what somebody
    waits for."""
    _goes_first.set(first)


def hanging() -> int:
    """Threads of this process in which a call of the database hangs."""
    return _store.hanging()


async def in_store(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """A call of the store, in a thread. Raises what it raises, and TimeoutError after
    STORE_DEADLINE_S.

    A call that passes the deadline may still finish: its thread cannot be stopped.
    """
    loop = asyncio.get_running_loop()
    next_look: list[asyncio.TimerHandle] = []
    next_look.append(loop.call_later(HANGS_S, _replace_hanging, loop, next_look))
    began = time.monotonic()
    outcome = "failed"
    deadline = asyncio.timeout(STORE_DEADLINE_S)
    try:
        async with deadline:
            threads = _store.first if _goes_first.get() else _store
            result = await _call(threads, function, *args, **kwargs)
        outcome = "ok"
        return result
    except asyncio.CancelledError:
        outcome = "cancelled"
        raise
    finally:
        next_look.pop().cancel()
        if deadline.expired():
            outcome = "late"
        took = time.monotonic() - began
        measures.STORE_CALLS.labels(outcome).observe(took)
        if took >= SLOW_S:
            # A `partial` has no `__qualname__`.
            name = getattr(function, "__qualname__", type(function).__name__)
            log.warning("%s: %s after %.1f s", name, outcome, took)


def _replace_hanging(loop: asyncio.AbstractEventLoop, next_look: list[asyncio.TimerHandle]) -> None:
    """Look again and again: a thread may have begun later than the call that waits for it."""
    _store.replace_hanging()
    next_look[:] = [loop.call_later(HANGS_S, _replace_hanging, loop, next_look)]


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """A call that blocks on anything but the database: files, pictures, the case store. Without a
    deadline, as a large trace takes minutes to copy. Raises what the call raises."""
    return await _call(None, function, *args, **kwargs)


async def _call(
    executor: Executor | None, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs
) -> R:
    # With the caller's context, as `asyncio.to_thread`: log lines name the investigation.
    context = contextvars.copy_context()
    call = functools.partial(context.run, function, *args, **kwargs)
    return await asyncio.get_running_loop().run_in_executor(executor, call)
