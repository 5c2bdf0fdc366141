"""`faultline restore`: a backup back into an empty place, checked; and after a database was
restored by other means.

What did not end when the backup was made begins again, and no message is posted twice:
`faultline.bot.operating.requeue`.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tarfile
import zlib
from pathlib import Path
from typing import Any

from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from faultline.analysis.errors import EvidenceError, FaultlineError, SettingsError
from faultline.analysis.wording.phrases import counted
from faultline.bot.operating.backup import CASES, DATABASES, FORMAT, MANIFEST, cases_here, sha256
from faultline.bot.operating.database import living_workers
from faultline.bot.operating.engine_rows import EngineRows
from faultline.bot.operating.requeue import requeue_all
from faultline.bot.queue.engine_database import migrate_engine, system_engine
from faultline.bot.settings import Settings
from faultline.bot.store.connections import connect
from faultline.bot.store.databases import all_versions, engine_url, first_line, store_url, upgrade

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
            _write(archive, member, scratch, backup)
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


def _write(archive: tarfile.TarFile, member: tarfile.TarInfo, scratch: Path, backup: Path) -> None:
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
