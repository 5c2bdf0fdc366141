"""Processes that are kept for heavy work: each runs one task at a time, within its time and memory,
and a task that ends its process fails alone.

Each process has its own pipe to this one. With a queue that all processes share, as in
`concurrent.futures` and `pebble`, one that is killed takes the others' work with it
(docs/decisions.md).
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import multiprocessing
import os
import pickle
import resource
import signal
import threading
import time
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, TypeVar

from faultline.analysis.errors import BudgetExceeded
from faultline.analysis.secrets.redaction import Rule, rules_in_use, use_rules
from faultline.bot.policy.priority import USUAL
from faultline.bot.runtime import garbage
from faultline.bot.runtime.nursery import ProcessHandle, die_with_parent, process_nursery

A = TypeVar("A")
R = TypeVar("R")

TASK_DEADLINE_S = 300.0
"""A case is analysed in seconds; minutes mean that something is wrong with it."""
START_DEADLINE_S = 120.0
"""A process starts in one second, on a machine that is busy in ten."""
TRIES = 2
"""A process may be killed for what another one did: when memory is short, the kernel kills the
largest."""
TASKS_PER_PROCESS = 500
"""A process is replaced after this many tasks, so that memory that libraries never give back does
not grow for as long as the worker runs. A start takes about a second: two milliseconds a task."""
IDLE_S = 30.0
"""A process without work for this long is ended: it holds 100 MB, and is back in .3 s. The analyses
of one incident follow each other faster."""


@dataclass(frozen=True)
class ProcessSetup:
    """How a process of a pool begins."""

    memory_bytes: int | None = None
    """What it may allocate; a task that needs more gets a MemoryError."""
    niceness: int = 0
    """Added to the nice value of this process."""
    load: Callable[[], None] | None = None
    """Imports what its tasks need, before the first; must itself be importable by name."""
    redaction: tuple[Rule, ...] = field(default_factory=rules_in_use)
    """The operator's rules, which a process that imports everything again does not have."""
    parent: int = field(default_factory=os.getpid)


class ProcessEndedError(Exception):
    """The process was killed, or ended itself, before its task was done."""


