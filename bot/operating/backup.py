"""`faultline backup`: one file with the embedded databases and the case folders, consistent while
the bot runs.

The engine's database is copied first, then the store's, then the case folders: what a later copy
knows more is done again after a restore, and nothing is lost. Each database is copied by SQLite's
backup API (https://www.sqlite.org/backup.html), which gives a whole state of it however much is
written meanwhile. PostgreSQL and S3 have better backups themselves: docs/operating.md.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy.engine import make_url

from faultline.analysis.errors import FaultlineError, SettingsError
from faultline.bot.settings import Settings
from faultline.bot.store.databases import engine_url, store_url

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
