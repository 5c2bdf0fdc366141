"""The two doors for calls that block, on an event loop: `in_store` for the database, `in_thread`
for files, pictures and the case store. And what takes long to load, made by the first who needs it.

`asyncio.to_thread` has one pool of threads for everything, so that a database that hangs keeps file
reads waiting, and no bound on how long a call is waited for. ruff forbids it outside this module
(`banned-api` in pyproject.toml). `ThreadPoolExecutor` keeps a hung thread among its own, so that a
pool is used up after as many calls that hang as it has threads, and waits for it when the program
ends. In `ReplacedThreads` a call that hangs keeps no other waiting: its thread is replaced.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextvars import ContextVar
from typing import Any, Generic, ParamSpec, TypeVar

from faultline.bot.runtime import garbage, measures

P = ParamSpec("P")
R = TypeVar("R")

MOST_REPLACED = 64
"""Threads that hang at once and were replaced. Each holds memory, and maybe a connection."""

FIRST_IN_A_ROW = 3
"""Calls of those that go first, for each that waits otherwise."""

_Call = tuple[Future[Any], Callable[[], Any]]


class ReplacedThreads(Executor):
    """`count` threads that take calls in their order, begun as they are needed. Calls of `first`
    overtake others, but for one in four."""

    def __init__(self, count: int, *, hangs_after_s: float, name: str) -> None:
        self._count = count
        self._hangs_after_s = hangs_after_s
        self._name = name
        self._waiting: deque[_Call] = deque()
        self._going_first: deque[_Call] = deque()
        self._in_a_row = 0
        self.first: Executor = _First(self)
        self._changed = threading.Condition()
        self._idle = 0
        self._began: dict[threading.Thread, float] = {}
        """When each thread that is busy began with its call."""
        self._taking: set[threading.Thread] = set()
        """Those that take further calls."""

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        """Queue one call."""
        return self._queued(self._waiting, lambda: function(*args, **kwargs))

    def submit_first(self, function: Callable[[], R]) -> Future[R]:
        """Queue one call before the others."""
        return self._queued(self._going_first, function)

    def _queued(self, queue: deque[_Call], function: Callable[[], R]) -> Future[R]:
        future: Future[R] = Future()
        with self._changed:
            queue.append((future, function))
            self._begin_threads()
            self._changed.notify()
        return future

    def replace_hanging(self) -> None:
        """Begin a thread for each that has been busy with one call for too long."""
        latest = time.monotonic() - self._hangs_after_s
        with self._changed:
            for thread, began in self._began.items():
                if began <= latest and self._replaced() < MOST_REPLACED:
                    self._taking.discard(thread)
            self._begin_threads()

    def hanging(self) -> int:
        """Threads that have been busy with one call for too long."""
        latest = time.monotonic() - self._hangs_after_s
        with self._changed:
            return sum(began <= latest for began in self._began.values())

    def _replaced(self) -> int:
        return sum(thread not in self._taking for thread in self._began)

    def _begin_threads(self) -> None:
        shortage = len(self._waiting) + len(self._going_first) - self._idle
        for _ in range(min(shortage, self._count - len(self._taking))):
            # Nobody waits for a thread that hangs when the program ends, hence `daemon`.
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            thread.start()
            self._taking.add(thread)

    def _run(self) -> None:
        me = threading.current_thread()
        while (call := self._next(me)) is not None:
            future, function = call
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001  handed to the caller
                future.set_exception(error)
            else:
                future.set_result(result)
            # Otherwise the last call's result stays in memory until the next call.
            del call, future, function

    def _next(self, me: threading.Thread) -> _Call | None:
        """The next call; None where this thread was replaced."""
        with self._changed:
            self._began.pop(me, None)
            if me not in self._taking:
                return None
            while not self._waiting and not self._going_first:
                self._idle += 1
                self._changed.wait()
                self._idle -= 1
            self._began[me] = time.monotonic()
            return self._taken()

    def _taken(self) -> _Call:
        is_usual_turn = self._waiting and self._in_a_row >= FIRST_IN_A_ROW
        if self._going_first and not is_usual_turn:
            self._in_a_row += 1
            return self._going_first.popleft()
        self._in_a_row = 0
        return self._waiting.popleft()


class _First(Executor):
    """The same threads, for those who go first."""

    def __init__(self, threads: ReplacedThreads) -> None:
        self._threads = threads

    def submit(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> Future[R]:
        return self._threads.submit_first(lambda: function(*args, **kwargs))


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


T = TypeVar("T")


class ByNeed(Generic[T]):
    """A value that is made once, in a thread: its modules are loaded then, and the event loop goes
    on."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._making = threading.Lock()
        self.made: T | None = None

    async def get(self) -> T:
        """The value. Raises what `make` raises; the next one tries again."""
        return self.made if self.made is not None else await in_thread(self._once)

    def _once(self) -> T:
        with self._making:
            # Look again under the lock: another thread may have made it.
            made = self.made
            if made is None:
                with garbage.loading():
                    made = self._make()
                self.made = made
            return made
