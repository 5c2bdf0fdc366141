"""Processes that begin as forks, and end with their parent.

A program spends seconds of processor time on its imports, and a fork of a process with threads may
deadlock. So `faultline serve` and `faultline worker` fork a nursery while they have one thread, and
ask it for others later. Whoever is forked after the nursery may ask it too.

A nursery keeps every page of memory as it was when it was forked, while its parent writes to nearly
all of them (each reference to an object counts in it). So it is forked before its parent loads what
only the parent needs. What many processes need is loaded in a copy of the nursery, which ends when
nothing that it forked is left.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import pickle
import select
import signal
import socket
import sys
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from faultline.bot.runtime import garbage

PR_SET_PDEATHSIG = 1
"""prctl(2): the kernel ends the child when its parent dies, also after kill -9."""
PR_SET_NAME = 15
"""prctl(2): what `ps -o comm` shows; 15 characters at most."""
WORKER_NAME = "worker"
"""What a worker calls itself: a fork of the server has the server's command line."""
NURSERY_NAME = "nursery"
LONGEST_PID = 16
LINGER_S = 1.0
"""How long the copy of a nursery stays when nothing that it forked is left."""


def call_yourself(name: str) -> None:
    """Give this process a name for whoever looks at the machine's processes."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode())


def die_with_parent(parent: int) -> None:
    """Ask the kernel to end this process when `parent` dies; end it now if that has happened
    already."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    # The parent may have died before the request, and the kernel does not say so later.
    if os.getppid() != parent:
        os._exit(1)


