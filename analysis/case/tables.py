"""The tables of a case folder: their columns, and reading them from Parquet, CSV or JSON lines.

Times are `Datetime("ns", "UTC")`. A row that breaks the schema is left out and counted. A file
without a readable row raises `EvidenceError` naming file and row.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from faultline.analysis.case.readable_rows import (
    TIME,
    ReadableRows,
    RefusedRows,
    TableSchema,
    readable_rows,
)
from faultline.analysis.errors import EvidenceError

# Files of a case folder, which may come from a stranger: only regular files of a bounded size are
# read, and no link leads out of the folder.

MAX_JSON_BYTES = 64 * 1024 * 1024
"""One JSON file. The largest that the bot writes, findings.json of a training job, has a few MB."""
MAX_TABLE_BYTES = 1024 * 1024 * 1024
"""One Parquet table, about ten times what connectors may bring (`max_mb` of each)."""
MAX_TEXT_TABLE_BYTES = 256 * 1024 * 1024
"""One table as CSV or JSON lines. Each row becomes an object several times its size."""


def is_there(path: Path) -> bool:
    """Whether the folder has an entry of that name, of whatever type."""
    return os.path.lexists(path)


def check_regular(path: Path, max_bytes: int) -> None:
    """Raises EvidenceError unless this is a regular file of its folder with at most `max_bytes`."""
    try:
        if path.is_symlink() and not leads_inside(path, path.parent):
            raise EvidenceError(path.name, "is a link that leads out of the case folder")
        status = path.stat()
    except FileNotFoundError as error:
        raise EvidenceError(path.name, "is missing") from error
    except OSError as error:
        raise EvidenceError(path.name, f"cannot be read ({error.strerror})") from error
    if not stat.S_ISREG(status.st_mode):
        raise EvidenceError(path.name, "is not a regular file")
    if status.st_size > max_bytes:
        raise EvidenceError(
            path.name, f"has {status.st_size:,} bytes, more than the limit of {max_bytes:,}"
        )


def leads_inside(path: Path, folder: Path) -> bool:
    """Whether the file lies in the folder once all links are followed."""
    try:
        return path.resolve().is_relative_to(folder.resolve())
    # A loop of links: an OSError from Python 3.13 on.
    except (OSError, RuntimeError):
        return False


def place_copy(entry: Path, target: Path) -> None:
    """Put a file or folder of a case into another case without copying its bytes where both are on
    one disk. Links stay links."""
    if entry.is_dir() and not entry.is_symlink():
        shutil.copytree(entry, target, symlinks=True, copy_function=_link_or_copy)
    else:
        _link_or_copy(str(entry), str(target))


def _link_or_copy(source: str, target: str) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except OSError:
        shutil.copy2(source, target, follow_symlinks=False)


CHECKED = "faultline.checked"
"""The mark in a Parquet file's metadata that says that every row was checked when it was
written."""
MOST_REASONS = 3
ORIGIN = "evidence"
"""The column of log lines and spans that holds the id of the item they came with."""

_S = pl.String()
_F = pl.Float64()

METRICS = TableSchema(
    "metrics", {"time": TIME, "service": _S, "signal": _S, "value": _F}, {"unit": _S, "labels": _S}
)
LOGS = TableSchema(
    "logs",
    {"time": TIME, "service": _S, "message": _S},
    {"level": _S, "trace_id": _S, "attributes": _S},
    {ORIGIN: _S},
)
SPANS = TableSchema(
    "spans",
    {
        "trace_id": _S,
        "span_id": _S,
        "parent_id": _S,
        "service": _S,
        "operation": _S,
        "start": TIME,
        "duration_us": _F,
    },
    {"status": _S, "attributes": _S},
    {ORIGIN: _S},
)
CHANGES = TableSchema(
    "changes",
    {"time": TIME, "service": _S, "kind": _S, "id": _S, "title": _S},
    {
        "author": _S,
        "link": _S,
        "files": _S,
        "diff": _S,
        "before": _S,
        "after": _S,
        "restored_by": _S,
    },
)
TOPOLOGY = TableSchema(
    "topology",
    {"caller": _S, "callee": _S},
    {"source": _S, "last_seen": TIME, "learned_in": _S, "certainty": _F},
)
MONITORS = TableSchema(
    "monitors", {"monitor": _S, "service": _S, "state": _S, "since": TIME}, {"link": _S}
)

STATES = TableSchema(
    "states",
    {"kind": _S, "name": _S, "fact": _S},
    {
        "namespace": _S,
        "service": _S,
        "place": _S,
        "field": _S,
        "value": _S,
        "expected": _S,
        "since": TIME,
        "query": _S,
        "link": _S,
        "restored_by": _S,
    },
)

ALERT_QUERY = TableSchema(
    "alert_query",
    {"time": TIME, "series": _S, "is_true": _F},
    {"value": _F, "comparison": _S, "threshold": _F, "unit": _S},
)
"""What the alert's own query gave. `series` are its labels as JSON, `is_true` is 1 while the rule's
condition holds. `value` is what it measures, with comparison and threshold where they are known."""

SCHEMAS: dict[str, TableSchema] = {
    s.name: s for s in (METRICS, LOGS, SPANS, CHANGES, TOPOLOGY, MONITORS, STATES, ALERT_QUERY)
}

ROWS = {
    "metrics": "points",
    "logs": "log lines",
    "spans": "spans",
    "changes": "changes",
    "topology": "calls",
    "monitors": "monitor states",
    "states": "facts about objects",
    "alert_query": "points of the alert's query",
}
"""What a row of each table is called."""


def empty(name: str) -> pl.DataFrame:
    """The table without rows."""
    return pl.DataFrame(schema=SCHEMAS[name].stored)


def read_table(folder: Path, name: str) -> pl.DataFrame:
    """The rows of table `name` that can be read; see `read_rows`."""
    return read_rows(folder, name).rows


def read_rows(folder: Path, name: str) -> ReadableRows:
    """Table `name` of the case folder with all its columns, without the rows that cannot be read;
    empty when no file of that name is there.

    Raises EvidenceError where no row of the file can be read, or it is no regular file of the
    folder.
    """
    path = table_file(folder, name)
    if path is None:
        return ReadableRows(empty(name))
    check_regular(path, MAX_TABLE_BYTES if path.suffix == ".parquet" else MAX_TEXT_TABLE_BYTES)
    raw = READERS[path.suffix](path)
    # Without columns the file is empty, and no required column is missing from it.
    if not raw.rows.width:
        return ReadableRows(empty(name), raw.refused)
    reading = readable_rows(raw.rows, SCHEMAS[name], path.name, raw.refused)
    if reading.refused and not reading.rows.height:
        first = reading.refused[0]
        raise EvidenceError(path.name, first.why, first.where)
    return reading


def table_file(folder: Path, name: str) -> Path | None:
    """The file that holds table `name`; Parquet first."""
    for suffix in READERS:
        path = folder / f"{name}{suffix}"
        if is_there(path):
            return path
    return None


def was_checked(path: Path) -> bool:
    """Whether `write_table` wrote this file, and so every row of it can be read."""
    if path.suffix != ".parquet" or not path.is_file():
        return False
    try:
        return CHECKED in pl.read_parquet_metadata(path)
    except (pl.exceptions.PolarsError, OSError):
        return False


def write_table(folder: Path, name: str, table: pl.DataFrame) -> Path:
    """Write the table as Parquet, after checking it; rows sorted so that equal content gives equal
    bytes."""
    checked = conform(table, name, f"{name}.parquet")
    keys: list[str] = [c for c in ("time", "start", "caller", "since") if c in checked.columns]
    keys += [c for c in checked.columns if c not in keys]
    path = folder / f"{name}.parquet"
    ordered = checked.sort(keys, nulls_last=True, maintain_order=True)
    ordered.write_parquet(path, compression="zstd", metadata={CHECKED: "1"})
    return path


def conform(table: pl.DataFrame, name: str, file: str) -> pl.DataFrame:
    """Cast to the schema of table `name`, add absent optional columns as nulls, drop unknown ones.

    Raises EvidenceError with the column, or the first row (1-based) whose value cannot be read.
    """
    reading = readable_rows(table, SCHEMAS[name], file)
    for refusal in reading.refused:
        if not refusal.as_null:
            raise EvidenceError(file, refusal.why, refusal.where)
    return reading.rows


def gap_of(reading: ReadableRows, name: str) -> str | None:
    """One sentence for the report: how many rows were left out, and why; None where none was."""
    if not reading.refused:
        return None
    bad = sum(refusal.rows for refusal in reading.refused)
    reasons = [f"{refusal.why} ({refusal.where})" for refusal in reading.refused[:MOST_REASONS]]
    more = len(reading.refused) - MOST_REASONS
    if more > 0:
        reasons.append(f"{more} more reasons")
    text = "; ".join(reasons)
    return f"{bad:,} of {reading.total:,} {ROWS[name]} could not be read: {text}"


@dataclass(frozen=True)
class RawRows:
    """A file's rows as they stand there, and those that are none."""

    rows: pl.DataFrame
    refused: tuple[RefusedRows, ...] = ()


