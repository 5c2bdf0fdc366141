"""The objects below s3://bucket/prefix as files in a scratch folder. Listed and read only.

Credentials, region and endpoint (AWS_ENDPOINT_URL) are those of the environment, as the AWS tools
look for them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import obstore
from obstore.exceptions import BaseError, NotFoundError
from obstore.store import S3Store

from faultline.analysis.errors import BudgetExceeded, EvidenceError
from faultline.trace_report.archives import MAX_MEMBERS, ScratchFolder


def downloaded(location: str, scratch: ScratchFolder) -> Iterator[tuple[str, Path]]:
    """(name below the prefix, copy) of every object; `scratch.problems` says which do not fit.

    Raises EvidenceError when the prefix cannot be listed or holds nothing.
    """
    bucket, _, prefix = location.removeprefix("s3://").partition("/")
    try:
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint is None:
            store = S3Store(bucket)
        else:
            # obstore refuses plain HTTP unless the options allow it.
            allow_http = endpoint.startswith("http://")
            store = S3Store(bucket, endpoint=endpoint, client_options={"allow_http": allow_http})
        listed = _listed(store, prefix)
    except (BaseError, OSError, ValueError) as error:
        raise EvidenceError(location, f"cannot be listed ({_first_line(error)})") from error
    if not listed:
        raise EvidenceError(location, "holds no files")
    for key, size in listed:
        name = key.removeprefix(prefix).lstrip("/") or key.rsplit("/", 1)[-1]
        try:
            if size > scratch.bytes_left:
                raise BudgetExceeded("size", "scratch space")
            blocks = (bytes(block) for block in obstore.get(store, key).stream())
            copy = scratch.copy(name, blocks)
        except (BaseError, OSError, BudgetExceeded) as error:
            scratch.problems.append((name, _first_line(error)))
        else:
            yield name, copy


def _listed(store: S3Store, prefix: str) -> list[tuple[str, int]]:
    """(key, bytes) below the prefix, or of the one object that the prefix names."""
    objects: list[tuple[str, int]] = []
    for batch in obstore.list(store, prefix or None):
        objects += [(meta["path"], meta["size"]) for meta in batch]
        if len(objects) >= MAX_MEMBERS:
            break
    if not objects and prefix:
        try:
            meta = obstore.head(store, prefix)
        except (NotFoundError, FileNotFoundError):
            return []
        objects = [(meta["path"], meta["size"])]
    return sorted(objects)[:MAX_MEMBERS]


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    first = lines[0][:200] if lines else ""
    return first or type(error).__name__