class PooledProcess:
    """One process for one task at a time. It starts with its first task, and again with the next
    task after it ended. Its methods may be called from any thread."""

    def __init__(self, setup: ProcessSetup) -> None:
        self._setup = setup
        self._busy = threading.Lock()
        self._changing = threading.Lock()
        self._closed = False
        self._process: BaseProcess | ProcessHandle | None = None
        self._pipe: Connection | None = None
        self._tasks = 0
        self._last_used = 0.0

    def call(self, function: Callable[[A], R], argument: A, deadline_s: float | None) -> R:
        """`function(argument)` in the process; blocks. Raises what the function raises,
        ProcessEndedError, and BudgetExceeded after the deadline, when the process was killed.

        The deadline counts from when the process is ready for the task.
        """
        # A caller that was cancelled may not have let go of it yet.
        with self._busy:
            if self._tasks >= TASKS_PER_PROCESS:
                self.kill()
            try:
                pipe = self._pipe or self._started()
                pipe.send((function, argument))
                succeeded, outcome = self._outcome(pipe, deadline_s)
            # The pipe closed, perhaps within a message.
            except (EOFError, OSError) as error:
                self.kill()
                raise ProcessEndedError from error
            finally:
                self._last_used = time.monotonic()
            self._tasks += 1
        if not succeeded:
            raise outcome
        result: R = outcome
        return result

    def kill(self) -> None:
        """End the process now; whoever waits for its task gets a ProcessEndedError."""
        with self._changing:
            process = self._process
            self._process = None
            self._pipe = None
            self._tasks = 0
        if process is not None:
            process.kill()
            process.join()

    def end_if_idle(self, idle_s: float) -> float | None:
        """End it if its last task ended `idle_s` ago or earlier. Returns the seconds after which to
        ask again, or None if it does not run."""
        if not self._busy.acquire(blocking=False):
            return idle_s
        try:
            left = self._last_used + idle_s - time.monotonic()
            if left <= 0:
                self.kill()
            return left if self._process is not None else None
        finally:
            self._busy.release()

    def close(self) -> None:
        """End it, and start it no more."""
        with self._changing:
            self._closed = True
        self.kill()

    def _started(self) -> Connection:
        """Start the process and wait until it is ready; gives the pipe to it."""
        ours, theirs = multiprocessing.Pipe()
        with self._changing:
            if self._closed:
                raise ProcessEndedError
            self._process = self._forked(theirs) or self._spawned(theirs)
            self._pipe = ours
        # With the only other end in the child, its death is read as the end of the pipe.
        theirs.close()
        if not ours.poll(START_DEADLINE_S):
            self.kill()
            raise BudgetExceeded("analysis time", f"{START_DEADLINE_S:g} s to start a process")
        ours.recv()
        return ours

    def _forked(self, theirs: Connection) -> ProcessHandle | None:
        """A process that has everything loaded, where this one has a nursery."""
        nursery = process_nursery()
        # The limit counts private memory, which of a fork is also all that the worker has loaded.
        if nursery is None or self._setup.memory_bytes is not None:
            return None
        # A nursery that was killed is no reason to analyse nothing.
        with contextlib.suppress(OSError):
            setup, pipe = self._setup, theirs.fileno()
            return nursery.start(_serve_forked, setup, descriptors=[pipe], load=setup.load)
        return None

    def _spawned(self, theirs: Connection) -> BaseProcess:
        """A process that imports everything again: a fork of one with threads may deadlock."""
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=_serve, args=(theirs, self._setup), daemon=True)
        process.start()
        return process

    def _outcome(self, pipe: Connection, deadline_s: float | None) -> tuple[bool, Any]:
        """Whether the task succeeded, and its result or its error."""
        if not pipe.poll(deadline_s):
            self.kill()
            raise BudgetExceeded("analysis time", f"{deadline_s:g} s")
        succeeded, outcome = pipe.recv()
        return succeeded, outcome


