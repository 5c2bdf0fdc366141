"""The storage into which a job's processes write what they record, as this machine sees it: a
directory or S3 prefix.

Only listed and read. A file is complete when nothing named `<file>.tmp` is next to it (libkineto
writes that and then renames it) and its size was the same twice.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from faultline.analysis.errors import ConnectorError
from faultline.bot.investigation.capture.captured import CapturedFile, CaptureGap
from faultline.bot.runtime.threads import in_thread
from faultline.connectors.vendors.traces.places import s3_client

POLL_SECONDS = 1.0
CHUNK = 1 << 20
KEEP_FREE_BYTES = 1 << 30
"""Disk space of this machine that is left alone."""
HEAD_BYTES = 1 << 16
# The pattern stops at nested objects: only `distributedInfo` itself tells the rank.
_RANK = re.compile(rb'"distributedInfo"\s*:\s*\{[^{}\[\]]*?"rank"\s*:\s*(\d{1,6})(?!\d)')


class OutputPlace(Protocol):
    """Where the files appear. Both calls block, and raise ConnectorError."""

    def sizes(self, prefix: str) -> dict[str, int]:
        """The files whose names begin like this, with their bytes."""

    def read(self, name: str) -> Iterator[bytes]:
        """A file's content in pieces."""


class DirectoryOutput:
    """A directory, its own files only."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def sizes(self, prefix: str) -> dict[str, int]:
        """Regular files; links are left alone."""
        st_sizes_by_name = {}
        try:
            with os.scandir(self._folder) as entries:
                for entry in entries:
                    if entry.name.startswith(prefix) and entry.is_file(follow_symlinks=False):
                        st_sizes_by_name[entry.name] = entry.stat(follow_symlinks=False).st_size
        # A file may vanish while it is listed. Only a missing directory is a failure.
        except FileNotFoundError as error:
            if not self._folder.is_dir():
                raise self._error("", error) from error
        except OSError as error:
            raise self._error("", error) from error
        return st_sizes_by_name

    def read(self, name: str) -> Iterator[bytes]:
        """Without following a link, and without waiting on a pipe."""
        try:
            handle = os.open(self._folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise ConnectorError("traces", name, "is not a regular file")
                while chunk := file.read(CHUNK):
                    yield chunk
        except OSError as error:
            raise self._error(name, error) from error

    def _error(self, name: str, error: OSError) -> ConnectorError:
        return ConnectorError(
            "traces", str(self._folder / name), f"cannot be read ({error.strerror})"
        )


class S3Output:
    """An S3 prefix, with the credentials of the environment."""

    def __init__(self, location: str, endpoint_url: str | None) -> None:
        self._bucket, _, prefix = location.removeprefix("s3://").partition("/")
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._client = s3_client(endpoint_url)

    def sizes(self, prefix: str) -> dict[str, int]:
        """Objects directly below the prefix."""
        from botocore.exceptions import BotoCoreError, ClientError

        sizes: dict[str, int] = {}
        try:
            pages = self._client.get_paginator("list_objects_v2")
            for page in pages.paginate(Bucket=self._bucket, Prefix=self._prefix + prefix):
                sizes |= {
                    e["Key"].removeprefix(self._prefix): e["Size"] for e in page.get("Contents", ())
                }
        except (BotoCoreError, ClientError) as error:
            raise ConnectorError(
                "traces", f"s3://{self._bucket}", f"cannot be listed ({_code(error)})"
            ) from error
        return sizes

    def read(self, name: str) -> Iterator[bytes]:
        """One object."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            body = self._client.get_object(Bucket=self._bucket, Key=self._prefix + name)["Body"]
            yield from body.iter_chunks(CHUNK)
        except (BotoCoreError, ClientError) as error:
            raise ConnectorError("traces", name, f"cannot be read ({_code(error)})") from error


def output_place(location: str, endpoint_url: str | None) -> OutputPlace:
    """The place at `s3://bucket/prefix` or in a directory."""
    return (
        S3Output(location, endpoint_url)
        if location.startswith("s3://")
        else DirectoryOutput(Path(location))
    )