def _read_parquet(path: Path) -> RawRows:
    try:
        return RawRows(pl.read_parquet(path))
    except (pl.exceptions.PolarsError, OSError) as error:
        raise EvidenceError(
            path.name, f"is not a readable Parquet file ({_first_line(error)})"
        ) from error


def _read_csv(path: Path) -> RawRows:
    try:
        # A byte that is no UTF-8 becomes a question mark, which costs no row.
        return RawRows(pl.read_csv(path, infer_schema=False, encoding="utf8-lossy"))
    except pl.exceptions.NoDataError:
        return RawRows(pl.DataFrame())
    except (pl.exceptions.PolarsError, OSError) as error:
        try:
            # For a file in which a row has too many or too few fields.
            text = path.read_text(encoding="utf-8", errors="replace")
            header, *lines = csv.reader(io.StringIO(text, newline=""))
            rows: list[list[str | None]] = []
            wrong: list[int] = []
            for number, fields in enumerate(lines, start=1):
                if len(fields) == len(header):
                    # An empty field is a null, as in the other way of reading CSV.
                    rows.append([field or None for field in fields])
                elif fields:
                    wrong.append(number)
            schema = dict.fromkeys(header, pl.String())
            table = pl.DataFrame(rows, schema=schema, orient="row")
            return RawRows(table, _refused(wrong, f"does not have {len(header)} fields"))
        except (csv.Error, OSError):
            raise EvidenceError(
                path.name, f"is not a readable CSV file ({_first_line(error)})"
            ) from error


