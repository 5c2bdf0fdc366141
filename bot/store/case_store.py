"""Where case folders lie: a local directory, or an S3 bucket through obstore. One prefix per
investigation."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import LocalStore, S3Store

from faultline.analysis.errors import FaultlineError
from faultline.analysis.traces.job.trace_versions import (
    SUMMARIES,
    TRACES,
    VERSIONS_FILE,
    version_of,
    versions_bytes,
)

if TYPE_CHECKING:
    from obstore import ObjectMeta

PARTS = "parts"
"""Prefix, inside a case, of what single connectors brought and nobody has put together yet."""

HEAD_BYTES = 65_536
"""Tells what a file is (`faultline.analysis.traces.reading.file_kinds`)."""


MOST_LISTED = 200_000
"""Files that are listed for their sizes: S3 gives 1,000 in one request."""


@dataclass(frozen=True)
class CaseSizes:
    """Bytes by case. `cut`: there are more files than were listed."""

    by_case: Mapping[str, int]
    cut: bool


@dataclass(frozen=True)
class Stored:
    """One file of a case as it is in the store."""

    size: int
    version: str
    """Another one whenever the file was written again."""


def _s3_store(location: str, endpoint_url: str | None) -> S3Store:
    if endpoint_url is None:
        # obstore refuses plain http unless it is allowed.
        return S3Store.from_url(location)
    allow_http = endpoint_url.startswith("http://")
    return S3Store.from_url(
        location, config={"endpoint": endpoint_url}, client_options={"allow_http": allow_http}
    )


class CaseStore:
    """Case folders by investigation id. All calls block; `location` is a directory or
    `s3://bucket/prefix`."""

    def __init__(self, location: str | Path, *, endpoint_url: str | None = None) -> None:
        self.location = str(location)
        self._directory: Path | None = None
        self._store: LocalStore | S3Store
        if self.location.startswith("s3://"):
            self._store = _s3_store(self.location, endpoint_url)
        else:
            self._directory = Path(location).absolute()
            self._store = LocalStore(self._directory, mkdir=True)

    def put(self, case_id: str, name: str, data: bytes | Path) -> None:
        """Store one file of a case, replacing it at once and whole."""
        obstore.put(self._store, f"{case_id}/{name}", data)

    def put_folder(self, case_id: str, name: str, folder: Path) -> None:
        """Store every file below `folder` under `name`."""
        for path in sorted(p for p in folder.rglob("*") if p.is_file()):
            self.put(case_id, f"{name}/{path.relative_to(folder).as_posix()}", path)

    def get(self, case_id: str, name: str) -> bytes | None:
        """One file's content, or None."""
        try:
            return bytes(obstore.get(self._store, f"{case_id}/{name}").bytes())
        except (NotFoundError, FileNotFoundError):
            return None

    def names(self, case_id: str, below: str = "") -> list[str]:
        """Names of a case's files, sorted, relative to the case."""
        prefix = f"{case_id}/{below}".rstrip("/")
        paths = [meta["path"] for batch in obstore.list(self._store, prefix) for meta in batch]
        return sorted(path.removeprefix(f"{case_id}/") for path in paths)

    def listed(self, case_id: str, below: str = "") -> dict[str, Stored]:
        """A case's files below a prefix, by their names relative to it, sorted."""
        prefix = f"{case_id}/{below}".rstrip("/")
        if self._directory is None:
            metas = [meta for batch in obstore.list(self._store, prefix) for meta in batch]
            stored_by_name = {
                meta["path"].removeprefix(f"{prefix}/"): _stored(meta) for meta in metas
            }
        else:
            folder = self._directory / prefix
            files = [path for path in folder.rglob("*") if path.is_file()]
            stored_by_name = {
                p.relative_to(folder).as_posix(): Stored(p.stat().st_size, version_of(p))
                for p in files
            }
        return dict(sorted(stored_by_name.items()))

    def fetch(self, case_id: str, name: str, folder: Path) -> tuple[Path, Stored]:
        """One file as a local one, and which version that is: itself, or a copy below `folder` of
        what S3 holds.

        Raises FileNotFoundError.
        """
        if self._directory is not None:
            path = self._directory / case_id / name
            # `stat` raises FileNotFoundError for a missing file.
            return path, Stored(path.stat().st_size, version_of(path))
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            got = obstore.get(self._store, f"{case_id}/{name}")
        except NotFoundError as error:
            raise FileNotFoundError(name) from error
        with target.open("wb") as out:
            for chunk in got.stream():
                out.write(chunk)
        return target, _stored(got.meta)

    def fetch_head(self, case_id: str, name: str, folder: Path) -> tuple[Path, Stored]:
        """The same, but of a file that would have to be copied only the first HEAD_BYTES."""
        if self._directory is not None:
            return self.fetch(case_id, name, folder)
        try:
            meta = obstore.head(self._store, f"{case_id}/{name}")
        except NotFoundError as error:
            raise FileNotFoundError(name) from error
        if meta["size"] <= HEAD_BYTES:
            return self.fetch(case_id, name, folder)
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(
            obstore.get_range(self._store, f"{case_id}/{name}", start=0, length=HEAD_BYTES)
        )
        return target, _stored(meta)

    def ids(self) -> list[str]:
        """The ids of all cases that have files, sorted."""
        if self._directory is not None:
            return sorted(entry.name for entry in self._directory.iterdir() if entry.is_dir())
        # With a delimiter the bucket lists one prefix for each case, and none of its files.
        return sorted(
            path.rstrip("/") for path in obstore.list_with_delimiter(self._store)["common_prefixes"]
        )

    def move(self, case_id: str, source: str, target: str) -> None:
        """Rename a file inside a case; nothing happens when that was done before. Raises
        FileNotFoundError."""
        try:
            obstore.rename(self._store, f"{case_id}/{source}", f"{case_id}/{target}")
        except (NotFoundError, FileNotFoundError):
            # No source: this raises unless the target shows that it was moved before.
            obstore.head(self._store, f"{case_id}/{target}")

    def delete(self, case_id: str, below: str) -> None:
        """Delete all files of a case below a prefix."""
        paths = [f"{case_id}/{name}" for name in self.names(case_id, below)]
        if paths:
            obstore.delete(self._store, paths)
        # obstore deletes files, and leaves their folders.
        if self._directory is not None:
            shutil.rmtree(self._directory / case_id / below, ignore_errors=True)

    @contextmanager
    def checkout(self, case_id: str, without: Collection[str] = ()) -> Iterator[Path]:
        """The case as a local folder for the time of the block: the folder itself, or a copy of
        what S3 holds.

        Write results through `put`: a copy is thrown away. A copy does without the files, and those
        below the folders, that `without` names; which versions of the traces it was made of is
        noted in it.
        """
        if self._directory is not None:
            yield self._directory / case_id
            return
        with tempfile.TemporaryDirectory(prefix="faultline-case-") as scratch:
            folder = Path(scratch) / case_id
            self.download(case_id, folder, without)
            yield folder

    def download(self, case_id: str, folder: Path, without: Collection[str] = ()) -> None:
        """Copy a case into `folder`, as a stream per file."""
        folder.mkdir(parents=True, exist_ok=True)
        listed = self.listed(case_id)
        for name in listed:
            if name in without or any(name.startswith(f"{prefix}/") for prefix in without):
                continue
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("wb") as out:
                for chunk in obstore.get(self._store, f"{case_id}/{name}").stream():
                    out.write(chunk)
        if (folder / SUMMARIES).is_dir():
            traces = {
                n.removeprefix(f"{TRACES}/"): s.version
                for n, s in listed.items()
                if n.startswith(f"{TRACES}/")
            }
            (folder / SUMMARIES / VERSIONS_FILE).write_bytes(versions_bytes(traces))

    def refresh(self, case_id: str, folder: Path, versions_by_name: dict[str, str]) -> None:
        """Bring a copy of a case up to date; `versions_by_name` remembers which version of each
        file it has. Parts are left out.

        Each file is replaced whole, for whoever reads the copy meanwhile. Raises FaultlineError.
        """
        try:
            listed = [meta for batch in obstore.list(self._store, case_id) for meta in batch]
            for meta in listed:
                name = meta["path"].removeprefix(f"{case_id}/")
                version = f"{meta['e_tag']} {meta['last_modified']} {meta['size']}"
                if name.startswith(f"{PARTS}/") or versions_by_name.get(name) == version:
                    continue
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                fresh = target.with_name(f".{target.name}.part")
                with fresh.open("wb") as out:
                    for chunk in obstore.get(self._store, meta["path"]).stream():
                        out.write(chunk)
                fresh.replace(target)
                versions_by_name[name] = version
        except BaseError as error:
            raise FaultlineError(
                f"case store {self.location}: {str(error).splitlines()[0][:200]}"
            ) from error

    def folder(self, case_id: str) -> Path | None:
        """The local directory of a case, or None when cases lie elsewhere or the case has no files
        yet."""
        if self._directory is None:
            return None
        path = self._directory / case_id
        return path if path.is_dir() else None

    def total_bytes(self) -> int:
        """The room that all cases take. It lists every file."""
        return sum(meta["size"] for batch in obstore.list(self._store) for meta in batch)

    def sizes(self, *, after: str = "", most: int = MOST_LISTED) -> CaseSizes:
        """Of the cases whose ids come after this one. Raises FaultlineError where the store does
        not answer."""
        bytes_by_case: dict[str, int] = defaultdict(int)
        listed = 0
        try:
            for batch in obstore.list(self._store, offset=after or None, chunk_size=1000):
                for meta in batch:
                    if listed == most:
                        return CaseSizes(bytes_by_case, cut=True)
                    listed += 1
                    bytes_by_case[meta["path"].partition("/")[0]] += meta["size"]
        except (BaseError, OSError) as error:
            raise self._away(error) from error
        return CaseSizes(bytes_by_case, cut=False)

    def check(self) -> None:
        """Raise FaultlineError unless the store answers."""
        try:
            next(iter(obstore.list(self._store)), None)
        except (BaseError, OSError) as error:
            raise self._away(error) from error

    def _away(self, error: BaseError | OSError) -> FaultlineError:
        line = str(error).splitlines()[0][:200]
        return FaultlineError(f"case store {self.location}: {line}")


def _stored(meta: ObjectMeta) -> Stored:
    """S3's ETag changes whenever an object is written with other content."""
    return Stored(meta["size"], f"{meta['size']}-{meta['e_tag'] or meta['last_modified']}")