class PrioritySlots:
    """A bounded number of places: who is most urgent gets the next one, equals in their order.
    Bound to one event loop."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._turn = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    @contextlib.asynccontextmanager
    async def slot(self, priority: int) -> AsyncIterator[None]:
        """A place for the time of the block."""
        await self._take(priority)
        try:
            yield
        finally:
            self._give_back()

    async def _take(self, priority: int) -> None:
        if self._free:
            self._free -= 1
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._turn), future))
        try:
            await future
        except asyncio.CancelledError:
            # It may have got its place at the same moment.
            if not future.cancelled():
                self._give_back()
            raise

    def _give_back(self) -> None:
        while self._waiting:
            _, _, future = heapq.heappop(self._waiting)
            if not future.done():
                future.set_result(None)
                return
        self._free += 1


class ProcessPool:
    """Processes that die with this one. Those not needed are not started, and those not needed for
    `idle_s` are ended.

    `deadline_s` is each task's time, None for as long as it takes. Bound to one event loop.
    """

    def __init__(
        self,
        *,
        deadline_s: float | None = TASK_DEADLINE_S,
        idle_s: float = IDLE_S,
        workers: int | None = None,
        memory_bytes: int | None = None,
        niceness: int = 0,
        load: Callable[[], None] | None = None,
    ) -> None:
        self._deadline_s = deadline_s
        self._idle_s = idle_s
        setup = ProcessSetup(memory_bytes, niceness, load)
        count = workers or os.cpu_count() or 1
        self._processes = [PooledProcess(setup) for _ in range(count)]
        self._free = list(self._processes)
        # A process dies with the thread that started it (see `die_with_parent`): these threads
        # live until the pool is closed.
        self._threads = ThreadPoolExecutor(count, thread_name_prefix="process pool")
        self._slots = PrioritySlots(count)
        self._look: asyncio.TimerHandle | None = None
        self._closed = False

    async def run(self, function: Callable[[A], R], argument: A, *, priority: int = USUAL) -> R:
        """`function(argument)` in a process. Raises BudgetExceeded after the deadline, or when the
        process was killed at each of TRIES.

        The deadline counts from when a process is ready: waiting behind others is nobody's fault.
        A closed pool returns nothing: this process ends, and whoever takes over its work starts
        it again. Tasks wait for a process in the order of their `priority`, 0 first.
        """
        async with self._slots.slot(priority):
            for _ in range(TRIES):
                if self._closed:
                    break
                try:
                    return await self._run_once(function, argument)
                except ProcessEndedError:
                    continue
            if self._closed:
                await asyncio.Event().wait()
            raise BudgetExceeded("memory", "an analysis process")

    def close(self) -> None:
        """End the processes; takes some milliseconds."""
        self._closed = True
        for process in self._processes:
            process.close()
        self._threads.shutdown(wait=False)

    async def _run_once(self, function: Callable[[A], R], argument: A) -> R:
        # The one used last: the others may not even have to start.
        process = self._free.pop()
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(
                self._threads, process.call, function, argument, self._deadline_s
            )
        except asyncio.CancelledError:
            process.kill()
            raise
        finally:
            self._free.append(process)
            if self._look is None:
                self._look = loop.call_later(self._idle_s, self._end_idle, loop)

    def _end_idle(self, loop: asyncio.AbstractEventLoop) -> None:
        self._look = None
        if self._closed:
            return
        left = [process.end_if_idle(self._idle_s) for process in self._processes]
        running = [remaining_s for remaining_s in left if remaining_s is not None]
        if running:
            self._look = loop.call_later(min(running), self._end_idle, loop)
        else:
            garbage.give_back()


def _serve_forked(setup: ProcessSetup, pipe: int) -> None:
    _serve(Connection(pipe), replace(setup, parent=os.getppid()))


def _serve(pipe: Connection, setup: ProcessSetup) -> None:
    """The life of a process: tasks, one after the other, until the pipe ends."""
    # Ctrl-C in a terminal goes to every process; the parent decides when this one ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent(setup.parent)
    garbage.look_rarely()
    os.nice(setup.niceness)
    if setup.memory_bytes is not None:
        # getrlimit(2): since Linux 4.7 this limit counts private memory, and not what is mapped.
        resource.setrlimit(resource.RLIMIT_DATA, (setup.memory_bytes, setup.memory_bytes))
    use_rules(setup.redaction)
    if setup.load is not None:
        setup.load()
    pipe.send("ready")
    while True:
        try:
            task = pipe.recv_bytes()
        except EOFError:
            return
        _send_outcome(pipe, *_outcome_of(task))


def _outcome_of(task: bytes) -> tuple[bool, object]:
    """Whether the task succeeded, and its result or its error."""
    try:
        function, argument = pickle.loads(task)  # noqa: S301  from the parent, by a pipe of ours
        return True, function(argument)
    # The edge of the task: its error is raised where the task was given.
    except Exception as error:  # noqa: BLE001
        error.add_note(f"in a process of the pool:\n{traceback.format_exc()}")
        return False, error


def _send_outcome(pipe: Connection, succeeded: bool, outcome: object) -> None:
    try:
        packed = pickle.dumps((succeeded, outcome))
        if not succeeded:
            # An error may be packed and yet not unpack: where its class takes other arguments.
            pickle.loads(packed)  # noqa: S301
    except Exception as error:  # noqa: BLE001
        runtime_error = RuntimeError(f"cannot be sent: {outcome!r:.300} ({type(error).__name__})")
        packed = pickle.dumps((False, runtime_error))
    pipe.send_bytes(packed)