class ProcessHandle:
    """A process. Its methods may be called from any thread."""

    def __init__(self, pid: int, descriptor: int) -> None:
        """`descriptor` is of the process (pidfd_open(2)): its number may be another's once it has
        ended."""
        self.pid = pid
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

    def fileno(self) -> int:
        """What can be read from once it has ended."""
        return self._descriptor

    def signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._descriptor, number)

    def kill(self) -> None:
        """End it now."""
        self.signal(signal.SIGKILL)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for its end; says whether it has ended."""
        poll = select.poll()
        poll.register(self._descriptor, select.POLLIN)
        ended = bool(poll.poll(None if timeout_s is None else 1000 * timeout_s))
        if ended:
            # Only this process's own child can be reaped here; a nursery reaps its children.
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, os.WNOHANG)
        return ended


class Nursery:
    """A fork of this process that forks others when it is asked to, and ends with it.

    Made while this process has one thread, because a fork copies the locks of all threads and only
    one of them. It may be asked from any thread, and by every process that is forked later.
    """

    def __init__(self) -> None:
        self._requests, requests = socket.socketpair()
        # Apart, so that the copy takes no request for a process that needs nothing loaded.
        self._requests_to_load, requests_to_load = socket.socketpair()
        with requests, requests_to_load:
            self._process = fork_here(_keep, self, requests, requests_to_load)
        self.pid = self._process.pid

    def start(
        self,
        life: Callable[..., None],
        *arguments: Any,
        descriptors: Sequence[int] = (),
        load: Callable[[], None] | None = None,
    ) -> ProcessHandle:
        """A process that calls `life(*arguments, *descriptors)`, with its own descriptors for
        the same files, as nice as this one. It ends with this process, and with the nursery.

        With `load`, it is a fork of one that has called that. All must be importable, or packable,
        as for a process of `multiprocessing`. Raises OSError when the nursery has ended, or cannot
        load that.
        """
        # Unpacked in the fork, because that imports what it names.
        packed = pickle.dumps((life, arguments))
        requests = self._requests_to_load if load is not None else self._requests
        # A connection for each request: whoever dies in the middle of one spoils no other.
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(requests, [b" "], [theirs.fileno()])
            with Connection(os.dup(ours.fileno())) as line:
                line.send((load, os.getpid(), packed, len(descriptors)))
            socket.send_fds(ours, [b" "], descriptors)
            pid, received, _, _ = socket.recv_fds(ours, LONGEST_PID, 1)
        if not received:
            raise ConnectionResetError("the nursery has ended")
        return ProcessHandle(int(pid), received[0])

    def close(self) -> None:
        """End it, and all that it forked."""
        self._process.kill()
        self._process.join()
        self._requests.close()
        self._requests_to_load.close()


def fork_here(
    life: Callable[..., None], *arguments: Any, descriptors: Sequence[int] = ()
) -> ProcessHandle:
    """A fork of this process that calls `life(*arguments, *descriptors)` and ends with it; call it
    while this process has one thread."""
    parent = os.getpid()
    # Otherwise the fork would write what waits in them once more.
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        _live(parent, partial(life, *arguments, *descriptors))
    return ProcessHandle(pid, os.pidfd_open(pid))


_nursery: Nursery | None = None


def open_nursery() -> Nursery:
    """From now on this process has one; call it before anything starts a thread."""
    global _nursery  # noqa: PLW0603
    _nursery = Nursery()
    return _nursery


def close_nursery() -> None:
    """End the nursery of this process, and all that it forked."""
    global _nursery
    ended, _nursery = _nursery, None
    if ended is not None:
        ended.close()


def process_nursery() -> Nursery | None:
    """The nursery that this process opened, or that it was forked from or after."""
    return _nursery


def _keep(nursery: Nursery, requests: socket.socket, requests_to_load: socket.socket) -> None:
    """The life of the nursery."""
    global _nursery  # noqa: PLW0603
    _nursery = nursery
    _begin_to_keep()
    forks = _Forks([requests, requests_to_load])
    copy: ProcessHandle | None = None
    while True:
        ready = forks.wait(requests, copy or requests_to_load)
        if requests in ready:
            forks.answer(requests)
        elif requests_to_load in ready:
            copy = fork_here(_keep_loaded, requests, requests_to_load)
        elif copy is not None and copy in ready:
            copy.join()
            copy = None


def _keep_loaded(requests: socket.socket, requests_to_load: socket.socket) -> None:
    """The life of the copy."""
    requests.close()
    _begin_to_keep()
    forks = _Forks([requests_to_load])
    forks.answer(requests_to_load)
    while True:
        # A pool that ends a process may start another one.
        ready = forks.wait(requests_to_load, timeout_s=None if forks.living else LINGER_S)
        if requests_to_load in ready:
            forks.answer(requests_to_load)
        elif not (ready or forks.living):
            return


def _begin_to_keep() -> None:
    call_yourself(NURSERY_NAME)
    # They may reach all processes of a service, and its first decides when the others end.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class _Forks:
    """What a nursery has forked: each ends with the process that asked for it."""

    def __init__(self, inherited: Sequence[socket.socket]) -> None:
        """`inherited` are the sockets that its forks must not keep: they end with the nursery."""
        self._inherited = inherited
        self.living: dict[ProcessHandle, ProcessHandle] = {}
        """By process, who asked for it."""

    def wait(
        self, *awaited: socket.socket | ProcessHandle, timeout_s: float | None = None
    ) -> Sequence[object]:
        """What of this can be read from, or has ended; none when the time is up."""
        watched = [*awaited, *self.living, *self.living.values()]
        ready, _, _ = select.select(watched, [], [], timeout_s)
        for child, user in [*self.living.items()]:
            if user in ready:
                child.kill()
            if user in ready or child in ready:
                child.join()
                del self.living[child]
        return ready

    def answer(self, requests: socket.socket) -> None:
        """Fork what is asked for next. An error when it is loaded ends the nursery."""
        _, connection, _, _ = socket.recv_fds(requests, 1, 1)
        # Whoever asks may end meanwhile.
        with (
            contextlib.suppress(EOFError, OSError),
            socket.socket(fileno=connection[0]) as reply,
        ):
            with Connection(os.dup(reply.fileno())) as line:
                load, user_pid, packed, count = line.recv()
            _, descriptors, _, _ = socket.recv_fds(reply, 1, max(count, 1))
            user = ProcessHandle(user_pid, os.pidfd_open(user_pid))
            if load is not None:
                _be_as_nice_as(user_pid)
                with garbage.loading():
                    load()
            child = fork_here(self._begin, user_pid, packed, reply, descriptors=descriptors)
            self.living[child] = user
            socket.send_fds(reply, [str(child.pid).encode()], [child.fileno()])
            for descriptor in descriptors:
                os.close(descriptor)

    def _begin(self, user_pid: int, packed: bytes, reply: socket.socket, *descriptors: int) -> None:
        for nursery_socket in (*self._inherited, reply):
            nursery_socket.close()
        _be_as_nice_as(user_pid)
        life, arguments = pickle.loads(packed)  # noqa: S301  from the parent, by a socket of ours
        life(*arguments, *descriptors)


def _be_as_nice_as(pid: int) -> None:
    nicer = os.getpriority(os.PRIO_PROCESS, pid) - os.getpriority(os.PRIO_PROCESS, 0)
    os.nice(max(0, nicer))


def _live(parent: int, life: Callable[[], None]) -> NoReturn:
    """The whole life of a fork: it never goes back to what its parent was doing."""
    status = 1
    try:
        die_with_parent(parent)
        # As in a program that has just begun: whoever works sets its own.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        life()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    # The edge of the process: an error must not be taken for one of its parent's.
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)
