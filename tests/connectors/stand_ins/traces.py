"""Trace files: an empty bucket."""

from __future__ import annotations

from typing import Any

from tests.connectors.local_http import LocalServer, Reply


def settings(url: str) -> dict[str, Any]:
    """A prefix per job."""
    return {"traces": {"locations": ["s3://runs/{job}"], "endpoint_url": url}}


def serve(server: LocalServer) -> None:
    """The bucket's listing."""
    listing = b'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"></ListBucketResult>'
    server.on("/runs", Reply(listing, headers={"Content-Type": "application/xml"}))
