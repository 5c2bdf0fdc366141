"""`faultline backup`, `restore` and `database`: one file with the embedded databases and the case
folders, consistent while the bot runs; the way back; and which version the tables have.

The engine's database is copied first, then the store's, then the case folders: what a later copy
knows more is done again after a restore, and nothing is lost. Each database is copied by SQLite's
backup API (https://www.sqlite.org/backup.html), which gives a whole state of it however much is
written meanwhile. PostgreSQL and S3 have better backups themselves: docs/operating.md.

What did not end when the backup was made begins again after a restore, and no message is posted
twice: `faultline.bot.operating.requeue`.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from sqlalchemy import Engine
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import EvidenceError, FaultlineError, SettingsError
from faultline.analysis.wording.phrases import counted
from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.operating.inspection import EXECUTORS, living_by_database, living_by_files
from faultline.bot.operating.requeue import requeue_all
from faultline.bot.queue.engine_database import migrate_engine, system_engine
from faultline.bot.settings import Settings
from faultline.bot.store.connections import PATIENT, connect
from faultline.bot.store.databases import (
    NOTHING,
    all_versions,
    current_version,
    downgrade,
    engine_url,
    first_line,
    store_url,
    upgrade,
)

MANIFEST = "backup.json"
FORMAT = 1
DATABASES = ("engine.sqlite", "faultline.sqlite")
"""In the order in which they are copied."""
CASES = "cases"
PAGES_AT_ONCE = 2_000
"""Pages copied under one lock: 8 MB, some ten ms, for which a writer waits."""


def back_up(settings: Settings, to: Path) -> str:
    """Write the backup to a file, or into a folder under a name with the time; says what is in it,
    in words.

    Raises FaultlineError; a file that was there is never touched.
    """
    if settings.store.database is not None:
        raise SettingsError(
            "store.database", "is PostgreSQL: use pg_dump or its snapshots (docs/operating.md)"
        )
    store = Path(make_url(store_url(settings)).database or "")
    if not store.exists():
        raise FaultlineError(f"nothing to back up: {store} does not exist")
    now = datetime.now(UTC)
    target = to / f"faultline-{now:%Y%m%d-%H%M%S}.tar.gz" if to.is_dir() else to
    if target.exists():
        raise FaultlineError(f"{target} exists already")
    # Write beside the target and rename, so that a file of the target's name is complete.
    part = target.with_name(f".{target.name}.part")
    try:
        with tempfile.TemporaryDirectory(prefix="faultline-backup-", dir=target.parent) as scratch:
            count = _write(settings, part, Path(scratch), now)
        # The databases hold logins and evidence, so only this user may read them.
        os.chmod(part, 0o600)
        part.replace(target)
    except (OSError, sqlite3.Error, tarfile.TarError) as error:
        part.unlink(missing_ok=True)
        strerror = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise FaultlineError(f"the backup could not be written to {target} ({strerror})") from error
    phrase = (
        f"{count} case files"
        if cases_here(settings)
        else f"no case folders: they lie in {settings.store.cases}"
    )
    return f"{target}: {target.stat().st_size / 2**20:.1f} MiB, {phrase}"


def _write(settings: Settings, part: Path, scratch: Path, now: datetime) -> int:
    hashes: dict[str, str] = {}
    urls = {"engine.sqlite": engine_url(settings), "faultline.sqlite": store_url(settings)}
    for name in DATABASES:
        source = Path(make_url(urls[name]).database or "")
        if source.exists():
            copy_database(source, scratch / name)
            hashes[name] = sha256(scratch / name)
    count = 0
    with tarfile.open(part, "w:gz", compresslevel=3) as archive:
        for name in hashes:
            archive.add(scratch / name, arcname=name)
        folder = cases_here(settings)
        for file in _files(folder) if folder else ():
            count += _add(archive, file, f"{CASES}/{file.relative_to(folder).as_posix()}", scratch)  # type: ignore[arg-type]
        about = {
            "format": FORMAT,
            "made_at": now.isoformat(),
            "tables": _version(scratch / "faultline.sqlite"),
            "databases": hashes,
            "case_files": count,
            "cases": folder is not None,
        }
        (scratch / MANIFEST).write_text(json.dumps(about, indent=2))
        archive.add(scratch / MANIFEST, arcname=MANIFEST)
    return count


def copy_database(source: Path, target: Path) -> None:
    """A consistent copy of the database, as one file without a write-ahead log."""
    opened = sqlite3.connect(f"{source.absolute().as_uri()}?mode=ro", uri=True, timeout=60)
    copied = sqlite3.connect(target)
    try:
        # The pause after each piece lets writers in.
        opened.backup(copied, pages=PAGES_AT_ONCE, sleep=0.01)
        copied.execute("PRAGMA journal_mode=DELETE")
    finally:
        copied.close()
        opened.close()


def cases_here(settings: Settings) -> Path | None:
    """The directory of the case folders; None where they lie in S3."""
    cases = settings.store.cases
    if cases is not None and cases.startswith("s3://"):
        return None
    return Path(cases).absolute() if cases else settings.store.directory.absolute() / CASES


def _files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")) if folder.is_dir() else ():
        # A link may lead out of the case folders.
        if path.is_file() and not path.is_symlink():
            yield path


def _version(file: Path) -> str | None:
    """The version of the store's tables, read without changing a byte of the file."""
    opened = sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True)
    try:
        row = opened.execute("SELECT version_num FROM alembic_version").fetchone()
    finally:
        opened.close()
    return str(row[0]) if row else None


