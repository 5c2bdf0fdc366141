"""The reference for acknowledgements: the least that any receiver of webhooks has to do.

A Starlette app under uvicorn that verifies PagerDuty's signature and writes one row, each in its
own transaction. `benchmarks/storm.py` and `benchmarks/tricklers.py` run it.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import psycopg
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from faultline.loopback.server import serve_in_thread

THREADS = 8
"""As many as the bot has for its database."""
TABLE = "CREATE TABLE IF NOT EXISTS bare (delivery TEXT PRIMARY KEY, body TEXT NOT NULL)"


def serve(pipe: Connection, secret: str, address: str, directory: str) -> None:
    """A process: says at which port it listens, and ends when told to."""
    url, stop = serve_in_thread(bare_app(secret, address, Path(directory)))
    pipe.send(int(url.rpartition(":")[2]))
    pipe.recv()
    stop()


def bare_app(secret: str, address: str, directory: Path) -> Starlette:
    """The app; `address` is `sqlite`, for a file in the directory, or that of a PostgreSQL
    server."""
    connect, insert, threads = _database(address, directory / "bare.sqlite")
    connect().execute(TABLE)
    local = threading.local()
    pool = ThreadPoolExecutor(threads)

    def write(delivery: str, body: str) -> None:
        if not hasattr(local, "connection"):
            local.connection = connect()
        local.connection.execute(insert, (delivery, body))

    async def webhook(request: Request) -> Response:
        body = await request.body()
        expected = "v1=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
        x_pagerduty_signature = request.headers.get("x-pagerduty-signature", "")
        if not hmac.compare_digest(expected, x_pagerduty_signature):
            return JSONResponse({"error": "signature"}, 401)
        loop, delivery = asyncio.get_running_loop(), request.headers["x-webhook-id"]
        await loop.run_in_executor(pool, write, delivery, body.decode())
        return JSONResponse({"outcome": "started"}, 202)

    return Starlette(routes=[Route("/webhooks/pagerduty", webhook, methods=["POST"])])


def _database(address: str, file: Path) -> tuple[Callable[[], Any], str, int]:
    if address != "sqlite":

        def connected() -> Any:
            return psycopg.connect(address, autocommit=True)

        return connected, "INSERT INTO bare VALUES (%s, %s) ON CONFLICT DO NOTHING", THREADS

    def opened() -> Any:
        connection = sqlite3.connect(file, isolation_level=None, timeout=30)
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    # SQLite has one writer.
    return opened, "INSERT OR IGNORE INTO bare VALUES (?, ?)", 1
