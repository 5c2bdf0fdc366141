"""A hostile SQLite file, read: only tables, only named columns, whole numbers and bounded text, in
bounded time.

Names of tables and columns are the reader's own, quoted; no text of the file becomes part of a
query.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np

from faultline.analysis.errors import EvidenceError
from faultline.analysis.traces.columns.events import Int64

MAX_ROWS = 30_000_000
"""Most rows read of one table."""
MAX_SECONDS = 600
"""Longest reading of one file: a crafted database can make SQLite search without end."""
MAX_TEXT = 4096
MAX_ALL_TEXT = 1 << 30
"""Bytes of memory for the text of one table: a column's default value stands in no row and comes
with each."""
MAX_VALUE_BYTES = 64 << 20
"""Largest text or blob that SQLite takes into memory."""
STEPS_BETWEEN_CHECKS = 1_000_000
_CHUNK = 65_536
_ROW_BYTES, _TEXT_BYTES = 64, 64
"""What Python takes for a row and for a text, beside its characters."""
_PLAIN_TABLE = re.compile(r"\s*CREATE\s+TABLE\s", re.IGNORECASE)
"""Anything else that calls itself a table (a virtual one runs code of an extension) is none."""


class Database:
    """One read-only SQLite file. Any failure of SQLite's is an EvidenceError that names the
    file."""

    def __init__(self, path: Path) -> None:
        self._name = path.name
        self._ends = time.monotonic() + MAX_SECONDS
        self.cut: dict[str, int] = {}
        """Tables of which rows were left out, and after how many."""
        with self._errors():
            # immutable: take no lock, and read no journal that lies beside the file.
            self._connection = sqlite3.connect(
                f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True
            )
            self._connection.set_progress_handler(self._too_long, STEPS_BETWEEN_CHECKS)
            # Cut text before decoding it: a hostile cell may be huge.
            self._connection.text_factory = lambda raw: raw[:MAX_TEXT].decode("utf-8", "replace")
            # The schema comes from the file: let it call harmless functions only.
            self._connection.execute("PRAGMA trusted_schema = OFF")
            self._connection.execute("PRAGMA cell_size_check = ON")
            self._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
            execute = self._connection.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'table' LIMIT 10000"
            )
            self.tables = {str(name) for name, sql in execute if _PLAIN_TABLE.match(str(sql))}

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._connection.close()

    def columns_of(self, table: str) -> set[str]:
        """The table's columns; empty where there is no such table."""
        if table not in self.tables:
            return set()
        with self._errors():
            return {
                str(row[1])
                for row in self._connection.execute(f"PRAGMA table_info({_quoted(table)})")
            }

    def numbers(self, table: str, columns: Sequence[str], default: int = -1) -> dict[str, Int64]:
        """Columns of whole numbers, one value for each row; `default` for NULL and for columns that
        the table does not have."""
        have = self.columns_of(table)
        names = [name for name in columns if name in have]
        if not names:
            rows = np.full(self._rows_of(table), default, dtype=np.int64)
            return {name: rows.copy() for name in columns}
        chosen = ", ".join(
            f"coalesce(CAST({_quoted(name)} AS INTEGER), {default})" for name in names
        )
        with self._errors():
            # One row too many tells that the table was cut.
            cursor = self._connection.execute(
                f"SELECT {chosen} FROM {_in_order(table)} LIMIT {MAX_ROWS + 1}"  # noqa: S608
            )
            parts = [np.asarray(rows, dtype=np.int64) for rows in _chunks(cursor)]
        whole = np.concatenate(parts) if parts else np.empty((0, len(names)), dtype=np.int64)
        if len(whole) > MAX_ROWS:
            self.cut[table] = MAX_ROWS
            whole = whole[:MAX_ROWS]
        by_name = {name: np.ascontiguousarray(whole[:, i]) for i, name in enumerate(names)}
        return {
            name: by_name.get(name, np.full(len(whole), default, dtype=np.int64))
            for name in columns
        }

    def _rows_of(self, table: str) -> int:
        """How many of its rows are read; 0 where there is no such table."""
        if table not in self.tables:
            return 0
        with self._errors():
            counted = self._connection.execute(
                f"SELECT count(*) FROM (SELECT 1 FROM {_in_order(table)} LIMIT {MAX_ROWS})"  # noqa: S608
            )
            return int(counted.fetchone()[0])

    def texts(
        self, table: str, columns: Sequence[str], limit: int = MAX_ROWS
    ) -> list[tuple[str, ...]]:
        """Rows of text, in the order of `numbers`; "" for NULL and for columns that the table does
        not have.

        Fewer than `numbers` gives where they take more than MAX_ALL_TEXT.
        """
        have = self.columns_of(table)
        if not have:
            return []
        chosen = ", ".join(
            f"coalesce(CAST({_quoted(n)} AS TEXT), '')" if n in have else "''" for n in columns
        )
        rows: list[tuple[str, ...]] = []
        text_pool: dict[str, str] = {}
        left = MAX_ALL_TEXT
        with self._errors():
            for row in self._connection.execute(
                f"SELECT {chosen} FROM {_in_order(table)} LIMIT {limit}"  # noqa: S608
            ):
                left -= _ROW_BYTES + sum(
                    len(text) + _TEXT_BYTES for text in row if text not in text_pool
                )
                if left < 0:
                    self.cut[table] = len(rows)
                    break
                rows.append(tuple(text_pool.setdefault(text, text) for text in row))
        return rows

    def _too_long(self) -> bool:
        return time.monotonic() > self._ends

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise EvidenceError(self._name, f"is no readable SQLite file ({error})") from error
        except (OverflowError, ValueError, MemoryError) as error:
            raise EvidenceError(
                self._name, f"holds values that cannot be read ({error})"
            ) from error


def _chunks(cursor: sqlite3.Cursor) -> Iterator[list[tuple[int, ...]]]:
    while rows := cursor.fetchmany(_CHUNK):
        yield rows


def _in_order(table: str) -> str:
    """The table by its rows: with an index over a column SQLite would read that column in the
    index's order."""
    return f"{_quoted(table)} NOT INDEXED"


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