def _read_json_lines(path: Path) -> RawRows:
    import msgspec

    decoder = msgspec.json.Decoder(dict[str, object])
    rows: list[dict[str, object]] = []
    wrong: list[int] = []
    why = ""
    # Split the bytes: `str.splitlines` also breaks at U+2028, which JSON allows within strings.
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(decoder.decode(line))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            why = why or f"is not a JSON object ({error})"
            wrong.append(number)
    if wrong and not rows:
        raise EvidenceError(path.name, why, f"row {wrong[0]}")
    keys = list(dict.fromkeys(key for row in rows for key in row))
    columns = {key: _column([row.get(key) for row in rows]) for key in keys}
    return RawRows(pl.DataFrame(columns), _refused(wrong, why))


def _refused(rows: list[int], why: str) -> tuple[RefusedRows, ...]:
    return (RefusedRows(why, len(rows), rows[0]),) if rows else ()


def _column(values: list[object]) -> pl.Series:
    # In Python a bool is an int, so it would become 0 or 1.
    if all(v is None or (isinstance(v, (int, float)) and not isinstance(v, bool)) for v in values):
        try:
            return pl.Series(values, strict=False)
        # Numbers that no column type holds, such as integers beyond 64 bits, stay texts.
        except (OverflowError, TypeError, pl.exceptions.PolarsError):
            pass
    texts = [v if v is None or isinstance(v, str) else json.dumps(v) for v in values]
    return pl.Series(texts, dtype=pl.String)


READERS: Mapping[str, Callable[[Path], RawRows]] = {
    ".parquet": _read_parquet,
    ".csv": _read_csv,
    ".jsonl": _read_json_lines,
}
"""By suffix, in the order in which they are looked for."""


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0][:160] if str(error) else type(error).__name__
