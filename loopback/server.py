"""What the vendors on loopback have in common: real HTTP on 127.0.0.1, counted calls, delays,
failures and a hook."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import uvicorn
from starlette.applications import Starlette

Moment = Literal["before", "after"]
Hook = Callable[[str, Moment], None]
START_LIMIT_S = 10.0


@dataclass(frozen=True)
class Failure:
    """One answer that a vendor gives instead of doing what it was asked; `call` None is whichever
    comes next."""

    status: int
    call: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = "internal_error"


@dataclass
class Traffic:
    """How a vendor on loopback behaves, and what it has seen.

    `hook(call, "before")` runs before a call changes anything, `hook(call, "after")` once it has
    and before it is answered; both run on the server's thread, so that a test may kill a process
    exactly there.
    """

    calls: Counter[str] = field(default_factory=Counter)
    delay_before_s: float = 0.0
    delay_after_s: float = 0.0
    hook: Hook | None = None
    failures: deque[Failure] = field(default_factory=deque)

    def fail_next(
        self,
        times: int,
        status: int,
        *,
        call: str | None = None,
        headers: Mapping[str, str] | None = None,
        error: str = "internal_error",
    ) -> None:
        """Answer the next `times` calls (of that name) with `status` and do nothing."""
        self.failures.extend(Failure(status, call, headers or {}, error) for _ in range(times))

    async def arrive(self, call: str) -> Failure | None:
        """Count the call and wait; the failure it is to be answered with, if any."""
        self.calls[call] += 1
        # A failure for a named call waits until that call comes.
        failure = next((f for f in self.failures if f.call in (None, call)), None)
        if failure is not None:
            self.failures.remove(failure)
            return failure
        await asyncio.sleep(self.delay_before_s)
        if self.hook is not None:
            self.hook(call, "before")
        return None

    async def leave(self, call: str) -> None:
        """The call has changed what it changes; wait before it is answered."""
        if self.hook is not None:
            self.hook(call, "after")
        await asyncio.sleep(self.delay_after_s)


def serve_in_thread(
    app: Starlette, *, port: int = 0, host: str = "127.0.0.1"
) -> tuple[str, Callable[[], None]]:
    """Serve the app from a thread. Returns its base URL on this machine and a function that stops
    it."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Bound here, so that the port is known before the server runs.
    listener.bind((host, port))
    config = uvicorn.Config(
        app, log_level="warning", lifespan="off", ws="none", timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(
        target=server.run, kwargs={"sockets": [listener]}, name="loopback", daemon=True
    )
    thread.start()
    deadline = time.monotonic() + START_LIMIT_S
    while not server.started:
        if not thread.is_alive() or time.monotonic() > deadline:
            raise RuntimeError("the vendor on loopback did not start")
        time.sleep(0.005)

    def stop() -> None:
        server.should_exit = True
        thread.join(timeout=START_LIMIT_S)
        with contextlib.suppress(OSError):
            listener.close()

    return f"http://127.0.0.1:{listener.getsockname()[1]}", stop