@dataclass(frozen=True)
class ExpectedFile:
    """A file that one process was asked to write. The name has its process id as the job sees
    it."""

    name: str
    host: str
    pid: int


@dataclass
class Collector:
    """Waits for files and copies each into `folder` as soon as it is complete."""

    place: OutputPlace
    prefix: str
    folder: Path
    max_file_bytes: int
    files: list[CapturedFile] = field(default_factory=list)
    gaps: list[CaptureGap] = field(default_factory=list)
    _sizes: Mapping[str, int] = field(default_factory=dict)

    async def collect(
        self, expected: list[ExpectedFile], seconds: float, say: Callable[[str], None]
    ) -> None:
        """Until all are there or the time is up; what is missing then becomes a gap."""
        ends, open_, count, unreadable = time.monotonic() + seconds, list(expected), -1, ""
        while open_:
            try:
                open_ = await in_thread(self._look, open_)
                unreadable = ""
            # A look that fails is repeated until the time is up.
            except ConnectorError as error:
                unreadable = str(error)
            if open_ and time.monotonic() >= ends:
                break
            if open_:
                if count != len(open_):
                    count = len(open_)
                    say(f"waiting for {count} of {len(expected)} files")
                await asyncio.sleep(min(POLL_SECONDS, max(0.05, ends - time.monotonic())))
        self.gaps += [
            CaptureGap(f"{e.host}, process {e.pid}", unreadable or self._missing(e, seconds))
            for e in open_
        ]

    def _look(self, open_: list[ExpectedFile]) -> list[ExpectedFile]:
        """One look at the place; those that are still to come."""
        before, self._sizes = self._sizes, self.place.sizes(self.prefix)
        coming = []
        for expected in open_:
            size = self._sizes.get(expected.name)
            complete = (
                size
                and size == before.get(expected.name)
                and f"{expected.name}.tmp" not in self._sizes
            )
            if not complete:
                coming.append(expected)
            else:
                self._take(expected)
        return coming

    def _take(self, expected: ExpectedFile) -> None:
        # The host's name is foreign and becomes part of a path.
        host = re.sub(r"[^A-Za-z0-9.-]", "-", expected.host)[:100].strip(".")
        target = self.folder / f"trace_{host}_{expected.pid}.json"
        part = target.with_name(target.name + ".part")
        try:
            self._copy(expected.name, part)
            part.replace(target)
            rank = rank_in(target)
        except (ConnectorError, OSError) as error:
            part.unlink(missing_ok=True)
            why = (
                str(error)
                if isinstance(error, ConnectorError)
                else f"cannot be copied ({error.strerror})"
            )
            self.gaps.append(CaptureGap(f"{expected.host}, process {expected.pid}", why))
        else:
            self.files.append(CapturedFile(target, "trace", expected.host, expected.pid, rank))

    def _copy(self, name: str, part: Path) -> None:
        room = min(self.max_file_bytes, shutil.disk_usage(self.folder).free - KEEP_FREE_BYTES)
        with part.open("wb") as out:
            for chunk in self.place.read(name):
                room -= len(chunk)
                if room < 0:
                    raise ConnectorError(
                        "traces", name, "is larger than the settings, or the disk, allow"
                    )
                out.write(chunk)

    def _missing(self, expected: ExpectedFile, seconds: float) -> str:
        if expected.name in self._sizes or f"{expected.name}.tmp" in self._sizes:
            return f"{expected.name} was not finished within {seconds:.0f} s"
        return (
            f"no {expected.name} within {seconds:.0f} s: the process did not follow, "
            "or the directory is missing on its host"
        )


def rank_in(path: Path) -> int | None:
    """The rank that a trace's first or last bytes tell, or None."""
    with path.open("rb") as file:
        # Not the whole file: traces are large, and the rank stands near one of the ends.
        text = file.read(HEAD_BYTES)
        file.seek(max(0, path.stat().st_size - HEAD_BYTES))
        text += file.read(HEAD_BYTES)
    match = _RANK.search(text)
    return int(match[1]) if match else None


def _code(error: Exception) -> str:
    answer = getattr(error, "response", None)
    return str(answer["Error"].get("Code", "refused"))[:60] if answer else type(error).__name__
