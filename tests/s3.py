"""An S3 server on loopback and its client. What both are made of takes long to load."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def s3_server() -> Iterator[str]:
    """The address of an S3 server, for the time of the block."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@contextmanager
def open_client(endpoint: str) -> Iterator[Any]:
    """A client of that server, with credentials of the environment."""
    import boto3

    client = boto3.client("s3", endpoint_url=endpoint)
    yield client
    client.close()
