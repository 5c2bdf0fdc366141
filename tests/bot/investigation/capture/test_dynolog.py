"""Dynolog's RPC: against a daemon that speaks its protocols, and through it to PyTorch's own
profiler."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from faultline.analysis.errors import ConnectorError
from faultline.analysis.traces.reading.kineto import read_trace
from faultline.bot.investigation.capture.dynolog import (
    START_MARGIN_SECONDS,
    CaptureOptions,
    DaemonAddress,
    DynologClient,
    output_of,
)
from tests.dynolog_daemon import DynologDaemon, Process, environment
from tests.torch_python import torch_python

TRAINING = """
import itertools, time, torch
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in itertools.count():
    optimizer.zero_grad()
    model(torch.randn(8, 64)).sum().backward()
    optimizer.step()
    if step == 0:
        print("trains", flush=True)
    time.sleep(0.05)
"""


def _client(daemon: DynologDaemon) -> DynologClient:
    return DynologClient(DaemonAddress("127.0.0.1", daemon.port), timeout=2)


def test_all_processes_of_the_job_are_asked_with_one_configuration() -> None:
    with DynologDaemon() as daemon:
        daemon.processes = {
            p.pid: p for p in (Process(11, 4242), Process(12, 4242), Process(13, 1))
        }
        answer = asyncio.run(
            _client(daemon).trigger("ACTIVITIES_LOG_FILE=/tmp/x.json", job_id=4242)
        )
    assert (answer.matched, answer.triggered, answer.busy) == ((11, 12), (11, 12), 0)
    asked = {
        p.pid
        for p in daemon.processes.values()
        if p.config.startswith("ACTIVITIES_LOG_FILE=/tmp/x.json")
    }
    assert asked == {11, 12}
    assert daemon.requests[0]["process_limit"] == 1000


def test_a_process_that_is_recording_already_is_busy() -> None:
    with DynologDaemon() as daemon:
        daemon.processes = {11: Process(11, 0, config="ACTIVITIES_LOG_FILE=/tmp/other.json")}
        answer = asyncio.run(_client(daemon).trigger("ACTIVITIES_LOG_FILE=/tmp/x.json"))
    assert (answer.matched, answer.triggered, answer.busy) == ((11,), (), 1)


def test_version_and_status() -> None:
    with DynologDaemon() as daemon:
        assert asyncio.run(_client(daemon).version()) == "0.5.0"
        assert asyncio.run(_client(daemon).status()) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"\x05\x00\x00\x00hello", "no JSON"),
        (b"\x02\x00\x00\x00[]", "no object"),
        (b"\xff\xff\xff\x7f", "bytes long"),
        (b"\xff\xff\xff\xff", "bytes long"),
        (b"\x09\x00", "without an answer"),
        (b"", "without an answer"),
    ],
)
def test_a_wrong_answer_is_one_clear_line(answer: bytes, said: str) -> None:
    with DynologDaemon(answer=answer) as daemon, pytest.raises(ConnectorError, match=said):
        asyncio.run(_client(daemon).status())


def test_a_host_without_a_daemon_is_one_clear_line() -> None:
    with DynologDaemon() as daemon:
        client = _client(daemon)
    with pytest.raises(ConnectorError, match=r"getStatus at 127\.0\.0\.1:\d+: .*refused"):
        asyncio.run(client.status())


def test_a_line_break_in_the_output_cannot_add_settings() -> None:
    with pytest.raises(ValueError, match="line break"):
        CaptureOptions().text("/tmp/x.json\nACTIVITIES_DURATION_MSECS=100000", None)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    """A short path: libkineto's own socket lies in it, and a socket's path has at most 107
    characters."""
    with tempfile.TemporaryDirectory(prefix="fl-") as short:
        yield Path(short)


@pytest.fixture(scope="module")
def job(folder: Path) -> Iterator[tuple[DynologDaemon, int]]:
    """A training job and the daemon that it has found."""
    python = torch_python()
    with DynologDaemon(folder) as daemon, _training(python, folder, daemon) as pid:
        yield daemon, pid


@contextmanager
def _training(python: str, folder: Path, daemon: DynologDaemon) -> Iterator[int]:
    command = [python, "-c", textwrap.dedent(TRAINING)]
    written = folder / "train.log"
    log = written.open("wb")
    with log, subprocess.Popen(command, env=environment(folder), stderr=log, stdout=log) as job:
        try:
            _until(lambda: daemon.processes, 60)
            # It registers as soon as it loads PyTorch, before there is a step to record.
            _until(lambda: b"trains" in written.read_bytes(), 60)
            yield job.pid
        finally:
            job.kill()


def _until(holds: object, seconds: float) -> None:
    ends = time.monotonic() + seconds
    while not holds():  # type: ignore[operator]
        if time.monotonic() > ends:
            raise AssertionError("did not happen in time")
        time.sleep(0.1)


@pytest.mark.parametrize("mode", ["iterations", "one moment for all hosts"])
def test_pytorch_records_a_trace_when_it_is_asked(
    folder: Path, job: tuple[DynologDaemon, int], mode: str
) -> None:
    daemon, pid = job
    output = str(folder / f"{mode.split()[0]}.json")
    if mode == "iterations":
        config = CaptureOptions(iterations=5).text(output, None)
    else:
        config = CaptureOptions(duration_ms=300).text(
            output, datetime.now(UTC) + timedelta(seconds=START_MARGIN_SECONDS)
        )
    answer = asyncio.run(_client(daemon).trigger(config))
    assert answer.triggered == (pid,)
    expected = Path(output_of(output, pid))
    _until(expected.exists, 60)
    trace = read_trace(expected)
    assert "aten::linear" in trace.names
