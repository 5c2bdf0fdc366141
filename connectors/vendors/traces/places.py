"""Where trace files lie: a local directory or an S3 prefix. Both are only listed and read; both
calls block."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import problem_of
from faultline.connectors.vendors.aws.session import boto_session, refuse_writes
from faultline.connectors.vendors.traces.files import MOST_LISTED, TraceFile

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

VENDOR = "traces"
CHUNK = 1024 * 1024


class TracePlace(Protocol):
    """A folder of trace files."""

    @property
    def location(self) -> str:
        """Its address, for a human."""

    def list(self, deadline: Deadline) -> Iterator[TraceFile]:
        """The files in it, MOST_LISTED at most. Raises ConnectorError."""

    def read(self, file: TraceFile, deadline: Deadline, start: int = 0) -> Iterator[bytes]:
        """A file's content in pieces, from a byte on. Raises ConnectorError."""

    def link(self, file: TraceFile) -> str | None:
        """A link to the file, where there is one."""

    def close(self) -> None:
        """Let go of connections."""


class DirectoryPlace:
    """A local directory. Links are not followed out of it; only regular files are read."""

    def __init__(self, folder: Path) -> None:
        self._root = folder
        self.location = str(folder)

    def list(self, deadline: Deadline) -> Iterator[TraceFile]:
        """Walk the directory without following links to directories."""
        if not self._root.is_dir():
            raise ConnectorError(
                VENDOR, self.location, "no such directory, or no permission to read it"
            )
        root = self._root.resolve()
        count = 0
        for folder, folders, names in os.walk(root):
            deadline.check()
            # In place: os.walk goes on in this order, so every run lists the same files.
            folders.sort()
            for name in sorted(names):
                count += 1
                if count > MOST_LISTED:
                    return
                regular = _regular(Path(folder, name), root)
                if regular is not None:
                    yield regular

    def read(self, file: TraceFile, deadline: Deadline, start: int = 0) -> Iterator[bytes]:
        """Read without following a link that was put there after the listing, and without waiting
        on a pipe."""
        root = self._root.resolve()
        path = (root / file.name).resolve()
        if not path.is_relative_to(root):
            raise ConnectorError(VENDOR, file.name, "leads out of the directory")
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
            with os.fdopen(handle, "rb") as opened:
                # Ask the open handle, because the path may have been replaced since.
                if not stat.S_ISREG(os.fstat(handle).st_mode):
                    raise ConnectorError(VENDOR, file.name, "is not a regular file")
                opened.seek(start)
                while chunk := opened.read(CHUNK):
                    deadline.check()
                    yield chunk
        except OSError as error:
            raise ConnectorError(VENDOR, file.name, f"cannot be read ({error.strerror})") from error

    def link(self, file: TraceFile) -> str | None:
        """A local file has none."""
        return None

    def close(self) -> None:
        """Nothing is held."""


def _regular(path: Path, root: Path) -> TraceFile | None:
    try:
        target = path.resolve()
        info = target.stat()
    except OSError:
        return None
    # A link may lead to any file of the machine.
    if not stat.S_ISREG(info.st_mode) or not target.is_relative_to(root):
        return None
    return TraceFile(
        path.relative_to(root).as_posix(), info.st_size, datetime.fromtimestamp(info.st_mtime, UTC)
    )


class S3Place:
    """An S3 prefix, read with List and Get; any other operation is refused before it is sent."""

    def __init__(self, bucket: str, prefix: str, endpoint_url: str | None, limits: Limits) -> None:
        self._bucket = bucket
        self._prefix = prefix.strip("/") + "/" if prefix.strip("/") else ""
        self._endpoint_url = endpoint_url
        self._limits = limits
        self._client: S3Client | None = None
        self._lock = threading.Lock()
        self.location = f"s3://{bucket}/{self._prefix}"

    def list(self, deadline: Deadline) -> Iterator[TraceFile]:
        """All objects below the prefix."""
        count = 0
        with _translated_errors("list"):
            pages = (
                self._connected()
                .get_paginator("list_objects_v2")
                .paginate(Bucket=self._bucket, Prefix=self._prefix)
            )
            for page in self._paced(iter(pages), deadline):
                for entry in page.get("Contents", ()):
                    count += 1
                    if count > MOST_LISTED:
                        return
                    name = entry["Key"].removeprefix(self._prefix)
                    yield TraceFile(name, entry["Size"], entry["LastModified"].astimezone(UTC))

    def read(self, file: TraceFile, deadline: Deadline, start: int = 0) -> Iterator[bytes]:
        """Stream one object."""
        with _translated_errors(file.name):
            with rate_limiter_of(VENDOR, self._where, self._limits).permit_in_thread(deadline):
                key, client = self._prefix + file.name, self._connected()
                if start:  # an empty object has no range at all
                    answer = client.get_object(
                        Bucket=self._bucket, Key=key, Range=f"bytes={start}-"
                    )
                else:
                    answer = client.get_object(Bucket=self._bucket, Key=key)
            # A body that is left unread keeps its connection.
            with closing(answer["Body"]) as body:
                for chunk in body.iter_chunks(CHUNK):
                    deadline.check()
                    yield chunk

    def link(self, file: TraceFile) -> str | None:
        """The object's address."""
        return f"{self.location}{file.name}"

    def close(self) -> None:
        """Close the client's connections."""
        if self._client is not None:
            self._client.close()

    def _connected(self) -> S3Client:
        # Several threads copy at once: make one client for all.
        with self._lock:
            if self._client is None:
                self._client = s3_client(self._endpoint_url)
            return self._client

    @property
    def _where(self) -> str:
        return self._endpoint_url or "s3"

    def _paced(self, pages: Iterator[Any], deadline: Deadline) -> Iterator[Any]:
        limiter = rate_limiter_of(VENDOR, self._where, self._limits)
        while True:
            # Each page is a request.
            with limiter.permit_in_thread(deadline):
                page = next(pages, None)
            if page is None:
                return
            yield page


@contextmanager
def _translated_errors(call: str) -> Iterator[None]:
    """Turn boto3's errors into ConnectorError."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except ClientError as error:
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)) or None
        problem = problem_of(status) if status else "refused"
        raise ConnectorError(
            VENDOR, call, problem, status=status, retryable=(status or 0) >= 429
        ) from error
    except BotoCoreError as error:
        raise ConnectorError(
            VENDOR, call, f"no answer ({type(error).__name__})", retryable=True
        ) from error


def s3_client(endpoint_url: str | None) -> S3Client:
    """A client that can list and read. The credentials are those of the environment, as boto3 finds
    them."""
    from botocore.config import Config

    config = Config(
        connect_timeout=3, read_timeout=10, retries={"max_attempts": 3, "mode": "standard"}
    )
    client: S3Client = boto_session().client("s3", endpoint_url=endpoint_url, config=config)
    # Before all other handlers, for every call that is about to be sent.
    client.meta.events.register_first("before-call", refuse_writes)
    return client
