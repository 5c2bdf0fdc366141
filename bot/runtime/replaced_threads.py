"""A pool of threads in which a call that hangs keeps no other waiting: its thread is replaced.

`ThreadPoolExecutor` keeps a hung thread among its own, so that a pool is used up after as many
calls that hang as it has threads, and waits for it when the program ends.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, ParamSpec, TypeVar

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
