"""Calls of the store that may hang: each has a deadline, after which its thread is left behind, its
connection cut, and the next call goes over a new one."""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import threading
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from sqlalchemy import Engine, event, text

from faultline.analysis.errors import FaultlineError
from faultline.bot.store.connect import connect
from faultline.bot.store.store import Store

T = TypeVar("T")

MAX_HANGING = 8
"""Threads left behind at once; each may hold a connection of the database."""
CONNECT_TIMEOUT_S = 5
ENDING_S = 0.05
"""What a thread needs to end once its function has returned."""


class StoreHangsError(FaultlineError):
    """The database gave no answer in time."""


class AbandonableStore:
    """A store with separate connections, used by one thread at a time."""

    def __init__(self, open_: Callable[[], Store], *, within_s: float) -> None:
        """`open_` makes a store with a new engine; it must not ask the database."""
        self._open = open_
        self._within_s = within_s
        self._store: Store | None = None
        self._connections: list[Any] = []
        self._hanging: list[threading.Thread] = []
        _stores.add(self)

    def hanging(self) -> int:
        """Threads that were left behind and have not ended."""
        self._hanging = [thread for thread in self._hanging if thread.is_alive()]
        return len(self._hanging)

    def call(self, function: Callable[[Store], T]) -> T:
        """What the function gives or raises. Raises StoreHangsError after the deadline; the call
        may still succeed."""
        if self.hanging() >= MAX_HANGING:
            raise StoreHangsError(f"{MAX_HANGING} calls of the database hang")
        store = self._store = self._store or self._opened()
        connections = self._connections
        ended: queue.SimpleQueue[Callable[[], T]] = queue.SimpleQueue()

        def run() -> None:
            try:
                result = function(store)
            except BaseException as error:  # noqa: BLE001  handed to the caller
                failure = error
                ended.put(lambda: _raise(failure))
            else:
                ended.put(lambda: result)
            if self._store is not store:
                _close(store, connections)

        thread = threading.Thread(target=run, name="store writes", daemon=True)
        thread.start()
        try:
            outcome = ended.get(timeout=self._within_s)
        except queue.Empty:
            self._hanging.append(thread)
            self._abandon()
            # One that ended just before this did not see that it was left behind.
            thread.join(ENDING_S)
            if not thread.is_alive():
                _close(store, connections)
            raise StoreHangsError(f"no answer within {self._within_s:g} s") from None
        return outcome()

    def close(self) -> None:
        """Close its connections."""
        if self._store is not None:
            self._store.engine.dispose()
            self._store = None

    def _opened(self) -> Store:
        store = self._open()
        # A list of this engine's own: the next engine's connections are not to be cut.
        connections: list[Any] = []
        self._connections = connections
        _track(store.engine, connections)
        return store

    def _abandon(self) -> None:
        self._store = None
        for connection in self._connections:
            # End the wait of a thread that waits for the server's answer. SQLite's ends by itself,
            # with the wait for its lock.
            with contextlib.suppress(Exception):
                duplicate = socket.socket(fileno=os.dup(connection.fileno()))
                with duplicate:
                    duplicate.shutdown(socket.SHUT_RDWR)


_stores: weakref.WeakSet[AbandonableStore] = weakref.WeakSet()


def left_behind() -> int:
    """Threads of this process that were left behind and have not ended."""
    return sum(store.hanging() for store in list(_stores))


def _track(engine: Engine, connections: list[Any]) -> None:
    @event.listens_for(engine, "connect")
    def _connected(connection: Any, _record: Any) -> None:
        connections.append(connection)

    @event.listens_for(engine, "close")
    def _closed(connection: Any, _record: Any) -> None:
        connections[:] = [candidate for candidate in connections if candidate is not connection]


def _close(store: Store, connections: list[Any]) -> None:
    """Also those that came back to a pool which was disposed of before."""
    store.engine.dispose()
    for connection in list(connections):
        with contextlib.suppress(Exception):
            connection.close()


def _raise(error: BaseException) -> Any:
    raise error


def another_store(store: Store) -> Store:
    """The same store over separate connections. An attempt to connect ends within
    `CONNECT_TIMEOUT_S`."""
    url = store.engine.url
    if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
        url = url.update_query_dict({"connect_timeout": str(CONNECT_TIMEOUT_S)})
    url = url.set(drivername=url.get_backend_name())
    return store.over(connect(url.render_as_string(hide_password=False)))


def answers(store: Store) -> None:
    """Raises SQLAlchemyError where the database does not answer."""
    with store.engine.execution_options(reads_only=True).connect() as connection:
        connection.execute(text("SELECT 1"))