def _add(archive: tarfile.TarFile, file: Path, name: str, scratch: Path) -> int:
    """One file, copied first: it may grow, or go, while it is read."""
    try:
        copy = Path(shutil.copyfile(file, scratch / "file"))
    except FileNotFoundError:
        return 0
    archive.add(copy, arcname=name)
    return 1


def sha256(file: Path) -> str:
    """Of a file's content, in hex."""
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while piece := opened.read(2**20):
            digest.update(piece)
    return digest.hexdigest()


def print_versions(settings: Settings) -> None:
    """Every version that is known, and the one that the tables have."""
    with (
        _opened(settings) as engine,
        engine.execution_options(reads_only=True).connect() as connection,
    ):
        current = current_version(connection)
    versions = all_versions()
    lines = [
        f"{'->' if v.number == current else '  '} {v.number}  {v.description}" for v in versions
    ]
    if current is None:
        lines.insert(0, f"-> {NOTHING}  no tables")
    elif current not in [v.number for v in versions]:
        lines.append(f"-> {current}  of a newer release than this")
    Console(highlight=False, soft_wrap=True).print("\n".join(lines), markup=False)


def bring_up(settings: Settings) -> None:
    """Bring the tables, and the engine's, to what this program needs; `faultline serve` does so by
    itself."""
    settings.store.directory.mkdir(parents=True, exist_ok=True)
    with _opened(settings) as engine:
        upgrade(engine)
    migrate_engine(engine_url(settings))
    print_versions(settings)


def take_back(settings: Settings, to: str, *, sure: bool) -> None:
    """Take the tables back to an older version. Raises FaultlineError while a worker is alive."""
    with _opened(settings) as engine:
        # A living worker would go on writing to columns that are gone.
        living = living_workers(settings, engine)
        if living:
            raise FaultlineError(
                f"{living} of the bot's workers are alive: stop every `faultline serve` and "
                f"`worker` first"
            )
        versions = all_versions()
        numbers = [v.number for v in versions]
        above = [v for v in versions if to == NOTHING or (to in numbers and v.number > to)]
        if not sure and above:
            lost = "; ".join(f"{v.number}: {v.description}" for v in above)
            raise FaultlineError(
                f"this drops what these versions brought ({lost}). Back up first, then use --yes"
            )
        downgrade(engine, to)
    print_versions(settings)


def living_workers(settings: Settings, engine: Engine) -> int:
    """How many workers are alive, whatever the version of the tables."""
    if engine.dialect.name == "sqlite":
        return living_by_files(settings.store.directory / EXECUTORS).count
    with engine.connect() as connection:
        return living_by_database(connection).count


@contextmanager
def _opened(settings: Settings) -> Iterator[Engine]:
    engine = connect(store_url(settings), PATIENT)
    try:
        yield engine
    except SQLAlchemyError as error:
        raise FaultlineError(f"the database does not answer ({first_line(error)})") from error
    finally:
        engine.dispose()


MAX_MANIFEST_BYTES = 1_000_000


def restore(settings: Settings, backup: Path) -> str:
    """Put a backup into place; says what begins again. Raises FaultlineError, and then nothing was
    put anywhere."""
    if settings.store.database is not None:
        raise SettingsError(
            "store.database",
            "is PostgreSQL: use pg_restore, then `faultline restore --database-is-back`",
        )
    for url in (store_url(settings), engine_url(settings)):
        file = Path(make_url(url).database or "")
        if file.exists():
            raise FaultlineError(
                f"{file} exists: restore into an empty store.directory, or move that one away first"
            )
    cases = cases_here(settings)
    if cases is not None and cases.is_dir() and any(cases.iterdir()):
        raise FaultlineError(
            f"{cases} holds cases: restore into an empty place, or move them away first"
        )
    directory = settings.store.directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    # Below the directory, so that the databases are moved into place by a rename.
    scratch = directory / ".restoring"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        about = _unpack(backup, scratch)
        _check(scratch, about)
        _put_in_place(settings, scratch, about)
    except (OSError, tarfile.TarError, EOFError, zlib.error) as error:
        strerror = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise EvidenceError(str(backup), f"cannot be restored ({strerror})") from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return f"restored the backup of {about['made_at']}: {begin_again(settings)}"


