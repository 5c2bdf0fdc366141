"""Trace files in Google Cloud Storage and Azure Blob Storage. They are only listed and read; both
calls block.

obstore, which the case store uses as well, signs the requests: the credentials are those of the
environment, as Google's and Azure's own tools find them (a service account's file or the metadata
server; an application's secret, a workload identity or a managed identity).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

from faultline.analysis.errors import ConnectorError
from faultline.connectors.shared.settings.connector_settings import Limits
from faultline.connectors.shared.transport.circuit_breaker import Deadline
from faultline.connectors.shared.transport.rate_limiter import rate_limiter_of
from faultline.connectors.shared.vendor_text import problem_of
from faultline.connectors.vendors.traces.files import MOST_LISTED, TraceFile
from faultline.connectors.vendors.traces.places import CHUNK, VENDOR

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig

GOOGLE = re.compile(r"gs://([a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(.*))?")
"""Names of buckets: cloud.google.com/storage/docs/buckets."""
_HOST = r"[a-z0-9]{3,24}\.(?:blob|dfs)\.core\.(?:windows\.net|usgovcloudapi\.net|chinacloudapi\.cn)"
_CONTAINER = r"[a-z0-9$](?:[a-z0-9-]{1,61}[a-z0-9])?"
AZURE_BLOB = re.compile(rf"https://({_HOST})/({_CONTAINER})(?:/(.*))?")
AZURE_LAKE = re.compile(rf"abfss://({_CONTAINER})@({_HOST})(?:/(.*))?")
"""The address of a container as the portal shows it, and as Data Lake and Spark write it (learn
.microsoft.com, "Naming and referencing containers, blobs, and metadata")."""
PUBLIC_CLOUD = "core.windows.net"
STATUS_OF = {
    "FileNotFoundError": 404,
    "NotFoundError": 404,
    "PermissionError": 403,
    "PermissionDeniedError": 403,
    "UnauthenticatedError": 401,
    "InvalidPathError": 400,
}
"""The exceptions of obstore, which carry no status."""
LONGEST_READ = 2_000
_STATUS = re.compile(r"status code: (\d{3})\b")
_CREDENTIALS = re.compile(r"(?i)performing token request|credentials? (?:not|could)")
NO_CREDENTIALS = (
    "no credentials: run it as a service account or managed identity, or set "
    "GOOGLE_APPLICATION_CREDENTIALS or the AZURE_ variables"
)
CLIENT: ClientConfig = {"connect_timeout": timedelta(seconds=3), "timeout": timedelta(seconds=60)}
RETRIES: RetryConfig = {"max_retries": 3, "retry_timeout": timedelta(seconds=20)}


def is_object_location(location: str) -> bool:
    """Whether it is meant to lie in one of these stores."""
    return location.startswith(("gs://", "https://", "abfss://"))


def is_valid_location(location: str) -> bool:
    """Whether it has the form of such a location."""
    return _read(location) is not None


@dataclass(frozen=True)
class _Container:
    """A bucket, or a container of the account at `host`."""

    name: str
    prefix: str
    host: str = ""


def _read(location: str) -> _Container | None:
    google = GOOGLE.fullmatch(location)
    if google is not None:
        return _Container(google[1], google[2] or "")
    blob = AZURE_BLOB.fullmatch(location)
    if blob is not None:
        return _Container(blob[2], blob[3] or "", blob[1])
    lake = AZURE_LAKE.fullmatch(location)
    if lake is not None:
        return _Container(lake[1], lake[3] or "", lake[2])
    return None


class ObjectPlace:
    """A prefix of a bucket or container, read with list and get."""

    def __init__(self, location: str, limits: Limits) -> None:
        """Raises ConnectorError for a location of another form."""
        container = _read(location)
        if container is None:
            raise ConnectorError(VENDOR, location, "is not a bucket or container")
        self.location = location.rstrip("/") + "/"
        self._bucket = container.name
        self._account = container.host
        self._prefix = container.prefix.strip("/")
        self._limits = limits
        self._store: Any = None

    def list(self, deadline: Deadline) -> Iterator[TraceFile]:
        """All objects below the prefix."""
        import obstore

        count = 0
        with _explained("list"):
            batches = iter(obstore.list(self._connected(), self._prefix or None, chunk_size=1_000))
            while True:
                with self._permit(deadline):
                    # Each batch is a request.
                    batch = next(batches, None)
                if batch is None:
                    return
                deadline.check()
                for entry in batch:
                    count += 1
                    if count > MOST_LISTED:
                        return
                    name = entry["path"].removeprefix(f"{self._prefix}/")
                    yield TraceFile(name, entry["size"], entry["last_modified"].astimezone(UTC))

    def read(self, file: TraceFile, deadline: Deadline, start: int = 0) -> Iterator[bytes]:
        """Stream one object."""
        import obstore

        path = f"{self._prefix}/{file.name}" if self._prefix else file.name
        with _explained(file.name):
            with self._permit(deadline):
                store = self._connected()
                if start:  # an empty object has no range at all
                    answer = obstore.get(store, path, options={"range": {"offset": start}})
                else:
                    answer = obstore.get(store, path)
            for chunk in answer.stream(min_chunk_size=CHUNK):
                deadline.check()
                yield bytes(chunk)

    def link(self, file: TraceFile) -> str | None:
        """The object's address."""
        return f"{self.location}{file.name}"

    def close(self) -> None:
        """obstore closes its connections when the store is let go."""
        self._store = None

    def _permit(self, deadline: Deadline) -> Any:
        where = self._account or "gs"
        return rate_limiter_of(VENDOR, where, self._limits).permit_in_thread(deadline)

    def _connected(self) -> Any:
        # Late: whoever has no such location does not load the library.
        from obstore.store import AzureStore, GCSStore

        if self._store is None:
            common: Any = {"client_options": CLIENT, "retry_config": RETRIES}
            if self._account:
                name, _, domain = self._account.partition(".")
                cloud = domain.partition(".")[2]
                if cloud != PUBLIC_CLOUD:
                    # Also for an address with `dfs`: files are read through the blob service.
                    common["endpoint"] = f"https://{name}.blob.{cloud}"
                self._store = AzureStore(self._bucket, account_name=name, **common)
            else:
                self._store = GCSStore(self._bucket, **common)
        return self._store


@contextmanager
def _explained(call: str) -> Iterator[None]:
    """Turn obstore's errors, some of them Python's, into ConnectorError."""
    from obstore.exceptions import BaseError

    try:
        yield
    except (BaseError, FileNotFoundError, PermissionError) as error:
        if _CREDENTIALS.search(str(error)[:LONGEST_READ]):
            raise ConnectorError(VENDOR, call, NO_CREDENTIALS) from error
        status = _status_of(error)
        problem = problem_of(status) if status else f"no answer ({type(error).__name__})"
        retryable = status is None or status >= 429
        raise ConnectorError(VENDOR, call, problem, status=status, retryable=retryable) from error


def _status_of(error: Exception) -> int | None:
    """The HTTP status, which obstore tells in words alone where it has no exception for it."""
    status = STATUS_OF.get(type(error).__name__)
    if status is not None:
        return status
    match = _STATUS.search(str(error)[:LONGEST_READ])
    return int(match[1]) if match else None
