"""Trace files: a bucket with one rank's trace of llm-1."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from tests.connectors.conftest import ALERT_AT
from tests.connectors.local_http import LocalServer, Reply

TRACE = b'{"distributedInfo": {"rank": 0, "world_size": 1}, "traceEvents": []}'


def settings(url: str) -> dict[str, Any]:
    """A prefix per job."""
    return {"traces": {"locations": ["s3://runs/{job}"], "endpoint_url": url}}


def serve(server: LocalServer) -> None:
    """The bucket's listing and the file."""
    written = (ALERT_AT - timedelta(minutes=5)).strftime("%Y-%m-%dT%H:%M:%S.000Z")
    entry = (
        f"<Key>llm-1/rank0_trace.json</Key><LastModified>{written}</"
        f"LastModified><Size>{len(TRACE)}</Size>"
    )
    namespace = "http://s3.amazonaws.com/doc/2006-03-01/"
    listing = (
        f"<ListBucketResult xmlns='{namespace}'><Contents>{entry}</Contents></ListBucketResult>"
    )
    server.on("/runs", Reply(listing.encode(), headers={"Content-Type": "application/xml"}))
    server.on(
        "/runs/llm-1/rank0_trace.json",
        Reply(TRACE, headers={"Content-Type": "application/octet-stream"}),
    )