def begin_again(settings: Settings) -> str:
    """After the databases are back: upgrade them, and restart what had not ended. No worker may be
    alive."""
    store, rows_engine = connect(store_url(settings)), system_engine(engine_url(settings))
    try:
        living = living_workers(settings, store)
        if living:
            raise FaultlineError(
                f"{counted(living, 'worker')} running: stop every `faultline serve` and `worker` "
                f"first"
            )
        upgrade(store)
        migrate_engine(engine_url(settings))
        requeued = requeue_all(store, EngineRows(rows_engine), settings)
    except SQLAlchemyError as error:
        raise FaultlineError(f"the database does not answer ({first_line(error)})") from error
    finally:
        store.dispose()
        rows_engine.dispose()
    parts = [
        f"{counted(len(requeued.begun), 'investigation')} to begin again",
        f"{counted(len(requeued.reposts), 'answer')} to post where it was not",
        f"{counted(len(requeued.questions), 'question')} to answer",
    ]
    return ", ".join(parts) + "; start the bot"


def _unpack(backup: Path, scratch: Path) -> dict[str, Any]:
    """Into `scratch`, what a backup holds and nothing else; gives its manifest."""
    with tarfile.open(backup, "r:gz") as archive:
        for member in archive:
            expected = member.name in (*DATABASES, MANIFEST) or member.name.startswith(f"{CASES}/")
            # A link or a device could lead out of the folder.
            if not (expected and member.isfile()):
                raise EvidenceError(
                    str(backup), f"holds {member.name[:80]!r}, which is not part of a backup"
                )
            _write_back(archive, member, scratch, backup)
    manifest = scratch / MANIFEST
    # It is read whole, so bound its size first.
    if not manifest.exists() or manifest.stat().st_size > MAX_MANIFEST_BYTES:
        raise EvidenceError(str(backup), "has no table of contents at its end: it is incomplete")
    try:
        about = json.loads(manifest.read_text("utf-8"))
    except ValueError as error:
        raise EvidenceError(str(backup), "its table of contents cannot be read") from error
    if (
        not isinstance(about, dict)
        or about.get("format") != FORMAT
        or not isinstance(about.get("databases"), dict)
    ):
        raise EvidenceError(str(backup), "has a format that this release does not know")
    return about


def _write_back(
    archive: tarfile.TarFile, member: tarfile.TarInfo, scratch: Path, backup: Path
) -> None:
    """Write one file. Raises EvidenceError if it would lie outside of `scratch`. (Python before
    3.11.4 has no filters.)"""
    target = (scratch / member.name).resolve()
    packed = archive.extractfile(member)
    if packed is None or not target.is_relative_to(scratch.resolve()):
        raise EvidenceError(str(backup), f"holds {member.name[:80]!r}, which leads out of it")
    target.parent.mkdir(parents=True, exist_ok=True)
    with packed, target.open("wb") as file:
        shutil.copyfileobj(packed, file)


def _check(scratch: Path, about: dict[str, Any]) -> None:
    """Everything that was packed is here, and both databases are sound."""
    # The store's database is in every backup, the engine's only where it existed.
    if DATABASES[1] not in about["databases"]:
        raise EvidenceError(DATABASES[1], "is not in the backup")
    for name, digest in about["databases"].items():
        file = scratch / name
        if name not in DATABASES or not file.exists() or sha256(file) != digest:
            raise EvidenceError(str(name)[:80], "differs from the file that was backed up")
        try:
            connection = sqlite3.connect(file)
            try:
                phrase = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            finally:
                connection.close()
        except sqlite3.Error as error:
            raise EvidenceError(name, f"is not an intact database ({error})") from error
        if phrase != "ok":
            raise EvidenceError(name, f"is not an intact database ({phrase})")
    total = (
        sum(1 for path in (scratch / CASES).rglob("*") if path.is_file())
        if (scratch / CASES).is_dir()
        else 0
    )
    if total != about.get("case_files"):
        raise EvidenceError(CASES, f"{total} files instead of {about.get('case_files')}")
    if about.get("tables") not in [v.number for v in all_versions()]:
        phrase = (
            f"its tables are version {about.get('tables')}, which this release does not know: "
            f"use a newer one"
        )
        raise FaultlineError(phrase)


def _put_in_place(settings: Settings, scratch: Path, about: dict[str, Any]) -> None:
    """Cases first, the store's database last: a restore that is cut short leaves no store that a
    bot would start on."""
    cases = cases_here(settings)
    if cases is not None and (scratch / CASES).is_dir():
        # `move` would put the folder into a directory that exists.
        if cases.is_dir():
            cases.rmdir()
        cases.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(scratch / CASES, cases)
    urls = {"engine.sqlite": engine_url(settings), "faultline.sqlite": store_url(settings)}
    for name in DATABASES:
        if name in about["databases"]:
            shutil.move(scratch / name, make_url(urls[name]).database or "")
