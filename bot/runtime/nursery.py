"""Processes that begin as forks.

A program spends seconds of processor time on its imports, and a fork of a process with threads may
deadlock. So a process forks a nursery while it has one thread and little is loaded, and asks it for
others later. What many of them need is loaded in a second nursery, which the first one forks when
it is asked to, and which ends when nothing that it forked is left.

A nursery keeps every page of memory as it was when it was forked, while its parent writes to
nearly all of them (each reference to an object counts in it). So it is forked before its parent
loads what only the parent needs.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import sys
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from faultline.bot.runtime import garbage
from faultline.bot.runtime.process_life import call_yourself, die_with_parent

NAME = "nursery"
LONGEST_PID = 16
LOOK_EVERY_S = 1.0
"""How soon a nursery that nobody needs sees it."""


class ForkedChild:
    """A process that this one or a nursery has forked. Its methods may be called from any
    thread."""

    def __init__(self, pid: int, descriptor: int) -> None:
        """`descriptor` is of the process (pidfd_open(2)): its number may be another's once it has
        ended."""
        self.pid = pid
        self._descriptor = descriptor
        weakref.finalize(self, os.close, descriptor)

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
    """A fork of this process that forks others when it is asked to. It ends with this process, and
    all that it forked with it.

    Made while this process has one thread, because a fork copies the locks of all threads and only
    one of them.
    """

    def __init__(self, within: Nursery | None = None) -> None:
        """Forks it; `within` another nursery, it ends also with that one."""
        parent = os.getpid()
        ours, theirs = socket.socketpair()
        self._is_child = within is None
        with theirs:
            if within is not None:
                self.pid = within.start(_keep_within, descriptors=[theirs.fileno()]).pid
            else:
                _flush()
                self.pid = os.fork()
                if self.pid == 0:
                    ours.close()
                    _keep(theirs, parent, None)
        self._line = Line(ours)

    def start(
        self, life: Callable[..., None], *arguments: Any, descriptors: Sequence[int] = ()
    ) -> ForkedChild:
        """A process that calls `life(*arguments, *descriptors)`, with its own descriptors for
        the same files, and ends with it.

        Both must be importable, or packable, as for a process of `multiprocessing`. Raises OSError
        when the nursery has ended.
        """
        return self._line.ask(life, arguments, descriptors)

    def close(self) -> None:
        """End it, and all that it forked."""
        self._line.close((lambda: os.waitpid(self.pid, 0)) if self._is_child else lambda: None)

    def leave(self) -> None:
        """Ask it no more, for another process that has a copy of this one does."""
        self._line.leave()


class LoadedNursery:
    """As a nursery, for processes that need what `load` imports.

    The first one that is asked for begins with the imports. They are gone when nothing that was
    forked is left, and are made again for the next one.
    """

    def __init__(self, within: Nursery, load: Callable[[], None]) -> None:
        """`load` must be importable by name."""
        self._within = within
        self._load = load
        self._changing = threading.Lock()
        self._line: Line | None = None

    def start(
        self, life: Callable[..., None], *arguments: Any, descriptors: Sequence[int] = ()
    ) -> ForkedChild:
        """As `Nursery.start`; raises OSError also where the imports fail."""
        with self._changing:
            if self._line is not None:
                # It ends by itself when it was not needed for a while.
                with contextlib.suppress(OSError):
                    return self._line.ask(life, arguments, descriptors)
                self._line.close()
            self._line = self._begun()
            return self._line.ask(life, arguments, descriptors)

    def close(self) -> None:
        """End it, and all that it forked."""
        with self._changing:
            if self._line is not None:
                self._line.close()
                self._line = None

    def _begun(self) -> Line:
        ours, theirs = socket.socketpair()
        with theirs:
            self._within.start(_keep_for_a_while, self._load, descriptors=[theirs.fileno()])
        return Line(ours)


class Line:
    """What a process asks its nursery by."""

    def __init__(self, ours: socket.socket) -> None:
        self._asking = threading.Lock()
        self._socket = ours
        self._line = Connection(os.dup(ours.fileno()))

    def ask(
        self, life: Callable[..., None], arguments: Sequence[Any], descriptors: Sequence[int]
    ) -> ForkedChild:
        """For a process; raises OSError when the nursery has ended."""
        # Unpacked in the fork, because that imports what it names.
        packed = pickle.dumps((life, arguments))
        with self._asking:
            self._line.send_bytes(len(descriptors).to_bytes(1) + packed)
            socket.send_fds(self._socket, [b" "], descriptors)
            pid, received, _, _ = socket.recv_fds(self._socket, LONGEST_PID, 1)
        if not received:
            raise ConnectionResetError("the nursery has ended")
        return ForkedChild(int(pid), received[0])

    def close(self, then: Callable[[], object] = lambda: None) -> None:
        """Let the nursery end; `then` is called before it can be asked again."""
        with self._asking:
            # Also where a later fork of this process holds a copy of it.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
            then()
            self.leave()

    def leave(self) -> None:
        """Close this process' end, and not that of another one that has a copy."""
        self._line.close()
        self._socket.close()


