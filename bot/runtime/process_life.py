"""A child process ends with its parent, and says when it is ready."""

from __future__ import annotations

import ctypes
import os
import signal

PR_SET_PDEATHSIG = 1
"""prctl(2): the kernel ends the child when its parent dies, also after kill -9."""

PR_SET_NAME = 15
"""prctl(2): what `ps -o comm` shows; 15 characters at most."""

WORKER_NAME = "worker"
"""What a worker calls itself: a fork of the server has the server's command line."""


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


def say_ready(ready_fd: int | None) -> None:
    """Tell the supervisor that this worker takes work."""
    if ready_fd is not None:
        os.write(ready_fd, b"1")
        os.close(ready_fd)
