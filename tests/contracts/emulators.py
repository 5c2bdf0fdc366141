"""Emulators for contract tests, on loopback: prism (a vendor's OpenAPI specification as a referee),
ministack (AWS) and Azurite (Azure's blob storage).

`./run test` installs them below .tools/.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from faultline.loopback.bot_process import free_port

TOOLS = Path(__file__).resolve().parents[2] / ".tools"
NODE = Path(__file__).resolve().parents[2] / ".venv/bin/node"
PRISM = TOOLS / "prism/node_modules/.bin/prism"
AZURITE = TOOLS / "azurite/node_modules/.bin/azurite-blob"
MINISTACK = TOOLS / "ministack/bin/ministack"
START_S = 240.0
"""Prism takes half a minute to read a large specification on a quiet machine."""


@contextmanager
def prism_before(spec: Path, upstream: str, folder: Path) -> Iterator[str]:
    """Prism's address: it passes requests on to `upstream` only if they fit the specification (422
    otherwise), and its answers back only if they fit, too (500 otherwise)."""
    port = free_port()
    command = [
        str(NODE),
        str(PRISM),
        "proxy",
        str(spec),
        upstream,
        "--errors",
        "-h",
        "127.0.0.1",
        "-p",
        str(port),
    ]
    with _running(command, folder / "prism.log", {}, f"http://127.0.0.1:{port}") as url:
        yield url


@contextmanager
def azurite(folder: Path) -> Iterator[str]:
    """The address of Azure's blob storage, with the account that every Azurite has."""
    port = free_port()
    where = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(folder)]
    command = [str(NODE), str(AZURITE), *where, "--silent", "--skipApiVersionCheck"]
    with _running(command, folder / "azurite.log", {}, f"http://127.0.0.1:{port}") as url:
        yield url


@contextmanager
def ministack(folder: Path) -> Iterator[str]:
    """The address of AWS's services; credentials are `test`, `test`, the region us-east-1."""
    port = free_port()
    environ = {
        "BIND_HOST": "127.0.0.1",
        "GATEWAY_PORT": str(port),
        "HOME": str(folder),
        "TMPDIR": str(folder),
    }
    with _running(
        [str(MINISTACK)], folder / "ministack.log", environ, f"http://127.0.0.1:{port}"
    ) as url:
        yield url


@contextmanager
def _running(command: list[str], log: Path, environ: Mapping[str, str], url: str) -> Iterator[str]:
    if (
        not Path(command[0]).exists()
        or not Path(command[1] if len(command) > 1 else command[0]).exists()
    ):
        pytest.skip("the emulator is not installed: ./run test does that")
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            stdout=out,
            stderr=out,
            env=dict(os.environ) | dict(environ),
            start_new_session=True,
            cwd=log.parent,
        )
    try:
        _wait(process, url, log)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    ends = time.monotonic() + START_S
    while True:
        try:
            httpx.get(url, timeout=5)
        except httpx.TransportError:
            assert process.poll() is None, log.read_text()[-2000:]
            assert time.monotonic() < ends, log.read_text()[-2000:]
            time.sleep(0.2)
        else:
            return