def fork_here(
    life: Callable[..., None], *arguments: Any, descriptors: Sequence[int] = ()
) -> ForkedChild:
    """A fork of this process that calls `life(*arguments, *descriptors)` and ends with it; call it
    while this process has one thread. The fork has no nursery."""
    parent = os.getpid()
    _flush()
    pid = os.fork()
    if pid == 0:
        _leave_nursery()
        _live(parent, life, [*arguments, *descriptors])
    return ForkedChild(pid, os.pidfd_open(pid))


_nursery: Nursery | None = None
_loaded: LoadedNursery | None = None


def open_nursery(nursery: Nursery | None = None) -> Nursery:
    """From now on this process has one, `nursery` or a new one; call it before anything starts a
    thread."""
    global _nursery, _loaded
    _nursery, _loaded = nursery or Nursery(), None
    return _nursery


def _leave_nursery() -> None:
    """In a fork, which has a copy of what is its parent's."""
    global _nursery, _loaded
    left, _nursery, _loaded = _nursery, None, None
    if left is not None:
        left.leave()


def load_in_nursery(load: Callable[[], None]) -> None:
    """From now on what is asked of this process' nursery has loaded that as well."""
    global _loaded  # noqa: PLW0603
    if _nursery is not None:
        _loaded = LoadedNursery(_nursery, load)


def close_nursery() -> None:
    """End the nursery of this process, and all that it forked."""
    global _nursery, _loaded
    loaded, ended, _nursery, _loaded = _loaded, _nursery, None, None
    if loaded is not None:
        loaded.close()
    if ended is not None:
        ended.close()


def process_nursery() -> Nursery | LoadedNursery | None:
    """The nursery of this process; one that was itself forked has none until it opens its own."""
    return _loaded or _nursery


def _keep(request_socket: socket.socket, parent: int, load: Callable[[], None] | None) -> NoReturn:
    """The life of the nursery, until the other end of its socket is closed."""
    try:
        call_yourself(NAME)
        die_with_parent(parent)
        # They may reach all processes of a service, and its first decides when the others end.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, _forget_the_ended)
        line = Connection(os.dup(request_socket.fileno()))
        if load is not None:
            with garbage.loading():
                load()
        while _await_request(line, for_good=load is None):
            request = line.recv_bytes()
            count, packed = request[0], request[1:]
            _, descriptors, _, _ = socket.recv_fds(request_socket, 1, max(count, 1))
            nursery = os.getpid()
            # A child that ends at once must not be reaped before its descriptor is open.
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
            pid = os.fork()
            if pid == 0:
                line.close()
                request_socket.close()
                _live(nursery, partial(_unpacked, packed), descriptors)
            child = os.pidfd_open(pid)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
            socket.send_fds(request_socket, [str(pid).encode()], [child])
            for descriptor in (child, *descriptors):
                os.close(descriptor)
    except (EOFError, OSError):
        pass
    # The edge of the process: an error must not be taken for one of its parent's.
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        os._exit(0)


def _keep_within(descriptor: int) -> None:
    _keep(socket.socket(fileno=descriptor), os.getppid(), None)


def _keep_for_a_while(load: Callable[[], None], descriptor: int) -> None:
    _keep(socket.socket(fileno=descriptor), os.getppid(), load)


def _await_request(line: Connection, *, for_good: bool) -> bool:
    """Wait for the next request. Returns False if the nursery is not `for_good` and no process
    that it forked is left."""
    while not line.poll(None if for_good else LOOK_EVERY_S):
        if not _has_children():
            return False
    return True


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _unpacked(packed: bytes, *descriptors: int) -> None:
    life, arguments = pickle.loads(packed)  # noqa: S301  from the parent, by a socket of ours
    life(*arguments, *descriptors)


def _live(parent: int, life: Callable[..., None], arguments: Sequence[Any]) -> NoReturn:
    """The whole life of a fork: it never goes back to what its parent was doing."""
    status = 1
    try:
        die_with_parent(parent)
        # As in a program that has just begun: whoever works sets its own.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        life(*arguments)
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    # The edge of the process: an error must not be taken for one of the nursery's.
    except BaseException:  # noqa: BLE001
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(status)


def _flush() -> None:
    # Otherwise a fork would write what waits in them once more.
    sys.stdout.flush()
    sys.stderr.flush()


def _forget_the_ended(*_: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
