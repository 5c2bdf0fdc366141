"""A stand-in for NVIDIA's `nsys` on PATH, and a small export for it to give."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

PROCESS = (1 << 48) | (77 << 24)
OUTPUT = (
    'for word in "$@"; do case "$word" in --output=*) output="${word#--output=}";; esac; done\n'
)


def small_export(path: Path) -> Path:
    """One process, one kernel and the call that launched it, written by hand."""
    with sqlite3.connect(path) as connection:
        connection.executescript(
            f"""
            CREATE TABLE StringIds (id INTEGER, value TEXT);
            INSERT INTO StringIds VALUES (1, 'cudaLaunchKernel_v7000'), (2, 'void gemm<float>()');
            CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME
              (start INTEGER, end INTEGER, globalTid INTEGER, correlationId INTEGER, nameId INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (100, 150, {PROCESS | 78}, 5, 1);
            CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, streamId INTEGER,
              correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
            INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (200, 900, 0, 7, 5, {PROCESS}, 2);
            """  # noqa: E501
        )
    connection.close()
    return path


def nsys_that(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put an `nsys` on PATH that runs this shell script; `$output` is where the export goes. Gives
    its folder."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "nsys").write_text("#!/bin/sh\n" + OUTPUT + script)
    (tools / "nsys").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}{os.environ['PATH']}")
    return tools


def no_nsys(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A PATH with nothing on it."""
    monkeypatch.setenv("PATH", str(folder))
