"""A pool of database connections that can run out, as all of them can."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg

from faultline.lab.shop.levers import ServiceLevers
from faultline.lab.shop.telemetry import PodMetrics

WAIT_S = 1.0
STATEMENT_MS = 3_000


class PoolExhausted(Exception):
    """No connection was free in time."""


class DatabasePool:
    """At most `size` connections, opened when first needed."""

    def __init__(
        self, url: str, name: str, size: int, levers: ServiceLevers, metrics: PodMetrics
    ) -> None:
        self._url = url
        self._name = name
        self._layout_size = size
        self._levers = levers
        self._metrics = metrics
        self._idle: list[psycopg.AsyncConnection[tuple[object, ...]]] = []
        self._taken = 0
        self._freed = asyncio.Condition()

    @property
    def size(self) -> int:
        """As the levers say, else the layout."""
        return self._levers.pool_size or self._layout_size

    async def query(self, statement: str) -> None:
        """Run it and throw the rows away. Raises PoolExhausted and psycopg's errors."""
        async with self._connection() as connection:
            for _ in range(self._levers.query_times):
                await connection.execute(statement.encode())

    @asynccontextmanager
    async def _connection(self) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
        await self._take()
        leaked = random.random() < self._levers.leaked_connections
        connection = None
        try:
            connection = await self._open()
            yield connection
        except (psycopg.Error, asyncio.CancelledError):
            # Its session may be in the middle of something: nobody else can use it.
            if connection is not None:
                await connection.close()
                connection = None
            raise
        finally:
            if connection is not None:
                self._idle.append(connection)
            # A leak is just this: the connection is idle, and the pool believes it is in use.
            if not leaked:
                await self._give_back()

    async def _take(self) -> None:
        began = time.monotonic()
        try:
            async with asyncio.timeout(WAIT_S), self._freed:
                await self._freed.wait_for(lambda: self._taken < self.size)
                self._taken += 1
        except TimeoutError:
            raise PoolExhausted(
                f"connection pool exhausted: {self._taken} of {self.size} connections in use, "
                f"waited {WAIT_S * 1000:g} ms"
            ) from None
        finally:
            self._metrics.pool_wait.observe(time.monotonic() - began)
            self._tell()

    async def _give_back(self) -> None:
        async with self._freed:
            self._taken -= 1
            self._freed.notify()
        self._tell()

    def _tell(self) -> None:
        self._metrics.pool_used.set(self._taken)
        self._metrics.pool_size.set(self.size)

    async def _open(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        if self._idle:
            return self._idle.pop()
        return await psycopg.AsyncConnection.connect(
            self._url,
            autocommit=True,
            application_name=self._name,
            options=f"-c statement_timeout={STATEMENT_MS}",
        )

    async def close(self) -> None:
        """Close what is idle."""
        for connection in self._idle:
            with suppress(psycopg.Error):
                await connection.close()
