"""Moves what SQLite has written ahead into the database's file, beside the transactions.

By itself SQLite does so every 1,000 pages, inside the commit that reaches them: in a storm some
commits a second would write and fsync megabytes while senders wait
(https://www.sqlite.org/wal.html#avoiding_excessively_large_wal_files).
"""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Engine

from faultline.bot.runtime.background_loop import BackgroundLoop

EVERY_S = 1.0
WORTH_BYTES = 2 * 1024 * 1024
"""Below this a checkpoint costs more than it saves."""


class Checkpoints(BackgroundLoop):
    """Of the store of one web process. Does nothing on PostgreSQL."""

    def __init__(self, engine: Engine, *, every_s: float = EVERY_S) -> None:
        is_sqlite = engine.dialect.name == "sqlite" and engine.url.database
        super().__init__("checkpoints", every_s=every_s if is_sqlite else None)
        self._engine = engine
        self._file = Path(f"{engine.url.database}-wal") if is_sqlite else None
        self._done_at = 0

    def turn(self) -> bool:
        """Look at the file, and move what is worth it. Waits for nobody who reads or writes."""
        if self._file is None:
            return False
        try:
            stat = self._file.stat()
        except FileNotFoundError:
            return False
        # The file keeps its size when it is written from its beginning again.
        if stat.st_size < WORTH_BYTES or stat.st_mtime_ns == self._done_at:
            return False
        with self._engine.execution_options(reads_only=True).connect() as connection:
            driver = connection.connection.driver_connection
            assert driver is not None
            driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        self._done_at = stat.st_mtime_ns
        return False
